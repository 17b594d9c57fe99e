//! A write to one partition, packed: what a statement builds, the commit log stores and a memtable merges in.
//!
//! | part | bytes |
//! |---|---|
//! | table id | 16 |
//! | partition key | u32 length, bytes |
//! | partition deletion | timestamp i64, local time u32; [`DeletionTime::LIVE`] for none |
//! | items | until the end |
//!
//! | item | bytes |
//! |---|---|
//! | static row | 1, then u32 length and a packed [`row`](crate::row) |
//! | row | 2, then u32 length and clustering, u32 length and packed row |
//! | range tombstone | 3, then start and end (u8 side, u32 length, prefix), timestamp i64, local time u32 |
//!
//! Numbers are little-endian. Items may come in any order; rows may repeat.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use helenus_schema::TableId;
use helenus_types::{Token, token_of};
use uuid::Uuid;

use crate::clustering::Side;
use crate::deletion::DeletionTime;
use crate::row::{Liveness, RowBuilder, RowRef};

/// Timestamp and local time.
const DELETION_BYTES: usize = 12;

const ITEM_STATIC_ROW: u8 = 1;
const ITEM_ROW: u8 = 2;
const ITEM_RANGE_TOMBSTONE: u8 = 3;

/// Appends one packed update to a buffer.
#[derive(Debug)]
pub struct UpdateBuilder<'b> {
    out: &'b mut Vec<u8>,
}

/// A packed update, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    pub table: TableId,
    pub partition_key: &'a [u8],
    pub deletion: DeletionTime,
    items: &'a [u8],
    bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub enum UpdateItem<'a> {
    StaticRow(RowRef<'a>),
    Row {
        clustering: &'a [u8],
        row: RowRef<'a>,
    },
    RangeTombstone {
        start: BoundRef<'a>,
        end: BoundRef<'a>,
        deletion: DeletionTime,
    },
}

/// A [`ClusteringBound`](crate::clustering::ClusteringBound), borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundRef<'a> {
    pub prefix: &'a [u8],
    pub side: Side,
}

/// The bytes of an update do not add up; only possible where they came from a damaged log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed update is malformed at byte {offset}")]
pub struct UpdateDecodeError {
    pub offset: usize,
}

impl<'b> UpdateBuilder<'b> {
    pub fn new(out: &'b mut Vec<u8>, table: TableId, partition_key: &[u8], deletion: DeletionTime) -> Self {
        out.extend_from_slice(table.0.as_bytes());
        push_sized(out, partition_key);
        push_deletion(out, deletion);
        UpdateBuilder { out }
    }

    /// For more items of the update that a buffer ends with.
    pub fn again(out: &'b mut Vec<u8>) -> Self {
        UpdateBuilder { out }
    }

    /// How long the update is so far.
    pub fn byte_count(&self) -> usize {
        self.out.len()
    }

    /// A row that is packed already; without a clustering the static one.
    pub fn packed(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) {
        self.row_head(clustering);
        push_sized(self.out, row.as_bytes());
    }

    fn row_head(&mut self, clustering: Option<&[u8]>) {
        match clustering {
            None => self.out.push(ITEM_STATIC_ROW),
            Some(clustering) => {
                self.out.push(ITEM_ROW);
                push_sized(self.out, clustering);
            }
        }
    }

