//! Merging two versions of one row into one: newest wins, cell by cell.
//!
//! The rules are Cassandra's (`Cells.reconcile`, `Row.Merger`): they are commutative and associative, so sources may
//! be merged in any order and any number of times.

use std::cmp::Ordering;

use helenus_schema::ColumnId;

use super::{CellRef, Entries, Entry, EntryTime, Liveness, RowBuilder, RowRef, RowShape, counter};
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
    let deletion = RowDeletion::of(left, left_deletion).max(RowDeletion::of(right, right_deletion));
    let row = ShadowedRow::begin(liveness, deletion, shadow, out);
    merge_entries(shape, row, left_entries, right_entries);
}

/// As [`merge`] of two parts of rows that have neither marker nor deletion. `column_shadow` is the deletion of a multi-cell
/// column that stands in front of the part, for those of its cells that the part begins with.
pub(crate) fn merge_parts(
    shape: &RowShape,
    left: RowRef<'_>,
    right: RowRef<'_>,
    shadow: DeletionTime,
    column_shadow: Option<(ColumnId, DeletionTime)>,
    out: &mut Vec<u8>,
) {
    let none = RowDeletion::of(RowRef::EMPTY, DeletionTime::LIVE);
    let mut row = ShadowedRow::begin(Liveness::NONE, none, shadow, out);
    row.column_shadow = column_shadow;
    merge_entries(shape, row, left.entries(), right.entries());
}

#[inline(always)]
fn merge_entries(shape: &RowShape, mut row: ShadowedRow<'_>, left: Entries<'_>, right: Entries<'_>) {
    let mut left = Peeked::new(left);
    let mut right = Peeked::new(right);
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

/// Remainder of an older row in a merge with a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// An INSERT over an earlier one.
    Nothing,
    /// An UPDATE of all that was written: the merge is the new entries [`with_marker_of`] the old row.
    Marker,
    /// A marker alone takes the place of one that is as old: the merge is the old entries [`with_marker_of`] the new row.
    Entries,
    /// Only the merge can tell.
    Unknown,
}

/// Finds the remainder of `old` in a merge with `new`. Costs a fifth of the merge that it saves.
pub fn left_of(shape: &RowShape, old: RowRef<'_>, new: RowRef<'_>) -> Left {
    if new.is_mortal_beside_marker() || old.is_mortal_beside_marker() || shape.is_counter() {
        return Left::Unknown;
    }
    let (new_liveness, _, new_entries) = new.open();
    let (old_liveness, _, old_entries) = old.open();
    // Entries that are as old as their row's marker are written like that: they stay as they are.
    let is_marker_alone =
        new_entries.bytes_left() == 0 && new_liveness.timestamp_us == old_liveness.timestamp_us;
    let (left, marker_us) = if is_marker_alone && new_liveness.supersedes(&old_liveness) {
        return Left::Entries;
    } else if !old_liveness.supersedes(&new_liveness) {
        (Left::Nothing, i64::MIN)
    } else if new_liveness.is_none() {
        (Left::Marker, old_liveness.timestamp_us)
    } else {
        return Left::Unknown;
    };
    let (mut old_cells, mut new_cells) = (old_entries.times(), new_entries.times());
    // What is as old as the marker is written otherwise beside it.
    let is_behind_marker = |new: &EntryTime| left == Left::Nothing || new.timestamp_us > marker_us;
    let mut are_behind_marker = true;
    let are_hidden = old_cells.all(|old| {
        let new = new_cells.find(|new| {
            are_behind_marker &= is_behind_marker(new);
            new.column >= old.column
        });
        new.is_some_and(|new| {
            let is_of_one_cell = old.column == new.column && old.is_plain && new.is_plain;
            is_of_one_cell && old.timestamp_us < new.timestamp_us
        })
    });
    match are_hidden && are_behind_marker && new_cells.all(|new| is_behind_marker(&new)) {
        true => left,
        false => Left::Unknown,
    }
}

/// Returns whether nothing of `old` would be left in a merge with `new`; false where only the merge can tell.
pub fn replaces(shape: &RowShape, new: RowRef<'_>, old: RowRef<'_>) -> bool {
    left_of(shape, old, new) == Left::Nothing
}

