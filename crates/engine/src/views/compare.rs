//! A base row before a write and after it, and what that makes of the views' rows.

use std::cmp::Ordering;

use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::merge::{self, Left};
use helenus_rows::row::{Entry, Liveness, RowBuilder, RowRef, RowShape};
use helenus_rows::update::UpdateBuilder;
use helenus_schema::ColumnId;

use super::changes::Changes;
use super::entry::EntryChange;
use super::plan::{BaseViews, ViewKey, ViewPlan};
use crate::CqlError;

/// A base row that is written to.
#[derive(Debug)]
pub(super) struct Compared<'r> {
    /// Key of the partition.
    pub key: &'r [u8],
    pub clustering: &'r [u8],
    pub stored: RowRef<'r>,
    /// The deletion of the partition or of a range that is stored over it.
    pub stored_shadow: DeletionTime,
    pub written: RowRef<'r>,
    /// That which is written over it.
    pub written_shadow: DeletionTime,
    /// The views have nothing of it yet.
    pub is_build: bool,
    pub now_s: u32,
}

/// Buffers for one row at a time.
#[derive(Debug, Default)]
pub struct CompareScratch {
    old: Vec<u8>,
    new: Vec<u8>,
    visible: Vec<u8>,
    key: ViewKey,
}

/// A base row before the write and after it.
struct BaseRows<'r> {
    key: &'r [u8],
    clustering: &'r [u8],
    old: RowRef<'r>,
    new: RowRef<'r>,
    /// Those of the partition and of ranges included.
    old_deletion: DeletionTime,
    new_deletion: DeletionTime,
    /// Nothing of the old row is left, and no cell of either is deleted or expires.
    is_replaced: bool,
    now_s: u32,
}

/// Writer of the views' rows of one base row.
struct Writer<'w> {
    views: &'w BaseViews,
    key: &'w mut ViewKey,
    changes: &'w mut Changes,
}

impl CompareScratch {
    /// Heap bytes that this keeps for the next row.
    pub fn heap_bytes(&self) -> usize {
        let Self {
            old,
            new,
            visible,
            key,
        } = self;
        let of_key = key.partition.capacity() + key.clustering.capacity();
        old.capacity() + new.capacity() + visible.capacity() + of_key
    }
}

impl BaseViews {
    /// Adds what a write to a row changes in the views.
    pub(super) fn compare(
        &self,
        compared: &Compared<'_>,
        scratch: &mut CompareScratch,
        changes: &mut Changes,
    ) -> Result<(), CqlError> {
        let CompareScratch {
            old,
            new,
            visible,
            key,
        } = scratch;
        let shape = &self.layout.shape;
        let stored_shadow = compared.stored_shadow;
        let shadow = stored_shadow.max(compared.written_shadow);
        let (old, new, is_replaced) = match shape.has_dropped_columns() {
            false => {
                let old = shadowed(compared.stored, stored_shadow, old);
                let (new, left) = merged(shape, compared, shadow, new);
                (old, new, left == Left::Nothing)
            }
            true => {
                old.clear();
                merge::filter(compared.stored, stored_shadow, old);
                new.clear();
                merge::merge(shape, compared.stored, compared.written, shadow, new);
                leave_visible(shape, old, visible);
                leave_visible(shape, new, visible);
                (RowRef::new(old), RowRef::new(new), false)
            }
        };
        let rows = BaseRows {
            key: compared.key,
            clustering: compared.clustering,
            old: if compared.is_build { RowRef::EMPTY } else { old },
            new,
            old_deletion: old.deletion().max(stored_shadow),
            new_deletion: new.deletion().max(shadow),
            is_replaced,
            now_s: compared.now_s,
        };
        let mut writer = Writer {
            views: self,
            key,
            changes,
        };
        for view in &self.views {
            if view.covers(rows.key, rows.clustering, &self.layout.metadata) {
                writer.change(view, &rows)?;
            }
        }
        Ok(())
    }
}

/// Returns the part of a row that a deletion leaves. A row without deletions is not copied.
fn shadowed<'r>(row: RowRef<'r>, shadow: DeletionTime, scratch: &'r mut Vec<u8>) -> RowRef<'r> {
    if shadow.is_live() && row.is_immortal() {
        return row;
    }
    scratch.clear();
    merge::filter(row, shadow, scratch);
    RowRef::new(scratch)
}

/// Merges a row with what is written to it, and tells which part of the stored one is left. Where the result is what is
/// written, it is not copied.
fn merged<'r>(
    shape: &RowShape,
    compared: &Compared<'r>,
    shadow: DeletionTime,
    scratch: &'r mut Vec<u8>,
) -> (RowRef<'r>, Left) {
    let (stored, written) = (compared.stored, compared.written);
    scratch.clear();
    let left = match shadow.is_live() {
        true if stored.is_empty() && written.is_immortal() => Left::Nothing,
        true => merge::left_of(shape, stored, written),
        false => Left::Unknown,
    };
    match left {
        Left::Nothing => return (written, left),
        Left::Marker => merge::with_marker_of(stored, written, scratch),
        Left::Entries => merge::with_marker_of(written, stored, scratch),
        Left::Unknown => merge::merge(shape, stored, written, shadow, scratch),
    }
    (RowRef::new(scratch), left)
}

