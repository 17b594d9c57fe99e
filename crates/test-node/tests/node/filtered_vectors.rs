//! `ORDER BY v ANN OF ?` beside conditions on columns of every kind gives the rows that a scan finds, between writes of all sorts.

use std::collections::BTreeSet;
use std::sync::Arc;

use helenus_test_node::{TestNode, options};
use helenus_tools::host::Host;
use helenus_vector::random::Random;
use helenus_vfs::{Disk, MemoryDisk, SystemClock};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn make_table(node: &TestNode) {
    node.run(KEYSPACE);
    node.run(
        "CREATE TABLE k.t (a int, b int, c int, v vector<float, 3>, x int, tags set<int>, s int STATIC, \
         PRIMARY KEY ((a, b), c))",
    );
    for column in ["v", "a", "c", "x", "tags", "s"] {
        node.run(&format!("CREATE INDEX ON k.t ({column}) USING 'sai'"));
    }
}

fn vector(random: &mut Random) -> String {
    let component = |random: &mut Random| random.below(200) as f32 / 100.0 - 1.005;
    format!(
        "[{}, {}, {}]",
        component(random),
        component(random),
        component(random)
    )
}

fn change(node: &TestNode, random: &mut Random) {
    let (a, b, c, x) = (random.below(4), random.below(3), random.below(8), random.below(4));
    let row = format!("a = {a} AND b = {b} AND c = {c}");
    let v = vector(random);
    node.run(&match random.below(12) {
        0 => format!("DELETE FROM k.t WHERE {row}"),
        1 => format!("DELETE x, tags FROM k.t WHERE {row}"),
        2 => format!("DELETE v FROM k.t WHERE {row}"),
        3 => format!("DELETE FROM k.t WHERE a = {a} AND b = {b} AND c > {c}"),
        4 => format!("UPDATE k.t SET x = {x} WHERE {row}"),
        5 => format!("UPDATE k.t SET tags = tags + {{{x}}} WHERE {row}"),
        6 => format!("UPDATE k.t SET v = {v} WHERE {row}"),
        7 => format!("UPDATE k.t SET s = {x} WHERE a = {a} AND b = {b}"),
        _ => format!(
            "INSERT INTO k.t (a, b, c, v, x, tags) VALUES ({a}, {b}, {c}, {v}, {x}, {{{x}, {}}})",
            random.below(4)
        ),
    });
}

fn rows(node: &TestNode, statement: &str) -> BTreeSet<Vec<Option<Vec<u8>>>> {
    node.rows(statement).into_iter().collect()
}

#[test]
fn conditions_on_columns_of_every_kind_find_the_rows_that_a_scan_does() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut node = TestNode::start(options(2, disk, Arc::new(SystemClock::new()))).unwrap();
    make_table(&node);
    let mut random = Random::new(3);
    for round in 0..60 {
        (0..8).for_each(|_| change(&node, &mut random));
        match round % 10 {
            4 => node.operator().flush(None).unwrap(),
            9 => node.restart().unwrap(),
            _ => {}
        }
        let (x, y) = (random.below(4), random.below(4));
        for condition in [
            format!("x = {x}"),
            format!("x >= {x}"),
            format!("tags CONTAINS {x}"),
            format!("x = {x} AND tags CONTAINS {y}"),
            format!("s = {x}"),
            format!("a = {x}"),
            format!("x = {x} AND a = {y}"),
            format!("c = {x}"),
            format!("c < 5 AND x = {x}"),
            format!("a = {x} AND b = 1 AND x = {y}"),
            format!("a = {x} AND b = 1"),
        ] {
            let scanned = format!("SELECT a, b, c, v FROM k.t WHERE {condition} ALLOW FILTERING");
            let mut scanned = rows(&node, &scanned);
            scanned.retain(|row| row[3].is_some());
            let nearest = format!(
                "SELECT a, b, c, v FROM k.t WHERE {condition} ORDER BY v ANN OF {} LIMIT 1000",
                vector(&mut random)
            );
            let found = rows(&node, &nearest);
            assert_eq!(found, scanned, "round {round}: {condition}");
        }
    }
}
