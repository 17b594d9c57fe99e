//! Part of a row that a query may see.

use super::{CellRef, Entry, Liveness, RowBuilder, RowRef, RowShape};
use crate::deletion::DeletionTime;

/// When a read looks at rows, in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTime {
    pub now_s: u32,
    /// `now_s` less gc_grace. Deletions made before it are passed over uncounted, as Cassandra does, whose reads purge
    /// them before they count.
    pub gc_before_s: u32,
}

impl ReadTime {
    /// Returns whether a deletion counts among the tombstones that a read meets.
    pub fn counts(self, deletion: DeletionTime) -> bool {
        !deletion.is_live() && deletion.local_s >= self.gc_before_s
    }

    /// The same of a cell that is not live. One that expired is as old as if it had been deleted when it was written.
    fn counts_cell(self, cell: &CellRef<'_>) -> bool {
        cell.local_deletion_s.saturating_sub(cell.ttl_s) >= self.gc_before_s
    }
}

/// The part of `row` that is neither deleted by itself or by `shadow`, nor expired, by itself or with the row; `None` if nothing
/// is.
/// The row itself is handed through where all of it is live; else the rest is written to `scratch`.
/// `tombstones` counts what had to be passed over.
#[inline]
pub fn live_view<'a>(
    shape: &RowShape,
    row: RowRef<'a>,
    shadow: DeletionTime,
    time: ReadTime,
    scratch: &'a mut Vec<u8>,
    tombstones: &mut u64,
) -> Option<RowRef<'a>> {
    if row.is_immortal() && shadow.is_live() && !shape.may_hide() {
        let is_there = !row.is_empty() && (!shape.needs_marker() || !row.liveness().is_none());
        return is_there.then_some(row);
    }
    let shadow = match shape.expiration() {
        None => shadow,
        Some(_) => with_expiration(shape, row, shadow, time, tombstones),
    };
    if is_all_live(shape, row, shadow, time.now_s) {
        return Some(row);
    }
    rewrite(shape, row, shadow, time, scratch, tombstones)
}

/// The deletion around a row, or that of its own expiration, which then counts as one that the read meets.
#[inline(never)]
fn with_expiration(
    shape: &RowShape,
    row: RowRef<'_>,
    shadow: DeletionTime,
    time: ReadTime,
    tombstones: &mut u64,
) -> DeletionTime {
    let expired = shape.deletion_of_expired(row, shadow, time.now_s);
    *tombstones += u64::from(!expired.is_live());
    shadow.max(expired)
}

/// Returns whether the row can be handed through as it is, though some of it will expire: nothing deleted, nothing expired.
fn is_all_live(shape: &RowShape, row: RowRef<'_>, shadow: DeletionTime, now_s: u32) -> bool {
    let (liveness, deletion, entries) = row.open();
    if !deletion.is_live()
        || (!liveness.is_none() && (!liveness.is_live(now_s) || shadow.hides(liveness.timestamp_us)))
    {
        return false;
    }
    let mut entries = entries.peekable();
    let has_content = !liveness.is_none() || (!shape.needs_marker() && entries.peek().is_some());
    has_content
        && entries.all(|entry| match entry {
            Entry::ComplexDeletion { .. } => false,
            Entry::Cell(cell) => {
                cell.is_live(now_s)
                    && !shadow.hides(cell.timestamp_us)
                    && !shape.hides(cell.column, cell.timestamp_us)
            }
        })
}

fn rewrite<'a>(
    shape: &RowShape,
    row: RowRef<'a>,
    outer: DeletionTime,
    time: ReadTime,
    scratch: &'a mut Vec<u8>,
    tombstones: &mut u64,
) -> Option<RowRef<'a>> {
    let (liveness, deletion, entries) = row.open();
    let shadow = deletion.max(outer);
    let has_live_marker = liveness.is_live(time.now_s) && !shadow.hides(liveness.timestamp_us);
    let marker = if has_live_marker { liveness } else { Liveness::NONE };
    *tombstones += u64::from(time.counts(deletion));
    if shape.needs_marker() && !has_live_marker {
        return None;
    }

    scratch.clear();
    let mut builder = RowBuilder::new(scratch, marker, DeletionTime::LIVE);
    let mut has_live_cell = false;
    let mut column_shadow = None;
    for entry in entries {
        match entry {
            Entry::ComplexDeletion { column, deletion } => {
                *tombstones += u64::from(time.counts(deletion));
                column_shadow = Some((column, deletion.max(shadow)));
            }
            Entry::Cell(cell) => {
                let shadow = match column_shadow {
                    Some((column, deletion)) if column == cell.column => deletion,
                    _ => shadow,
                };
                if !cell.is_live(time.now_s) {
                    *tombstones += u64::from(time.counts_cell(&cell));
                } else if !shadow.hides(cell.timestamp_us) && !shape.hides(cell.column, cell.timestamp_us) {
                    has_live_cell = true;
                    builder.cell(cell);
                }
            }
        }
    }
    if !has_live_cell && !has_live_marker {
        return None;
    }
    Some(RowRef::new(scratch))
}
