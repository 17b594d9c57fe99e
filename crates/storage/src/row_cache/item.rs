//! Items of a block.
//!
//! | item | bytes |
//! |---|---|
//! | row | flags 1, key length, clustering key, packed row to the end |
//! | mark | flags 1, with `IS_DELETED` timestamp i64 and local time u32, prefix to the end |
//!
//! Numbers are little-endian; a length is a byte, or 255 and a u32. An item's end is where the next one begins.

use std::cmp::Ordering;

use helenus_rows::clustering::{ClusteringComparator, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;

pub(super) const IS_MARK: u8 = 0x01;
/// The bound lies after its prefix.
pub(super) const IS_AFTER: u8 = 0x02;
pub(super) const IS_KNOWN: u8 = 0x04;
pub(super) const IS_DELETED: u8 = 0x08;
pub(super) const IS_ISLAND: u8 = 0x10;

/// Knowledge of the cache about a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    Unknown,
    /// All rows there are in the cache, and this range deletion is in force.
    Known(DeletionTime),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    Row {
        clustering: &'a [u8],
        /// Empty where it is known that there is none.
        row: RowRef<'a>,
        /// The row is known, its surroundings are not, and no range deletion is in force at its place.
        is_island: bool,
    },
    /// From this bound on, up to the next mark, this is known.
    Mark {
        bound: BoundRef<'a>,
        knowledge: Knowledge,
    },
}

impl Knowledge {
    /// Knowledge of places that are empty and undeleted.
    pub const LIVE: Knowledge = Knowledge::Known(DeletionTime::LIVE);

    pub fn is_known(self) -> bool {
        self != Knowledge::Unknown
    }

    fn flags(self) -> u8 {
        match self {
            Knowledge::Unknown => 0,
            Knowledge::LIVE => IS_KNOWN,
            Knowledge::Known(_) => IS_KNOWN | IS_DELETED,
        }
    }

    /// Appends flags and deletion.
    pub fn encode(self, flags: u8, out: &mut Vec<u8>) {
        out.push(flags | self.flags());
        if let Knowledge::Known(deletion) = self
            && !deletion.is_live()
        {
            encode_deletion(deletion, out);
        }
    }

    /// Decodes `flags` and the bytes after them; returns the rest, too.
    pub fn decode(flags: u8, rest: &[u8]) -> (Knowledge, &[u8]) {
        match flags & (IS_KNOWN | IS_DELETED) {
            0 => (Knowledge::Unknown, rest),
            IS_KNOWN => (Knowledge::LIVE, rest),
            _ => {
                let (deletion, rest) = decode_deletion(rest);
                (Knowledge::Known(deletion), rest)
            }
        }
    }
}

impl<'a> Item<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Item::Row {
                clustering,
                row,
                is_island,
            } => {
                out.push(if is_island { IS_ISLAND } else { 0 });
                encode_sized(clustering, out);
                out.extend_from_slice(row.as_bytes());
            }
            Item::Mark { bound, knowledge } => {
                knowledge.encode(IS_MARK | side_flag(bound.side), out);
                out.extend_from_slice(bound.prefix);
            }
        }
    }

    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Self {
        let (&flags, rest) = bytes.split_first().unwrap_or((&0, &[]));
        if flags & IS_MARK == 0 {
            let (clustering, row) = split_sized(rest);
            return Item::Row {
                clustering,
                row: RowRef::new(row),
                is_island: flags & IS_ISLAND != 0,
            };
        }
        let (knowledge, prefix) = Knowledge::decode(flags, rest);
        let bound = BoundRef {
            prefix,
            side: side_of(flags),
        };
        Item::Mark { bound, knowledge }
    }

    /// Where the item lies relative to a bound. `Equal` only for a mark there.
    #[inline]
    pub fn compare_to_bound(&self, comparator: &ClusteringComparator, bound: BoundRef<'_>) -> Ordering {
        match self {
            Item::Row { clustering, .. } => comparator.compare_to_place(clustering, bound.prefix, bound.side),
            Item::Mark { bound: own, .. } => compare_bounds(comparator, *own, bound),
        }
    }

    /// Where the item lies relative to a complete clustering key. `Equal` only for a row.
    #[inline]
    pub fn compare_to_key(&self, comparator: &ClusteringComparator, key: &[u8]) -> Ordering {
        match self {
            Item::Row { clustering, .. } => comparator.compare(clustering, key),
            Item::Mark { bound, .. } => comparator
                .compare_to_place(key, bound.prefix, bound.side)
                .reverse(),
        }
    }
}

pub(super) fn compare_bounds(
    comparator: &ClusteringComparator,
    left: BoundRef<'_>,
    right: BoundRef<'_>,
) -> Ordering {
    comparator.compare_bounds((left.prefix, left.side), (right.prefix, right.side))
}

pub(super) fn side_flag(side: Side) -> u8 {
    match side {
        Side::Before => 0,
        Side::After => IS_AFTER,
    }
}

pub(super) fn side_of(flags: u8) -> Side {
    if flags & IS_AFTER == 0 {
        Side::Before
    } else {
        Side::After
    }
}

pub(super) fn encode_deletion(deletion: DeletionTime, out: &mut Vec<u8>) {
    out.extend_from_slice(&deletion.timestamp_us.to_le_bytes());
    out.extend_from_slice(&deletion.local_s.to_le_bytes());
}

pub(super) fn decode_deletion(bytes: &[u8]) -> (DeletionTime, &[u8]) {
    let decoded = bytes
        .split_first_chunk::<8>()
        .and_then(|(timestamp_us, rest)| Some((timestamp_us, rest.split_first_chunk::<4>()?)));
    match decoded {
        Some((timestamp_us, (local_s, rest))) => {
            let deletion = DeletionTime {
                timestamp_us: i64::from_le_bytes(*timestamp_us),
                local_s: u32::from_le_bytes(*local_s),
            };
            (deletion, rest)
        }
        None => (DeletionTime::LIVE, &[]),
    }
}

/// The length of longer ones follows in four bytes.
const LONG: u8 = u8::MAX;

/// Appends bytes behind their length.
pub(super) fn encode_sized(bytes: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(bytes.len()) {
        Ok(length) if length != LONG => out.push(length),
        _ => {
            out.push(LONG);
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// Bytes behind their length, and the rest.
#[inline]
pub(super) fn split_sized(bytes: &[u8]) -> (&[u8], &[u8]) {
    let split = match bytes.split_first() {
        Some((&LONG, rest)) => rest
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize)),
        Some((&length, rest)) => rest.split_at_checked(usize::from(length)),
        None => None,
    };
    split.unwrap_or((&[], &[]))
}
