//! Memory of a cached row, as the cache counts it and as the allocator does.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::layout::TableLayout;
use helenus_rows::row::{CellRef, Liveness, RowRef};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::TableParams;
use helenus_sstable::source::PartitionCursor;
use helenus_storage::memtable::Memtable;
use helenus_storage::row_cache::{Recorder, RecordingCursor, RowCache};
use helenus_test_heap::of_thread;
use helenus_types::token_of;

use super::table::{self, TEXT, packed};

const ROWS: i32 = 20_000;

/// The components of a row's clustering key.
const CLUSTERING_BYTES: usize = 8;

fn layout() -> Arc<TableLayout> {
    let schema = table::plain_schema(TableParams::default());
    Arc::new(TableLayout::of(schema.tables().next().unwrap()))
}

fn insert(memtable: &mut Memtable, key: &[u8], row_number: i32, value: &[u8]) {
    let mut bytes = Vec::new();
    let table = memtable.layout().metadata.id;
    let mut update = UpdateBuilder::new(&mut bytes, table, key, DeletionTime::LIVE);
    let liveness = Liveness {
        timestamp_us: 1_700_000_000_000_000,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    };
    update.row(&packed(&[row_number, 0]), liveness, DeletionTime::LIVE, |row| {
        row.cell(CellRef {
            column: TEXT,
            timestamp_us: liveness.timestamp_us,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            path: None,
            value,
        });
    });
    let update = Update::decode(&bytes).unwrap();
    memtable.apply(token_of(key), &update, None, &mut Vec::new());
}

fn fill(cache: &mut RowCache, memtable: &Memtable, key: &[u8], slices: &[Slice]) {
    let token = token_of(key);
    let recorder = RefCell::new(Recorder::new(false));
    let mut cursor = RecordingCursor::new(memtable.cursor(token, key, slices, false).unwrap(), &recorder);
    while cursor.advance().unwrap() {}
    let head = (DeletionTime::LIVE, RowRef::EMPTY);
    cache.fill(
        memtable.layout(),
        (token, key),
        head,
        slices,
        &recorder.into_inner(),
    );
}

fn rows_between(first: i32, last: i32) -> [Slice; 1] {
    let bound = |number, side| ClusteringBound {
        prefix: packed(&[number, 0]).into(),
        side,
    };
    [Slice {
        start: bound(first, Side::Before),
        end: bound(last, Side::After),
    }]
}

/// Bytes per row by the cache's own account, which must agree with the allocator's within a tenth below and a quarter
/// above: it counts what allocators waste, which is not seen here.
fn bytes_per_row(make: impl FnOnce(&mut RowCache), rows: i32) -> usize {
    let before = of_thread().live_bytes;
    let mut cache = RowCache::new(1 << 30);
    make(&mut cache);
    let held = (of_thread().live_bytes - before) as usize;
    let counted = cache.bytes();
    assert!(
        counted * 10 >= held * 9 && counted * 4 <= held * 5,
        "counted {counted}, held {held}"
    );
    counted / rows as usize
}

fn bound(payload_bytes: usize) -> usize {
    payload_bytes * 16 / 10 + 60
}

#[test]
fn rows_of_one_partition_are_compact() {
    for value_bytes in [4, 34, 100, 1_000, 10_000] {
        let rows = if value_bytes > 100 { ROWS / 20 } else { ROWS };
        let mut memtable = Memtable::new(layout());
        let value = vec![b'x'; value_bytes];
        (0..rows).for_each(|number| insert(&mut memtable, b"key", number, &value));
        let bound = bound(CLUSTERING_BYTES + value_bytes);
        let pages = |cache: &mut RowCache| {
            for first in (0..rows).step_by(20) {
                fill(cache, &memtable, b"key", &rows_between(first, first + 19));
            }
        };
        let in_pages = bytes_per_row(pages, rows);
        let apart = |cache: &mut RowCache| {
            // Every second row, in an order that jumps about.
            for number in (0..rows / 2).map(|number| (number * 7_919) % (rows / 2) * 2) {
                fill(cache, &memtable, b"key", &rows_between(number, number));
            }
        };
        let by_points = bytes_per_row(apart, rows / 2);
        assert!(
            in_pages <= bound && by_points <= bound,
            "{in_pages} and {by_points} bytes for values of {value_bytes}, more than {bound}"
        );
    }
}

#[test]
fn partitions_of_one_row_are_compact() {
    for value_bytes in [100, 170, 1_000] {
        let mut memtable = Memtable::new(layout());
        let value = vec![b'x'; value_bytes];
        let keys: Vec<_> = (0..ROWS).map(|number| i64::from(number).to_be_bytes()).collect();
        keys.iter().for_each(|key| insert(&mut memtable, key, 1, &value));
        let points = |cache: &mut RowCache| {
            for key in &keys {
                fill(cache, &memtable, key, &rows_between(1, 1));
            }
        };
        let bytes = bytes_per_row(points, ROWS);
        let bound = bound(8 + CLUSTERING_BYTES + value_bytes);
        assert!(
            bytes <= bound,
            "{bytes} bytes for values of {value_bytes}, more than {bound}"
        );
    }
}
