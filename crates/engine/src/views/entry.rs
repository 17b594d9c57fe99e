//! The row of a view that a row of its base table stands for (`ViewUpdateGenerator`).

use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{CellRef, Entry, Liveness, RowRef};
use helenus_schema::{ColumnId, ColumnKind, ColumnMetadata, TableMetadata, ViewMetadata};
use helenus_types::CqlType;

/// The ttl of a marker that has expired from the beginning, which takes a view's row away
/// (`LivenessInfo.EXPIRED_LIVENESS_TTL`).
pub(super) const EXPIRED_TTL_S: u32 = i32::MAX as u32;

/// Columns that a view has of its base table.
#[derive(Clone, Debug)]
pub struct ViewShape {
    /// The column of the base table's rows that is in the view's key, if one is.
    key_column: Option<ColumnId>,
    /// Its type where it is in the clustering: what compares as equal there is the same row, whatever its bytes are.
    clustering_type: Option<CqlType>,
    /// Sorted.
    selected: Vec<ColumnId>,
    has_all_columns: bool,
}

/// Effect of a write to a base row on the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChange {
    /// There was no row, and is none.
    None,
    New,
    Gone,
    /// The row keeps its key.
    Altered,
    /// The old row goes, and there is one of another key.
    Moved,
}

impl ViewShape {
    pub fn of(view: &ViewMetadata, table: &TableMetadata, base: &TableMetadata) -> Self {
        let columns = table.columns.iter().filter_map(|column| {
            let of_base = base.column(&column.name)?;
            (of_base.kind == ColumnKind::Regular).then_some((column.kind, of_base))
        });
        let columns: Vec<(ColumnKind, &ColumnMetadata)> = columns.collect();
        let key = columns.iter().find(|(kind, _)| *kind != ColumnKind::Regular);
        let in_clustering = key.filter(|(kind, _)| *kind == ColumnKind::Clustering);
        let mut selected: Vec<ColumnId> = columns.iter().map(|(_, column)| column.id).collect();
        selected.sort_unstable();
        ViewShape {
            selected,
            key_column: key.map(|(_, column)| column.id),
            clustering_type: in_clustering.map(|(_, column)| column.cql_type.clone()),
            has_all_columns: view.includes_all_columns,
        }
    }

    fn selects(&self, column: ColumnId) -> bool {
        self.selected.binary_search(&column).is_ok()
    }

    /// Returns whether the view stays as it is if this is written to a base row. Where the view's rows live as a cell does, that
    /// takes one of their columns, or a deletion.
    pub(super) fn is_untouched_by(&self, written: RowRef<'_>) -> bool {
        let (_, deletion, mut entries) = written.open();
        self.key_column.is_some() && deletion.is_live() && !entries.any(|entry| self.selects(entry.column()))
    }

    /// `old` and `new` are the whole base row, merged.
    pub fn change(&self, old: RowRef<'_>, new: RowRef<'_>, now_s: u32) -> EntryChange {
        let (was, is) = (self.has_entry(old, now_s), self.has_entry(new, now_s));
        match (was, is) {
            (false, false) => EntryChange::None,
            (false, true) => EntryChange::New,
            (true, false) => EntryChange::Gone,
            (true, true) if self.has_same_key(old, new) => EntryChange::Altered,
            (true, true) => EntryChange::Moved,
        }
    }

    /// Returns whether the view has a row of this base row, as far as its columns go.
    pub(super) fn has_entry(&self, row: RowRef<'_>, now_s: u32) -> bool {
        match self.key_column {
            Some(column) => live_cell(row, column, now_s).is_some(),
            None => row.liveness().is_live(now_s) || cells(row).any(|cell| cell.is_live(now_s)),
        }
    }

    /// The column of the base table's rows that is in the view's key.
    pub(crate) fn key_column(&self) -> Option<ColumnId> {
        self.key_column
    }

    fn has_same_key(&self, old: RowRef<'_>, new: RowRef<'_>) -> bool {
        match (self.key_value(old), self.key_value(new), &self.clustering_type) {
            (Some(old), Some(new), Some(cql_type)) => cql_type.compare(old, new).is_eq(),
            (old, new, _) => old == new,
        }
    }

