//! Reading a packed row in place.

use helenus_schema::ColumnId;

use super::{
    CELL_EXPIRES, CELL_HAS_PATH, CELL_IS_TOMBSTONE, CELL_USES_ROW_TIMESTAMP, IS_COMPLEX_DELETION,
    ROW_DELETION_IS_SHADOWABLE, ROW_EXPIRES, ROW_HAS_DELETION, ROW_HAS_LIVENESS, ROW_HAS_MORTAL_ENTRIES,
};
use crate::deletion::{DeletionTime, NEVER_S, NO_TIMESTAMP};

/// A packed row, borrowed. Bytes that end early read as a row that ends early: they are checked for damage where
/// they come from (commit log and SSTable checksums), never here.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    bytes: &'a [u8],
}

/// That an INSERT made the row exist, even if all its columns are null; the row marker of CQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Microseconds since the Unix epoch; [`NO_TIMESTAMP`] where no INSERT wrote the row.
    pub timestamp_us: i64,
    /// Seconds; 0 where the row does not expire.
    pub ttl_s: u32,
    /// Seconds since the Unix epoch, or [`NEVER_S`].
    pub expires_at_s: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// All earlier cells of a multi-cell column are deleted.
    ComplexDeletion {
        column: ColumnId,
        deletion: DeletionTime,
    },
    Cell(CellRef<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    pub column: ColumnId,
    pub timestamp_us: i64,
    /// Seconds; 0 where the cell does not expire.
    pub ttl_s: u32,
    /// When the cell was deleted or will expire, in seconds since the Unix epoch; [`NEVER_S`] for neither.
    pub local_deletion_s: u32,
    /// The element's key in a multi-cell column.
    pub path: Option<&'a [u8]>,
    /// Empty for a tombstone.
    pub value: &'a [u8],
}

/// Column and timestamp of an entry, which decide which of two stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryTime {
    pub column: ColumnId,
    pub timestamp_us: i64,
    /// A cell without a path that is neither deleted nor expires.
    pub is_plain: bool,
}

/// Column and value of an entry, for who asks for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryValue<'a> {
    pub column: ColumnId,
    /// `None` for a deletion of earlier cells.
    pub value: Option<&'a [u8]>,
}

/// The entries of a row, in order.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    row_timestamp_us: i64,
    rest: &'a [u8],
}

/// Column and flags.
const ENTRY_HEAD_BYTES: usize = 3;

/// Time to live of a marker that has expired from the beginning (`LivenessInfo.EXPIRED_LIVENESS_TTL`); no statement can give it.
const EXPIRED_TTL_S: u32 = i32::MAX as u32;

impl Liveness {
    pub const NONE: Liveness = Liveness {
        timestamp_us: NO_TIMESTAMP,
        ttl_s: 0,
        expires_at_s: NEVER_S,
    };

    pub fn is_none(&self) -> bool {
        self.timestamp_us == NO_TIMESTAMP
    }

    pub fn is_live(&self, now_s: u32) -> bool {
        !self.is_none() && now_s < self.expires_at_s && !self.is_expired_one()
    }

    /// Returns whether it says that the row has expired, whatever the time: of a view's row that its base row left.
    fn is_expired_one(&self) -> bool {
        self.ttl_s == EXPIRED_TTL_S
    }

    /// Returns whether this one of two markers stays: the newer; at the same timestamp the one that says expired, then the one
    /// that expires, then the one that expires later, then the smaller ttl (`LivenessInfo.supersedes`).
    pub fn supersedes(&self, other: &Liveness) -> bool {
        if self.timestamp_us != other.timestamp_us {
            return self.timestamp_us > other.timestamp_us;
        }
        if self.is_expired_one() != other.is_expired_one() {
            return self.is_expired_one();
        }
        match (self.ttl_s != 0, other.ttl_s != 0) {
            (true, false) => true,
            (false, true) => false,
            _ => (self.expires_at_s, other.ttl_s) > (other.expires_at_s, self.ttl_s),
        }
    }
}

impl CellRef<'_> {
    pub fn is_tombstone(&self) -> bool {
        self.ttl_s == 0 && self.local_deletion_s != NEVER_S
    }

    pub fn is_live(&self, now_s: u32) -> bool {
        self.local_deletion_s == NEVER_S || (self.ttl_s != 0 && now_s < self.local_deletion_s)
    }
}

