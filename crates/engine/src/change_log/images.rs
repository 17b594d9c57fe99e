//! Rows as they were before a write, and as they are after it.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::live::{ReadTime, live_view};
use helenus_rows::row::{Entry, RowRef, merge};
use helenus_rows::update::{Update, UpdateItem};
use helenus_storage::read::RowSink;
use helenus_types::Token;

use super::operations::LoggedCell;
use super::plan::{ChangeLogPlan, LoggedColumn};

/// The rows that a write touches, as far as they were live before it; the sink of their read.
#[derive(Debug, Default)]
pub struct Images {
    static_row: Vec<u8>,
    /// Clusterings and packed rows.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Images {
    /// Packed row of a clustering, or the static one; empty if there was none.
    pub(super) fn before(&self, clustering: Option<&[u8]>, comparator: &ClusteringComparator) -> RowRef<'_> {
        let found = match clustering {
            None => Some(&self.static_row),
            Some(clustering) => {
                let mut rows = self.rows.iter();
                rows.find(|(of_row, _)| comparator.compare(of_row, clustering) == Ordering::Equal)
                    .map(|(_, row)| row)
            }
        };
        found
            .filter(|row| !row.is_empty())
            .map_or(RowRef::EMPTY, |row| RowRef::new(row))
    }
}

impl RowSink for Images {
    fn partition(&mut self, _: Token, _: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        self.static_row = static_row.as_bytes().to_vec();
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.rows.push((clustering.to_vec(), row.as_bytes().to_vec()));
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl ChangeLogPlan {
    /// The rows to be read before an update: disjoint, ascending. With none of them the static row is read.
    pub fn image_slices(&self, update: &Update<'_>) -> Vec<Slice> {
        let comparator = &self.base.comparator;
        let clusterings = update.items().filter_map(|item| match item {
            UpdateItem::Row { clustering, .. } => Some(clustering),
            _ => None,
        });
        let mut clusterings: Vec<&[u8]> = clusterings.collect();
        clusterings.sort_by(|left, right| comparator.compare(left, right));
        clusterings.dedup_by(|later, first| comparator.compare(later, first) == Ordering::Equal);
        clusterings.into_iter().map(Slice::covering).collect()
    }

    /// The values of a live row, as the log has them, of the columns that `has` names. With `says_null` also that a column is null.
    pub(super) fn image_cells(
        &self,
        row: RowRef<'_>,
        is_static: bool,
        has: impl Fn(&LoggedColumn) -> bool,
        says_null: bool,
    ) -> Vec<LoggedCell<'static>> {
        let mut cells = Vec::new();
        for column in self.columns.iter().filter(|column| column.is_static == is_static) {
            if !has(column) {
                continue;
            }
            let of_column = row.entries().filter_map(|entry| match entry {
                Entry::Cell(cell) if cell.column == column.base => {
                    Some((cell.path.unwrap_or_default(), cell.value))
                }
                _ => None,
            });
            let of_column: Vec<(&[u8], &[u8])> = of_column.collect();
            if !of_column.is_empty() {
                cells.push((column.value, column.form.value_of(&of_column).into()));
            } else if says_null {
                cells.push((column.deleted, vec![1].into()));
            }
        }
        cells
    }

    /// The live part of a row once `update` is written over what it was.
    pub(super) fn after(
        &self,
        before: RowRef<'_>,
        update: &Update<'_>,
        clustering: Option<&[u8]>,
        now_s: u32,
    ) -> Vec<u8> {
        let (shape, comparator) = (&self.base.shape, &self.base.comparator);
        let mut shadow = update.deletion;
        let mut row = before.as_bytes().to_vec();
        for item in update.items() {
            let written = match (item, clustering) {
                (UpdateItem::StaticRow(row), None) => row,
                (
                    UpdateItem::Row {
                        clustering: of_row,
                        row,
                    },
                    Some(clustering),
                ) if comparator.compare(of_row, clustering) == Ordering::Equal => row,
                (UpdateItem::RangeTombstone { start, end, deletion }, Some(clustering)) => {
                    let is_within = comparator
                        .compare_to_place(clustering, start.prefix, start.side)
                        .is_gt()
                        && comparator
                            .compare_to_place(clustering, end.prefix, end.side)
                            .is_lt();
                    if is_within {
                        shadow = shadow.max(deletion);
                    }
                    continue;
                }
                _ => continue,
            };
            let mut merged = Vec::new();
            merge::merge(shape, RowRef::new(&row), written, DeletionTime::LIVE, &mut merged);
            row = merged;
        }
        let time = ReadTime {
            now_s,
            gc_before_s: now_s,
        };
        let (mut scratch, mut tombstones) = (Vec::new(), 0);
        let live = live_view(
            shape,
            RowRef::new(&row),
            shadow,
            time,
            &mut scratch,
            &mut tombstones,
        );
        live.map_or_else(Vec::new, |live| live.as_bytes().to_vec())
    }
}
