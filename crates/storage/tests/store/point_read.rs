//! A point read that memtables answer allocates nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{CellRef, Liveness, RowRef};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::TableParams;
use helenus_storage::ShardStore;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::store::StoreOptions;
use helenus_test_heap::{allocations_of, of_thread};
use helenus_types::{Token, token_of};

use super::table::{NUMBER, TEXT, packed};

#[derive(Default)]
struct Count {
    rows: u64,
    bytes: u64,
}

impl RowSink for Count {
    fn partition(&mut self, _token: Token, _key: &[u8], _static_row: RowRef<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.rows += 1;
        self.bytes += row.as_bytes().len() as u64;
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

fn insert(store: &mut ShardStore, id: helenus_schema::TableId, key: &[u8], row_number: i32, ttl_s: u32) {
    let mut bytes = Vec::new();
    let mut update = UpdateBuilder::new(&mut bytes, id, key, DeletionTime::LIVE);
    let liveness = Liveness {
        timestamp_us: 7,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    };
    update.row(&packed(&[row_number, 0]), liveness, DeletionTime::LIVE, |row| {
        for (column, value) in [(NUMBER, &[0, 0, 0, 9][..]), (TEXT, b"some text")] {
            let local_deletion_s = if ttl_s == 0 { NEVER_S } else { 1_000 + ttl_s };
            row.cell(CellRef {
                column,
                timestamp_us: 7,
                ttl_s,
                local_deletion_s,
                path: None,
                value,
            });
        }
    });
    store.apply(&Update::decode(&bytes).unwrap()).unwrap();
}

#[test]
fn a_point_read_from_memory_allocates_nothing() {
    let schema = super::table::schema(TableParams::default());
    let metadata = Arc::clone(schema.tables().next().unwrap());
    let mut store = ShardStore::in_memory(StoreOptions::default(), &schema);
    let keys: Vec<Vec<u8>> = (0..500_u32).map(|number| number.to_be_bytes().to_vec()).collect();
    for key in &keys {
        for row_number in 0..5 {
            insert(
                &mut store,
                metadata.id,
                key,
                row_number,
                if row_number == 4 { 100 } else { 0 },
            );
        }
    }
    let slices: Vec<[Slice; 1]> = (0..6)
        .map(|row_number| {
            let bound = |side| ClusteringBound {
                prefix: packed(&[row_number, 0]).into(),
                side,
            };
            [Slice {
                start: bound(Side::Before),
                end: bound(Side::After),
            }]
        })
        .collect();
    let mut sink = Count::default();
    let before = of_thread().allocations;
    for key in &keys {
        for slices in &slices {
            let partitions = PartitionRange::One {
                token: token_of(key),
                key,
            };
            let command = ReadCommand {
                table: &metadata,
                partitions,
                slices,
                reversed: false,
                now_s: 1_050,
                index: &[],
            };
            store.read(&command, &mut sink).unwrap();
        }
    }
    assert_eq!(of_thread().allocations - before, 0);
    assert_eq!(
        sink.rows,
        500 * 5,
        "each of the five rows once, the sixth is not there"
    );
    assert!(sink.bytes > sink.rows * 20);
}

#[test]
fn an_overwrite_of_equal_length_allocates_nothing_once_buffers_have_grown() {
    let schema = super::table::schema(TableParams::default());
    let metadata = Arc::clone(schema.tables().next().unwrap());
    let mut store = ShardStore::in_memory(StoreOptions::default(), &schema);
    let mut bytes = Vec::new();
    let mut update = UpdateBuilder::new(&mut bytes, metadata.id, b"key", DeletionTime::LIVE);
    let liveness = Liveness {
        timestamp_us: 7,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    };
    update.row(&packed(&[1, 1]), liveness, DeletionTime::LIVE, |_| {});
    let update = Update::decode(&bytes).unwrap();
    store.apply(&update).unwrap();
    store.apply(&update).unwrap();
    let allocations = allocations_of(|| {
        for _ in 0..100 {
            store.apply(&update).unwrap();
        }
    });
    assert_eq!(allocations, 0);
}
