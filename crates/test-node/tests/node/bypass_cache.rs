//! `BYPASS CACHE`: the same answer, and caches as they were.

use helenus_test_node::TestNode;
use helenus_tools::host::Host;

const ROWS: usize = 200;

fn filled() -> TestNode {
    let node = TestNode::with_shards(1);
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))");
    for row in 0..ROWS {
        node.run(&format!(
            "INSERT INTO k.t (p, c, v) VALUES ({}, {row}, '{row:0200}')",
            row % 4
        ));
    }
    node.operator().flush(None).unwrap();
    node
}

/// Returns the bytes of rows, decompressed and packed pages, and how often rows were looked for in their cache.
fn caches(node: &TestNode) -> (u64, u64, u64, u64) {
    node.on_shard(0, |shard| {
        let snapshot = shard.metrics_snapshot();
        (
            snapshot.row_cache_bytes,
            snapshot.page_cache_bytes,
            snapshot.packed_page_cache_bytes,
            snapshot.row_cache.hits + snapshot.row_cache.misses,
        )
    })
}

#[test]
fn a_read_that_bypasses_the_cache_answers_alike_and_leaves_nothing_there() {
    for select in [
        "SELECT v FROM k.t WHERE p = 1 AND c = 41",
        "SELECT v FROM k.t WHERE p = 1 AND c > 20",
        "SELECT v FROM k.t WHERE p = 1 ORDER BY c DESC LIMIT 3",
        "SELECT v FROM k.t WHERE p IN (0, 2) AND c IN (10, 40, 80)",
        "SELECT count(*) FROM k.t",
    ] {
        let node = filled();
        let before = caches(&node);
        let bypassing = node.rows(&format!("{select} BYPASS CACHE"));
        assert_eq!(caches(&node), before, "{select}");
        // Beside what is cached, too.
        assert_eq!(node.rows(select), bypassing, "{select}");
        let after = caches(&node);
        assert_eq!(
            node.rows(&format!("{select} BYPASS CACHE")),
            bypassing,
            "{select}"
        );
        assert_eq!(caches(&node), after, "{select}");
        if select.contains("WHERE") {
            assert_ne!(after, before, "{select} would have filled the caches");
        }
    }
}
