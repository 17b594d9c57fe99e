//! Rows of many elements.

use std::sync::Arc;

use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::layout::TableLayout;
use helenus_rows::row::{CellRef, Liveness, RowRef};
use helenus_rows::update::{Update, UpdateBuilder};
use helenus_schema::TableParams;
use helenus_storage::memtable::Memtable;
use helenus_test_heap::of_thread;
use helenus_types::token_of;

use super::table::{self, MAP, packed};

const KEY: &[u8] = b"k";

/// Written after the row.
const UPDATES: i32 = 500;

/// Writes elements of the map; returns the bytes that were taken from the heap for it.
fn put(memtable: &mut Memtable, elements: impl Iterator<Item = i32>, timestamp_us: i64, value: &[u8]) -> u64 {
    let mut bytes = Vec::new();
    let mut update = UpdateBuilder::new(&mut bytes, memtable.layout().metadata.id, KEY, DeletionTime::LIVE);
    update.row(&packed(&[1, 1]), Liveness::NONE, DeletionTime::LIVE, |row| {
        for element in elements {
            row.cell(CellRef {
                column: MAP,
                timestamp_us,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                path: Some(&element.to_be_bytes()),
                value,
            });
        }
    });
    let update = Update::decode(&bytes).unwrap();
    let mut scratch = Vec::new();
    let before = of_thread().allocated_bytes;
    memtable.apply(token_of(KEY), &update, None, &mut scratch);
    of_thread().allocated_bytes - before
}

/// The most and the sum that updates of single elements of a row take from the heap, which is what they copy.
fn update_bytes(elements: i32) -> (u64, u64) {
    let schema = table::schema(TableParams::default());
    let mut memtable = Memtable::new(Arc::new(TableLayout::of(schema.tables().next().unwrap())));
    put(&mut memtable, 0..elements, 1, b"a value");
    // The first one after the whole row splits it.
    put(&mut memtable, 0..1, 1, b"a value");
    let (mut max, mut sum) = (0, 0);
    for number in 0..UPDATES {
        let element = (number * 7919) % (2 * elements);
        let value = vec![b'v'; (number % 16) as usize];
        let bytes = put(&mut memtable, element..element + 1, 2 + i64::from(number), &value);
        (max, sum) = (bytes.max(max), sum + bytes);
    }
    (max, sum)
}

/// Symptom: the packed row was copied for each element that was written: 128 us at 5,000 elements, 2.6 ms at 100,000.
#[test]
fn an_update_of_one_element_costs_the_same_in_a_row_of_any_size() {
    let (_, sum_of_small) = update_bytes(1_000);
    let (max, sum) = update_bytes(100_000);
    assert!(sum < 2 * sum_of_small, "{sum} bytes against {sum_of_small}");
    // The list of parts may be moved once.
    assert!(max < 3 << 20, "one update took {max} bytes");
}

/// Symptom: none yet; memory that is held and not counted would not be refused.
#[test]
fn what_a_large_row_holds_is_counted() {
    let schema = table::schema(TableParams::default());
    let mut memtable = Memtable::new(Arc::new(TableLayout::of(schema.tables().next().unwrap())));
    let before = of_thread().live_bytes;
    for number in 0..20_000 {
        let element = (number * 7919) % 20_000;
        put(&mut memtable, element..element + 1, 1, b"a value");
    }
    let held = (of_thread().live_bytes - before) as usize;
    let counted = memtable.bytes();
    // What the allocator keeps beside is counted, too.
    assert!(
        (held..3 * held).contains(&counted),
        "{counted} counted, {held} held"
    );
    let partition = memtable.partition(token_of(KEY), KEY).unwrap();
    let row = partition.rows().iter().next().unwrap();
    let mut joined = Vec::new();
    let elements = partition.joined_row(row, &mut joined).entries().count();
    assert_eq!(elements, 20_000);
    let mut bytes = Vec::new();
    let id = memtable.layout().metadata.id;
    let deletion = DeletionTime {
        timestamp_us: 9,
        local_s: 9,
    };
    UpdateBuilder::new(&mut bytes, id, KEY, DeletionTime::LIVE).row(
        &packed(&[1, 1]),
        Liveness::NONE,
        deletion,
        |_| {},
    );
    memtable.apply(
        token_of(KEY),
        &Update::decode(&bytes).unwrap(),
        None,
        &mut Vec::new(),
    );
    assert!(
        memtable.bytes() < 1_000,
        "{} bytes are counted of one deletion",
        memtable.bytes()
    );
    let partition = memtable.partition(token_of(KEY), KEY).unwrap();
    assert!(partition.has_whole_rows());
    let row: Vec<RowRef<'_>> = partition.rows().iter().map(|row| row.row()).collect();
    assert_eq!(row[0].deletion(), deletion);
}
