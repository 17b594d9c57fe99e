//! What is decided on rows that are stored, by many clients at once.

use helenus_test_node::{Answer, Execution, TestNode};

const SHARDS: u16 = 2;

fn node() -> TestNode {
    let node = TestNode::with_shards(SHARDS);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node
}

/// Two deletions of the first element that came together took the same one.
#[test]
fn each_deletion_by_position_takes_another_element() {
    const ELEMENTS: usize = 200;
    let node = node();
    node.run("CREATE TABLE k.lists (p int PRIMARY KEY, l list<int>)");
    for p in 0..4 {
        node.run(&format!(
            "UPDATE k.lists SET l = {:?} WHERE p = {p}",
            vec![7; ELEMENTS]
        ));
    }
    let pending: Vec<_> = (0..4 * ELEMENTS)
        .map(|index| {
            let execution = Execution {
                shard: (index / 4) as u16 % SHARDS,
                ..Execution::default()
            };
            node.submit(
                &format!("DELETE l[0] FROM k.lists WHERE p = {}", index % 4),
                &execution,
            )
        })
        .collect();
    for pending in pending {
        assert!(matches!(pending.wait(), Some(Answer::Void)));
    }
    for p in 0..4 {
        let rows = node.rows(&format!("SELECT l FROM k.lists WHERE p = {p}"));
        assert!(rows.iter().all(|row| row == &vec![None]), "{rows:?}");
    }
}
