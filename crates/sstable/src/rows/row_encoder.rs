//! Rows and range tombstone markers, to the bytes of Data.db.
//!
//! The layout is described in `docs/formats/sstable-data.md`; [`row_decoder`](crate::rows::row_decoder) is the other direction.

use crate::decode::{begin_after_vint, end_after_vint, push_bytes_after_vint, push_unsigned_vint};
use crate::error::WriteError;
use crate::meta::encoding_stats::EncodingStats;
use crate::meta::header::{Header, RowColumns, StoredColumn};
use crate::rows::clustering_codec::{
    KIND_EXCLUSIVE_END, KIND_EXCLUSIVE_END_INCLUSIVE_START, KIND_EXCLUSIVE_START, KIND_INCLUSIVE_END,
    KIND_INCLUSIVE_END_EXCLUSIVE_START, KIND_INCLUSIVE_START,
};
use crate::rows::deletion_codec::{deletion_s_max, never_in_rows};
use helenus_rows::clustering::Side;
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Entries, Entry, Liveness, RowRef};
use helenus_rows::update::BoundRef;

pub(crate) const END_OF_PARTITION: u8 = 0x01;
pub(crate) const IS_MARKER: u8 = 0x02;
pub(crate) const HAS_TIMESTAMP: u8 = 0x04;
pub(crate) const HAS_TTL: u8 = 0x08;
pub(crate) const HAS_DELETION: u8 = 0x10;
pub(crate) const HAS_ALL_COLUMNS: u8 = 0x20;
pub(crate) const HAS_COMPLEX_DELETION: u8 = 0x40;
pub(crate) const HAS_EXTENDED_FLAGS: u8 = 0x80;
/// Extended flags.
pub(crate) const IS_STATIC: u8 = 0x01;
pub(crate) const HAS_SHADOWABLE_DELETION: u8 = 0x02;

pub(crate) const CELL_IS_DELETED: u8 = 0x01;
pub(crate) const CELL_IS_EXPIRING: u8 = 0x02;
pub(crate) const CELL_HAS_EMPTY_VALUE: u8 = 0x04;
pub(crate) const CELL_USES_ROW_TIMESTAMP: u8 = 0x08;
pub(crate) const CELL_USES_ROW_TTL: u8 = 0x10;

/// Subsets of fewer columns are stored as a bit mask of the missing ones.
pub(crate) const COLUMN_MASK_COLUMNS_MAX: usize = 63;

/// Counts of a written row, for the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCounts {
    pub columns: u64,
    pub cells: u64,
    /// From the oldest to the newest cell, where there is nothing else to know of them: none expires, none is deleted.
    pub timestamps_us: Option<(i64, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct RowEncoder {
    /// True if the last row had all columns: the next is tried as one that has.
    has_all_columns: bool,
    /// Index of each column that the row has, in the order of the header.
    present: Vec<usize>,
    /// Empty between rows; kept for its memory.
    sorted: Vec<(usize, Entry<'static>)>,
}

/// An empty vector with the memory of another one, whose elements may live for another time.
fn recycled<'a>(mut used: Vec<(usize, Entry<'_>)>) -> Vec<(usize, Entry<'a>)> {
    used.clear();
    // Collected in place: nothing is moved, and nothing allocated.
    used.into_iter().map(|_| unreachable!("it was emptied")).collect()
}

