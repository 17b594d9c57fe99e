//! The rows of one partition, ordered by a comparator that lives outside.

use std::cmp::Ordering;

use super::ALLOCATION_OVERHEAD_BYTES;
use helenus_rows::clustering::{ClusteringComparator, Side};
use helenus_rows::row::RowRef;

/// Placeholder of a row that its partition keeps in parts: flags of entries that are not there, as no row has
/// them. Not immortal, so that the short ways of writing leave it alone.
const SPLIT: RowRef<'static> = RowRef::MORTAL_WITHOUT_ENTRIES;

/// A full chunk is cut in two. 64 rows of 16 bytes are a kilobyte: moving them costs about as much as finding the
/// place to put a row.
const CHUNK_ROWS_MAX: usize = 64;

/// A clustering key and its row in one allocation: key length u32, key, row. The row of a split row is `SPLIT`.
#[derive(Debug)]
pub struct PackedRow {
    bytes: Box<[u8]>,
}

/// A partition without clustering columns holds its one row in place; more rows are cut in sorted chunks, so that an
/// insert moves at most a chunk.
#[derive(Debug, Default)]
pub enum Rows {
    #[default]
    Empty,
    One(PackedRow),
    /// At least one chunk; no chunk is empty.
    Many(Vec<Vec<PackedRow>>),
}

/// A place in [`Rows`]: of a row, or past the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPosition {
    chunk: usize,
    index: usize,
}

impl PackedRow {
    pub fn new(clustering: &[u8], row: RowRef<'_>) -> Self {
        let row = row.as_bytes();
        let mut bytes = Vec::with_capacity(4 + clustering.len() + row.len());
        bytes.extend_from_slice(&(clustering.len() as u32).to_le_bytes());
        bytes.extend_from_slice(clustering);
        bytes.extend_from_slice(row);
        PackedRow {
            bytes: bytes.into_boxed_slice(),
        }
    }

    #[inline]
    fn split(&self) -> (&[u8], &[u8]) {
        let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else {
            return (&[], &[]);
        };
        rest.split_at_checked(u32::from_le_bytes(*length) as usize)
            .unwrap_or((&[], &[]))
    }

    #[inline]
    pub fn clustering(&self) -> &[u8] {
        self.split().0
    }

    #[inline]
    pub fn row(&self) -> RowRef<'_> {
        RowRef::new(self.split().1)
    }

    /// Returns whether the row is kept elsewhere, in parts.
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.row().as_bytes() == SPLIT.as_bytes()
    }

    /// Notes that the row is kept elsewhere.
    pub fn split_off(&mut self) {
        self.replace_row(SPLIT);
    }

    /// Puts another row under the same key: in place where it is as long as the old one, as when an UPDATE
    /// overwrites fixed-size values.
    pub(crate) fn replace_row(&mut self, row: RowRef<'_>) {
        let row_at = self.bytes.len() - self.row().as_bytes().len();
        match self.bytes.get_mut(row_at..) {
            Some(old) if old.len() == row.as_bytes().len() => old.copy_from_slice(row.as_bytes()),
            _ => *self = PackedRow::new(self.clustering(), row),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + ALLOCATION_OVERHEAD_BYTES + size_of::<PackedRow>()
    }
}

impl Rows {
    /// Finds the row under a complete key, or the place where it belongs.
    #[inline]
    pub fn find(
        &self,
        comparator: &ClusteringComparator,
        clustering: &[u8],
    ) -> Result<RowPosition, RowPosition> {
        let compare = |row: &PackedRow| comparator.compare(row.clustering(), clustering);
        match self {
            Rows::Empty => Err(RowPosition::default()),
            Rows::One(row) => match compare(row) {
                Ordering::Equal => Ok(RowPosition::default()),
                Ordering::Less => Err(RowPosition { chunk: 0, index: 1 }),
                Ordering::Greater => Err(RowPosition::default()),
            },
            Rows::Many(chunks) => {
                let chunk = chunks
                    .partition_point(|chunk| {
                        chunk.first().is_some_and(|row| compare(row) != Ordering::Greater)
                    })
                    .saturating_sub(1);
                let found = chunks
                    .get(chunk)
                    .map_or(Err(0), |rows| rows.binary_search_by(compare));
                found
                    .map(|index| RowPosition { chunk, index })
                    .map_err(|index| RowPosition { chunk, index })
            }
        }
    }