impl Entry<'_> {
    pub fn column(&self) -> ColumnId {
        match self {
            Entry::ComplexDeletion { column, .. } => *column,
            Entry::Cell(cell) => cell.column,
        }
    }

    pub fn timestamp_us(&self) -> i64 {
        match self {
            Entry::ComplexDeletion { deletion, .. } => deletion.timestamp_us,
            Entry::Cell(cell) => cell.timestamp_us,
        }
    }

    /// Returns whether it is a deletion or expires.
    pub fn is_mortal(&self) -> bool {
        match self {
            Entry::ComplexDeletion { .. } => true,
            Entry::Cell(cell) => cell.ttl_s != 0 || cell.is_tombstone(),
        }
    }
}

impl<'a> RowRef<'a> {
    /// The row without anything: no marker, no deletion, no cells.
    pub const EMPTY: RowRef<'static> = RowRef { bytes: &[0] };

    /// A row that says that something in it is deleted or expires, and has nothing. No builder makes one.
    pub const MORTAL_WITHOUT_ENTRIES: RowRef<'static> = RowRef {
        bytes: &[ROW_HAS_MORTAL_ENTRIES],
    };

    pub fn new(bytes: &'a [u8]) -> Self {
        RowRef { bytes }
    }

    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= 1
    }

    /// Returns whether nothing in the row is deleted or will ever expire.
    #[inline]
    pub fn is_immortal(&self) -> bool {
        let flags = self.bytes.first().copied().unwrap_or(0);
        flags & (ROW_EXPIRES | ROW_HAS_DELETION | ROW_HAS_MORTAL_ENTRIES) == 0
    }

    /// Returns whether anything in the row but its marker is deleted or may expire.
    #[inline]
    pub(crate) fn is_mortal_beside_marker(&self) -> bool {
        let flags = self.bytes.first().copied().unwrap_or(0);
        flags & (ROW_HAS_DELETION | ROW_HAS_MORTAL_ENTRIES) != 0
    }

    /// Returns whether a newer marker ends the row's deletion.
    pub fn has_shadowable_deletion(&self) -> bool {
        self.bytes
            .first()
            .is_some_and(|flags| flags & ROW_DELETION_IS_SHADOWABLE != 0)
    }

    pub fn liveness(&self) -> Liveness {
        self.open().0
    }

    pub fn deletion(&self) -> DeletionTime {
        self.open().1
    }

    #[inline]
    pub fn entries(&self) -> Entries<'a> {
        self.open().2
    }

    /// Marker, deletion and entries in one pass over the head.
    #[inline]
    pub fn open(&self) -> (Liveness, DeletionTime, Entries<'a>) {
        let mut cursor = Cursor { rest: self.bytes };
        let flags = cursor.u8();
        let mut liveness = Liveness::NONE;
        if flags & ROW_HAS_LIVENESS != 0 {
            liveness.timestamp_us = cursor.i64();
            if flags & ROW_EXPIRES != 0 {
                liveness.ttl_s = cursor.u32();
                liveness.expires_at_s = cursor.u32();
            }
        }
        let mut deletion = DeletionTime::LIVE;
        if flags & ROW_HAS_DELETION != 0 {
            deletion = DeletionTime {
                timestamp_us: cursor.i64(),
                local_s: cursor.u32(),
            };
        }
        (
            liveness,
            deletion,
            Entries {
                row_timestamp_us: liveness.timestamp_us,
                rest: cursor.rest,
            },
        )
    }
}

impl<'a> Entries<'a> {
    /// The packed bytes of the entries that are left.
    pub fn bytes_left(&self) -> usize {
        self.rest.len()
    }

