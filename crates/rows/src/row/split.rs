//! A row of many entries in parts, so that a change of one of them writes a part again and not the row.
//!
//! All parts are packed rows. Put behind each other, the head's marker and deletion and the entries of the parts are the
//! row: a read pays for a copy of it, and merges nothing.

use std::iter::Peekable;

use helenus_schema::ColumnId;

use super::{Entries, Entry, Liveness, ROW_HAS_MORTAL_ENTRIES, RowBuilder, RowRef, RowShape, merge};
use crate::deletion::DeletionTime;

/// Rows of more bytes are split. Merging 8 KiB, some 200 elements of a map, takes 5 microseconds, as long as the rest of a
/// write. Where assertions are checked, rows are split that tests can afford.
pub(crate) const SPLIT_BYTES_MIN: usize = if cfg!(debug_assertions) { 128 } else { 8192 };

/// A part of more bytes is cut. Only one that is a single entry may stay larger. Half of what is merged at once in a row that
/// is not split; the list of parts of a row of 100 MB is a megabyte, and moving half of it takes some 20 microseconds.
const PART_BYTES_MAX: usize = SPLIT_BYTES_MIN / 2;

/// A row that has shrunk below this is put together again: far enough below [`SPLIT_BYTES_MIN`] not to go to and fro.
const JOIN_BYTES_MAX: usize = SPLIT_BYTES_MIN / 4;

#[derive(Debug)]
pub struct SplitRow {
    /// Marker and deletion.
    head: Vec<u8>,
    /// In the order of entries; each has at least one.
    parts: Vec<Part>,
    /// The sum of all parts.
    parts_bytes: usize,
    /// The deletions of multi-cell columns, by column, which stand among the entries as well.
    column_deletions: Vec<(ColumnId, DeletionTime)>,
}

/// A packed row with neither marker nor deletion.
#[derive(Debug)]
struct Part {
    bytes: Box<[u8]>,
    /// Newest timestamp of its entries, in microseconds.
    timestamp_us_max: i64,
    last_column: ColumnId,
}

/// Deletions of an update that reach beyond its own entries.
struct Reach {
    /// The row's deletion, where it is new.
    row: Option<DeletionTime>,
    /// Those of columns that are new.
    columns: Vec<(ColumnId, DeletionTime)>,
}

/// Parts that take the place of one.
struct Replacement {
    index: usize,
    parts: Vec<Part>,
}

/// Returns whether a row is to be split.
#[inline]
pub fn is_large(shape: &RowShape, row: &[u8]) -> bool {
    row.len() > SPLIT_BYTES_MIN && shape.has_multi_cell_columns() && !shape.is_counter()
}

impl SplitRow {
    pub fn new(row: RowRef<'_>) -> Self {
        let (liveness, deletion, entries) = row.open();
        let mut head = Vec::new();
        let mut builder = RowBuilder::new(&mut head, liveness, deletion);
        if row.has_shadowable_deletion() {
            builder.shadowable();
        }
        // Entries may take their time from the marker, and in a part they have none.
        let mut plain = Vec::with_capacity(row.as_bytes().len());
        let mut builder = RowBuilder::new(&mut plain, Liveness::NONE, DeletionTime::LIVE);
        let mut column_deletions = Vec::new();
        for entry in entries {
            match entry {
                Entry::ComplexDeletion {
                    column,
                    deletion: of_column,
                } if of_column.supersedes(deletion) => {
                    column_deletions.push((column, of_column));
                }
                _ => {}
            }
            builder.push(entry);
        }
        let parts = cut(RowRef::new(&plain));
        SplitRow {
            head,
            parts_bytes: parts.iter().map(|part| part.bytes.len()).sum(),
            parts,
            column_deletions,
        }
    }

    /// Appends the whole row.
    pub fn join(&self, out: &mut Vec<u8>) {
        let flags_at = out.len();
        out.reserve(self.head.len() + self.parts_bytes);
        out.extend_from_slice(&self.head);
        for part in &self.parts {
            if let Some((flags, entries)) = part.bytes.split_first() {
                out[flags_at] |= flags & ROW_HAS_MORTAL_ENTRIES;
                out.extend_from_slice(entries);
            }
        }
    }

    /// Returns whether the row has become small enough to be one piece.
    pub fn is_small(&self) -> bool {
        self.parts_bytes <= JOIN_BYTES_MAX
    }

    /// Bytes of memory, without what the allocator keeps.
    pub fn bytes(&self) -> usize {
        size_of::<SplitRow>()
            + self.head.capacity()
            + self.parts_bytes
            + self.parts.capacity() * size_of::<Part>()
            + self.column_deletions.capacity() * size_of::<(ColumnId, DeletionTime)>()
    }

