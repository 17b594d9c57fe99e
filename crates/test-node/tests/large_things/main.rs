//! A large partition and a large row: what writing, reading, paging and compacting them takes of memory does not grow
//! with them, or by a small multiple of the row.
//!
//! `HELENUS_LARGE_ROWS=10000000` and `HELENUS_LARGE_ROW_BYTES=104857600` for larger ones, in a release build, and
//! `HELENUS_LARGE_MEMORY_BYTES=67108864`, so that they do not go to disk in thousands of pieces. An answer that these tests
//! take ends at 16 MiB, so larger rows are read cell by cell.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_heap::{process_peak_bytes_of, process_turn};
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_tools::host::Host;
use helenus_vfs::{Disk, RealDisk, SystemClock};

/// Rows of the smaller partition; the larger one has four times as many.
const ROWS: u32 = 10_000;
const VALUE_BYTES: usize = 200;
/// Bytes of memtables and caches together.
const MEMORY_BYTES: usize = 4 << 20;
/// Bytes that four times the rows may add: the format's own index of the partition, which a writer holds until its end.
const GROWTH_BYTES_MAX: usize = 512 << 10;

/// Cells that make the large row, each of a 16th of it.
const CELLS: usize = 16;
const ROW_BYTES: usize = 8 << 20;
/// Longest answer that the test's client takes, in bytes, less what an answer has around the row.
const ANSWER_BYTES_MAX: usize = 15 << 20;
/// How many times the large row is in memory when most of it is: as it was read from the disk, merged, in the answer, the
/// frame and the test's own copy.
const ROW_COPIES_MAX: usize = 8;

fn memory_bytes() -> usize {
    setting("HELENUS_LARGE_MEMORY_BYTES", MEMORY_BYTES)
}

fn setting(name: &str, default: usize) -> usize {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A node on a real disk, whose folder goes with it.
struct Bench {
    node: TestNode,
    folder: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = std::env::temp_dir().join(format!("helenus-{name}-{}", std::process::id()));
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let mut options = options(1, disk, Arc::new(SystemClock::new()));
        options.data_folder = folder.join("data");
        options.memory_bytes = memory_bytes() as u64;
        let minutes = std::time::Duration::from_secs(600);
        options.write_request_timeout = minutes;
        options.read_request_timeout = minutes;
        std::fs::create_dir_all(&options.data_folder).unwrap();
        let node = TestNode::start(options).unwrap();
        node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        Bench { node, folder }
    }

    fn compact(&self) {
        let operator = self.node.operator();
        operator.flush(None).unwrap();
        let schema = operator.schema().unwrap();
        let table = schema.table("k", "t").unwrap();
        operator
            .compact(CompactionRequest {
                table: table.id,
                kind: CompactionKind::Major { split_output: false },
            })
            .unwrap();
    }

    /// All pages of a statement; how many rows.
    fn page_through(&self, text: &str, page_size: i32) -> usize {
        let (mut rows, mut paging_state) = (0, None);
        loop {
            let execution = Execution {
                page_size: Some(page_size),
                paging_state,
                ..Execution::default()
            };
            let Answer::Rows(page) = self.node.execute_with(text, &execution) else {
                panic!("{text} failed");
            };
            rows += page.rows.len();
            paging_state = page.paging_state;
            if paging_state.is_none() {
                return rows;
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.node.crash();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The peak of each step, over what was taken before it.
fn large_partition(rows: u32) -> Vec<(&'static str, usize)> {
    let bench = Bench::new(&format!("large-partition-{rows}"));
    bench
        .node
        .run("CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))");
    let value = "v".repeat(VALUE_BYTES);
    let mut peaks = Vec::new();
    let ((), peak) = process_peak_bytes_of(|| {
        for first in (0..rows).step_by(50) {
            let inserts: String = (first..rows.min(first + 50))
                .map(|c| format!("INSERT INTO k.t (p, c, v) VALUES (1, {c}, '{value}');"))
                .collect();
            bench
                .node
                .run(&format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"));
        }
    });
    peaks.push(("write", peak));
    peaks.push(("compact", process_peak_bytes_of(|| bench.compact()).1));
    for (name, text) in [
        ("page", "SELECT * FROM k.t WHERE p = 1"),
        ("page in reverse", "SELECT * FROM k.t WHERE p = 1 ORDER BY c DESC"),
    ] {
        let (found, peak) = process_peak_bytes_of(|| bench.page_through(text, 500));
        assert_eq!(found, rows as usize, "{text}");
        peaks.push((name, peak));
    }
    peaks
}

#[test]
fn the_memory_that_a_partition_takes_does_not_grow_with_it() {
    let _alone = process_turn();
    let rows = setting("HELENUS_LARGE_ROWS", 4 * ROWS as usize) as u32;
    let small = large_partition(ROWS);
    let large = large_partition(rows);
    for ((step, small), (_, large)) in small.into_iter().zip(large) {
        eprintln!("{step}: {small} bytes with {ROWS} rows, {large} bytes with {rows}");
        let more = large.saturating_sub(small.max(memory_bytes()));
        assert!(
            more <= GROWTH_BYTES_MAX * (rows / (4 * ROWS)) as usize,
            "{step}: {large} bytes with {rows} rows, {small} with {ROWS}"
        );
    }
}

#[test]
fn a_large_row_is_in_memory_a_few_times_at_most() {
    let _alone = process_turn();
    let row_bytes = setting("HELENUS_LARGE_ROW_BYTES", ROW_BYTES);
    let bench = Bench::new("large-row");
    let columns: Vec<String> = (0..CELLS).map(|cell| format!("v{cell} text")).collect();
    bench.node.run(&format!(
        "CREATE TABLE k.t (p int, c int, {}, PRIMARY KEY (p, c))",
        columns.join(", ")
    ));
    let value = "v".repeat(row_bytes / CELLS);
    let ((), written) = process_peak_bytes_of(|| {
        for cell in 0..CELLS {
            let insert = format!("INSERT INTO k.t (p, c, v{cell}) VALUES (1, 1, '{value}')");
            let execution = Execution {
                // More than the shard has memory for requests.
                past_admission: true,
                ..Execution::default()
            };
            assert_eq!(bench.node.execute_with(&insert, &execution), Answer::Void);
        }
    });
    let ((), compacted) = process_peak_bytes_of(|| bench.compact());
    let mut peaks = vec![("write", written), ("compact", compacted)];
    // An answer with all of it, or as many as there are cells.
    let selections = if row_bytes <= ANSWER_BYTES_MAX {
        vec!["*".to_owned()]
    } else {
        (0..CELLS).map(|cell| format!("v{cell}")).collect()
    };
    for (name, rest) in [
        ("read", "WHERE p = 1 AND c = 1"),
        ("page", ""),
        ("page in reverse", "WHERE p = 1 ORDER BY c DESC"),
    ] {
        let ((), peak) = process_peak_bytes_of(|| {
            for selection in &selections {
                let found = bench.page_through(&format!("SELECT {selection} FROM k.t {rest}"), 10);
                assert_eq!(found, 1);
            }
        });
        peaks.push((name, peak));
    }
    for (step, peak) in peaks {
        let copies = peak.div_ceil(row_bytes);
        eprintln!("{step}: {peak} bytes, {copies} times the row");
        assert!(
            copies <= ROW_COPIES_MAX,
            "{step}: {peak} bytes for a row of {row_bytes}"
        );
    }
}