    /// The value of that column.
    pub(crate) fn key_value<'r>(&self, row: RowRef<'r>) -> Option<&'r [u8]> {
        let column = self.key_column?;
        cells(row)
            .find(|cell| cell.column == column)
            .map(|cell| cell.value)
    }

    /// How long the view's row lives. With a column of the base row in its key it lives as that cell does; else as the base
    /// row's marker and the cells that the view does not have, which keep it there too.
    pub fn liveness(&self, row: RowRef<'_>, now_s: u32) -> Liveness {
        let marker = row.liveness();
        if let Some(column) = self.key_column {
            return live_cell(row, column, now_s).map_or(Liveness::NONE, |cell| Liveness {
                timestamp_us: cell.timestamp_us,
                ttl_s: cell.ttl_s,
                expires_at_s: cell.local_deletion_s,
            });
        }
        if self.has_all_columns {
            return marker;
        }
        let unselected = || {
            let live = cells(row).filter(|cell| cell.is_live(now_s));
            live.filter(|cell| !self.selects(cell.column))
        };
        let times = unselected().map(|cell| cell.timestamp_us);
        let timestamp_us = times.fold(marker.timestamp_us, i64::max);
        let is_for_ever = marker.is_live(now_s) && marker.ttl_s == 0;
        if is_for_ever || unselected().any(|cell| cell.ttl_s == 0) {
            return Liveness {
                timestamp_us,
                ..Liveness::NONE
            };
        }
        match unselected().max_by_key(|cell| cell.local_deletion_s) {
            Some(last) if !marker.is_live(now_s) || last.local_deletion_s > marker.expires_at_s => Liveness {
                timestamp_us,
                ttl_s: last.ttl_s,
                expires_at_s: last.local_deletion_s,
            },
            _ => marker,
        }
    }

    /// The marker that takes the view's row of `old` away; `None` where the base row's deletion does, which the view's row gets
    /// as well. `deletion` is that of the base row, its partition's and ranges' included.
    pub fn removal(&self, old: RowRef<'_>, deletion: DeletionTime, now_s: u32) -> Option<Liveness> {
        let deleted_at_us = deletion.timestamp_us;
        let timestamp_us = match self.key_column {
            Some(column) => cells(old).find(|cell| cell.column == column)?.timestamp_us,
            None if self.has_all_columns => old.liveness().timestamp_us,
            None => {
                let unselected = cells(old).filter(|cell| !self.selects(cell.column));
                let times = unselected.map(|cell| cell.timestamp_us);
                times.fold(old.liveness().timestamp_us, i64::max)
            }
        };
        (timestamp_us > deleted_at_us).then_some(Liveness {
            timestamp_us,
            ttl_s: EXPIRED_TTL_S,
            expires_at_s: now_s,
        })
    }
}