    /// How many allocations it holds.
    pub fn allocations(&self) -> usize {
        self.parts.len() + 3
    }

    /// Merges another version of the row in.
    pub fn merge(&mut self, shape: &RowShape, row: RowRef<'_>) {
        if row.has_shadowable_deletion() || RowRef::new(&self.head).has_shadowable_deletion() {
            return self.merge_whole(shape, row);
        }
        let (liveness, deletion, entries) = row.open();
        let reach = self.merge_head(shape, (liveness, deletion), entries.clone());
        let replacements = self.replacements(shape, &reach, entries);
        self.replace(replacements);
    }

    /// Only of views, and seldom there.
    #[cold]
    fn merge_whole(&mut self, shape: &RowShape, row: RowRef<'_>) {
        let (mut joined, mut merged) = (Vec::new(), Vec::new());
        self.join(&mut joined);
        merge::merge(shape, RowRef::new(&joined), row, DeletionTime::LIVE, &mut merged);
        *self = SplitRow::new(RowRef::new(&merged));
    }

    fn deletion(&self) -> DeletionTime {
        RowRef::new(&self.head).deletion()
    }

    fn merge_head(
        &mut self,
        shape: &RowShape,
        (liveness, deletion): (Liveness, DeletionTime),
        entries: Entries<'_>,
    ) -> Reach {
        let (mut new, mut merged) = (Vec::new(), Vec::new());
        RowBuilder::new(&mut new, liveness, deletion);
        let (old, new) = (RowRef::new(&self.head), RowRef::new(&new));
        merge::merge(shape, old, new, DeletionTime::LIVE, &mut merged);
        let before = self.deletion();
        self.head = merged;
        let shadow = self.deletion();
        let mut reach = Reach {
            row: (shadow != before).then_some(shadow),
            columns: Vec::new(),
        };
        if reach.row.is_some() {
            self.column_deletions
                .retain(|(_, deletion)| deletion.supersedes(shadow));
        }
        for entry in entries {
            let Entry::ComplexDeletion { column, deletion } = entry else {
                continue;
            };
            if deletion.supersedes(self.column_deletion(column).unwrap_or(shadow)) {
                match self.find_column(column) {
                    Ok(index) => self.column_deletions[index].1 = deletion,
                    Err(index) => self.column_deletions.insert(index, (column, deletion)),
                }
                reach.columns.push((column, deletion));
            }
        }
        reach
    }

    fn find_column(&self, column: ColumnId) -> Result<usize, usize> {
        self.column_deletions
            .binary_search_by_key(&column, |&(column, _)| column)
    }

    fn column_deletion(&self, column: ColumnId) -> Option<DeletionTime> {
        let index = self.find_column(column).ok()?;
        Some(self.column_deletions[index].1)
    }

    /// Replacements of the parts that an update changes, in order.
    fn replacements(&self, shape: &RowShape, reach: &Reach, entries: Entries<'_>) -> Vec<Replacement> {
        let mut replacements = Vec::new();
        let mut entries = entries.peekable();
        let mut index = 0;
        loop {
            match entries.peek() {
                // Deletions may change any part; only a look at it tells.
                _ if !reach.is_none() => {}
                Some(entry) => index = index.max(self.part_of(shape, entry)),
                None => break,
            }
            let next = self.parts.get(index + 1).and_then(Part::first);
            let run = take_run(shape, &mut entries, next);
            let part = self.parts.get(index);
            if !run.is_empty() || part.is_some_and(|part| reach.includes(part)) {
                let parts = match part {
                    Some(part) if run.is_empty() && reach.hides(part) => Vec::new(),
                    part => self.merged(shape, part, RowRef::new(&run)),
                };
                replacements.push(Replacement { index, parts });
            }
            index += 1;
            if index >= self.parts.len() {
                break;
            }
        }
        replacements
    }

    /// The part that an entry belongs to: the last that does not begin behind it.
    fn part_of(&self, shape: &RowShape, entry: &Entry<'_>) -> usize {
        let begins_before = |part: &Part| {
            part.first()
                .is_some_and(|first| merge::compare_entries(shape, &first, entry).is_le())
        };
        self.parts.partition_point(begins_before).saturating_sub(1)
    }

