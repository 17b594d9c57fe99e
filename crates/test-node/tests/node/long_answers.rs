//! Answers that take more memory than one answer may.

use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{MemoryDisk, SystemClock};

const VALUE_BYTES: usize = 100_000;

const PARTITIONS: i32 = 4;

const ROWS_PER_PARTITION: i32 = 100;

/// On so small a node: 8 MiB, of 10 MB in each partition.
const MEMORY_BYTES: u64 = 128 << 20;

const ANSWER_BYTES_MAX: usize = 8 << 20;

fn node(shard_count: u16) -> TestNode {
    let mut options = options(
        shard_count,
        Arc::new(MemoryDisk::new()),
        Arc::new(SystemClock::new()),
    );
    options.memory_bytes = MEMORY_BYTES;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int, c int, v blob, PRIMARY KEY (p, c))");
    let Answer::Prepared { id, .. } = node.prepare("INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)") else {
        panic!("cannot be prepared");
    };
    for p in 0..PARTITIONS {
        for c in 0..ROWS_PER_PARTITION {
            let values = [
                p.to_be_bytes().to_vec(),
                c.to_be_bytes().to_vec(),
                vec![7; VALUE_BYTES],
            ];
            let execution = Execution {
                values: values.into_iter().map(Some).collect(),
                ..Execution::default()
            };
            assert_eq!(node.execute_prepared(&id, &execution), Answer::Void);
        }
    }
    node
}

/// The rows of all pages, of which none takes more than one answer may and a row.
fn rows_in_pages(node: &TestNode, text: &str, page_size: i32) -> Vec<Vec<Option<Vec<u8>>>> {
    let (mut rows, mut paging_state) = (Vec::new(), None);
    loop {
        let execution = Execution {
            page_size: Some(page_size),
            paging_state,
            ..Execution::default()
        };
        let Answer::Rows(page) = node.execute_with(text, &execution) else {
            panic!("{text} has no rows");
        };
        let bytes = page.rows.len() * VALUE_BYTES;
        assert!(
            bytes < ANSWER_BYTES_MAX * 5 / 4,
            "{text}: {bytes} bytes in one page"
        );
        rows.extend(page.rows);
        paging_state = page.paging_state;
        if paging_state.is_none() {
            return rows;
        }
    }
}

/// Four unpaged SELECTs of 300 MB took 1.6 GB of a node with 256 MiB.
#[test]
fn what_is_longer_than_an_answer_may_be_is_cut_or_refused() {
    for shard_count in [1, 3] {
        let node = node(shard_count);
        let of_one = ROWS_PER_PARTITION as usize;
        let cases = [
            ("SELECT p, c, v FROM k.t WHERE p = 0", of_one),
            ("SELECT p, c, v FROM k.t WHERE p = 1", of_one),
            ("SELECT p, c, v FROM k.t WHERE p = 1 ORDER BY c DESC", of_one),
            ("SELECT p, c, v FROM k.t WHERE p = 2 LIMIT 95", 95),
            ("SELECT p, c, v FROM k.t", of_one * PARTITIONS as usize),
            (
                "SELECT p, c, v FROM k.t WHERE p IN (0, 1, 2, 3) PER PARTITION LIMIT 50",
                50 * PARTITIONS as usize,
            ),
        ];
        for (text, wanted) in cases {
            let Answer::Error { code, message } = node.execute(text) else {
                panic!("{text} was answered in one go");
            };
            assert_eq!(code, ErrorCode::Invalid);
            assert_eq!(
                message,
                "The result is longer than 8388608 bytes; read it in pages"
            );
            let rows = rows_in_pages(&node, text, 5_000);
            let mut keys: Vec<_> = rows.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
            assert_eq!(keys.len(), wanted, "{text} on {shard_count} shards");
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), wanted, "{text} on {shard_count} shards");
        }
        // What sums up does not keep what it reads.
        assert_eq!(node.rows("SELECT max(v), count(*) FROM k.t").len(), 1);
    }
}