    /// Without a clustering the static one.
    pub fn any_row(
        &mut self,
        clustering: Option<&[u8]>,
        liveness: Liveness,
        deletion: DeletionTime,
        fill: impl FnOnce(&mut RowBuilder<'_>),
    ) {
        self.row_head(clustering);
        self.packed_row(liveness, deletion, fill);
    }

    pub fn static_row(
        &mut self,
        liveness: Liveness,
        deletion: DeletionTime,
        fill: impl FnOnce(&mut RowBuilder<'_>),
    ) {
        self.any_row(None, liveness, deletion, fill);
    }

    pub fn row(
        &mut self,
        clustering: &[u8],
        liveness: Liveness,
        deletion: DeletionTime,
        fill: impl FnOnce(&mut RowBuilder<'_>),
    ) {
        self.any_row(Some(clustering), liveness, deletion, fill);
    }

    pub fn range_tombstone(&mut self, start: BoundRef<'_>, end: BoundRef<'_>, deletion: DeletionTime) {
        self.out.push(ITEM_RANGE_TOMBSTONE);
        for bound in [start, end] {
            self.out.push(bound.side as u8);
            push_sized(self.out, bound.prefix);
        }
        push_deletion(self.out, deletion);
    }

    fn packed_row(
        &mut self,
        liveness: Liveness,
        deletion: DeletionTime,
        fill: impl FnOnce(&mut RowBuilder<'_>),
    ) {
        let length_at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        fill(&mut RowBuilder::new(self.out, liveness, deletion));
        let length = (self.out.len() - length_at - 4) as u32;
        self.out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

impl<'a> Update<'a> {
    /// Reads the head and checks that the items add up, so that [`Update::items`] cannot fail.
    pub fn decode(bytes: &'a [u8]) -> Result<Update<'a>, UpdateDecodeError> {
        let update = Self::decode_trusted(bytes).ok_or(UpdateDecodeError { offset: 0 })?;
        let mut items = UpdateItems { rest: update.items };
        while !items.rest.is_empty() {
            let offset = bytes.len() - items.rest.len();
            items.next().ok_or(UpdateDecodeError { offset })?;
        }
        Ok(update)
    }

    /// As [`Update::decode`], for bytes that a builder of this process wrote: items are not checked.
    #[inline]
    pub fn decode_trusted(bytes: &'a [u8]) -> Option<Update<'a>> {
        let mut reader = Reader { rest: bytes };
        let table = TableId(Uuid::from_bytes(*reader.array::<16>()?));
        let partition_key = reader.sized()?;
        let deletion = reader.deletion()?;
        Some(Update {
            table,
            partition_key,
            deletion,
            items: reader.rest,
            bytes,
        })
    }

    pub fn items(&self) -> UpdateItems<'a> {
        UpdateItems { rest: self.items }
    }

    /// Clustering and row of an update that is about one row and nothing else.
    pub fn only_row(&self) -> Option<(&'a [u8], RowRef<'a>)> {
        let mut items = self.items();
        match items.next() {
            Some(UpdateItem::Row { clustering, row }) if items.rest.is_empty() && self.deletion.is_live() => {
                Some((clustering, row))
            }
            _ => None,
        }
    }

    /// The bytes that name the partition; updates of one partition have the same.
    pub fn partition_bytes(&self) -> &'a [u8] {
        let end = self.bytes.len() - self.items.len() - DELETION_BYTES;
        self.bytes.get(..end).unwrap_or_default()
    }

    /// Bytes that the commit log stores.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// An update as a builder of this process has packed it, with the partition that it is for: who passes it on need not look into
/// it, and nobody hashes its key again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedUpdate {
    table: TableId,
    token: Token,
    bytes: Vec<u8>,
    is_of_expiry: bool,
}

impl PackedUpdate {
    /// `None` for bytes that are no update.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let update = Update::decode_trusted(&bytes)?;
        let token = token_of(update.partition_key);
        Self::with_token(token, bytes)
    }

    /// As [`PackedUpdate::new`], of a partition whose token is known.
    pub fn with_token(token: Token, bytes: Vec<u8>) -> Option<Self> {
        let table = Update::decode_trusted(&bytes)?.table;
        Some(PackedUpdate {
            table,
            token,
            bytes,
            is_of_expiry: false,
        })
    }

    /// As one that no client has sent: it deletes rows whose time is over.
    #[must_use]
    pub fn of_expiry(self) -> Self {
        PackedUpdate {
            is_of_expiry: true,
            ..self
        }
    }

    /// Returns whether it deletes rows because their time is over.
    pub fn is_of_expiry(&self) -> bool {
        self.is_of_expiry
    }

    /// The partition that it is for.
    #[inline]
    pub fn partition(&self) -> (TableId, Token) {
        (self.table, self.token)
    }

    /// Token of the partition's key.
    #[inline]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Bytes that the log stores.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer that it was packed into.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Decodes the update; never `None`, as its head was read when it was made.
    #[inline]
    pub fn decode(&self) -> Option<Update<'_>> {
        Update::decode_trusted(&self.bytes)
    }
}

/// Makes one update of all those of the same partition, so that the log has them entirely or not at all. In the order of
/// the partitions' first updates.
pub fn merge_by_partition(updates: Vec<PackedUpdate>) -> Vec<PackedUpdate> {
    if updates.len() < 2 {
        return updates;
    }
    let mut merged: Vec<PackedUpdate> = Vec::with_capacity(updates.len());
    let mut places: HashMap<Vec<u8>, usize> = HashMap::with_capacity(updates.len());
    for update in updates {
        let Some((partition, deletion, items)) = split_update(&update.bytes) else {
            merged.push(update);
            continue;
        };
        match places.entry(partition.to_vec()) {
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(update);
            }
            Entry::Occupied(place) => {
                append_update(&mut merged[*place.get()].bytes, partition.len(), deletion, items)
            }
        }
    }
    merged
}

/// The bytes that name the partition, its deletion, and the items.
fn split_update(update: &[u8]) -> Option<(&[u8], DeletionTime, &[u8])> {
    let decoded = Update::decode_trusted(update)?;
    let partition_bytes = update.len().checked_sub(decoded.items.len() + DELETION_BYTES)?;
    Some((update.get(..partition_bytes)?, decoded.deletion, decoded.items))
}

/// `partition_bytes` is where the deletion of `update` starts.
fn append_update(update: &mut Vec<u8>, partition_bytes: usize, deletion: DeletionTime, items: &[u8]) {
    let is_newer = Update::decode_trusted(update).is_some_and(|first| deletion.supersedes(first.deletion));
    if is_newer {
        let mut bytes = Vec::with_capacity(DELETION_BYTES);
        push_deletion(&mut bytes, deletion);
        update.splice(partition_bytes..partition_bytes + DELETION_BYTES, bytes);
    }
    update.extend_from_slice(items);
}

/// The items of an update, in the order they were built.
#[derive(Clone, Debug)]
pub struct UpdateItems<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for UpdateItems<'a> {
    type Item = UpdateItem<'a>;

    #[inline]
    fn next(&mut self) -> Option<UpdateItem<'a>> {
        let mut reader = Reader { rest: self.rest };
        let item = match reader.u8()? {
            ITEM_STATIC_ROW => UpdateItem::StaticRow(RowRef::new(reader.sized()?)),
            ITEM_ROW => UpdateItem::Row {
                clustering: reader.sized()?,
                row: RowRef::new(reader.sized()?),
            },
            ITEM_RANGE_TOMBSTONE => UpdateItem::RangeTombstone {
                start: reader.bound()?,
                end: reader.bound()?,
                deletion: reader.deletion()?,
            },
            _ => return None,
        };
        self.rest = reader.rest;
        Some(item)
    }
}

fn push_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn push_deletion(out: &mut Vec<u8>, deletion: DeletionTime) {
    out.extend_from_slice(&deletion.timestamp_us.to_le_bytes());
    out.extend_from_slice(&deletion.local_s.to_le_bytes());
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (array, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(*self.array()?) as usize;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn deletion(&mut self) -> Option<DeletionTime> {
        let timestamp_us = i64::from_le_bytes(*self.array()?);
        let local_s = u32::from_le_bytes(*self.array()?);
        Some(DeletionTime {
            timestamp_us,
            local_s,
        })
    }

    fn bound(&mut self) -> Option<BoundRef<'a>> {
        let side = match self.u8()? {
            0 => Side::Before,
            1 => Side::After,
            _ => return None,
        };
        Some(BoundRef {
            prefix: self.sized()?,
            side,
        })
    }
}

#[cfg(test)]
mod tests {
    use helenus_vfs::Random;

