//! What of a row a query may see.

use super::{Entry, Liveness, RowBuilder, RowRef, RowShape};
use crate::deletion::DeletionTime;

/// The part of `row` that is neither deleted by itself or by `shadow`, nor expired at `now_s`; `None` if nothing is.
/// The row itself is handed through where all of it is live; else the rest is written to `scratch`.
/// `tombstones` counts what had to be passed over.
#[inline]
pub fn live_view<'a>(
    shape: &RowShape,
    row: RowRef<'a>,
    shadow: DeletionTime,
    now_s: u32,
    scratch: &'a mut Vec<u8>,
    tombstones: &mut u64,
) -> Option<RowRef<'a>> {
    if row.is_immortal() && shadow.is_live() && !shape.has_dropped_columns() {
        return (!row.is_empty()).then_some(row);
    }
    slow_live_view(shape, row, shadow, now_s, scratch, tombstones)
}

fn slow_live_view<'a>(
    shape: &RowShape,
    row: RowRef<'a>,
    outer: DeletionTime,
    now_s: u32,
    scratch: &'a mut Vec<u8>,
    tombstones: &mut u64,
) -> Option<RowRef<'a>> {
    let (liveness, deletion, entries) = row.open();
    let shadow = deletion.max(outer);
    let has_live_marker = liveness.is_live(now_s) && !shadow.hides(liveness.timestamp_us);
    let marker = if has_live_marker { liveness } else { Liveness::NONE };
    *tombstones += u64::from(!deletion.is_live());

    scratch.clear();
    let mut builder = RowBuilder::new(scratch, marker, DeletionTime::LIVE);
    let mut has_live_cell = false;
    let mut dropped_any = !deletion.is_live() || has_live_marker == liveness.is_none();
    let mut column_shadow = None;
    for entry in entries {
        match entry {
            Entry::ComplexDeletion { column, deletion } => {
                *tombstones += 1;
                dropped_any = true;
                column_shadow = Some((column, deletion.max(shadow)));
            }
            Entry::Cell(cell) => {
                let shadow = match column_shadow {
                    Some((column, deletion)) if column == cell.column => deletion,
                    _ => shadow,
                };
                if !cell.is_live(now_s) {
                    *tombstones += 1;
                    dropped_any = true;
                } else if shadow.hides(cell.timestamp_us) || shape.is_dropped(cell.column) {
                    dropped_any = true;
                } else {
                    has_live_cell = true;
                    builder.cell(cell);
                }
            }
        }
    }
    if !has_live_cell && !has_live_marker {
        return None;
    }
    Some(if dropped_any { RowRef::new(scratch) } else { row })
}
