//! Promises of the simulation itself; `cargo xtask simulate` runs many seeds.

use helenus_simulation::{Report, run};

/// Enough that nodes have flushed, compacted, crashed and started again.
const SEEDS: std::ops::Range<u64> = 0..8;

#[test]
fn a_seed_runs_again_exactly() {
    for seed in SEEDS {
        let [first, second] = [(); 2].map(|()| run(seed).unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn seeds_see_crashes_flushes_reads_and_requests_that_are_late() {
    let reports = SEEDS.map(|seed| run(seed).unwrap_or_else(|failure| panic!("{failure}")));
    let reports: Vec<_> = reports.collect();
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    assert!(
        sum(|report| report.starts) >= 5 * reports.len() as u64,
        "{reports:#?}"
    );
    assert!(sum(|report| report.acknowledged) > 1_000, "{reports:#?}");
    assert!(sum(|report| report.sstables) > 100, "{reports:#?}");
    assert!(sum(|report| report.reads_checked) > 300, "{reports:#?}");
    assert!(sum(|report| report.timed_out) > 0, "{reports:#?}");
}

/// A TRUNCATE that the power ended brought back what a deletion had hidden; a compaction never began, as removals that failed
/// again and again came before it; a write to a table was refused because one of its views was dropped meanwhile; a truncation said that it was
/// a write that timed out; a node that stopped did not end, and took all memory; rows were
/// written while the second of two truncations was under way, and stayed in a view; a truncation failed once its files were as good as gone,
/// and their rows were there until the next start; a transaction that wrote nothing waited for a batch that waited behind its seals.
#[test]
fn seeds_that_were_seen_to_fail() {
    const SEEDS: [u64; 8] = [
        301_455,
        602_114,
        485_753_418_674,
        485_753_418_845,
        700_186,
        703_770,
        711_232,
        1_042_131_478_265,
    ];
    for seed in SEEDS {
        run(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Logs hung while the node was stopped: a shard ended without its parts of atomic batches, and others waited for them.
#[test]
fn nodes_stop_whose_logs_hang() {
    const SEEDS: [u64; 1] = [311_622];
    for seed in SEEDS {
        run(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
