//! A step of a read does a bounded amount of work, whatever it passes over.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_schema::{TableId, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::clustering::{Side, Slice};
use helenus_storage::deletion::{DeletionTime, NEVER_S};
use helenus_storage::read::{PartitionRange, ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState, STEP_UNITS_MAX};
use helenus_storage::row::{Liveness, RowRef};
use helenus_storage::store::StoreOptions;
use helenus_storage::update::{BoundRef, Update, UpdateBuilder};
use helenus_types::{Token, token_of};

use super::table::packed;

const KEY: &[u8] = b"key";
const ELEMENTS: i32 = 5_000;
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
fn store() -> (ShardStore, Arc<helenus_schema::TableMetadata>) {
    let schema = super::table::schema(TableParams::default());
    let metadata = Arc::clone(schema.tables().next().unwrap());
    let mut store = ShardStore::in_memory(StoreOptions::default(), &schema);
    for number in 0..ELEMENTS {
        apply(&mut store, metadata.id, |update| match number % 10 {
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
    apply(&mut store, metadata.id, |update| {
        update.row(
            &packed(&[ELEMENTS, 0]),
            Liveness {
                timestamp_us: 2,
                ttl_s: 0,
                expires_at_s: NEVER_S,
            },
            DeletionTime::LIVE,
            |_| {},
        );
    });
    (store, metadata)
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