impl RowEncoder {
    /// Appends a row; `previous_length` is the distance to the start of what was written before it in the partition.
    /// Returns `None` for a row without content in the columns that are stored: of a regular one nothing is appended, a static one
    /// has its place where the table has static columns.
    pub fn row(
        &mut self,
        out: &mut Vec<u8>,
        header: &Header,
        clustering: Option<&[u8]>,
        row: RowRef<'_>,
        previous_length: u64,
    ) -> Result<Option<RowCounts>, WriteError> {
        let columns = if clustering.is_some() {
            &header.regulars
        } else {
            &header.statics
        };
        let (liveness, deletion, entries) = row.open();
        if let Some(counts) = self.likely_full_row(out, header, clustering, row, previous_length)? {
            return Ok(Some(counts));
        }
        let is_shadowable = row.has_shadowable_deletion();
        if clustering.is_some() && !is_shadowable && self.is_plain(columns, entries.clone()) {
            return self.plain_row(out, header, clustering.unwrap_or_default(), row, previous_length);
        }
        let sorted = self.sorted(columns, entries);
        let is_empty = liveness.is_none() && deletion.is_live() && sorted.is_empty();
        if clustering.is_some() && is_empty {
            self.sorted = recycled(sorted);
            return Ok(None);
        }
        self.present.clear();
        self.present.extend(sorted.iter().map(|(index, _)| *index));
        self.present.dedup();

        let has_complex_deletion = sorted
            .iter()
            .any(|(_, entry)| matches!(entry, Entry::ComplexDeletion { .. }));
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let has_all_columns = self.present.len() == columns.columns.len();
        let flags = row_flags(liveness, deletion)
            | flag(has_complex_deletion, HAS_COMPLEX_DELETION)
            | flag(has_all_columns, HAS_ALL_COLUMNS)
            | flag(clustering.is_none() || is_shadowable, HAS_EXTENDED_FLAGS);
        out.push(flags);
        if flags & HAS_EXTENDED_FLAGS != 0 {
            out.push(flag(clustering.is_none(), IS_STATIC) | flag(is_shadowable, HAS_SHADOWABLE_DELETION));
        }
        if let Some(clustering) = clustering {
            header.clustering.write_values(out, clustering);
        }
        let start = begin_body(out, header, liveness, deletion, previous_length);
        let deltas = Deltas::of(header);
        if !has_all_columns {
            push_column_subset(out, &self.present, columns.columns.len());
        }
        let mut counts = RowCounts::default();
        for column_entries in sorted.chunk_by(|(left, _), (right, _)| left == right) {
            let cells = push_column(
                out,
                columns,
                column_entries,
                has_complex_deletion,
                liveness,
                deltas,
            )?;
            counts.cells += cells;
            counts.columns += u64::from(cells > 0);
        }
        end_after_vint(out, start);
        self.sorted = recycled(sorted);
        Ok((!is_empty).then_some(counts))
    }

