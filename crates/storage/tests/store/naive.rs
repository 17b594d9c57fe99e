//! The model: every write ever made, looked through from the start for each answer.

use std::collections::{BTreeMap, BTreeSet};

use helenus_rows::clustering::Side;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::Liveness;
use helenus_rows::update::{BoundRef, UpdateBuilder};
use helenus_rows::{row, update};
use helenus_schema::ColumnId;

use super::table::{Key, packed};

pub type Place = (Vec<i32>, Side);
pub type CellKey = (u16, Option<Vec<u8>>);
/// Column and path to value, timestamp, ttl.
pub type LiveCells = BTreeMap<CellKey, (Vec<u8>, i64, u32)>;

#[derive(Clone, Debug)]
pub struct Cell {
    pub key: CellKey,
    pub timestamp_us: i64,
    pub ttl_s: u32,
    pub local_deletion_s: u32,
    pub value: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct RowWrite {
    pub liveness: Liveness,
    pub deletion: DeletionTime,
    pub complex_deletion: Option<(u16, DeletionTime)>,
    /// By key.
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug)]
pub enum Write {
    Partition(DeletionTime),
    Static(RowWrite),
    Row(Key, RowWrite),
    Range(Place, Place, DeletionTime),
}

#[derive(Clone, Debug, Default)]
pub struct NaivePartition {
    pub writes: Vec<Write>,
}

/// Answer that a read must give: the static row's cells, and per row its marker's timestamp and its cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub static_cells: LiveCells,
    pub rows: Vec<(Key, Option<i64>, LiveCells)>,
}

impl Write {
    pub fn encode(&self, table: helenus_schema::TableId, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let deletion = if let Write::Partition(deletion) = self {
            *deletion
        } else {
            DeletionTime::LIVE
        };
        let mut builder = UpdateBuilder::new(&mut out, table, key, deletion);
        match self {
            Write::Partition(_) => {}
            Write::Static(row) => builder.static_row(row.liveness, row.deletion, |out| row.fill(out)),
            Write::Row(key, row) => {
                builder.row(&packed(&[key.0, key.1]), row.liveness, row.deletion, |out| {
                    row.fill(out)
                });
            }
            Write::Range(start, end, deletion) => {
                let (start_prefix, end_prefix) = (packed(&start.0), packed(&end.0));
                builder.range_tombstone(
                    BoundRef {
                        prefix: &start_prefix,
                        side: start.1,
                    },
                    BoundRef {
                        prefix: &end_prefix,
                        side: end.1,
                    },
                    *deletion,
                );
            }
        }
        assert!(update::Update::decode(&out).is_ok());
        out
    }
}

impl RowWrite {
    fn fill(&self, out: &mut row::RowBuilder<'_>) {
        let mut is_pending = self.complex_deletion;
        for cell in &self.cells {
            if let Some((column, deletion)) = is_pending
                && column <= cell.key.0
            {
                out.complex_deletion(ColumnId(column), deletion);
                is_pending = None;
            }
            out.cell(row::CellRef {
                column: ColumnId(cell.key.0),
                timestamp_us: cell.timestamp_us,
                ttl_s: cell.ttl_s,
                local_deletion_s: cell.local_deletion_s,
                path: cell.key.1.as_deref(),
                value: &cell.value,
            });
        }
        if let Some((column, deletion)) = is_pending {
            out.complex_deletion(ColumnId(column), deletion);
        }
    }
}

