//! A step of a read does a bounded amount of work, whatever it passes over.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{Liveness, RowRef};
use helenus_rows::update::{BoundRef, Update, UpdateBuilder};
use helenus_schema::{TableId, TableMetadata, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::commitlog::LogWriter;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState, STEP_UNITS_MAX};
use helenus_storage::store::{DataFolder, StoreOptions};
use helenus_types::{Token, token_of};
use helenus_vfs::{ManualClock, MemoryDisk};

use super::table::packed;

const KEY: &[u8] = b"key";
const ELEMENTS: i32 = 5_000;
/// In SSTables; `HELENUS_LONG_READ_TOMBSTONES=1000000` for the figure of the design.
const STORED_ELEMENTS: i32 = 40_000;
const NOW_S: u32 = 1_700_000_000;

#[derive(Default)]
struct Count {
    rows: u64,
}

impl RowSink for Count {
    fn partition(&mut self, _token: Token, _key: &[u8], _static_row: RowRef<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _clustering: &[u8], _row: RowRef<'_>) -> ControlFlow<()> {
        self.rows += 1;
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

fn deletion(timestamp_us: i64) -> DeletionTime {
    DeletionTime {
        timestamp_us,
        local_s: NOW_S,
    }
}

/// A partition of row tombstones, every tenth place a range tombstone instead, with one live row behind them.
fn store() -> (ShardStore, Arc<TableMetadata>) {
    let schema = super::table::schema(TableParams::default());
    let metadata = Arc::clone(schema.tables().next().unwrap());
    let mut store = ShardStore::in_memory(StoreOptions::default(), &schema);
    for number in 0..ELEMENTS {
        delete(&mut store, metadata.id, number);
    }
    insert(&mut store, metadata.id, ELEMENTS);
    (store, metadata)
}

/// As [`store`], in SSTables: the first of the even places, the second of the odd ones and the row.
fn stored(elements: i32, row_cache_bytes_max: usize) -> (ShardStore, Arc<TableMetadata>) {
    let schema = super::table::schema(TableParams::default());
    let metadata = Arc::clone(schema.tables().next().unwrap());
    let options = StoreOptions {
        memtable_bytes_max: 1 << 30,
        row_cache_bytes_max,
        ..StoreOptions::default()
    };
    let (disk, clock) = (Arc::new(MemoryDisk::new()), Arc::new(ManualClock::starting_at(0)));
    let folder = DataFolder::open(disk, clock, Path::new("/node")).unwrap();
    let mut shards = folder.open_shards(&options, 1, &schema).unwrap().shards;
    let (mut store, mut writer) = shards.pop().unwrap();
    for odd in [false, true] {
        for number in (0..elements).filter(|number| (number % 2 == 1) == odd) {
            delete(&mut store, metadata.id, number);
            if number % 1_000 < 2 {
                persist(&mut store, &mut writer);
            }
        }
        if odd {
            insert(&mut store, metadata.id, elements);
        }
        persist(&mut store, &mut writer);
        store.flush(None);
        while let Some(job) = store.next_short_job() {
            store.complete(job.run()).result.unwrap();
        }
    }
    assert_eq!(store.sstable_count(), 2);
    (store, metadata)
}

fn persist(store: &mut ShardStore, writer: &mut LogWriter) {
    if let Some(batch) = store.take_log_batch() {
        let result = writer.persist(&batch, true);
        if writer.wants_tending() {
            writer.segment_files().tend().unwrap();
        }
        store.log_batch_done(batch, &result);
    }
}

fn delete(store: &mut ShardStore, id: TableId, number: i32) {
    apply(store, id, |update| match number % 10 {
        0 => {
            let (start, end) = (packed(&[number]), packed(&[number]));
            let bound = |prefix, side| BoundRef { prefix, side };
            update.range_tombstone(bound(&start, Side::Before), bound(&end, Side::After), deletion(1));
        }
        _ => {
            update.row(&packed(&[number, 0]), Liveness::NONE, deletion(1), |_| {});
        }
    });
}

fn insert(store: &mut ShardStore, id: TableId, number: i32) {
    let liveness = Liveness {
        timestamp_us: 2,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    };
    apply(store, id, |update| {
        update.row(&packed(&[number, 0]), liveness, DeletionTime::LIVE, |_| {});
    });
}

fn apply(store: &mut ShardStore, id: TableId, build: impl FnOnce(&mut UpdateBuilder<'_>)) {
    let mut bytes = Vec::new();
    build(&mut UpdateBuilder::new(&mut bytes, id, KEY, DeletionTime::LIVE));
    store.apply(&Update::decode(&bytes).unwrap()).unwrap();
}

#[test]
fn a_step_over_tombstones_passes_no_more_than_its_units() {
    let (mut store, metadata) = store();
    let slices = [Slice::all()];
    for reversed in [false, true] {
        for partitions in [
            PartitionRange::One {
                token: token_of(KEY),
                key: KEY,
            },
            PartitionRange::everything(),
        ] {
            let command = ReadCommand {
                table: &metadata,
                partitions,
                slices: &slices,
                reversed,
                now_s: NOW_S,
                index: &[],
            };
            let (mut state, mut count) = (ReadState::suspending(), Count::default());
            let (mut steps, mut passed) = (1, 0);
            loop {
                let progress = store.read_step(&command, &mut state, &mut count).unwrap();
                let tombstones = state.statistics.tombstones - passed;
                assert!(
                    tombstones <= u64::from(STEP_UNITS_MAX),
                    "{tombstones} in step {steps}"
                );
                passed = state.statistics.tombstones;
                match progress {
                    ReadProgress::Done => break,
                    ReadProgress::Yield => steps += 1,
                    ReadProgress::Absent(absent) => panic!("{absent:?} in memory"),
                }
            }
            // A range begins and ends, each time with a marker; no tombstone is counted again by a later step.
            let places = ELEMENTS as u64 * 11 / 10;
            assert_eq!((count.rows, passed), (1, places));
            assert!(steps > places / u64::from(STEP_UNITS_MAX), "{steps} steps");
        }
    }
}

/// A step once decoded the index block that it began in anew, which was more than the work of the step itself.
#[test]
fn what_is_decoded_in_all_steps_is_little_more_than_what_is_passed() {
    let elements = std::env::var("HELENUS_LONG_READ_TOMBSTONES").ok();
    let elements = elements
        .and_then(|text| text.parse().ok())
        .unwrap_or(STORED_ELEMENTS);
    let one = PartitionRange::One {
        token: token_of(KEY),
        key: KEY,
    };
    let before = |number: i32| ClusteringBound {
        prefix: packed(&[number]).into(),
        side: Side::Before,
    };
    let slices = [
        Slice {
            start: ClusteringBound::bottom(),
            end: before(elements / 3),
        },
        Slice {
            start: before(elements / 2),
            end: ClusteringBound::top(),
        },
    ];
    for row_cache_bytes_max in [0, 1 << 20] {
        let (mut store, metadata) = stored(elements, row_cache_bytes_max);
        for (partitions, slices) in [
            (one, &[Slice::all()][..]),
            (one, &slices),
            (PartitionRange::everything(), &[Slice::all()]),
        ] {
            for reversed in [false, true] {
                let command = ReadCommand {
                    table: &metadata,
                    partitions,
                    slices,
                    reversed,
                    now_s: NOW_S,
                    index: &[],
                };
                let (mut state, mut count) = (ReadState::suspending(), Count::default());
                let mut steps = 1;
                loop {
                    let progress = store.read_step(&command, &mut state, &mut count).unwrap();
                    match progress {
                        ReadProgress::Done => break,
                        ReadProgress::Yield => steps += 1,
                        ReadProgress::Absent(absent) => {
                            steps += 1;
                            let stored = absent.read().unwrap();
                            store.deliver(&state, &absent, &stored).unwrap();
                        }
                    }
                }
                let passed = state.statistics.tombstones;
                let (decoded, whole) = (state.statistics.cost.items_decoded, slices.len() == 1);
                let what = format!("{decoded} decoded for {passed}, {steps} steps, reversed: {reversed}");
                println!("{what}, whole: {whole}, cache: {row_cache_bytes_max}");
                assert_eq!(count.rows, 1, "{what}");
                assert_eq!(passed == elements as u64 * 11 / 10, whole, "{what}");
                assert!(steps >= passed / u64::from(STEP_UNITS_MAX), "{what}");
                assert!(decoded <= passed * 11 / 10, "{what}");
            }
        }
    }
}
