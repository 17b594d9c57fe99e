//! Compactions of every strategy: what is read stays the same, and a crash leaves the old SSTables or the new ones.

use std::collections::BTreeMap;

use helenus_schema::TableParams;
use helenus_storage::store::{CompactError, CompactionKind, CompactionRequest};
use helenus_vfs::{Fault, FaultKind, Operation, SeededRandom};

use super::node::Node;
use super::table::schema;
use super::writes::Writer;

/// Options that make each strategy cut its output of a few kilobytes into several SSTables, where it cuts at all.
pub const STRATEGIES: [&[(&str, &str)]; 4] = [
    &[("class", "SizeTieredCompactionStrategy"), ("min_threshold", "3")],
    &[
        ("class", "LeveledCompactionStrategy"),
        ("sstable_size_in_mb", "0.002"),
        ("fanout_size", "2"),
    ],
    &[("class", "TimeWindowCompactionStrategy"), ("min_threshold", "3")],
    &[
        ("class", "UnifiedCompactionStrategy"),
        ("scaling_parameters", "T3"),
        ("min_sstable_size", "0B"),
    ],
];

pub fn params(strategy: usize, gc_grace_seconds: u32) -> TableParams {
    let options = STRATEGIES[strategy % STRATEGIES.len()].iter();
    TableParams {
        gc_grace_seconds,
        compaction: options
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
        ..TableParams::default()
    }
}

/// Where a core was full of writes little was merged, however many SSTables reads had to look into.
#[test]
fn the_more_sstables_wait_the_more_compactions_hurry() {
    for (flushes, urgency) in [(16, 0.0), (20, 0.125), (32, 0.5), (60, 1.0)] {
        // All threads may be busy: nobody looks for a compaction.
        let (mut node, _) = flushed_often(params(0, 0), flushes);
        assert_eq!(node.compactions_of_first_shard().waiting, flushes);
        assert_eq!(node.urgency_of_first_shard(), urgency, "{flushes} flushes");
        node.run_jobs(50);
        assert_eq!(node.urgency_of_first_shard(), 0.0);
    }
}

/// A node with four flushed SSTables that nothing has compacted yet.
pub fn flushed(strategy: usize) -> (Node, Writer) {
    flushed_with(params(strategy, 0))
}

fn flushed_with(params: TableParams) -> (Node, Writer) {
    flushed_often(params, 4)
}

fn flushed_often(params: TableParams, flushes: usize) -> (Node, Writer) {
    let mut writer = Writer {
        random: SeededRandom::new(7),
        key_bound: 4,
        timestamp_from_us: 1,
        timestamp_spread_us: 1,
        is_plain: false,
    };
    let mut node = Node::start(11, schema(params));
    for _ in 0..flushes {
        for _ in 0..40 {
            writer.timestamp_from_us += 1;
            node.write(vec![writer.below(40) as u8; 3], writer.write());
        }
        (0..2).for_each(|shard| node.persist(shard, true));
        node.flush_only();
        // The log must know of the flush too, or a crash brings it once more.
        (0..2).for_each(|shard| node.persist(shard, true));
    }
    (node, writer)
}

#[test]
fn every_strategy_compacts_and_reads_stay_the_same() {
    for strategy in 0..STRATEGIES.len() {
        let (mut node, writer) = flushed(strategy);
        node.check(&writer);
        let before = node.sstable_counts();
        node.run_jobs(50);
        node.check(&writer);
        let after = node.sstable_counts();
        assert_ne!(before, after, "strategy {strategy} did nothing");
        let is_cut = strategy % 2 == 1;
        let outputs = after.iter().max().copied().unwrap_or_default();
        assert_eq!(
            outputs > 1,
            is_cut,
            "strategy {strategy}: {before:?} became {after:?}"
        );
        node.restart(3);
        node.check(&writer);
    }
}

/// Power fails at each change of the disk that compactions make, up to their end.
#[test]
fn a_crash_leaves_the_old_sstables_or_the_new_ones() {
    for strategy in 0..STRATEGIES.len() {
        let (mut node, _) = flushed(strategy);
        let old = node.sstable_counts();
        node.request(CompactionKind::Major { split_output: false })
            .unwrap();
        node.run_jobs(50);
        let new = node.sstable_counts();
        let (mut olds, mut news) = (0, 0);
        for after in 0.. {
            let (mut node, writer) = flushed(strategy);
            node.request(CompactionKind::Major { split_output: false })
                .unwrap();
            node.fail_power(after);
            node.run_jobs(50);
            let is_over = !node.is_power_off();
            node.crash(2);
            node.check(&writer);
            let found = node.sstable_counts();
            for (shard, count) in found.iter().enumerate() {
                assert!(
                    *count == old[shard] || *count == new[shard],
                    "strategy {strategy}, power off after {after}: shard {shard} has {count} SSTables, not {} or {}",
                    old[shard],
                    new[shard]
                );
            }
            olds += usize::from(found == old);
            news += usize::from(found == new);
            if is_over {
                assert_eq!(found, new);
                break;
            }
        }
        assert!(
            olds > 10 && news > 10,
            "strategy {strategy}: {olds} crashes left the old, {news} the new"
        );
    }
}

