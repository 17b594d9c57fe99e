//! Statements whose planning costs as much as they are long, and no more.

mod node;

use helenus_test_heap::allocations_of;
use node::{Shards, options};

fn shards() -> Shards {
    let mut shards = Shards::new(1);
    let table = "CREATE TABLE t (p int, c int, v text, m map<int, text>, PRIMARY KEY (p, c))";
    shards.execute(table, &options(None)).unwrap();
    shards
}

fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

/// `SELECT c+c+c+c+c+c FROM t` took half a minute to plan, and each further operator 27 times as long: for every overload
/// of an operator its arguments were resolved anew.
#[test]
fn calls_in_calls_are_resolved_once() {
    let shards = shards();
    let levels = 40;
    let chain = vec!["c"; levels].join(" + ");
    let statements = [
        format!("SELECT {chain} FROM t"),
        format!("SELECT {} FROM t", nested("c + (", "c", ")", levels - 10)),
        format!("SELECT {} FROM t", nested("-(", "c", ")", levels - 10)),
        format!(
            "SELECT {} FROM t",
            nested("mask_default(abs(", "c", "))", levels / 2)
        ),
        format!("SELECT {} FROM t", nested("[", "c + c", "]", levels)),
        format!(
            "SELECT v FROM t WHERE p = {}",
            nested("1 + (", "1", ")", levels - 10)
        ),
        format!(
            "INSERT INTO t (p, c) VALUES (1, {})",
            nested("blob_as_int(int_as_blob(", "1", "))", levels / 2)
        ),
    ];
    for statement in statements {
        let allocations = allocations_of(|| {
            shards.prepare(&statement).unwrap();
        });
        assert!(allocations < 200_000, "{allocations}: {statement}");
    }
}