/// Appends the marker of one row and the entries of another, where [nothing else is left](left_of) of the two.
pub fn with_marker_of(marked: RowRef<'_>, row: RowRef<'_>, out: &mut Vec<u8>) {
    RowBuilder::new(out, marked.liveness(), DeletionTime::LIVE);
    out.extend_from_slice(row.entries().as_bytes());
}

/// Appends what `shadow` leaves of one row.
pub fn filter(row: RowRef<'_>, shadow: DeletionTime, out: &mut Vec<u8>) {
    let (liveness, deletion, entries) = row.open();
    let mut filtered = ShadowedRow::begin(liveness, RowDeletion::of(row, deletion), shadow, out);
    entries.for_each(|entry| filtered.push(entry));
}

/// Returns whether the deletion that several versions of a row have together is ended by a marker of theirs, so that what it
/// hid in any of them is there again. To be asked before they are merged two by two: the first two may not have the marker.
pub fn is_deletion_shadowed<'a>(rows: impl Iterator<Item = RowRef<'a>>) -> bool {
    let (mut liveness, mut deletion) = (Liveness::NONE, RowDeletion::of(RowRef::EMPTY, DeletionTime::LIVE));
    for row in rows {
        let (row_liveness, row_deletion, _) = row.open();
        if row_liveness.supersedes(&liveness) {
            liveness = row_liveness;
        }
        deletion = deletion.max(RowDeletion::of(row, row_deletion));
    }
    deletion.is_shadowed_by(liveness)
}

/// Appends a row that has nothing but the newest deletion of these. Versions of a counter are merged into it one by one: what a
/// deletion hides must be gone before tombstones, which hide what is newer than they are.
pub fn newest_deletion<'a>(rows: impl Iterator<Item = RowRef<'a>>, out: &mut Vec<u8>) {
    let deletions = rows.map(|row| row.open().1);
    let newest = deletions.fold(DeletionTime::LIVE, DeletionTime::max);
    RowBuilder::new(out, Liveness::NONE, newest);
}

/// Appends a row without its deletion.
pub fn without_deletion(row: RowRef<'_>, out: &mut Vec<u8>) {
    let (liveness, _, entries) = row.open();
    let mut builder = RowBuilder::new(out, liveness, DeletionTime::LIVE);
    entries.for_each(|entry| builder.push(entry));
}

/// A row's own deletion (`Row.Deletion`).
#[derive(Clone, Copy, Debug)]
struct RowDeletion {
    time: DeletionTime,
    is_shadowable: bool,
}

impl RowDeletion {
    #[inline]
    fn of(row: RowRef<'_>, time: DeletionTime) -> Self {
        RowDeletion {
            time,
            is_shadowable: row.has_shadowable_deletion(),
        }
    }

    /// Returns the newer deletion; of two of the same time the plain one.
    #[inline]
    fn max(self, other: RowDeletion) -> Self {
        if other.time.supersedes(self.time) || (other.time == self.time && self.is_shadowable) {
            other
        } else {
            self
        }
    }

    #[inline]
    fn is_shadowed_by(self, liveness: Liveness) -> bool {
        self.is_shadowable && liveness.timestamp_us > self.time.timestamp_us
    }
}

/// A row being written, without what its own and outer deletions hide.
struct ShadowedRow<'b> {
    builder: RowBuilder<'b>,
    shadow: DeletionTime,
    /// The multi-cell column being written, and what hides its cells.
    column_shadow: Option<(ColumnId, DeletionTime)>,
}

