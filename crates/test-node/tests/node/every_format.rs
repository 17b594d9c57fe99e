//! The same statements with each format of SSTables: through a flush, a cold read and a compaction.

use std::sync::Arc;

use helenus_node::SsTableFormat;
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{MemoryDisk, SystemClock};

fn node(format: SsTableFormat) -> TestNode {
    let mut options = options(1, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.sstable_format = format;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node
}

fn insert(node: &TestNode, text: &str, values: Vec<Vec<u8>>) {
    let execution = Execution {
        values: values.into_iter().map(Some).collect(),
        ..Execution::default()
    };
    let answer = node.execute_with(text, &execution);
    assert_eq!(answer, helenus_test_node::Answer::Void, "{text}");
}

fn compact(node: &TestNode, table: &str) {
    let operator = node.operator();
    let table = operator.schema().unwrap().table("k", table).unwrap().id;
    let kind = CompactionKind::Major { split_output: false };
    operator.compact(CompactionRequest { table, kind }).unwrap();
}

/// One value of 64 KiB or more in a table without clustering columns: no flush worked from then on, and the node did not
/// start any more; rows that a compaction made as large failed it for ever.
#[test]
fn large_rows_without_clustering_columns() {
    const ROW_BYTES: [usize; 5] = [64 << 10, (64 << 10) + 1, 100_000, 400_000, 1 << 20];
    for format in SsTableFormat::ALL {
        let mut node = node(format);
        node.run("CREATE TABLE k.t (p int PRIMARY KEY, v blob)");
        node.run("CREATE TABLE k.grown (p int PRIMARY KEY, m map<int, blob>)");
        for (key, bytes) in (0_i32..).zip(ROW_BYTES) {
            let values = vec![key.to_be_bytes().to_vec(), vec![7; bytes]];
            insert(&node, "INSERT INTO k.t (p, v) VALUES (?, ?)", values);
            for element in 0_i32..2 {
                let values = vec![
                    element.to_be_bytes().to_vec(),
                    vec![7; bytes / 2],
                    key.to_be_bytes().to_vec(),
                ];
                insert(&node, "UPDATE k.grown SET m[?] = ? WHERE p = ?", values);
                node.operator().flush(None).unwrap();
            }
        }
        node.restart().unwrap();
        for compacted in [false, true] {
            for (key, bytes) in (0..).zip(ROW_BYTES) {
                let rows = node.rows(&format!("SELECT v FROM k.t WHERE p = {key}"));
                assert_eq!(rows, [[Some(vec![7; bytes])]], "{format}, {key}");
                let rows = node.rows(&format!("SELECT m[0], m[1] FROM k.grown WHERE p = {key}"));
                let half = Some(vec![7; bytes / 2]);
                assert_eq!(rows, [[half.clone(), half]], "{format}, {key}");
            }
            if !compacted {
                compact(&node, "t");
                compact(&node, "grown");
                node.restart().unwrap();
            }
        }
    }
}