    fn merged(&self, shape: &RowShape, part: Option<&Part>, run: RowRef<'_>) -> Vec<Part> {
        let old = part.map_or(RowRef::EMPTY, |part| RowRef::new(&part.bytes));
        let column_shadow = part.and_then(Part::first).and_then(|first| {
            let column = first.column();
            Some((column, self.column_deletion(column)?))
        });
        let mut merged = Vec::with_capacity(old.as_bytes().len() + run.as_bytes().len());
        merge::merge_parts(shape, old, run, self.deletion(), column_shadow, &mut merged);
        cut(RowRef::new(&merged))
    }

    fn replace(&mut self, mut replacements: Vec<Replacement>) {
        let bytes = |parts: &[Part]| parts.iter().map(|part| part.bytes.len()).sum::<usize>();
        match &mut *replacements {
            [] => {}
            [Replacement { index, parts }] => {
                self.parts_bytes += bytes(parts);
                let end = self.parts.len().min(*index + 1);
                let replaced: Vec<Part> = self.parts.splice(*index..end, parts.drain(..)).collect();
                self.parts_bytes -= bytes(&replaced);
            }
            _ => {
                let mut old = std::mem::take(&mut self.parts).into_iter();
                let mut taken = 0;
                for Replacement { index, parts } in replacements {
                    self.parts.extend(old.by_ref().take(index - taken));
                    taken = index + 1;
                    old.next();
                    self.parts.extend(parts);
                }
                self.parts.extend(old);
                self.parts_bytes = bytes(&self.parts);
            }
        }
    }
}

impl Part {
    fn first(&self) -> Option<Entry<'_>> {
        RowRef::new(&self.bytes).entries().next()
    }
}

impl Reach {
    fn is_none(&self) -> bool {
        self.row.is_none() && self.columns.is_empty()
    }

    /// Returns whether one of the deletions may hide something of a part.
    fn includes(&self, part: &Part) -> bool {
        let first_column = part.first().map(|first| first.column());
        self.row.is_some()
            || self.columns.iter().any(|&(column, _)| {
                first_column.is_some_and(|first| first <= column) && column <= part.last_column
            })
    }

    /// Returns whether one of the deletions is newer than all there is in a part.
    fn hides(&self, part: &Part) -> bool {
        let is_older = |deletion: DeletionTime| part.timestamp_us_max < deletion.timestamp_us;
        let first_column = part.first().map(|first| first.column());
        self.row.is_some_and(is_older)
            || self.columns.iter().any(|&(column, deletion)| {
                first_column == Some(column) && part.last_column == column && is_older(deletion)
            })
    }
}

/// Packs the entries in front of `next`, or all.
fn take_run<'a>(shape: &RowShape, entries: &mut Peekable<Entries<'a>>, next: Option<Entry<'_>>) -> Vec<u8> {
    let belongs = |entry: &Entry<'_>| {
        next.as_ref()
            .is_none_or(|next| merge::compare_entries(shape, entry, next).is_lt())
    };
    let mut run = Vec::new();
    if entries.peek().is_some_and(belongs) {
        let mut builder = RowBuilder::new(&mut run, Liveness::NONE, DeletionTime::LIVE);
        while let Some(entry) = entries.next_if(belongs) {
            builder.push(entry);
        }
    }
    run
}