impl<'b> ShadowedRow<'b> {
    fn begin(liveness: Liveness, own: RowDeletion, outer: DeletionTime, out: &'b mut Vec<u8>) -> Self {
        let (deletion, shadow) = if own.time.supersedes(outer) && !own.is_shadowed_by(liveness) {
            (own.time, own.time)
        } else {
            (DeletionTime::LIVE, outer)
        };
        let liveness = if shadow.hides(liveness.timestamp_us) {
            Liveness::NONE
        } else {
            liveness
        };
        let mut builder = RowBuilder::new(out, liveness, deletion);
        if own.is_shadowable && !deletion.is_live() {
            builder.shadowable();
        }
        ShadowedRow {
            builder,
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
        // What is hidden takes no part: it may be a tombstone, or have shards of other nodes.
        if self.shadow.hides(left.timestamp_us) {
            return self.push(Entry::Cell(right));
        }
        if self.shadow.hides(right.timestamp_us) {
            return self.push(Entry::Cell(left));
        }
        match (left.is_tombstone(), right.is_tombstone()) {
            // Whatever the timestamps say, a deleted counter stays deleted (CASSANDRA-7346).
            (true, false) => self.push(Entry::Cell(left)),
            (false, true) => self.push(Entry::Cell(right)),
            (true, true) => self.push(Entry::Cell(reconcile(left, right))),
            (false, false) => {
                let mut merged = Vec::new();
                let value = counter::newer(left.value, right.value).unwrap_or_else(|| {
                    counter::merge(left.value, right.value, &mut merged);
                    &merged
                });
                let timestamp_us = left.timestamp_us.max(right.timestamp_us);
                self.push(Entry::Cell(CellRef {
                    timestamp_us,
                    value,
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
pub(crate) fn reconcile<'a>(left: CellRef<'a>, right: CellRef<'a>) -> CellRef<'a> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deletion::NO_TIMESTAMP;
    use helenus_vfs::{Random, SeededRandom};

    /// Few columns, paths and timestamps, so that versions collide in every way.
    fn random_row(random: &SeededRandom, is_plain: bool) -> Vec<u8> {
        let below = |bound: u64| random.below(bound);
        let timestamp = || 1 + below(4) as i64;
        let deletion = || DeletionTime {
            timestamp_us: timestamp(),
            local_s: 10 + below(3) as u32,
        };
        let mut liveness = Liveness::NONE;
        if below(3) != 0 {
            let ttl_s = below(3) as u32;
            let expires_at_s = if ttl_s == 0 { NEVER_S } else { 20 + below(2) as u32 };
            liveness = Liveness {
                timestamp_us: timestamp(),
                ttl_s,
                expires_at_s,
            };
        }
        let row_deletion = if is_plain || below(4) != 0 {
            DeletionTime::LIVE
        } else {
            deletion()
        };
        let row_timestamp_us = timestamp();
        let mut entries = Vec::new();
        for column in (0..3).map(ColumnId) {
            let is_map = column.0 == 2 && !is_plain;
            if is_map && below(3) == 0 {
                entries.push((
                    Entry::ComplexDeletion {
                        column,
                        deletion: deletion(),
                    },
                    None,
                    Vec::new(),
                ));
            }
            for path in 0..if is_map { 3_u8 } else { 1 } {
                let kind = if is_plain { 2 } else { below(3) };
                let cell = CellRef {
                    column,
                    timestamp_us: if is_plain { row_timestamp_us } else { timestamp() },
                    ttl_s: if kind == 1 { 1 + below(2) as u32 } else { 0 },
                    local_deletion_s: if kind == 2 { NEVER_S } else { 20 + below(2) as u32 },
                    path: None,
                    value: &[],
                };
                let value = if kind == 0 {
                    Vec::new()
                } else {
                    vec![below(3) as u8; below(3) as usize]
                };
                if below(4) != 0 {
                    entries.push((Entry::Cell(cell), is_map.then_some([path]), value));
                }
            }
        }
        let mut out = Vec::new();
        let mut builder = RowBuilder::new(&mut out, liveness, row_deletion);
        for (entry, path, value) in &entries {
            builder.push(match entry {
                Entry::Cell(cell) => Entry::Cell(CellRef {
                    path: path.as_ref().map(|path| &path[..]),
                    value,
                    ..*cell
                }),
                deletion => *deletion,
            });
        }
        out
    }

    fn merged(left: &[u8], right: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let shape = RowShape::default();
        merge(
            &shape,
            RowRef::new(left),
            RowRef::new(right),
            DeletionTime::LIVE,
            &mut out,
        );
        out
    }

    #[test]
    fn a_walk_over_values_sees_what_a_walk_over_entries_sees() {
        let random = SeededRandom::new(9);
        for round in 0..4_000 {
            let bytes = random_row(&random, round % 2 == 0);
            let row = RowRef::new(&bytes);
            let mut values = row.entries();
            for entry in row.entries() {
                let wanted = match entry {
                    Entry::ComplexDeletion { .. } => None,
                    Entry::Cell(cell) => Some(cell.value),
                };
                let found = values.next_value().unwrap();
                assert_eq!((found.column, found.value), (entry.column(), wanted), "{row:?}");
            }
            assert_eq!(values.next_value(), None);
        }
    }

    #[test]
    fn order_and_repetition_of_merges_do_not_matter() {
        let random = SeededRandom::new(11);
        for _ in 0..4_000 {
            let [a, b, c] = [(); 3].map(|()| random_row(&random, false));
            let all = merged(&merged(&a, &b), &c);
            assert_eq!(merged(&a, &b), merged(&b, &a));
            assert_eq!(all, merged(&a, &merged(&b, &c)));
            assert_eq!(all, merged(&all, &b));
        }
    }

    #[test]
    fn a_row_that_replaces_another_or_all_but_its_marker_or_only_that_is_their_merge() {
        let random = SeededRandom::new(12);
        let (mut replaced, mut marked, mut remarked) = (0, 0, 0);
        for round in 0..60_000 {
            let [old, new] = [(); 2].map(|()| random_row(&random, round % 2 == 0));
            match left_of(&RowShape::default(), RowRef::new(&old), RowRef::new(&new)) {
                Left::Nothing => {
                    replaced += 1;
                    assert_eq!(merged(&old, &new), new);
                }
                Left::Marker => {
                    marked += 1;
                    let mut both = Vec::new();
                    with_marker_of(RowRef::new(&old), RowRef::new(&new), &mut both);
                    assert_eq!(merged(&old, &new), both);
                }
                Left::Entries => {
                    remarked += 1;
                    let mut both = Vec::new();
                    with_marker_of(RowRef::new(&new), RowRef::new(&old), &mut both);
                    assert_eq!(merged(&old, &new), both);
                }
                Left::Unknown => {}
            }
        }
        assert!(
            replaced > 100 && marked > 100 && remarked > 10,
            "{replaced}, {marked} and {remarked} are too few to tell"
        );
    }

    #[test]
    fn what_is_left_of_rows_with_deletions_and_of_elements_only_the_merge_tells() {
        let row = |timestamp_us, deletion, path| {
            let mut out = Vec::new();
            let mut builder = RowBuilder::new(&mut out, Liveness::NONE, deletion);
            builder.cell(CellRef {
                column: ColumnId(0),
                timestamp_us,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                path,
                value: b"v",
            });
            out
        };
        let live = DeletionTime::LIVE;
        let deletion = DeletionTime {
            timestamp_us: 1,
            local_s: 10,
        };
        let left = |old: &[u8], new: &[u8]| left_of(&RowShape::default(), RowRef::new(old), RowRef::new(new));
        let (old, new) = (row(2, live, None), row(3, live, None));
        assert_eq!(left(&old, &new), Left::Nothing);
        assert_eq!(left(&row(2, deletion, None), &new), Left::Unknown);
        assert_eq!(left(&old, &row(3, deletion, None)), Left::Unknown);
        let (one, other) = (row(2, live, Some(&[1][..])), row(3, live, Some(&[2][..])));
        assert_eq!(left(&one, &other), Left::Unknown);
    }

    #[test]
    fn an_outer_deletion_leaves_what_is_newer() {
        let random = SeededRandom::new(13);
        for _ in 0..1_000 {
            let row = random_row(&random, false);
            let shadow = DeletionTime {
                timestamp_us: 2,
                local_s: 10,
            };
            let mut left = Vec::new();
            filter(RowRef::new(&row), shadow, &mut left);
            let (liveness, deletion, entries) = RowRef::new(&left).open();
            assert!(liveness.timestamp_us == NO_TIMESTAMP || liveness.timestamp_us > 2);
            assert!(deletion.is_live() || deletion.supersedes(shadow));
            entries.for_each(|entry| match entry {
                Entry::ComplexDeletion { deletion, .. } => assert!(deletion.supersedes(shadow)),
                Entry::Cell(cell) => assert!(cell.timestamp_us > 2),
            });
        }
    }
}