    /// The first row after a bound.
    pub(crate) fn after_bound(
        &self,
        comparator: &ClusteringComparator,
        prefix: &[u8],
        side: Side,
    ) -> RowPosition {
        let is_before = |row: &PackedRow| match comparator.compare_common(row.clustering(), prefix) {
            Ordering::Equal => side == Side::After,
            ordering => ordering == Ordering::Less,
        };
        match self {
            // Before or after all rows: none of them is touched.
            _ if prefix.is_empty() && side == Side::Before => RowPosition::default(),
            Rows::Many(chunks) if prefix.is_empty() => RowPosition {
                chunk: chunks.len(),
                index: 0,
            },
            Rows::Empty => RowPosition::default(),
            Rows::One(row) => RowPosition {
                chunk: 0,
                index: usize::from(is_before(row)),
            },
            Rows::Many(chunks) => {
                let chunk = chunks
                    .partition_point(|chunk| chunk.first().is_some_and(is_before))
                    .saturating_sub(1);
                let index = chunks
                    .get(chunk)
                    .map_or(0, |rows| rows.partition_point(is_before));
                self.normalised(RowPosition { chunk, index })
            }
        }
    }

    pub fn get(&self, position: RowPosition) -> Option<&PackedRow> {
        match self {
            Rows::Empty => None,
            Rows::One(row) => (position == RowPosition::default()).then_some(row),
            Rows::Many(chunks) => chunks.get(position.chunk)?.get(position.index),
        }
    }

    pub fn get_mut(&mut self, position: RowPosition) -> Option<&mut PackedRow> {
        match self {
            Rows::Empty => None,
            Rows::One(row) => (position == RowPosition::default()).then_some(row),
            Rows::Many(chunks) => chunks.get_mut(position.chunk)?.get_mut(position.index),
        }
    }

    pub fn next(&self, position: RowPosition) -> RowPosition {
        self.normalised(RowPosition {
            index: position.index + 1,
            ..position
        })
    }

    /// The row before `position`; `None` at the first.
    pub fn previous(&self, position: RowPosition) -> Option<RowPosition> {
        if position.index > 0 {
            return Some(RowPosition {
                index: position.index - 1,
                ..position
            });
        }
        let chunk = position.chunk.checked_sub(1)?;
        let Rows::Many(chunks) = self else { return None };
        Some(RowPosition {
            chunk,
            index: chunks.get(chunk)?.len().checked_sub(1)?,
        })
    }

    /// Puts a row at the place that [`Rows::find`] gave for it. Returns the bytes of holders that this added.
    pub fn insert(&mut self, position: RowPosition, row: PackedRow) -> usize {
        match self {
            Rows::Empty => {
                *self = Rows::One(row);
                0
            }
            Rows::One(_) => {
                let Rows::One(only) = std::mem::take(self) else {
                    return 0;
                };
                let mut rows = Vec::with_capacity(4);
                rows.push(only);
                rows.insert(position.index.min(1), row);
                *self = Rows::Many(vec![rows]);
                ALLOCATION_OVERHEAD_BYTES * 2 + size_of::<Vec<PackedRow>>()
            }
            Rows::Many(chunks) => insert_in_chunks(chunks, position, row),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &PackedRow> {
        let (one, many): (Option<&PackedRow>, &[Vec<PackedRow>]) = match self {
            Rows::Empty => (None, &[]),
            Rows::One(row) => (Some(row), &[]),
            Rows::Many(chunks) => (None, chunks),
        };
        one.into_iter().chain(many.iter().flatten())
    }

    /// The row, where there is just one.
    #[inline]
    pub(crate) fn only(&self) -> Option<&PackedRow> {
        match self {
            Rows::One(row) => Some(row),
            Rows::Empty | Rows::Many(_) => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Rows::Empty)
    }

    /// A position past a chunk's end means the next chunk's start, so that positions compare.
    fn normalised(&self, position: RowPosition) -> RowPosition {
        match self {
            Rows::Many(chunks)
                if chunks
                    .get(position.chunk)
                    .is_some_and(|rows| position.index >= rows.len()) =>
            {
                RowPosition {
                    chunk: position.chunk + 1,
                    index: 0,
                }
            }
            _ => position,
        }
    }
}

fn insert_in_chunks(chunks: &mut Vec<Vec<PackedRow>>, position: RowPosition, row: PackedRow) -> usize {
    let last = chunks.len() - 1;
    let Some(rows) = chunks.get_mut(position.chunk) else {
        return 0;
    };
    if rows.len() < CHUNK_ROWS_MAX {
        rows.insert(position.index, row);
        return 0;
    }
    let split = if position.chunk == last && position.index == rows.len() {
        // Rows that arrive in order fill their chunks.
        vec![row]
    } else {
        let mut upper = rows.split_off(CHUNK_ROWS_MAX / 2);
        match position.index.checked_sub(CHUNK_ROWS_MAX / 2) {
            Some(index) => upper.insert(index, row),
            None => rows.insert(position.index, row),
        }
        upper
    };
    chunks.insert(position.chunk + 1, split);
    ALLOCATION_OVERHEAD_BYTES + size_of::<Vec<PackedRow>>()
}