fn cells(row: RowRef<'_>) -> impl Iterator<Item = CellRef<'_>> {
    row.entries().filter_map(|entry| match entry {
        Entry::Cell(cell) => Some(cell),
        Entry::ComplexDeletion { .. } => None,
    })
}

fn live_cell(row: RowRef<'_>, column: ColumnId, now_s: u32) -> Option<CellRef<'_>> {
    cells(row).find(|cell| cell.column == column && cell.is_live(now_s))
}

#[cfg(test)]
mod tests {
    use helenus_rows::deletion::NEVER_S;
    use helenus_rows::row::RowBuilder;

    use super::*;

    const A: ColumnId = ColumnId(1);
    const B: ColumnId = ColumnId(2);
    const NOW_S: u32 = 1_000;

    fn shape(key: Option<ColumnId>, selected: &[ColumnId], has_all_columns: bool) -> ViewShape {
        ViewShape {
            key_column: key,
            clustering_type: None,
            selected: selected.to_vec(),
            has_all_columns,
        }
    }

    fn lives(timestamp_us: i64, ttl_s: u32) -> Liveness {
        Liveness {
            timestamp_us,
            ttl_s,
            expires_at_s: if ttl_s == 0 { NEVER_S } else { NOW_S + ttl_s },
        }
    }

    /// Column, time, ttl, value; no value is a tombstone.
    type TestCell = (ColumnId, i64, u32, Option<&'static [u8]>);

    fn deleted_at(timestamp_us: i64) -> DeletionTime {
        DeletionTime {
            timestamp_us,
            local_s: NOW_S,
        }
    }

    fn row(liveness: Liveness, deleted_at_us: Option<i64>, cells: &[TestCell]) -> Vec<u8> {
        let deletion = deleted_at_us.map_or(DeletionTime::LIVE, deleted_at);
        let mut out = Vec::new();
        let mut builder = RowBuilder::new(&mut out, liveness, deletion);
        for &(column, timestamp_us, ttl_s, value) in cells {
            builder.cell(CellRef {
                column,
                timestamp_us,
                ttl_s,
                local_deletion_s: match (value, ttl_s) {
                    (None, _) => NOW_S,
                    (Some(_), 0) => NEVER_S,
                    (Some(_), ttl_s) => NOW_S + ttl_s,
                },
                path: None,
                value: value.unwrap_or_default(),
            });
        }
        out
    }

    #[test]
    fn a_view_by_a_column_follows_its_cell() {
        let shape = shape(Some(A), &[A, B], false);
        let change = |old: &[u8], new: &[u8]| shape.change(RowRef::new(old), RowRef::new(new), NOW_S);
        let none = row(lives(5, 0), None, &[(B, 5, 0, Some(b"b"))]);
        let one = row(lives(5, 0), None, &[(A, 6, 0, Some(b"1"))]);
        let again = row(lives(9, 0), None, &[(A, 9, 50, Some(b"1"))]);
        let two = row(lives(5, 0), None, &[(A, 7, 0, Some(b"2"))]);
        let gone = row(lives(5, 0), None, &[(A, 8, 0, None)]);
        assert_eq!(change(&none, &none), EntryChange::None);
        assert_eq!(change(&none, &one), EntryChange::New);
        assert_eq!(change(&one, &again), EntryChange::Altered);
        assert_eq!(change(&one, &two), EntryChange::Moved);
        assert_eq!(change(&one, &gone), EntryChange::Gone);
        // Whatever the row's own marker says.
        assert_eq!(shape.liveness(RowRef::new(&again), NOW_S), lives(9, 50));
        let removal = shape
            .removal(RowRef::new(&one), DeletionTime::LIVE, NOW_S)
            .unwrap();
        assert_eq!((removal.timestamp_us, removal.ttl_s), (6, EXPIRED_TTL_S));
        assert!(!removal.is_live(0) && removal.supersedes(&shape.liveness(RowRef::new(&one), NOW_S)));
        assert_eq!(shape.removal(RowRef::new(&one), deleted_at(20), NOW_S), None);
    }

    #[test]
    fn unselected_cells_keep_a_row_of_the_same_key() {
        let shape = shape(None, &[A], false);
        let liveness = |liveness: Liveness, cells: &[TestCell]| {
            shape.liveness(RowRef::new(&row(liveness, None, cells)), NOW_S)
        };
        let cell = |time, ttl| (B, time, ttl, Some(&b"b"[..]));
        assert_eq!(liveness(lives(5, 0), &[]), lives(5, 0));
        assert_eq!(liveness(lives(5, 0), &[cell(9, 10)]), lives(9, 0));
        assert_eq!(liveness(lives(5, 60), &[cell(9, 0)]), lives(9, 0));
        assert_eq!(liveness(Liveness::NONE, &[cell(9, 30)]), lives(9, 30));
        assert_eq!(liveness(lives(5, 60), &[cell(9, 90)]), lives(9, 90));
        assert_eq!(liveness(lives(5, 60), &[cell(9, 30)]), lives(5, 60));
        // Selected ones are in the view by themselves, and dead ones keep nothing.
        assert_eq!(
            liveness(lives(5, 60), &[(A, 9, 0, Some(b"a")), (B, 9, 0, None)]),
            lives(5, 60)
        );
        let old = row(lives(5, 0), None, &[cell(9, 0)]);
        let removal = shape.removal(RowRef::new(&old), deleted_at(7), NOW_S);
        assert_eq!(removal.map(|removal| removal.timestamp_us), Some(9));
    }

    #[test]
    fn a_view_of_all_columns_has_the_rows_marker() {
        let shape = shape(None, &[A, B], true);
        let marked = row(lives(5, 60), None, &[(B, 9, 0, Some(b"b"))]);
        assert_eq!(shape.liveness(RowRef::new(&marked), NOW_S), lives(5, 60));
        let updated = row(Liveness::NONE, None, &[(B, 9, 0, Some(b"b"))]);
        let empty = RowRef::EMPTY;
        assert_eq!(
            shape.change(empty, RowRef::new(&updated), NOW_S),
            EntryChange::New
        );
        assert_eq!(
            shape.change(RowRef::new(&updated), empty, NOW_S),
            EntryChange::Gone
        );
    }
}