/// Leveled, with levels so small that what comes to the first one goes on to the others.
fn leveled(uplevels_single: bool) -> (Node, Writer) {
    let mut params = params(1, 0);
    params
        .compaction
        .insert("single_sstable_uplevel".to_owned(), uplevels_single.to_string());
    flushed_with(params)
}

#[test]
fn an_sstable_that_goes_up_alone_is_not_written_anew() {
    let [rewritten, relabelled] = [false, true].map(|uplevels_single| {
        let (mut node, writer) = leveled(uplevels_single);
        node.run_jobs(50);
        node.check(&writer);
        let levels = node.levels_of_first_shard();
        let totals = node.compactions_of_first_shard().totals;
        node.restart(2);
        node.check(&writer);
        assert_eq!(node.levels_of_first_shard(), levels);
        (levels, totals)
    });
    assert_eq!(rewritten.0, relabelled.0, "the same SSTables in the same levels");
    assert!(rewritten.0.iter().any(|level| *level > 1), "{:?}", rewritten.0);
    let (rewritten, relabelled) = (rewritten.1, relabelled.1);
    assert_eq!(rewritten.completed, relabelled.completed);
    assert!(
        relabelled.bytes_written < rewritten.bytes_written,
        "{relabelled:?}, {rewritten:?}"
    );
}

/// Power fails at every third change of the disk that sending SSTables up makes.
#[test]
fn a_crash_leaves_an_sstable_in_one_level() {
    for after in (0..).step_by(3) {
        let (mut node, writer) = leveled(true);
        node.fail_power(after);
        node.run_jobs(50);
        let is_over = !node.is_power_off();
        node.crash(2);
        node.check(&writer);
        node.run_jobs(50);
        node.check(&writer);
        if is_over {
            assert!(after > 100, "{after} changes are too few to be all");
            break;
        }
    }
}

#[test]
fn a_stopped_compaction_leaves_nothing_and_is_not_begun_again_at_once() {
    let (mut node, writer) = flushed(0);
    let before = node.sstable_counts();
    node.request(CompactionKind::Major { split_output: false })
        .unwrap();
    assert!(node.stop_at_first_compaction() > 0);
    node.run_jobs(10);
    assert_eq!(node.sstable_counts(), before);
    node.check(&writer);
    node.restart(2);
    assert_eq!(node.sstable_counts(), before);
    node.request(CompactionKind::Major { split_output: false })
        .unwrap();
    node.run_jobs(10);
    assert_ne!(node.sstable_counts(), before);
}

/// `compaction major` never returned: the disk had failed while the one before was published, so that only a restart can
/// say whether it has happened, and requests for the table waited for that.
#[test]
fn a_request_does_not_wait_for_the_restart_that_an_undecided_compaction_needs() {
    let mut undecided = 0;
    for after in 0..8 {
        let (mut node, writer) = flushed(0);
        let kind = CompactionKind::Major { split_output: false };
        node.request(kind).unwrap();
        node.request(kind).unwrap();
        node.inject(Fault {
            operation: Operation::Rename,
            after,
            kind: FaultKind::NoSpace,
        });
        node.run_jobs(50);
        if let Err(error) = node.request(kind) {
            assert!(matches!(error, CompactError::Undecided { .. }), "{error}");
            undecided += 1;
        }
        // After a failure nothing begins for a second.
        (0..30).for_each(|_| node.run_jobs(50));
        assert_eq!(node.requests_waiting(), 0, "the rename after {after} fails");
        node.restart(2);
        node.check(&writer);
    }
    assert!(undecided > 0);
}

#[test]
fn a_request_is_bounded_and_needs_a_table() {
    let (mut node, _) = flushed(0);
    let table = helenus_schema::TableId(uuid::Uuid::from_u128(77));
    let kind = CompactionKind::Cleanup;
    assert_eq!(
        node.request_of(CompactionRequest { table, kind }),
        Err(CompactError::UnknownTable { id: table })
    );
    let refused = (0..9).filter(|_| node.request(kind).is_err()).count();
    assert_eq!(refused, 1);
}