impl NaivePartition {
    pub fn answer(&self, slices: &[(Place, Place)], now_s: u32) -> Answer {
        let partition_deleted_us = self.newest(|write| match write {
            Write::Partition(deletion) => Some(deletion.timestamp_us),
            _ => None,
        });
        let statics = self.writes.iter().filter_map(|write| match write {
            Write::Static(row) => Some(row),
            _ => None,
        });
        let static_cells = live(statics.collect(), partition_deleted_us, now_s).1;
        let keys: BTreeSet<Key> = self
            .writes
            .iter()
            .filter_map(|write| {
                if let Write::Row(key, _) = write {
                    Some(*key)
                } else {
                    None
                }
            })
            .filter(|key| {
                slices
                    .iter()
                    .any(|(start, end)| is_after(*key, start) && !is_after(*key, end))
            })
            .collect();
        let mut rows = Vec::new();
        for key in keys {
            let range_deleted_us = self.newest(|write| match write {
                Write::Range(start, end, deletion) if is_after(key, start) && !is_after(key, end) => {
                    Some(deletion.timestamp_us)
                }
                _ => None,
            });
            let versions = self.writes.iter().filter_map(|write| match write {
                Write::Row(other, row) if *other == key => Some(row),
                _ => None,
            });
            let (marker, cells) = live(
                versions.collect(),
                partition_deleted_us.max(range_deleted_us),
                now_s,
            );
            if marker.is_some() || !cells.is_empty() {
                rows.push((key, marker, cells));
            }
        }
        Answer { static_cells, rows }
    }

    fn newest(&self, timestamp: impl Fn(&Write) -> Option<i64>) -> i64 {
        self.writes.iter().filter_map(timestamp).max().unwrap_or(i64::MIN)
    }
}

fn is_after(key: Key, place: &Place) -> bool {
    let components = [key.0, key.1];
    match components[..place.0.len()].cmp(&place.0) {
        std::cmp::Ordering::Equal => place.1 == Side::Before,
        ordering => ordering == std::cmp::Ordering::Greater,
    }
}

fn live(versions: Vec<&RowWrite>, outer_us: i64, now_s: u32) -> (Option<i64>, LiveCells) {
    let row_us = versions
        .iter()
        .map(|row| row.deletion.timestamp_us)
        .max()
        .unwrap_or(i64::MIN);
    let deleted_us = outer_us.max(row_us);
    let marker = versions
        .iter()
        .map(|row| row.liveness)
        .max_by_key(|l| {
            (
                l.timestamp_us,
                l.ttl_s != 0,
                l.expires_at_s,
                std::cmp::Reverse(l.ttl_s),
            )
        })
        .filter(|liveness| liveness.timestamp_us > deleted_us && liveness.is_live(now_s))
        .map(|liveness| liveness.timestamp_us);
    let complex = versions.iter().filter_map(|row| row.complex_deletion);
    let mut complex_us: BTreeMap<u16, i64> = BTreeMap::new();
    for (column, deletion) in complex {
        let newest = complex_us.entry(column).or_insert(i64::MIN);
        *newest = deletion.timestamp_us.max(*newest);
    }
    let mut newest: BTreeMap<CellKey, &Cell> = BTreeMap::new();
    for cell in versions.iter().flat_map(|row| &row.cells) {
        if cell.timestamp_us <= deleted_us
            || complex_us
                .get(&cell.key.0)
                .is_some_and(|&us| cell.timestamp_us <= us)
        {
            continue;
        }
        let winner = newest.entry(cell.key.clone()).or_insert(cell);
        if rank(cell) > rank(winner) {
            *winner = cell;
        }
    }
    let is_live =
        |cell: &Cell| cell.local_deletion_s == NEVER_S || (cell.ttl_s != 0 && now_s < cell.local_deletion_s);
    let live = newest.into_iter().filter(|(_, cell)| is_live(cell));
    (
        marker,
        live.map(|(key, cell)| (key, (cell.value.clone(), cell.timestamp_us, cell.ttl_s)))
            .collect(),
    )
}

/// Rank of a cell; the highest wins: newer, then dead or dying, then dead, then later, then shorter ttl, then larger value.
fn rank(cell: &Cell) -> (i64, bool, bool, u32, std::cmp::Reverse<u32>, &[u8]) {
    let is_mortal = cell.local_deletion_s != NEVER_S;
    let is_dead = is_mortal && cell.ttl_s == 0;
    (
        cell.timestamp_us,
        is_mortal,
        is_dead,
        cell.local_deletion_s,
        std::cmp::Reverse(cell.ttl_s),
        &cell.value,
    )
}