    /// Packed bytes of the entries. Those of a row without a marker are the same beside any, but for cells that are as old as it.
    pub(crate) fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }

    /// When each entry was written, for who does not look at values.
    #[inline]
    pub(crate) fn times(mut self) -> impl Iterator<Item = EntryTime> {
        std::iter::from_fn(move || self.next_time())
    }

    /// As [`next`](Iterator::next), which takes three times as many steps.
    #[inline]
    fn next_time(&mut self) -> Option<EntryTime> {
        let mut cursor = Cursor { rest: self.rest };
        let (column, flags) = (ColumnId(cursor.u16()), cursor.u8());
        if self.rest.len() < ENTRY_HEAD_BYTES || flags & !CELL_USES_ROW_TIMESTAMP != 0 {
            let entry = self.next()?;
            return Some(EntryTime {
                column: entry.column(),
                timestamp_us: entry.timestamp_us(),
                is_plain: false,
            });
        }
        let timestamp_us = match flags {
            0 => cursor.i64(),
            _ => self.row_timestamp_us,
        };
        cursor.sized();
        self.rest = cursor.rest;
        Some(EntryTime {
            column,
            timestamp_us,
            is_plain: true,
        })
    }

    /// As [`next`](Iterator::next), with a fraction of its instructions where the cell is neither deleted nor expires.
    #[inline]
    pub fn next_value(&mut self) -> Option<EntryValue<'a>> {
        let (&[low, high, flags], rest) = self.rest.split_first_chunk::<ENTRY_HEAD_BYTES>()?;
        let sized = match flags {
            CELL_USES_ROW_TIMESTAMP => Some(rest),
            0 => rest.get(size_of::<i64>()..),
            _ => None,
        };
        let found = sized
            .and_then(|sized| sized.split_first_chunk())
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let Some((value, rest)) = found else {
            // By value, so that who walks over plain cells keeps its place in registers.
            let (rest, value) = self.clone().next_rare_value();
            *self = rest;
            return value;
        };
        self.rest = rest;
        Some(EntryValue {
            column: ColumnId(u16::from_le_bytes([low, high])),
            value: Some(value),
        })
    }

    #[inline(never)]
    fn next_rare_value(mut self) -> (Self, Option<EntryValue<'a>>) {
        let value = self.next().map(|entry| match entry {
            Entry::ComplexDeletion { column, .. } => EntryValue { column, value: None },
            Entry::Cell(cell) => EntryValue {
                column: cell.column,
                value: Some(cell.value),
            },
        });
        (self, value)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        if self.rest.len() < ENTRY_HEAD_BYTES {
            return None;
        }
        let mut cursor = Cursor { rest: self.rest };
        let column = ColumnId(cursor.u16());
        let flags = cursor.u8();
        let timestamp_us = if flags & CELL_USES_ROW_TIMESTAMP != 0 {
            self.row_timestamp_us
        } else {
            cursor.i64()
        };
        let ttl_s = if flags & CELL_EXPIRES != 0 {
            cursor.u32()
        } else {
            0
        };
        let local_deletion_s = if flags & (CELL_EXPIRES | CELL_IS_TOMBSTONE | IS_COMPLEX_DELETION) != 0 {
            cursor.u32()
        } else {
            NEVER_S
        };
        if flags & IS_COMPLEX_DELETION != 0 {
            self.rest = cursor.rest;
            let deletion = DeletionTime {
                timestamp_us,
                local_s: local_deletion_s,
            };
            return Some(Entry::ComplexDeletion { column, deletion });
        }
        let path = (flags & CELL_HAS_PATH != 0).then(|| cursor.sized());
        let value: &[u8] = if flags & CELL_IS_TOMBSTONE != 0 {
            &[]
        } else {
            cursor.sized()
        };
        self.rest = cursor.rest;
        Some(Entry::Cell(CellRef {
            column,
            timestamp_us,
            ttl_s,
            local_deletion_s,
            path,
            value,
        }))
    }
}

/// Reads little-endian numbers; past the end it reads zeros and stays there.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.rest.split_first_chunk::<N>() {
            Some((array, rest)) => {
                self.rest = rest;
                *array
            }
            None => {
                self.rest = &[];
                [0; N]
            }
        }
    }

    #[inline]
    fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    #[inline]
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    #[inline]
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    #[inline]
    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.array())
    }

    #[inline]
    fn sized(&mut self) -> &'a [u8] {
        let length = self.u32() as usize;
        match self.rest.split_at_checked(length) {
            Some((bytes, rest)) => {
                self.rest = rest;
                bytes
            }
            None => std::mem::take(&mut self.rest),
        }
    }
}
