//! Part of a row that a compaction keeps.

use helenus_schema::ColumnId;

use super::{CellRef, Entry, Liveness, RowBuilder, RowRef, RowShape};
use crate::deletion::DeletionTime;

/// When a deletion has done its work: gc_grace has passed and nothing that it hides can be in other files.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Seconds since the Unix epoch.
    pub now_s: u32,
    /// `now_s` less gc_grace: deletions made before it may go.
    pub gc_before_s: u32,
    /// Sources outside of the compaction hold nothing of the partition older than this.
    pub max_purgeable_timestamp_us: i64,
}

impl Purge {
    pub fn allows(&self, timestamp_us: i64, local_deletion_s: u32) -> bool {
        local_deletion_s < self.gc_before_s && timestamp_us < self.max_purgeable_timestamp_us
    }

    pub fn allows_deletion(&self, deletion: DeletionTime) -> bool {
        self.allows(deletion.timestamp_us, deletion.local_s)
    }
}

/// The part of a merged row that must stay, `None` if nothing must. An expired cell turns into a tombstone, made when
/// the cell was written so that both together last no longer than gc_grace.
pub fn purge_row<'a>(
    shape: &RowShape,
    row: RowRef<'a>,
    purge: &Purge,
    scratch: &'a mut Vec<u8>,
) -> Option<RowRef<'a>> {
    if row.is_immortal() && !shape.has_dropped_columns() {
        return (!row.is_empty()).then_some(row);
    }
    let (mut liveness, deletion, entries) = row.open();
    let is_marker_purged =
        !liveness.is_live(purge.now_s) && purge.allows(liveness.timestamp_us, liveness.expires_at_s);
    if is_marker_purged || deletion.hides(liveness.timestamp_us) {
        liveness = Liveness::NONE;
    }
    // Whoever writes another marker writes all cells with it.
    let is_unmarked = shape.needs_marker() && liveness.is_none();
    if is_unmarked && (deletion.is_live() || purge.allows_deletion(deletion)) {
        return None;
    }
    let kept_deletion = if purge.allows_deletion(deletion) {
        DeletionTime::LIVE
    } else {
        deletion
    };
    scratch.clear();
    let mut builder = RowBuilder::new(scratch, liveness, kept_deletion);
    if row.has_shadowable_deletion() && !kept_deletion.is_live() {
        builder.shadowable();
    }
    let mut is_empty = liveness.is_none() && kept_deletion.is_live();
    // One write may hold a deletion and what it hides: where the former goes, the latter must.
    let mut column_shadow = (ColumnId(0), deletion);
    for entry in entries.filter(|entry| !shape.is_gone(entry.column(), entry.timestamp_us())) {
        if entry.column() != column_shadow.0 {
            column_shadow = (entry.column(), deletion);
        }
        let kept = match entry {
            Entry::ComplexDeletion { deletion, .. } => {
                column_shadow.1 = column_shadow.1.max(deletion);
                (!purge.allows_deletion(deletion)).then_some(entry)
            }
            Entry::Cell(cell) if column_shadow.1.hides(cell.timestamp_us) => None,
            Entry::Cell(cell) => purge_cell(shape, cell, purge).map(Entry::Cell),
        };
        if let Some(entry) = kept {
            is_empty = false;
            builder.push(entry);
        }
    }
    (!is_empty).then_some(RowRef::new(scratch))
}

/// The row without what dropped columns had.
pub fn keep_columns<'a>(shape: &RowShape, row: RowRef<'a>, scratch: &'a mut Vec<u8>) -> RowRef<'a> {
    let is_gone = |entry: &Entry<'_>| shape.is_gone(entry.column(), entry.timestamp_us());
    if !shape.has_dropped_columns() || !row.entries().any(|entry| is_gone(&entry)) {
        return row;
    }
    let (liveness, deletion, entries) = row.open();
    scratch.clear();
    let mut builder = RowBuilder::new(scratch, liveness, deletion);
    if row.has_shadowable_deletion() {
        builder.shadowable();
    }
    let kept = entries.filter(|entry| !is_gone(entry));
    let mut is_empty = liveness.is_none() && deletion.is_live();
    for entry in kept {
        is_empty = false;
        builder.push(entry);
    }
    if is_empty {
        RowRef::EMPTY
    } else {
        RowRef::new(scratch)
    }
}

fn purge_cell<'a>(shape: &RowShape, cell: CellRef<'a>, purge: &Purge) -> Option<CellRef<'a>> {
    if cell.is_live(purge.now_s) {
        return Some(cell);
    }
    if purge.allows(cell.timestamp_us, cell.local_deletion_s) {
        return None;
    }
    // That its row expired before is to be seen until somebody has deleted the row.
    let says_expiration = shape.expiration().is_some_and(|column| column.is_of(&cell));
    if cell.ttl_s == 0 || says_expiration {
        return Some(cell);
    }
    let written_s = cell.local_deletion_s.saturating_sub(cell.ttl_s);
    let tombstone = CellRef {
        ttl_s: 0,
        local_deletion_s: written_s,
        value: &[],
        ..cell
    };
    (!purge.allows(tombstone.timestamp_us, written_s)).then_some(tombstone)
}