    use super::*;

    fn update(key: &[u8], clustering: &[u8], deletion: DeletionTime) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut builder = UpdateBuilder::new(&mut bytes, TableId(Uuid::nil()), key, deletion);
        let liveness = Liveness {
            timestamp_us: 1,
            ttl_s: 0,
            expires_at_s: u32::MAX,
        };
        builder.row(clustering, liveness, DeletionTime::LIVE, |_| {});
        bytes
    }

    /// The smoke run of the fuzz target `packed_update`.
    #[test]
    fn damaged_updates_are_refused_or_read_to_their_end() {
        let random = helenus_vfs::SeededRandom::new(5);
        let whole = update(b"key", b"clustering", DeletionTime::LIVE);
        let mut refused = 0;
        for _ in 0..2_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            bytes.truncate(1 + random.below(bytes.len() as u64 * 2) as usize);
            match Update::decode(&bytes) {
                Ok(update) => assert!(update.items().count() <= bytes.len()),
                Err(error) => {
                    assert!(error.offset <= bytes.len());
                    refused += 1;
                }
            }
        }
        assert!((500..2_000).contains(&refused), "{refused}");
    }

    /// After a crash some rows of a batch on one partition were there and others not.
    #[test]
    fn updates_of_one_partition_become_one() {
        let deletion = DeletionTime {
            timestamp_us: 7,
            local_s: 7,
        };
        let updates = [
            update(b"a", b"1", DeletionTime::LIVE),
            update(b"b", b"2", DeletionTime::LIVE),
            update(b"a", b"3", deletion),
            update(b"a", b"4", DeletionTime::LIVE),
        ];
        let merged = merge_by_partition(updates.map(|bytes| PackedUpdate::new(bytes).unwrap()).into());
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0].token(), token_of(b"a"));
        let first = Update::decode(merged[0].bytes()).unwrap();
        assert_eq!((first.partition_key, first.deletion), (b"a".as_slice(), deletion));
        let rows: Vec<&[u8]> = first
            .items()
            .map(|item| match item {
                UpdateItem::Row { clustering, .. } => clustering,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(rows, [b"1", b"3", b"4"]);
        assert_eq!(merged[1].bytes(), update(b"b", b"2", DeletionTime::LIVE));
    }
}
