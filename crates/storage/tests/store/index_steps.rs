//! Reads by indexes whose steps end within a partition.

use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Liveness;
use helenus_rows::update::Update;
use helenus_schema::{ColumnId, TableMetadata, TableParams};
use helenus_storage::ShardStore;
use helenus_storage::read::ReadCommand;
use helenus_storage::store::StoreOptions;

use super::indexed::{Wanted, compare};
use super::naive::{Cell, RowWrite, Write};
use super::table::{NUMBER, STATIC, TEXT, packed};
use super::writes::NOW_S;

struct Partitions {
    store: ShardStore,
    table: Arc<TableMetadata>,
}

impl Partitions {
    /// In steps of so many units.
    fn new(read_step_units_max: u32) -> Self {
        let schema = super::table::indexed_schema(TableParams::default());
        let options = StoreOptions {
            read_step_units_max,
            ..StoreOptions::default()
        };
        Partitions {
            table: Arc::clone(schema.tables().next().unwrap()),
            store: ShardStore::in_memory(options, &schema),
        }
    }

    fn write(&mut self, key: &[u8], write: &Write) {
        let bytes = write.encode(self.table.id, key);
        self.store.apply(&Update::decode(&bytes).unwrap()).unwrap();
    }

    /// Rows that match all of these conditions, each a column and its value, as a scan finds them.
    fn ask(&mut self, conditions: &[(ColumnId, &[u8])], slice: Slice, reversed: bool) -> usize {
        let index_of = |column| {
            let mut indexes = self.table.indexes.iter();
            indexes.find(|index| index.column == column).unwrap()
        };
        let wanted: Vec<Wanted> = conditions
            .iter()
            .map(|(column, value)| Wanted::equal(index_of(*column), value))
            .collect();
        let command = ReadCommand {
            table: &self.table,
            partitions: PartitionRange::everything(),
            slices: &[slice],
            reversed,
            now_s: NOW_S,
            index: &[],
        };
        compare(&mut self.store, &command, &wanted, true).0
    }
}

fn row(cells: &[(ColumnId, &[u8])], deletion: DeletionTime) -> RowWrite {
    let cell = |(column, value): &(ColumnId, &[u8])| Cell {
        key: (column.0, None),
        timestamp_us: 2,
        ttl_s: 0,
        local_deletion_s: NEVER_S,
        value: value.to_vec(),
    };
    RowWrite {
        liveness: Liveness::NONE,
        deletion,
        complex_deletion: None,
        cells: cells.iter().map(cell).collect(),
    }
}

/// Symptom: rows were missing from a SELECT by two indexes with ORDER BY descending, or it went on for ever, where a partition had many
/// entries before the first one under both: the place where the search paused was taken for one that was read up to.
#[test]
fn a_search_that_pauses_in_a_partition_read_backwards_loses_nothing() {
    let conditions: [(ColumnId, &[u8]); 2] = [(NUMBER, &[0, 0, 0, 1]), (TEXT, b"yes")];
    for first_of_both in [5, 20, 300] {
        let mut partitions = Partitions::new(8);
        partitions.write(&[0], &Write::Row((0, 0), row(&conditions, DeletionTime::LIVE)));
        for number in 0..400 {
            let is_both = [first_of_both, 350].contains(&number);
            let cells = match number % 2 {
                _ if is_both => &conditions[..],
                0 => &conditions[..1],
                _ => &conditions[1..],
            };
            partitions.write(&[2], &Write::Row((number, 0), row(cells, DeletionTime::LIVE)));
        }
        for reversed in [false, true] {
            let found = partitions.ask(&conditions, Slice::all(), reversed);
            assert_eq!(found, 3, "from {first_of_both} on, reversed: {reversed}");
        }
    }
}

/// Symptom: a partition that had nothing but its static row was not found by an index on a static column where a step of the read ended
/// behind a deleted row, and that was the last that was asked for.
#[test]
fn a_static_row_behind_a_deleted_row_is_found() {
    let mut partitions = Partitions::new(1);
    let deletion = DeletionTime {
        timestamp_us: 1,
        local_s: NOW_S - 1,
    };
    partitions.write(&[0], &Write::Row((7, 0), row(&[], deletion)));
    partitions.write(
        &[0],
        &Write::Static(row(&[(STATIC, b"there")], DeletionTime::LIVE)),
    );
    for reversed in [false, true] {
        // It fails if the partition is missing; there is no row to be counted.
        let found = partitions.ask(&[(STATIC, b"there")], Slice::covering(&packed(&[7, 0])), reversed);
        assert_eq!(found, 0);
    }
}
