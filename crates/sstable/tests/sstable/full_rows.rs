//! Rows that have all columns are encoded in one pass where the columns' ids ascend in the order of the file, and in several where
//! they do not: two tables that differ in their ids alone must get the same files.

use std::sync::Arc;

use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness};
use helenus_schema::{ColumnId, ColumnKind, TableMetadata};
use helenus_sstable::{Component, SsTable};
use helenus_types::CqlType;
use helenus_vfs::{Disk, MemoryDisk, Random, SeededRandom};

use crate::support::{
    Column, DESCRIPTOR, NOW_S, NOW_US, Partition, Partitions, cell, folder, id, insert, key, live, options,
    row, scan, table, write,
};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Id of a column that was dropped: larger than that of any other, so that it comes last in its row.
const DROPPED: ColumnId = ColumnId(99);
const TTL_S: u32 = 600;

/// `support::table` counts ids down.
fn table_with(has_ascending_ids: bool) -> TableMetadata {
    let mut regular = vec![
        Column("a", ColumnKind::Regular, CqlType::Int),
        Column("b", ColumnKind::Regular, CqlType::Blob),
        Column("c", ColumnKind::Regular, CqlType::Text),
    ];
    if has_ascending_ids {
        regular.reverse();
    }
    let mut columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("ck", ColumnKind::Clustering, CqlType::Int),
    ];
    columns.append(&mut regular);
    let table = table("plain", columns, &[]);
    let ids = NAMES.map(|name| id(&table, name));
    assert_eq!(ids.is_sorted(), has_ascending_ids);
    table
}

/// Kinds of rows besides those that have all columns and live for ever.
#[derive(Clone, Copy, Debug)]
struct Mixture {
    may_lack_columns: bool,
    may_have_dropped_column: bool,
    may_be_mortal: bool,
}

/// The last mixture has what expires, and what is deleted, in full rows alone: nothing else puts it into the statistics.
const MIXTURES: [Mixture; 4] = [
    Mixture {
        may_lack_columns: true,
        may_have_dropped_column: false,
        may_be_mortal: false,
    },
    Mixture {
        may_lack_columns: true,
        may_have_dropped_column: true,
        may_be_mortal: false,
    },
    Mixture {
        may_lack_columns: true,
        may_have_dropped_column: true,
        may_be_mortal: true,
    },
    Mixture {
        may_lack_columns: false,
        may_have_dropped_column: false,
        may_be_mortal: true,
    },
];

/// Statistics of the files by the model.
#[derive(Debug, PartialEq)]
struct Counts {
    oldest_us: i64,
    newest_us: i64,
    rows: u64,
    cells: u64,
    /// Markers, cells and rows that expire or are deleted.
    tombstones: u64,
}

struct Cell {
    column: Option<&'static str>,
    timestamp_us: i64,
    ttl_s: u32,
    local_deletion_s: u32,
}

struct Row {
    liveness: Liveness,
    deletion: DeletionTime,
    cells: Vec<Cell>,
}

struct Generator {
    random: SeededRandom,
    mixture: Mixture,
}