    /// Entries of columns that are stored, in the order of the header; to be given back to be empty again.
    fn sorted<'r>(&mut self, columns: &RowColumns, entries: Entries<'r>) -> Vec<(usize, Entry<'r>)> {
        let mut sorted = recycled(std::mem::take(&mut self.sorted));
        sorted.extend(entries.filter_map(|entry| Some((columns.index_of(entry.column())?, entry))));
        if !sorted.is_sorted_by_key(|(index, _)| *index) {
            // Stable: the order of cells within a column is theirs already.
            sorted.sort_by_key(|(index, _)| *index);
        }
        sorted
    }

    /// [`full_row`] where the row before was one; nothing is appended if this is none.
    #[inline]
    fn likely_full_row(
        &mut self,
        out: &mut Vec<u8>,
        header: &Header,
        clustering: Option<&[u8]>,
        row: RowRef<'_>,
        previous_length: u64,
    ) -> Result<Option<RowCounts>, WriteError> {
        let Some(clustering) = clustering.filter(|_| self.has_all_columns && row.is_immortal()) else {
            return Ok(None);
        };
        let begun = out.len();
        let counts = full_row(out, header, clustering, row, previous_length)?;
        if counts.is_none() {
            out.truncate(begun);
            self.has_all_columns = false;
        }
        Ok(counts)
    }

    /// Returns whether a row has nothing but single cells, in the order of the header, as most rows do. Fills `present` then.
    #[inline]
    fn is_plain(&mut self, columns: &RowColumns, entries: Entries<'_>) -> bool {
        self.present.clear();
        for entry in entries {
            let Entry::Cell(cell) = entry else { return false };
            let Some(index) = columns.index_of(cell.column) else {
                return false;
            };
            let follows = self.present.last().is_none_or(|last| *last < index);
            if cell.path.is_some() || !follows || columns.columns[index].is_multi_cell {
                return false;
            }
            self.present.push(index);
        }
        true
    }

    /// [`Self::row`] where [`Self::is_plain`].
    #[inline]
    fn plain_row(
        &mut self,
        out: &mut Vec<u8>,
        header: &Header,
        clustering: &[u8],
        row: RowRef<'_>,
        previous_length: u64,
    ) -> Result<Option<RowCounts>, WriteError> {
        let columns = &header.regulars;
        let (liveness, deletion, entries) = row.open();
        if liveness.is_none() && deletion.is_live() && self.present.is_empty() {
            return Ok(None);
        }
        let has_all_columns = self.present.len() == columns.columns.len();
        self.has_all_columns = has_all_columns && !self.present.is_empty();
        out.push(row_flags(liveness, deletion) | if has_all_columns { HAS_ALL_COLUMNS } else { 0 });
        header.clustering.write_values(out, clustering);
        let start = begin_body(out, header, liveness, deletion, previous_length);
        if !has_all_columns {
            push_column_subset(out, &self.present, columns.columns.len());
        }
        for (entry, index) in entries.zip(&self.present) {
            if let Entry::Cell(cell) = entry {
                push_cell(out, &columns.columns[*index], &cell, liveness, Deltas::of(header))?;
            }
        }
        end_after_vint(out, start);
        let cells = self.present.len() as u64;
        Ok(Some(RowCounts {
            columns: cells,
            cells,
            timestamps_us: None,
        }))
    }
}

/// The row, in one pass, if it has one cell for every column, none of a collection, in the order of the header, as most rows do;
/// nothing in it may expire or be deleted. Else `None`, with a part of it appended.
#[inline]
fn full_row(
    out: &mut Vec<u8>,
    header: &Header,
    clustering: &[u8],
    row: RowRef<'_>,
    previous_length: u64,
) -> Result<Option<RowCounts>, WriteError> {
    let columns = &header.regulars;
    let (liveness, deletion, entries) = row.open();
    out.push(row_flags(liveness, deletion) | HAS_ALL_COLUMNS);
    header.clustering.write_values(out, clustering);
    let start = begin_body(out, header, liveness, deletion, previous_length);
    let deltas = Deltas::of(header);
    let mut stored = columns.columns.iter().enumerate();
    let (mut oldest_us, mut newest_us) = (i64::MAX, i64::MIN);
    for entry in entries {
        let (Entry::Cell(cell), Some((index, column))) = (entry, stored.next()) else {
            return Ok(None);
        };
        if columns.index_of(cell.column) != Some(index) || cell.path.is_some() || column.is_multi_cell {
            return Ok(None);
        }
        oldest_us = oldest_us.min(cell.timestamp_us);
        newest_us = newest_us.max(cell.timestamp_us);
        push_cell(out, column, &cell, liveness, deltas)?;
    }
    if stored.next().is_some() || oldest_us > newest_us {
        return Ok(None);
    }
    end_after_vint(out, start);
    let cells = columns.columns.len() as u64;
    Ok(Some(RowCounts {
        columns: cells,
        cells,
        timestamps_us: Some((oldest_us, newest_us)),
    }))
}

/// Appends the part of a row's body before its columns. Returns where the body begins.
#[inline]
fn begin_body(
    out: &mut Vec<u8>,
    header: &Header,
    liveness: Liveness,
    deletion: DeletionTime,
    previous_length: u64,
) -> usize {
    let start = begin_after_vint(out);
    push_unsigned_vint(out, previous_length);
    let deltas = Deltas::of(header);
    if !liveness.is_none() {
        deltas.push_timestamp(out, liveness.timestamp_us);
        if liveness.ttl_s != 0 {
            deltas.push_ttl(out, liveness.ttl_s);
            deltas.push_local_deletion(out, liveness.expires_at_s);
        }
    }
    if !deletion.is_live() {
        deltas.push_deletion(out, deletion);
    }
    start
}

