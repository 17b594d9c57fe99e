//! Reads that a real disk has to be waited for, through each interface that a node has to it.

use std::sync::Arc;
use std::time::Duration;

use helenus_test_node::{Answer, HookedDisk, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{DiskIo, RealDisk, SystemClock};

const ROWS: usize = 300;

/// Whatever the page cache of the machine has is asked for without waiting, so that no other test comes to these reads. Each
/// takes several pages, one after the other, and a hundred are under way.
#[test]
fn reads_that_wait_for_a_real_disk_are_all_answered() {
    for disk_io in [DiskIo::Auto, DiskIo::Threads] {
        let folder = std::env::temp_dir().join(format!("helenus-cold-{disk_io:?}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let disk = HookedDisk::new(Arc::new(RealDisk::new()), |_, _| Ok(())).waiting_for_reads();
        let mut options = options(1, Arc::new(disk), Arc::new(SystemClock::new()));
        options.data_folder = folder.join("data");
        options.disk_io = disk_io;
        // A read that nobody begins ends with an error.
        options.read_request_timeout = Duration::from_secs(20);
        let node = TestNode::start(options).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        node.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)");
        for p in 0..ROWS {
            node.run(&format!("INSERT INTO k.t (p, v) VALUES ({p}, '{p:0500}')"));
        }
        node.operator().flush(None).unwrap();
        let texts: Vec<String> = (0..ROWS)
            .map(|p| format!("SELECT v FROM k.t WHERE p = {p} BYPASS CACHE"))
            .collect();
        for texts in texts.chunks(100) {
            for (number, answer) in node.execute_together(texts) {
                assert!(
                    matches!(&answer, Answer::Rows(rows) if rows.rows.len() == 1),
                    "{number}: {answer:?}"
                );
            }
        }
        drop(node);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