/// Cuts a packed row with neither marker nor deletion in parts; none if it is empty.
fn cut(row: RowRef<'_>) -> Vec<Part> {
    let bytes = row.as_bytes();
    let target_bytes = bytes.len().div_ceil(bytes.len().div_ceil(PART_BYTES_MAX).max(1));
    let mut parts = Vec::new();
    let mut entries = row.entries();
    let mut start = 1;
    let (mut flags, mut timestamp_us_max) = (0, i64::MIN);
    while let Some(entry) = entries.next() {
        flags |= if entry.is_mortal() {
            ROW_HAS_MORTAL_ENTRIES
        } else {
            0
        };
        timestamp_us_max = timestamp_us_max.max(entry.timestamp_us());
        let end = bytes.len() - entries.bytes_left();
        if end - start >= target_bytes || end == bytes.len() {
            let mut part = Vec::with_capacity(1 + end - start);
            part.push(flags);
            part.extend_from_slice(&bytes[start..end]);
            parts.push(Part {
                bytes: part.into_boxed_slice(),
                timestamp_us_max,
                last_column: entry.column(),
            });
            (start, flags, timestamp_us_max) = (end, 0, i64::MIN);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deletion::NEVER_S;
    use crate::row::CellRef;
    use helenus_vfs::{Random, SeededRandom};

    const MAPS: [ColumnId; 2] = [ColumnId(1), ColumnId(2)];

    fn random_row(random: &SeededRandom, timestamp_bound: u64, cells_max: u64) -> Vec<u8> {
        let below = |bound: u64| random.below(bound);
        let timestamp = || 1 + below(timestamp_bound) as i64;
        let deletion = || DeletionTime {
            timestamp_us: timestamp(),
            local_s: 10 + below(3) as u32,
        };
        let liveness = match below(3) {
            0 => Liveness {
                timestamp_us: timestamp(),
                ttl_s: 0,
                expires_at_s: NEVER_S,
            },
            _ => Liveness::NONE,
        };
        let row_deletion = match below(12) {
            0 => deletion(),
            _ => DeletionTime::LIVE,
        };
        let mut out = Vec::new();
        let mut builder = RowBuilder::new(&mut out, liveness, row_deletion);
        let is_tombstone = below(4) == 0;
        builder.cell(CellRef {
            column: ColumnId(0),
            timestamp_us: timestamp(),
            ttl_s: 0,
            local_deletion_s: if is_tombstone { 20 } else { NEVER_S },
            path: None,
            value: if is_tombstone { &[] } else { b"plain" },
        });
        for column in MAPS {
            let mut paths: Vec<u64> = (0..below(1 + cells_max)).map(|_| below(60)).collect();
            paths.sort_unstable();
            paths.dedup();
            if below(8) == 0 {
                builder.complex_deletion(column, deletion());
            }
            for path in paths {
                builder.cell(CellRef {
                    column,
                    timestamp_us: timestamp(),
                    ttl_s: 0,
                    local_deletion_s: NEVER_S,
                    path: Some(&path.to_be_bytes()),
                    value: &vec![below(200) as u8; below(20) as usize],
                });
            }
        }
        out
    }

    fn merged(left: &[u8], right: &[u8]) -> Vec<u8> {
        let (left, right) = (RowRef::new(left), RowRef::new(right));
        let mut out = Vec::new();
        merge::merge(&RowShape::default(), left, right, DeletionTime::LIVE, &mut out);
        out
    }

    fn check(split: &SplitRow, whole: &[u8]) {
        let mut joined = Vec::new();
        split.join(&mut joined);
        let empty = RowRef::EMPTY.as_bytes();
        assert_eq!(merged(&joined, empty), merged(whole, empty));
        assert_eq!(RowRef::new(&joined).is_immortal(), {
            let (_, deletion, mut entries) = RowRef::new(&joined).open();
            deletion.is_live() && entries.all(|entry| !entry.is_mortal())
        });
        let sum: usize = split.parts.iter().map(|part| part.bytes.len()).sum();
        assert_eq!(split.parts_bytes, sum);
        for part in &split.parts {
            let entries: Vec<_> = RowRef::new(&part.bytes).entries().collect();
            assert!(part.bytes.len() <= PART_BYTES_MAX + 64);
            assert_eq!(
                entries.iter().map(Entry::timestamp_us).max(),
                Some(part.timestamp_us_max)
            );
            assert_eq!(entries.last().map(Entry::column), Some(part.last_column));
        }
    }

    #[test]
    fn a_split_row_is_what_merging_makes_of_a_whole_one() {
        let random = SeededRandom::new(21);
        let mut parts = 0;
        for _ in 0..300 {
            let timestamp_bound = [4, 1_000][random.below(2) as usize];
            let mut whole = random_row(&random, timestamp_bound, 60);
            let mut split = SplitRow::new(RowRef::new(&whole));
            check(&split, &whole);
            for _ in 0..30 {
                let cells_max = [1, 3, 60][random.below(3) as usize];
                let update = random_row(&random, timestamp_bound, cells_max);
                whole = merged(&whole, &update);
                split.merge(&RowShape::default(), RowRef::new(&update));
                check(&split, &whole);
                parts += split.parts.len();
            }
        }
        assert!(parts > 50_000, "{parts} parts are too few to tell");
    }

    /// A shadowable deletion of a view's row comes back to life as a whole.
    #[test]
    fn a_split_row_knows_shadowable_deletions() {
        let random = SeededRandom::new(22);
        for _ in 0..100 {
            let whole = random_row(&random, 50, 60);
            let mut split = SplitRow::new(RowRef::new(&whole));
            let mut update = Vec::new();
            let deletion = DeletionTime {
                timestamp_us: 25,
                local_s: 10,
            };
            RowBuilder::new(&mut update, Liveness::NONE, deletion).shadowable();
            split.merge(&RowShape::default(), RowRef::new(&update));
            check(&split, &merged(&whole, &update));
        }
    }
}
