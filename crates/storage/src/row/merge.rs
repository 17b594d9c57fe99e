//! Merging two versions of one row into one: newest wins, cell by cell.
//!
//! The rules are Cassandra's (`Cells.reconcile`, `Row.Merger`): they are commutative and associative, so sources may
//! be merged in any order and any number of times.

use std::cmp::Ordering;

use helenus_schema::ColumnId;

use super::{CellRef, Entries, Entry, Liveness, RowBuilder, RowRef, RowShape, counter};
use crate::deletion::{DeletionTime, NEVER_S};

/// Appends to `out` what is left of the two rows under `shadow`, the deletion of the partition or of a range around
/// the row. The result may be empty.
pub fn merge(shape: &RowShape, left: RowRef<'_>, right: RowRef<'_>, shadow: DeletionTime, out: &mut Vec<u8>) {
    let (left_liveness, left_deletion, left_entries) = left.open();
    let (right_liveness, right_deletion, right_entries) = right.open();
    let liveness = if right_liveness.supersedes(&left_liveness) {
        right_liveness
    } else {
        left_liveness
    };
    let mut row = ShadowedRow::begin(liveness, left_deletion.max(right_deletion), shadow, out);
    let mut left = Peeked::new(left_entries);
    let mut right = Peeked::new(right_entries);
    loop {
        let order = match (&left.next, &right.next) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => compare_entries(shape, left, right),
        };
        match order {
            Ordering::Less => row.push_next(&mut left),
            Ordering::Greater => row.push_next(&mut right),
            Ordering::Equal => match (left.take(), right.take()) {
                (Some(Entry::Cell(left)), Some(Entry::Cell(right))) => {
                    row.push_reconciled(shape, left, right)
                }
                (
                    Some(Entry::ComplexDeletion { column, deletion }),
                    Some(Entry::ComplexDeletion { deletion: other, .. }),
                ) => row.push(Entry::ComplexDeletion {
                    column,
                    deletion: deletion.max(other),
                }),
                _ => debug_assert!(false, "a cell never compares equal to a deletion"),
            },
        }
    }
}

/// Appends what `shadow` leaves of one row.
pub fn filter(row: RowRef<'_>, shadow: DeletionTime, out: &mut Vec<u8>) {
    let (liveness, deletion, entries) = row.open();
    let mut filtered = ShadowedRow::begin(liveness, deletion, shadow, out);
    entries.for_each(|entry| filtered.push(entry));
}

/// A row being written, without what its own and outer deletions hide.
struct ShadowedRow<'b> {
    builder: RowBuilder<'b>,
    shadow: DeletionTime,
    /// The multi-cell column being written, and what hides its cells.
    column_shadow: Option<(ColumnId, DeletionTime)>,
}

impl<'b> ShadowedRow<'b> {
    fn begin(liveness: Liveness, deletion: DeletionTime, outer: DeletionTime, out: &'b mut Vec<u8>) -> Self {
        let (deletion, shadow) = if deletion.supersedes(outer) {
            (deletion, deletion)
        } else {
            (DeletionTime::LIVE, outer)
        };
        let liveness = if shadow.hides(liveness.timestamp_us) {
            Liveness::NONE
        } else {
            liveness
        };
        ShadowedRow {
            builder: RowBuilder::new(out, liveness, deletion),
            shadow,
            column_shadow: None,
        }
    }

    #[inline]
    fn push(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::ComplexDeletion { column, deletion } => {
                if deletion.supersedes(self.shadow) {
                    self.column_shadow = Some((column, deletion));
                    self.builder.complex_deletion(column, deletion);
                }
            }
            Entry::Cell(cell) => {
                let shadow = match self.column_shadow {
                    Some((column, deletion)) if column == cell.column => deletion,
                    _ => self.shadow,
                };
                if !shadow.hides(cell.timestamp_us) {
                    self.builder.cell(cell);
                }
            }
        }
    }

    fn push_next(&mut self, entries: &mut Peeked<'_>) {
        if let Some(entry) = entries.take() {
            self.push(entry);
        }
    }

    fn push_reconciled(&mut self, shape: &RowShape, left: CellRef<'_>, right: CellRef<'_>) {
        if !shape.is_counter() {
            return self.push(Entry::Cell(reconcile(left, right)));
        }
        match (left.is_tombstone(), right.is_tombstone()) {
            // Whatever the timestamps say, a deleted counter stays deleted (CASSANDRA-7346).
            (true, false) => self.push(Entry::Cell(left)),
            (false, true) => self.push(Entry::Cell(right)),
            (true, true) => self.push(Entry::Cell(reconcile(left, right))),
            (false, false) => {
                let mut value = Vec::with_capacity(left.value.len().max(right.value.len()));
                counter::merge(left.value, right.value, &mut value);
                let timestamp_us = left.timestamp_us.max(right.timestamp_us);
                self.push(Entry::Cell(CellRef {
                    timestamp_us,
                    value: &value,
                    ..left
                }));
            }
        }
    }
}

struct Peeked<'a> {
    next: Option<Entry<'a>>,
    rest: Entries<'a>,
}

impl<'a> Peeked<'a> {
    fn new(mut rest: Entries<'a>) -> Self {
        Peeked {
            next: rest.next(),
            rest,
        }
    }

    fn take(&mut self) -> Option<Entry<'a>> {
        std::mem::replace(&mut self.next, self.rest.next())
    }
}

/// The order of entries in a row: by column, a column's deletion before its cells, cells by path.
pub fn compare_entries(shape: &RowShape, left: &Entry<'_>, right: &Entry<'_>) -> Ordering {
    left.column()
        .cmp(&right.column())
        .then_with(|| match (left, right) {
            (Entry::ComplexDeletion { .. }, Entry::ComplexDeletion { .. }) => Ordering::Equal,
            (Entry::ComplexDeletion { .. }, Entry::Cell(_)) => Ordering::Less,
            (Entry::Cell(_), Entry::ComplexDeletion { .. }) => Ordering::Greater,
            (Entry::Cell(left), Entry::Cell(right)) => match (left.path, right.path) {
                (Some(left_path), Some(right_path)) => {
                    shape.compare_paths(left.column, left_path, right_path)
                }
                (left_path, right_path) => left_path.is_some().cmp(&right_path.is_some()),
            },
        })
}

/// The one of two cells of the same column and path that stays. At equal timestamps what is deleted or expires beats
/// what lives, a deletion beats what expires, then the later time, the smaller ttl, and the larger value win; the
/// clock plays no part, so that every reader at every time decides the same.
pub fn reconcile<'a>(left: CellRef<'a>, right: CellRef<'a>) -> CellRef<'a> {
    let mortal = |cell: &CellRef<'_>| cell.local_deletion_s != NEVER_S;
    let order = left
        .timestamp_us
        .cmp(&right.timestamp_us)
        .then_with(|| mortal(&left).cmp(&mortal(&right)))
        .then_with(|| left.is_tombstone().cmp(&right.is_tombstone()))
        .then_with(|| left.local_deletion_s.cmp(&right.local_deletion_s))
        .then_with(|| right.ttl_s.cmp(&left.ttl_s))
        .then_with(|| left.value.cmp(right.value));
    if order == Ordering::Less { right } else { left }
}
