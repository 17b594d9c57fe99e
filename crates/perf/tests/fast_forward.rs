//! A small population, and all cases over it.

use std::path::PathBuf;
use std::time::Duration;

use helenus_perf::fast_forward::{
    self, DataSet, FastForwardError, FastForwardOptions, FastForwardReport, Group, Population,
};
use helenus_perf::simple_query::AllocationCounter;

const ROWS: u32 = 3_200;

struct NoAllocations;

impl AllocationCounter for NoAllocations {
    fn start(&self) {}

    fn stop(&self) -> u64 {
        0
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("helenus-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn populate(&self) {
        let population = Population {
            rows: ROWS,
            value_bytes: 100,
            column_index_bytes: 1_024,
            sstable_format: "nb".to_owned(),
            with_compression: false,
        };
        let mut last = 0;
        fast_forward::populate(&self.0, &population, &mut |rows| {
            assert!(rows >= last);
            last = rows;
        })
        .unwrap();
        assert_eq!(last, u64::from(ROWS) * 2);
        let again = fast_forward::populate(&self.0, &population, &mut |_| {});
        assert!(matches!(again, Err(FastForwardError::AlreadyPopulated { .. })));
    }

    fn options(&self) -> FastForwardOptions {
        FastForwardOptions {
            data_folder: self.0.clone(),
            groups: Group::ALL.to_vec(),
            data_sets: DataSet::ALL.to_vec(),
            enable_cache: false,
            keep_cache_across_test_cases: false,
            test_case_duration: Duration::ZERO,
        }
    }

    fn run(&self, options: &FastForwardOptions) -> FastForwardReport {
        fast_forward::run(options, &NoAllocations, &mut |_| {}).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Groups, parameters and how many rows each case has found.
fn labels(report: &FastForwardReport) -> String {
    let mut text = String::new();
    for group in &report.groups {
        text.push_str(&format!("{} {}\n", group.group, group.parameters.join(" ")));
        let lines = group.cases.iter().map(|case| {
            let frags = case.columns.frags;
            format!("{}: {frags}", case.parameters.join(" "))
        });
        text.push_str(&lines.collect::<Vec<_>>().join("; "));
        text.push('\n');
    }
    text
}

const GOLDEN: &str = "\
large-partition-single-key-slice range caches
[0, 1] cold: 2; [0, 1] warm: 2; [0, 1600] cold: 1601; [0, 1600] warm: 1601; [0, 3200] cold: 3200; [0, 3200] warm: 3200; \
[1, 100) cold: 99; [1, 100) warm: 99; [1, 100] cold: 100; [1, 100] warm: 100
large-partition-skips read skip
1 0: 3200; 1 1: 1600; 1 8: 356; 1 16: 189; 1 32: 97; 1 64: 50; 1 256: 13; 1 1024: 4; 1 4096: 1; \
64 0: 3200; 64 1: 3151; 64 8: 2848; 64 16: 2560; 64 32: 2144; 64 64: 1600; 64 256: 640; 64 1024: 192; 64 4096: 64
large-partition-slicing offset read
0 1: 1; 0 32: 32; 0 256: 256; 0 4096: 3200; 1600 1: 1; 1600 32: 32; 1600 256: 256; 1600 4096: 1600
large-partition-slicing-clustering-keys offset read
0 1: 1; 0 32: 32; 0 256: 256; 0 4096: 3200; 1600 1: 1; 1600 32: 32; 1600 256: 256; 1600 4096: 1600
large-partition-slicing-single-key-reader offset read
0 1: 1; 0 32: 32; 0 256: 256; 0 4096: 3200; 1600 1: 1; 1600 32: 32; 1600 256: 256; 1600 4096: 1600
large-partition-select-few-rows offset stride rows
1600 1 1: 1; 1601 1 1: 1; 0 3200 1: 1; 0 1600 2: 2; 0 800 4: 4; 0 400 8: 8; 0 200 16: 16; 0 2 1600: 1600
large-partition-select-missing-rows key
0: 0; 1: 0; 1066: 0; 1599: 0; 1600: 0; 1601: 0; 2133: 0; 3199: 0; 3200: 0; 6400: 0
large-partition-forwarding pk-scan
yes: 2; no: 2
small-partition-skips read skip
1 0: 3200; 1 1: 1600; 1 8: 356; 1 16: 189; 1 32: 97; 1 64: 50; 1 256: 13; 1 1024: 4; 1 4096: 1; \
64 0: 3200; 64 1: 3151; 64 8: 2848; 64 16: 2560; 64 32: 2144; 64 64: 1600; 64 256: 640; 64 1024: 192; 64 4096: 64
small-partition-slicing offset read
0 1: 1; 0 32: 32; 0 256: 256; 0 4096: 3200; 1600 1: 1; 1600 32: 32; 1600 256: 256; 1600 4096: 1600
";

#[test]
fn cases_find_what_they_name_and_cost_the_same_each_time() {
    let folder = Folder::new("fast-forward");
    let missing = fast_forward::run(&folder.options(), &NoAllocations, &mut |_| {});
    assert!(matches!(missing, Err(FastForwardError::NotPopulated { .. })));
    folder.populate();
    let report = folder.run(&folder.options());
    let found = labels(&report);
    assert_eq!(found, GOLDEN, "found:\n{found}");

    // What is read of the disk does not hang on the clock.
    let again = folder.run(&folder.options());
    let costs = |report: &FastForwardReport| {
        let cases = report.groups.iter().flat_map(|group| &group.cases);
        let cost = |case: &fast_forward::CaseReport| (case.columns.aio, case.columns.aio_kib.to_bits());
        cases.map(cost).collect::<Vec<_>>()
    };
    assert_eq!(costs(&report), costs(&again));
    assert!(costs(&report).iter().any(|(reads, _)| *reads > 0));

    let few_rows = report
        .groups
        .iter()
        .find(|group| group.group.ends_with("few-rows"))
        .unwrap();
    let one_cold_row = &few_rows.cases[0].columns;
    assert!(
        one_cold_row.aio <= 3 && one_cold_row.aio_kib <= 12.0,
        "{one_cold_row:?}"
    );
}

#[test]
fn a_warm_reading_with_the_row_cache_reads_nothing() {
    let folder = Folder::new("fast-forward-cached");
    folder.populate();
    let options = FastForwardOptions {
        groups: vec![Group::LargePartitionSingleKeySlice],
        enable_cache: true,
        ..folder.options()
    };
    let report = folder.run(&options);
    for case in &report.groups[0].cases {
        let columns = &case.columns;
        let is_warm = case.parameters[1] == "warm";
        // What does not fit into one filling is read again.
        if columns.frags < 1_000 {
            assert_eq!(columns.aio == 0, is_warm, "{case:?}");
            assert_eq!(
                (columns.cache_hits, columns.cache_misses),
                if is_warm { (1, 0) } else { (0, 1) }
            );
        }
    }
}

#[test]
fn tables_have_the_columns_in_their_order() {
    let folder = Folder::new("fast-forward-table");
    folder.populate();
    let options = FastForwardOptions {
        groups: vec![Group::LargePartitionForwarding],
        ..folder.options()
    };
    let report = folder.run(&options);
    let text = report.groups[0].to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "running: large-partition-forwarding on dataset large-part-ds1"
    );
    assert_eq!(
        lines[2],
        "   pk-scan   time (s)   iterations     frags     frag/s    mad f/s    max f/s    min f/s    avg aio    aio      \
         (KiB) blocked dropped  idx hit idx miss  idx blk    c hit   c miss    c blk    allocs   tasks insns/f    cpu"
    );
    assert!(lines[3].starts_with("-> yes     ") && lines[4].starts_with("-> no      "));
    assert_eq!(lines[3].len(), lines[2].len());
    let page = report.to_markdown("helenus-perf fast-forward");
    assert!(
        page.contains("3200 rows of 100 bytes") && page.contains(lines[3]),
        "{page}"
    );
}