/// Appends the entries of one column, of which there is at least one. Returns the number of cells.
fn push_column(
    out: &mut Vec<u8>,
    columns: &RowColumns,
    entries: &[(usize, Entry<'_>)],
    has_complex_deletion: bool,
    liveness: Liveness,
    deltas: Deltas,
) -> Result<u64, WriteError> {
    let column = &columns.columns[entries[0].0];
    let cells = entries
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::Cell(_)))
        .count() as u64;
    if column.is_multi_cell {
        if has_complex_deletion {
            let deletion = entries.iter().find_map(|(_, entry)| match entry {
                Entry::ComplexDeletion { deletion, .. } => Some(*deletion),
                Entry::Cell(_) => None,
            });
            deltas.push_deletion(out, deletion.unwrap_or(DeletionTime::LIVE));
        }
        push_unsigned_vint(out, cells);
    }
    for (_, entry) in entries {
        if let Entry::Cell(cell) = entry {
            push_cell(out, column, cell, liveness, deltas)?;
        }
    }
    Ok(cells)
}

#[inline]
fn push_cell(
    out: &mut Vec<u8>,
    column: &StoredColumn,
    cell: &CellRef<'_>,
    liveness: Liveness,
    deltas: Deltas,
) -> Result<(), WriteError> {
    let is_deleted = cell.is_tombstone();
    let is_expiring = cell.ttl_s != 0;
    let uses_row_timestamp = !liveness.is_none() && cell.timestamp_us == liveness.timestamp_us;
    let uses_row_ttl = is_expiring
        && !liveness.is_none()
        && cell.ttl_s == liveness.ttl_s
        && cell.local_deletion_s == liveness.expires_at_s;
    let has_value = !is_deleted && !cell.value.is_empty();
    let flags = if has_value { 0 } else { CELL_HAS_EMPTY_VALUE }
        | if is_deleted { CELL_IS_DELETED } else { 0 }
        | if is_expiring { CELL_IS_EXPIRING } else { 0 }
        | if uses_row_timestamp {
            CELL_USES_ROW_TIMESTAMP
        } else {
            0
        }
        | if uses_row_ttl { CELL_USES_ROW_TTL } else { 0 };
    out.push(flags);
    if !uses_row_timestamp {
        deltas.push_timestamp(out, cell.timestamp_us);
    }
    if (is_deleted || is_expiring) && !uses_row_ttl {
        deltas.push_local_deletion(out, cell.local_deletion_s);
    }
    if is_expiring && !uses_row_ttl {
        deltas.push_ttl(out, cell.ttl_s);
    }
    if column.is_multi_cell {
        push_bytes_after_vint(out, cell.path.unwrap_or_default());
    }
    if has_value {
        match column.fixed_length {
            None => push_bytes_after_vint(out, cell.value),
            Some(wanted) if wanted == cell.value.len() => out.extend_from_slice(cell.value),
            Some(wanted) => {
                let found = cell.value.len();
                return Err(WriteError::ValueLength {
                    column: column.name.to_string(),
                    wanted,
                    found,
                });
            }
        }
    }
    Ok(())
}

/// Appends a change of the range deletion in force. Returns the kind of the bound, for the index.
pub(crate) fn push_marker(
    out: &mut Vec<u8>,
    header: &Header,
    bound: BoundRef<'_>,
    before: DeletionTime,
    after: DeletionTime,
    previous_length: u64,
) -> u8 {
    let kind = marker_kind(bound.side, before, after);
    out.push(IS_MARKER);
    out.push(kind);
    header.clustering.write_bound_values(out, bound.prefix);
    let start = begin_after_vint(out);
    push_unsigned_vint(out, previous_length);
    let deltas = Deltas::of(header);
    if !before.is_live() {
        deltas.push_deletion(out, before);
    }
    if !after.is_live() {
        deltas.push_deletion(out, after);
    }
    end_after_vint(out, start);
    kind
}

