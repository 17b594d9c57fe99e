//! Accuracy of a plan's heap bytes: what it says that it holds is what it has taken.

use helenus_engine::Prepared;
use helenus_test_heap::of_thread;

use crate::node::{Shards, options};

fn shards() -> Shards {
    let mut shards = Shards::new(1);
    for statement in [
        "CREATE TYPE u (a int, b text)",
        "CREATE TABLE t (p int, c int, v text, m map<int, text>, u u, l list<int>, PRIMARY KEY (p, c))",
    ] {
        shards.execute(statement, &options(None)).unwrap();
    }
    shards
}

fn joined(count: usize, item: impl Fn(usize) -> String, separator: &str) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

/// 36 PREPAREs of 2 MB took 3 GB that no budget saw: plans are 10 to 40 times as large as their texts.
#[test]
fn a_plan_weighs_what_it_takes() {
    let shards = shards();
    let values = |count| joined(count, |value| value.to_string(), ", ");
    let statements = [
        format!("SELECT * FROM t WHERE p IN ({})", values(5_000)),
        format!(
            "SELECT v FROM t WHERE p = 1 AND c IN ({}) AND v = ? ALLOW FILTERING",
            values(5_000)
        ),
        format!(
            "SELECT v FROM t WHERE p = 1 AND (c) IN ({})",
            joined(5_000, |value| format!("({value})"), ", ")
        ),
        format!("SELECT {} FROM t", joined(500, |_| "v".to_owned(), ", ")),
        format!(
            "SELECT {} FROM t",
            joined(500, |index| format!("m[{index}], u.a + c, max(c)"), ", ")
        ),
        format!("INSERT INTO t (p, c, v) VALUES (1, 2, '{}')", "x".repeat(50_000)),
        format!(
            "SELECT v FROM t WHERE p IN ({})",
            joined(2_000, |_| "?".to_owned(), ", ")
        ),
        format!(
            "UPDATE t SET {} WHERE p = 1 AND c = 2",
            joined(1_000, |index| format!("m[{index}] = 'x'"), ", ")
        ),
        format!(
            "BEGIN BATCH {} APPLY BATCH",
            joined(
                500,
                |index| format!("DELETE m[{index}] FROM t WHERE p = {index} AND c = 1;"),
                " "
            )
        ),
        format!("ALTER TABLE t DROP ({})", values_as_names(5_000)),
        format!("ALTER TABLE t ADD ({})", joined(5_000, |_| "a b".to_owned(), ",")),
    ];
    for statement in statements {
        let before = of_thread().live_bytes;
        let prepared = Box::new(shards.prepare(&statement).unwrap());
        let taken = (of_thread().live_bytes - before) as usize;
        let said = Prepared::heap_bytes(&prepared);
        let text = &statement[..statement.len().min(60)];
        let is_plan = !text.starts_with("ALTER");
        assert!(said >= taken, "{text}: says {said}, has taken {taken}");
        assert!(
            !is_plan || said <= 2 * taken,
            "{text}: says {said}, has taken {taken}"
        );
    }
}

fn values_as_names(count: usize) -> String {
    joined(count, |_| "a".to_owned(), ",")
}
