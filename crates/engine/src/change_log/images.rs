//! Rows as they were before a write, and as they are after it.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::live::{ReadTime, live_view};
use helenus_rows::row::{Entry, RowRef, merge};
use helenus_rows::update::{BoundRef, Update, UpdateItem};
use helenus_storage::read::RowSink;
use helenus_types::Token;

use super::operations::LoggedCell;
use super::plan::{ChangeLogPlan, LoggedColumn};

/// The rows that a write touches, as far as they were live before it; the sink of their read.
#[derive(Debug, Default)]
pub struct Images {
    static_row: Vec<u8>,
    /// Clusterings, ascending, and packed rows.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Images {
    /// Packed row of a clustering, or the static one; empty if there was none.
    pub(super) fn before(&self, clustering: Option<&[u8]>, comparator: &ClusteringComparator) -> RowRef<'_> {
        let found = match clustering {
            None => Some(&self.static_row),
            Some(clustering) => {
                let place = self
                    .rows
                    .binary_search_by(|(of_row, _)| comparator.compare(of_row, clustering));
                place.ok().map(|place| &self.rows[place].1)
            }
        };
        found
            .filter(|row| !row.is_empty())
            .map_or(RowRef::EMPTY, |row| RowRef::new(row))
    }
}

/// The rows of an update, so that each is found without looking at all of them.
#[derive(Debug)]
pub(super) struct WrittenRows<'u> {
    deletion: DeletionTime,
    statics: Vec<RowRef<'u>>,
    /// Ascending.
    rows: Vec<(&'u [u8], RowRef<'u>)>,
    ranges: Vec<(BoundRef<'u>, BoundRef<'u>, DeletionTime)>,
}

impl Default for WrittenRows<'_> {
    fn default() -> Self {
        WrittenRows {
            deletion: DeletionTime::LIVE,
            statics: Vec::new(),
            rows: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

impl<'u> WrittenRows<'u> {
    pub fn of(update: &Update<'u>, comparator: &ClusteringComparator) -> Self {
        let mut written = WrittenRows {
            deletion: update.deletion,
            ..WrittenRows::default()
        };
        for item in update.items() {
            match item {
                UpdateItem::StaticRow(row) => written.statics.push(row),
                UpdateItem::Row { clustering, row } => written.rows.push((clustering, row)),
                UpdateItem::RangeTombstone { start, end, deletion } => {
                    written.ranges.push((start, end, deletion));
                }
            }
        }
        written
            .rows
            .sort_by(|left, right| comparator.compare(left.0, right.0));
        written
    }

    /// All that is written to a row, one after the other.
    fn of_row(
        &self,
        clustering: Option<&[u8]>,
        comparator: &ClusteringComparator,
    ) -> impl Iterator<Item = RowRef<'u>> {
        let (statics, rows) = match clustering {
            None => (self.statics.as_slice(), &[][..]),
            Some(clustering) => {
                let is_before = |row: &(&[u8], RowRef<'_>)| comparator.compare(row.0, clustering).is_lt();
                let behind = self
                    .rows
                    .get(self.rows.partition_point(is_before)..)
                    .unwrap_or_default();
                let is_it = |row: &(&[u8], RowRef<'_>)| comparator.compare(row.0, clustering).is_eq();
                (
                    &[][..],
                    behind.get(..behind.partition_point(is_it)).unwrap_or_default(),
                )
            }
        };
        statics.iter().copied().chain(rows.iter().map(|(_, row)| *row))
    }

    /// The deletion of the partition or of a range that is written over a row.
    fn shadow(&self, clustering: Option<&[u8]>, comparator: &ClusteringComparator) -> DeletionTime {
        let Some(clustering) = clustering else {
            return self.deletion;
        };
        let covers = |start: &BoundRef<'_>, end: &BoundRef<'_>| {
            comparator
                .compare_to_place(clustering, start.prefix, start.side)
                .is_gt()
                && comparator
                    .compare_to_place(clustering, end.prefix, end.side)
                    .is_lt()
        };
        let ranges = self.ranges.iter().filter(|(start, end, _)| covers(start, end));
        ranges.fold(self.deletion, |shadow, (_, _, deletion)| shadow.max(*deletion))
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
        // Both are in the order of the table's columns.
        let mut entries = row.entries().peekable();
        for column in self.columns.iter().filter(|column| column.is_static == is_static) {
            let mut of_column: Vec<(&[u8], &[u8])> = Vec::new();
            while let Some(entry) = entries.next_if(|entry| entry.column() <= column.base) {
                match entry {
                    Entry::Cell(cell) if cell.column == column.base => {
                        of_column.push((cell.path.unwrap_or_default(), cell.value));
                    }
                    _ => {}
                }
            }
            if !has(column) {
                continue;
            }
            if !of_column.is_empty() {
                cells.push((column.value, column.form.value_of(&of_column).into()));
            } else if says_null {
                cells.push((column.deleted, vec![1].into()));
            }
        }
        cells
    }

    /// The live part of a row once what is written to it is.
    pub(super) fn after(
        &self,
        before: RowRef<'_>,
        written: &WrittenRows<'_>,
        clustering: Option<&[u8]>,
        now_s: u32,
    ) -> Vec<u8> {
        let (shape, comparator) = (&self.base.shape, &self.base.comparator);
        let mut row = before.as_bytes().to_vec();
        for written in written.of_row(clustering, comparator) {
            let mut merged = Vec::new();
            merge::merge(shape, RowRef::new(&row), written, DeletionTime::LIVE, &mut merged);
            row = merged;
        }
        let shadow = written.shadow(clustering, comparator);
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