impl Generator {
    fn chance(&self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn timestamp(&self) -> i64 {
        NOW_US + self.random.below(1_000_000) as i64 - 500_000
    }

    fn row(&self) -> Row {
        let timestamp_us = self.timestamp();
        let may_be_mortal = self.mixture.may_be_mortal;
        let liveness = match self.random.below(10) {
            0..3 => Liveness::NONE,
            3 if may_be_mortal => Liveness {
                timestamp_us,
                ttl_s: TTL_S,
                expires_at_s: NOW_S + TTL_S,
            },
            _ => live(timestamp_us),
        };
        let mut deletion = DeletionTime::LIVE;
        if may_be_mortal && self.chance(5) {
            deletion = DeletionTime {
                timestamp_us: timestamp_us - 1,
                local_s: NOW_S,
            };
        }
        let is_present = |_: &&str| !self.mixture.may_lack_columns || self.chance(90);
        let mut cells: Vec<Cell> = NAMES
            .into_iter()
            .filter(is_present)
            .map(|name| self.cell(name, timestamp_us))
            .collect();
        if self.mixture.may_have_dropped_column && !cells.is_empty() && self.chance(20) {
            // It is not in the file, but as old as what is.
            let timestamp_us = cells[0].timestamp_us;
            let (column, ttl_s, local_deletion_s) = (None, 0, NEVER_S);
            cells.push(Cell {
                column,
                timestamp_us,
                ttl_s,
                local_deletion_s,
            });
        }
        Row {
            liveness,
            deletion,
            cells,
        }
    }

    fn cell(&self, name: &'static str, row_us: i64) -> Cell {
        let timestamp_us = if self.chance(10) { self.timestamp() } else { row_us };
        let (ttl_s, local_deletion_s) = match self.random.below(20) {
            0 if self.mixture.may_be_mortal => (TTL_S, NOW_S + TTL_S),
            1 if self.mixture.may_be_mortal => (0, NOW_S),
            _ => (0, NEVER_S),
        };
        Cell {
            column: Some(name),
            timestamp_us,
            ttl_s,
            local_deletion_s,
        }
    }

    /// By partition and place in it.
    fn partitions(&self) -> Vec<Vec<Row>> {
        (0..10)
            .map(|_| {
                (0..=self.random.below(20))
                    .map(|_| self.row())
                    .filter(|row| !row.cells.is_empty() || !row.liveness.is_none())
                    .collect()
            })
            .collect()
    }
}

fn counts(partitions: &[Vec<Row>]) -> Counts {
    let mut counts = Counts {
        oldest_us: i64::MAX,
        newest_us: i64::MIN,
        rows: 0,
        cells: 0,
        tombstones: 0,
    };
    for row in partitions.iter().flatten() {
        counts.rows += 1;
        let liveness =
            (!row.liveness.is_none()).then_some((row.liveness.timestamp_us, row.liveness.expires_at_s));
        let deletion = (!row.deletion.is_live()).then_some((row.deletion.timestamp_us, row.deletion.local_s));
        let cells = row.cells.iter().filter(|cell| cell.column.is_some());
        counts.cells += cells.clone().count() as u64;
        let cells = cells.map(|cell| (cell.timestamp_us, cell.local_deletion_s));
        for (timestamp_us, local_deletion_s) in liveness.into_iter().chain(deletion).chain(cells) {
            counts.oldest_us = counts.oldest_us.min(timestamp_us);
            counts.newest_us = counts.newest_us.max(timestamp_us);
            counts.tombstones += u64::from(local_deletion_s != NEVER_S);
        }
    }
    counts
}

/// As rows of a table; those that are read again have no dropped column.
fn packed(table: &TableMetadata, partitions: &[Vec<Row>], has_dropped: bool) -> Partitions {
    let mut all = Partitions::new();
    for (partition_key, rows) in partitions.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        let mut partition = Partition::default();
        for (clustering, row) in rows.iter().enumerate() {
            let cells = row
                .cells
                .iter()
                .filter(|cell| has_dropped || cell.column.is_some());
            let cells = cells.map(|cell| packed_cell(table, cell)).collect();
            let packed = self::row(row.liveness, row.deletion, cells);
            partition.row(key(&[&(clustering as i32).to_be_bytes()]), packed);
        }
        insert(&mut all, &(partition_key as i32).to_be_bytes(), partition);
    }
    all
}

fn packed_cell(table: &TableMetadata, of: &Cell) -> CellRef<'static> {
    let column = of.column.map_or(DROPPED, |name| id(table, name));
    let is_tombstone = of.ttl_s == 0 && of.local_deletion_s != NEVER_S;
    let value: &[u8] = match of.column {
        _ if is_tombstone => b"",
        Some("a") => b"four",
        _ => b"of any length",
    };
    CellRef {
        ttl_s: of.ttl_s,
        local_deletion_s: of.local_deletion_s,
        ..cell(column, of.timestamp_us, value)
    }
}

/// The files of a table with these rows, of which it was seen that they can be read.
fn files(has_ascending_ids: bool, partitions: &[Vec<Row>], said: &str) -> Vec<Vec<u8>> {
    let table = table_with(has_ascending_ids);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let folder = folder(&table);
    let written = packed(&table, partitions, true);
    let stored = packed(&table, partitions, false);
    write(&disk, &folder, &table, &written, options(&table, &written));
    let sstable = SsTable::open(&*disk, &folder, DESCRIPTOR, &table).unwrap();
    assert_eq!(scan(&sstable).unwrap(), stored, "{said}");
    let statistics = sstable.statistics();
    let found = Counts {
        oldest_us: statistics.timestamp_us_min,
        newest_us: statistics.timestamp_us_max,
        rows: statistics.rows,
        cells: statistics.columns,
        tombstones: statistics
            .tombstone_drop_times
            .bins()
            .map(|(_, count)| count)
            .sum(),
    };
    assert_eq!(found, counts(partitions), "{said}");
    [Component::Data, Component::Statistics]
        .map(|component| {
            let file = disk.open(&DESCRIPTOR.path(&folder, component)).unwrap();
            let mut bytes = vec![0; file.length().unwrap() as usize];
            file.read_exact_at(0, &mut bytes).unwrap();
            bytes
        })
        .into()
}

#[test]
fn rows_with_all_columns_and_others_are_read_again_and_counted_alike() {
    for (seed, mixture) in (0..20).flat_map(|seed| MIXTURES.map(|mixture| (seed, mixture))) {
        let random = SeededRandom::new(seed);
        let partitions = Generator { random, mixture }.partitions();
        let said = format!("seed {seed}, {mixture:?}");
        let [in_one_pass, in_several] = [true, false].map(|is_one| files(is_one, &partitions, &said));
        assert!(in_one_pass == in_several, "{said}: the files differ");
    }
}