impl Writer<'_> {
    fn change(&mut self, view: &ViewPlan, rows: &BaseRows<'_>) -> Result<(), CqlError> {
        match view.shape.change(rows.old, rows.new, rows.now_s) {
            EntryChange::None => Ok(()),
            EntryChange::New => self.make(view, rows),
            // All of it is written anew, which nothing has to be compared for.
            EntryChange::Altered if rows.is_replaced => self.make(view, rows),
            EntryChange::Altered => self.alter(view, rows),
            EntryChange::Gone => self.remove(view, rows),
            EntryChange::Moved => {
                self.make(view, rows)?;
                self.remove(view, rows)
            }
        }
    }

    fn make(&mut self, view: &ViewPlan, rows: &BaseRows<'_>) -> Result<(), CqlError> {
        let liveness = view.shape.liveness(rows.new, rows.now_s);
        self.put(view, rows, rows.new, liveness, rows.new.entries())
    }

    fn alter(&mut self, view: &ViewPlan, rows: &BaseRows<'_>) -> Result<(), CqlError> {
        let (before, after) = (
            view.shape.liveness(rows.old, rows.now_s),
            view.shape.liveness(rows.new, rows.now_s),
        );
        // A row of a view that needs its marker has all of its cells as often as the marker changes: what it had under an
        // older one may be gone with that one.
        if view.shape.key_column().is_some() && before != after {
            return self.make(view, rows);
        }
        let different = || different(&self.views.layout.shape, rows);
        let has_none = !different().any(|entry| view.column_of(entry.column()).is_some());
        if has_none && before == after && !rows.new_deletion.supersedes(rows.old_deletion) {
            return Ok(());
        }
        let entries = different();
        self.put(view, rows, rows.new, after, entries)
    }

    fn remove(&mut self, view: &ViewPlan, rows: &BaseRows<'_>) -> Result<(), CqlError> {
        let removal = view.shape.removal(rows.old, rows.new_deletion, rows.now_s);
        let removal = removal.unwrap_or(Liveness::NONE);
        if view.shape.key_column().is_some() {
            if rows.new.is_immortal() {
                // No cell of it is read before another marker comes, and that comes with all cells that there are then.
                return self.put(view, rows, rows.old, removal, std::iter::empty());
            }
            // What hides a cell may be gone by then.
            let entries = different(&self.views.layout.shape, rows).filter(|entry| !is_for_ever(entry));
            return self.put(view, rows, rows.old, removal, entries);
        }
        let entries = different(&self.views.layout.shape, rows);
        self.put(view, rows, rows.old, removal, entries)
    }

    /// Writes to the view's row of `row`, which is the base row before or after, what the view has of some entries.
    fn put<'e>(
        &mut self,
        view: &ViewPlan,
        rows: &BaseRows<'_>,
        row: RowRef<'_>,
        liveness: Liveness,
        entries: impl Iterator<Item = Entry<'e>>,
    ) -> Result<(), CqlError> {
        let base = &self.views.layout.metadata;
        if !view.key_of(rows.key, rows.clustering, row, base, self.key)? {
            return Ok(());
        }
        let ViewKey {
            partition,
            clustering,
        } = &*self.key;
        self.changes.push(|out| {
            let mut builder = UpdateBuilder::new(out, view.table.id, partition, DeletionTime::LIVE);
            builder.row(clustering, liveness, rows.new_deletion, |builder| {
                push_translated(view, entries, builder);
            });
        });
        Ok(())
    }
}

/// Returns the entries of the new row that are not in the old one. What is only in the old one is hidden by a deletion in the
/// new one.
fn different<'r>(shape: &RowShape, rows: &BaseRows<'r>) -> impl Iterator<Item = Entry<'r>> {
    let mut old = rows.old.entries().peekable();
    rows.new.entries().filter(move |new| {
        while let Some(before) = old.peek() {
            match merge::compare_entries(shape, before, new) {
                Ordering::Less => {
                    old.next();
                }
                Ordering::Equal => return before != new,
                Ordering::Greater => return true,
            }
        }
        true
    })
}

/// Returns whether it is a value that does not expire.
fn is_for_ever(entry: &Entry<'_>) -> bool {
    match entry {
        Entry::ComplexDeletion { .. } => false,
        Entry::Cell(cell) => cell.local_deletion_s == NEVER_S,
    }
}

/// Writes entries of the base row that the view has, in the order of its columns.
fn push_translated<'e>(
    view: &ViewPlan,
    entries: impl Iterator<Item = Entry<'e>>,
    builder: &mut RowBuilder<'_>,
) {
    let translated = entries.filter_map(|entry| in_view(view, entry));
    if view.has_columns_in_order() {
        return translated.for_each(|entry| builder.push(entry));
    }
    let mut translated: Vec<Entry<'_>> = translated.collect();
    translated.sort_by_key(Entry::column);
    translated.into_iter().for_each(|entry| builder.push(entry));
}

#[inline]
fn in_view<'r>(view: &ViewPlan, entry: Entry<'r>) -> Option<Entry<'r>> {
    let column: ColumnId = view.column_of(entry.column())?;
    Some(match entry {
        Entry::ComplexDeletion { deletion, .. } => Entry::ComplexDeletion { column, deletion },
        Entry::Cell(mut cell) => {
            cell.column = column;
            Entry::Cell(cell)
        }
    })
}

/// Takes out of a row what no read sees of it because its column was dropped.
fn leave_visible(shape: &RowShape, row: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    scratch.clear();
    let (liveness, deletion, entries) = RowRef::new(row).open();
    let mut builder = RowBuilder::new(scratch, liveness, deletion);
    let visible = entries.filter(|entry| !shape.hides(entry.column(), entry.timestamp_us()));
    visible.for_each(|entry| builder.push(entry));
    std::mem::swap(row, scratch);
}
