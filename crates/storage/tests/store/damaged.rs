//! Compactions of a table of which an SSTable is damaged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::TableParams;
use helenus_sstable::{Component, finished_sstables};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::LogWriter;
use helenus_storage::read::ReadCommand;
use helenus_storage::store::{CompactionKind, CompactionRequest, DataFolder, StoreOptions};
use helenus_vfs::{Clock, Disk, ManualClock, SimulatedDisk};

use super::check::Collected;
use super::compaction::flushed;
use super::naive::{RowWrite, Write};
use super::table;

/// A compaction with a damaged input was begun again for ever, and nothing else of its table was compacted.
#[test]
fn a_damaged_input_is_left_out_and_the_others_are_compacted() {
    let (mut node, _) = flushed(0);
    let before = node.sstable_counts()[0];
    let damaged = node.damage_oldest();
    let failed = node.run_first_shard(20);
    let suspects: Vec<_> = failed.iter().map(|report| report.suspect).collect();
    assert_eq!(suspects, [Some(damaged)], "once, and never again");
    let compactions = node.compactions_of_first_shard();
    assert_eq!((compactions.suspects, compactions.totals.failed), (1, 1));
    assert!(compactions.totals.completed > 0);
    let left = node.sstable_counts()[0];
    assert!((2..before).contains(&left), "{before} became {left}");
    // What an operator asks for leaves it out too.
    node.request(CompactionKind::Major { split_output: false })
        .unwrap();
    assert!(node.run_first_shard(2).is_empty());
    assert_eq!(node.sstable_counts()[0], 2);
}

fn write(store: &mut ShardStore, row: i32, timestamp_us: i64, is_deletion: bool) {
    let write = RowWrite {
        liveness: Liveness {
            timestamp_us,
            ttl_s: 0,
            expires_at_s: NEVER_S,
        },
        deletion: DeletionTime::LIVE,
        complex_deletion: None,
        cells: Vec::new(),
    };
    let deletion = RowWrite {
        liveness: Liveness::NONE,
        deletion: DeletionTime {
            timestamp_us,
            local_s: 1,
        },
        complex_deletion: None,
        cells: Vec::new(),
    };
    let schema = table::schema(params());
    let table = schema.tables().next().unwrap().id;
    let write = Write::Row((row, 0), if is_deletion { deletion } else { write });
    let bytes = write.encode(table, b"key");
    store.apply(&Update::decode(&bytes).unwrap()).unwrap();
    store.flush(None);
}

fn params() -> TableParams {
    TableParams {
        gc_grace_seconds: 0,
        // Only what the test asks for.
        compaction: BTreeMap::from([
            ("class".to_owned(), "SizeTieredCompactionStrategy".to_owned()),
            ("enabled".to_owned(), "false".to_owned()),
        ]),
        ..TableParams::default()
    }
}

fn rows(store: &mut ShardStore) -> usize {
    let schema = table::schema(params());
    let slices = [Slice::all()];
    let command = ReadCommand {
        table: schema.tables().next().unwrap(),
        partitions: PartitionRange::everything(),
        slices: &slices,
        reversed: false,
        now_s: 100,
        index: &[],
    };
    let mut collected = Collected::default();
    store.read(&command, &mut collected).unwrap();
    let partitions = collected.partitions.iter();
    partitions.map(|(_, answer)| answer.rows.len()).sum()
}

/// Runs what is due, and a major compaction if one is asked for, on a node that logs nothing.
fn with_store(disk: &Arc<SimulatedDisk>, work: impl FnOnce(&mut ShardStore)) {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let folder = DataFolder::open(
        Arc::clone(disk) as Arc<dyn Disk>,
        clock as Arc<dyn Clock>,
        Path::new("/node"),
    );
    let opened = folder
        .unwrap()
        .open_shards(&StoreOptions::default(), 1, &table::schema(params()));
    let (mut store, mut writer) = opened.unwrap().shards.pop().unwrap();
    work(&mut store);
    persist(&mut store, &mut writer);
    while let Some(job) = store.next_job() {
        store.complete(job.run()).result.unwrap();
    }
    // The log must know of the flush too, or the next start brings the writes once more.
    persist(&mut store, &mut writer);
}

fn persist(store: &mut ShardStore, writer: &mut LogWriter) {
    while let Some(batch) = store.take_log_batch() {
        let result = writer.persist(&batch, true);
        if writer.wants_tending() {
            writer.segment_files().tend().unwrap();
        }
        store.log_batch_done(batch, &result);
    }
}

/// After `scrub` had saved an SSTable that did not open, deleted rows were back: a compaction had purged the tombstones,
/// since nothing that it saw was older.
#[test]
fn tombstones_stay_while_an_sstable_does_not_open() {
    let disk = Arc::new(SimulatedDisk::new(5));
    with_store(&disk, |store| write(store, 1, 1, false));
    let table = table::schema(params()).tables().next().unwrap().id;
    let mut folder = None;
    with_store(&disk, |store| {
        folder = Some(store.sstables(table)[0].directory().to_path_buf());
        write(store, 1, 2, true);
    });
    let folder = folder.unwrap();
    with_store(&disk, |store| write(store, 2, 3, false));
    let first = finished_sstables(&*disk, &folder).unwrap()[0];
    let component = first.path(&folder, Component::Statistics);
    let aside = folder.join("aside");
    disk.rename(&component, &aside).unwrap();
    with_store(&disk, |store| {
        assert_eq!(store.sstables(table).len(), 2, "one is refused");
        let kind = CompactionKind::Major { split_output: false };
        store.compact(CompactionRequest { table, kind }).unwrap();
    });
    disk.rename(&aside, &component).unwrap();
    with_store(&disk, |store| {
        assert_eq!(store.sstables(table).len(), 2, "two were merged, and one is back");
        assert_eq!(rows(store), 1, "the deleted row stays deleted");
        let kind = CompactionKind::Major { split_output: false };
        store.compact(CompactionRequest { table, kind }).unwrap();
    });
    with_store(&disk, |store| {
        assert_eq!((store.sstables(table).len(), rows(store)), (1, 1));
        let merged = Arc::clone(&store.sstables(table)[0]);
        let statistics = merged.statistics();
        assert_eq!(
            statistics.local_deletion_s_min, NEVER_S,
            "the tombstone went with what it hid"
        );
    });
}
