//! Reads by an index of a table that lies in the memtable alone, where terms lead to few rows.

use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::TableParams;
use helenus_storage::ShardStore;
use helenus_storage::read::ReadCommand;
use helenus_storage::store::StoreOptions;
use helenus_vfs::SeededRandom;

use super::indexed::{Wanted, check_indexed, compare};
use super::naive::{Cell, RowWrite, Write};
use super::table::{MAP, TEXT};
use super::writes::{NOW_S, Writer};

/// More elements of a row, each with a term of its own, than an index keeps apart.
const MANY_ELEMENTS: i32 = 1_100;

/// A row with so many elements, and a text of those that others have.
fn row(elements: i32, timestamp_us: i64) -> Write {
    let cell = |key, value: &[u8]| Cell {
        key,
        timestamp_us,
        ttl_s: 0,
        local_deletion_s: NEVER_S,
        value: value.to_vec(),
    };
    let elements = (0..elements).map(|number| {
        let path = number.to_be_bytes().to_vec();
        cell((MAP.0, Some(path)), b"aa")
    });
    let row = RowWrite {
        liveness: Liveness::NONE,
        deletion: DeletionTime::LIVE,
        complex_deletion: None,
        cells: elements.chain([cell((TEXT.0, None), b"bb")]).collect(),
    };
    Write::Row((1, -1), row)
}

#[test]
fn few_rows_of_a_term_are_those_of_a_scan() {
    for seed in 0..120 {
        let schema = super::table::indexed_schema(TableParams::default());
        let metadata = Arc::clone(schema.tables().next().unwrap());
        let options = StoreOptions {
            read_step_units_max: [1, 6, 40, 512][seed as usize % 4],
            ..StoreOptions::default()
        };
        let mut store = ShardStore::in_memory(options, &schema);
        let writer = Writer {
            random: SeededRandom::new(seed),
            key_bound: [1, 2, 3][seed as usize % 3],
            timestamp_from_us: 1,
            timestamp_spread_us: 30,
            is_plain: false,
        };
        let mut write = |key: &[u8], write: &Write| {
            let bytes = write.encode(metadata.id, key);
            store.apply(&Update::decode(&bytes).unwrap()).unwrap();
        };
        for _ in 0..1 + writer.below(300) {
            write(&[writer.below(60) as u8; 4], &writer.write());
        }
        match writer.below(6) {
            // Of a long key an entry has the token.
            0 => write(&[7; 5_000], &row(1, 1)),
            1 => write(b"many", &row(MANY_ELEMENTS, 1)),
            // A row so long is kept in parts once it is written again.
            2 => {
                write(b"parts", &row(MANY_ELEMENTS, 1));
                write(b"parts", &row(3, 2));
            }
            // Each alone in its partition.
            3 => {
                for number in 100..100 + writer.below(20) {
                    write(&[number as u8; 4], &row(1, 1));
                }
            }
            _ => {}
        }
        for _ in 0..10 {
            let (slices, is_reversed) = (writer.slices(), writer.below(2) == 0);
            let now_s = NOW_S - 5 + writer.below(10) as u32;
            check_indexed(&mut store, &metadata, &writer, &slices, is_reversed, now_s);
        }
        let command = ReadCommand {
            table: &metadata,
            partitions: PartitionRange::everything(),
            slices: &[Slice::all()],
            reversed: false,
            now_s: NOW_S,
            index: &[],
        };
        let last_element = (MANY_ELEMENTS - 1).to_be_bytes();
        for (name, value) in [("t_idx", &b"bb"[..]), ("m_keys", &last_element)] {
            let index = metadata
                .indexes
                .iter()
                .find(|index| &*index.name == name)
                .unwrap();
            compare(
                &mut store,
                &command,
                &[Wanted::equal(index, value)],
                writer.below(2) == 0,
            );
        }
    }
}