#[inline]
fn row_flags(liveness: Liveness, deletion: DeletionTime) -> u8 {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    flag(!liveness.is_none(), HAS_TIMESTAMP)
        | flag(!liveness.is_none() && liveness.ttl_s != 0, HAS_TTL)
        | flag(!deletion.is_live(), HAS_DELETION)
}

fn marker_kind(side: Side, before: DeletionTime, after: DeletionTime) -> u8 {
    match (side, before.is_live(), after.is_live()) {
        (Side::Before, true, _) => KIND_INCLUSIVE_START,
        (Side::After, true, _) => KIND_EXCLUSIVE_START,
        (Side::Before, false, true) => KIND_EXCLUSIVE_END,
        (Side::After, false, true) => KIND_INCLUSIVE_END,
        (Side::Before, false, false) => KIND_EXCLUSIVE_END_INCLUSIVE_START,
        (Side::After, false, false) => KIND_INCLUSIVE_END_EXCLUSIVE_START,
    }
}

/// Which columns of the header a row has; all of them are said by a flag instead.
fn push_column_subset(out: &mut Vec<u8>, present: &[usize], column_count: usize) {
    if column_count <= COLUMN_MASK_COLUMNS_MAX {
        let all = (1_u64 << column_count) - 1;
        let missing = present.iter().fold(all, |mask, index| mask & !(1 << index));
        push_unsigned_vint(out, missing);
        return;
    }
    push_unsigned_vint(out, (column_count - present.len()) as u64);
    if present.len() < column_count / 2 {
        present
            .iter()
            .for_each(|index| push_unsigned_vint(out, *index as u64));
    } else {
        let mut rest = present.iter().peekable();
        for index in 0..column_count {
            if rest.next_if_eq(&&index).is_none() {
                push_unsigned_vint(out, index as u64);
            }
        }
    }
}

/// Times as differences to the smallest ones, wrapping: a smaller one only takes more bytes.
#[derive(Clone, Copy, Debug)]
struct Deltas {
    stats: EncodingStats,
    local_deletion_s_max: u32,
    never: u32,
}

impl Deltas {
    #[inline]
    fn of(header: &Header) -> Self {
        Deltas {
            stats: header.stats,
            local_deletion_s_max: deletion_s_max(header.version),
            never: never_in_rows(header.version),
        }
    }

    #[inline]
    fn push_timestamp(self, out: &mut Vec<u8>, timestamp_us: i64) {
        push_unsigned_vint(
            out,
            timestamp_us
                .wrapping_sub(self.stats.timestamp_us_min)
                .cast_unsigned(),
        );
    }

    /// The difference is a signed 32-bit number, sign-extended.
    #[inline]
    fn push_local_deletion(self, out: &mut Vec<u8>, local_s: u32) {
        let stored = if local_s == NEVER_S {
            self.never
        } else {
            local_s.min(self.local_deletion_s_max)
        };
        let delta = stored.wrapping_sub(self.stats.local_deletion_s_min).cast_signed();
        push_unsigned_vint(out, i64::from(delta).cast_unsigned());
    }

    #[inline]
    fn push_ttl(self, out: &mut Vec<u8>, ttl_s: u32) {
        let delta = ttl_s.wrapping_sub(self.stats.ttl_s_min).cast_signed();
        push_unsigned_vint(out, i64::from(delta).cast_unsigned());
    }

    #[inline]
    fn push_deletion(self, out: &mut Vec<u8>, deletion: DeletionTime) {
        self.push_timestamp(out, deletion.timestamp_us);
        self.push_local_deletion(out, deletion.local_s);
    }
}
