//! Index.db: where each partition begins in Data.db, and for a large one where its blocks are.
//!
//! | field | bytes |
//! |---|---|
//! | partition key | 2-byte length, bytes |
//! | position | vint: of the partition in Data.db |
//! | size | vint: of what follows; 0 for a partition of less than two blocks |
//! | header length | vint: from the partition's start to its first row |
//! | partition deletion | 12 |
//! | blocks | vint: their number |
//! | blocks | first place, last place, vint offset, signed vint width - 64 KiB, open deletion or none |
//! | offsets | per block 4: where it is among the blocks |

use crate::index::entry::BlockBounds;
use crate::index::entry::BlockIndex;
use crate::index::entry::IndexEntry;
use crate::index::entry::PromotedIndex;
use helenus_types::Token;
use helenus_types::token::token_of;

use crate::block::chunk_stream::ChunkStream;
use crate::decode::{ByteReader, DecodeError, push_bytes_after_u16, push_signed_vint, push_unsigned_vint};
use crate::error::ReadError;
use crate::index::entry::BlockSpan;
use crate::index::entry::WrittenPartition;
use crate::rows::clustering_codec::{ClusteringCodec, Place};
use crate::rows::deletion_codec::{push_deletion_time, read_deletion_time};
use crate::version::Version;
use helenus_rows::deletion::DeletionTime;

/// Widths are stored as the difference to the default size of a block.
const BLOCK_WIDTH_BASE: i64 = 64 * 1024;
/// The least that a block takes in the index: two places of one byte, offset, width and flag.
const BLOCK_BYTES_MIN: usize = 5;
/// Longest variable-length integer.
const VINT_BYTES_MAX: usize = 9;

/// A stretch of a large partition's rows, as a promoted index describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IndexBlock {
    first: Place,
    /// From the partition's start to the block's first row, and behind its last.
    offset: u64,
    end: u64,
    /// The range deletion in force after the block's last row.
    open_at_end: DeletionTime,
}

/// Gathers the blocks of the partition being written.
#[derive(Debug)]
pub(crate) struct PromotedIndexBuilder {
    version: Version,
    blocks: Vec<u8>,
    offsets: Vec<u32>,
}

impl PromotedIndexBuilder {
    pub fn new(version: Version) -> Self {
        PromotedIndexBuilder {
            version,
            blocks: Vec::new(),
            offsets: Vec::new(),
        }
    }

    pub fn clear(&mut self) {
        self.blocks.clear();
        self.offsets.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub fn push(&mut self, codec: &ClusteringCodec, block: &BlockBounds, open_at_end: DeletionTime) {
        self.offsets.push(self.blocks.len() as u32);
        for place in [&block.first, &block.last] {
            codec.write_place(&mut self.blocks, &place.prefix, place.kind);
        }
        push_unsigned_vint(&mut self.blocks, block.offset);
        push_signed_vint(&mut self.blocks, block.width as i64 - BLOCK_WIDTH_BASE);
        self.blocks.push(u8::from(!open_at_end.is_live()));
        if !open_at_end.is_live() {
            push_deletion_time(&mut self.blocks, self.version, open_at_end);
        }
    }

    /// Appends the partition's whole entry.
    pub fn finish(&self, out: &mut Vec<u8>, partition: WrittenPartition<'_>) {
        push_bytes_after_u16(out, partition.key);
        push_unsigned_vint(out, partition.position);
        if self.offsets.len() < 2 {
            push_unsigned_vint(out, 0);
            return;
        }
        let mut head = Vec::with_capacity(32);
        push_unsigned_vint(&mut head, partition.header_length);
        push_deletion_time(&mut head, self.version, partition.deletion);
        push_unsigned_vint(&mut head, self.offsets.len() as u64);
        push_unsigned_vint(
            out,
            (head.len() + self.blocks.len() + 4 * self.offsets.len()) as u64,
        );
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.blocks);
        for offset in &self.offsets {
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }
}

/// Reads the entry at the stream's position and moves behind it; `None` at the end of the index.
pub(crate) fn read_entry(
    stream: &mut ChunkStream<'_>,
    version: Version,
) -> Result<Option<IndexEntry>, ReadError> {
    let mut entry = IndexEntry::default();
    Ok(read_entry_into(stream, version, &mut entry)?.then_some(entry))
}

/// As [`read_entry`], into an entry whose key's memory is used again; false at the end of the index.
pub(crate) fn read_entry_into(
    stream: &mut ChunkStream<'_>,
    version: Version,
    entry: &mut IndexEntry,
) -> Result<bool, ReadError> {
    if stream.is_at_end() {
        return Ok(false);
    }
    let (base, room) = (stream.position(), stream.remaining());
    let head = stream.decode(|bytes| {
        let mut reader = ByteReader::new(bytes);
        let key = reader.bytes_after_u16()?;
        let head = read_entry_head(&mut reader, version, (base, room))?;
        entry.key.clear();
        entry.key.extend_from_slice(key);
        Ok(head)
    })?;
    entry.token = token_of(&entry.key);
    entry.set_head(stream, base, head);
    Ok(true)
}

/// Part of an entry behind its key.
struct EntryHead {
    position: u64,
    promoted: Option<PromotedIndex>,
    /// Length of the whole entry.
    length: u64,
}

/// `base` is where the entry begins, as the reader does; `room` is what the file has from there on.
fn read_entry_head(
    reader: &mut ByteReader<'_>,
    version: Version,
    (base, room): (u64, u64),
) -> Result<EntryHead, DecodeError> {
    let position = reader.unsigned_vint()?;
    let size = reader.unsigned_vint()?;
    let promoted = match size {
        0 => None,
        size => {
            let size_max = room.saturating_sub(reader.position() as u64);
            Some(read_promoted(reader, version, base, (size, size_max))?)
        }
    };
    Ok(EntryHead {
        position,
        length: reader.position() as u64 + promoted.as_ref().map_or(0, |(_, rest)| *rest),
        promoted: promoted.map(|(promoted, _)| promoted),
    })
}

impl IndexEntry {
    /// Moves the stream behind the entry.
    fn set_head(&mut self, stream: &mut ChunkStream<'_>, base: u64, head: EntryHead) {
        stream.seek(base + head.length);
        self.position = head.position;
        self.is_candidate = false;
        self.blocks = head.promoted.map(BlockIndex::Promoted);
        self.end = next_position(stream.available()).filter(|end| *end > head.position);
    }
}

/// The position that an entry begins with, if it is all there.
fn next_position(bytes: &[u8]) -> Option<u64> {
    let mut reader = ByteReader::new(bytes);
    reader.bytes_after_u16().ok()?;
    reader.unsigned_vint().ok()
}

/// Looks for a key's entry from the stream's position to an end; entries of other keys are passed over in place. The
/// entry that is found has the token, and not the key, which the caller knows.
pub(crate) fn find_entry(
    stream: &mut ChunkStream<'_>,
    version: Version,
    (token, key): (Token, &[u8]),
    end: u64,
) -> Result<Option<IndexEntry>, ReadError> {
    while stream.position() < end {
        let left = usize::try_from(end - stream.position()).unwrap_or(usize::MAX);
        let available = stream.available();
        let passed = pass_entries(available.get(..left).unwrap_or(available), key);
        stream.consume(passed);
        let (base, room) = (stream.position(), stream.remaining());
        if base >= end {
            break;
        }
        let found = stream.decode(|bytes| {
            let mut reader = ByteReader::new(bytes);
            if reader.bytes_after_u16()? == key {
                let head = read_entry_head(&mut reader, version, (base, room))?;
                return Ok(Err(head));
            }
            reader.unsigned_vint()?;
            let size = reader.unsigned_vint()?;
            Ok(Ok((reader.position() as u64).saturating_add(size)))
        })?;
        match found {
            Ok(length) => stream.seek(base.saturating_add(length)),
            Err(head) => {
                let mut entry = IndexEntry {
                    token,
                    ..IndexEntry::default()
                };
                entry.set_head(stream, base, head);
                return Ok(Some(entry));
            }
        }
    }
    Ok(None)
}

/// How many bytes the entries take that are there entirely, have no blocks and are of other keys, up to the first that
/// is not so. Some hundred entries are passed for each that is found.
fn pass_entries(bytes: &[u8], key: &[u8]) -> usize {
    let mut passed = 0;
    loop {
        passed += pass_entries_alike(&bytes[passed..], key);
        match pass_entry(bytes, passed, key) {
            Some(end) => passed = end,
            None => return passed,
        }
    }
}

/// As [`pass_entries`], for those whose keys are as long as the one that is looked for, which most are; not for the last ones.
#[inline(never)] // Within its caller it lacks registers (decision 36).
fn pass_entries_alike(bytes: &[u8], key: &[u8]) -> usize {
    let (Some(last), Ok(key_length)) = (key.last(), u16::try_from(key.len())) else {
        return 0;
    };
    let key_end = 2 + key.len();
    let mut rest = bytes;
    // One look at the end of what is there, for all that an entry takes.
    while let Some(entry) = rest.get(..key_end + VINT_BYTES_MAX + 1) {
        let (head, behind) = entry.split_at(key_end);
        let position_length = 1 + behind[0].leading_ones() as usize;
        let is_alike = head[..2] == key_length.to_be_bytes() && behind[position_length] == 0;
        // Most keys differ in their last byte, which costs less to compare than all.
        if !is_alike || head[key_end - 1] == *last && head[2..] == *key {
            break;
        }
        rest = &rest[key_end + position_length + 1..];
    }
    bytes.len() - rest.len()
}

/// Where the entry ends that begins at `start`: the key's length in two bytes, the key, its position in Data.db as a
/// variable-length integer, and the size of its blocks, 0 in one byte.
#[inline]
fn pass_entry(bytes: &[u8], start: usize, key: &[u8]) -> Option<usize> {
    let key_start = start + 2;
    let length = bytes.get(start..key_start)?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let key_end = key_start + length;
    let size_at = key_end + 1 + bytes.get(key_end)?.leading_ones() as usize;
    if *bytes.get(size_at)? != 0 {
        return None;
    }
    (bytes[key_start..key_end] != *key).then_some(size_at + 1)
}

/// The head of a promoted index, and how many bytes of it follow the head.
fn read_promoted(
    reader: &mut ByteReader<'_>,
    version: Version,
    base: u64,
    (size, size_max): (u64, u64),
) -> Result<(PromotedIndex, u64), DecodeError> {
    let start = reader.position();
    if size > size_max {
        return Err(DecodeError::malformed(
            start,
            "a promoted index within the file",
            size,
        ));
    }
    let header_length = reader.unsigned_vint()?;
    let deletion = read_deletion_time(reader, version)?;
    let count = reader.unsigned_vint()?;
    let head = (reader.position() - start) as u64;
    let rest = size
        .checked_sub(head)
        .filter(|rest| count <= rest / (BLOCK_BYTES_MIN as u64 + 4));
    let (Some(rest), Ok(block_count)) = (rest, u32::try_from(count)) else {
        return Err(DecodeError::malformed(
            start,
            "a promoted index that holds its blocks",
            count,
        ));
    };
    if block_count == 0 {
        return Err(DecodeError::malformed(start, "at least one block", count));
    }
    let blocks_at = base + reader.position() as u64;
    let offsets_at = blocks_at + rest - 4 * count;
    Ok((
        PromotedIndex {
            block_count,
            header_length,
            deletion,
            version,
            blocks_at,
            offsets_at,
        },
        rest,
    ))
}

/// The promoted index of one partition, with a stream of Index.db to read it by.
#[derive(Debug)]
pub(crate) struct PromotedBlocks<'a> {
    pub promoted: PromotedIndex,
    pub stream: ChunkStream<'a>,
    pub codec: &'a ClusteringCodec,
}

impl PromotedBlocks<'_> {
    fn block(&mut self, index: u32) -> Result<IndexBlock, ReadError> {
        let PromotedBlocks {
            promoted,
            stream,
            codec,
        } = self;
        let offset_at = promoted.offsets_at + 4 * u64::from(index);
        stream.seek(offset_at);
        let offset = stream.decode(|bytes| ByteReader::new(bytes).u32())?;
        let block_at = promoted.blocks_at + u64::from(offset);
        if block_at >= promoted.offsets_at {
            let error = DecodeError::malformed(0, "the offset of a block", offset);
            return Err(error.in_file(stream.path(), offset_at));
        }
        stream.seek(block_at);
        stream.decode(|bytes| {
            let mut reader = ByteReader::new(bytes);
            let first = codec.read_place(&mut reader)?;
            codec.read_place(&mut reader)?;
            let offset = reader.unsigned_vint()?;
            let width_at = reader.position();
            let width = reader.signed_vint()?.saturating_add(BLOCK_WIDTH_BASE);
            let width = u64::try_from(width)
                .map_err(|_| DecodeError::malformed(width_at, "the width of a block", width))?;
            let open_at_end = if reader.boolean()? {
                read_deletion_time(&mut reader, promoted.version)?
            } else {
                DeletionTime::LIVE
            };
            Ok(IndexBlock {
                first,
                offset,
                end: offset.saturating_add(width),
                open_at_end,
            })
        })
    }

    fn span(&mut self, index: u32) -> Result<BlockSpan, ReadError> {
        let block = self.block(index)?;
        let open_before = match index.checked_sub(1) {
            Some(previous) => {
                let previous = self.block(previous)?;
                self.check_adjoins(previous.end, block.offset)?;
                previous.open_at_end
            }
            None => DeletionTime::LIVE,
        };
        Ok(BlockSpan {
            id: u64::from(index),
            start: block.offset,
            end: block.end,
            first: Some(block.first),
            open_before,
        })
    }

    pub fn last_where(&mut self, holds: &dyn Fn(&Place) -> bool) -> Result<BlockSpan, ReadError> {
        let (low, high) = (0, self.promoted.block_count);
        let index = self.search(low, high, holds)?;
        self.span(index)
    }

    pub fn before(&mut self, block: &BlockSpan) -> Result<Option<BlockSpan>, ReadError> {
        match (block.id as u32).checked_sub(1) {
            Some(previous) => {
                let previous = self.span(previous)?;
                self.check_adjoins(previous.end, block.start)?;
                Ok(Some(previous))
            }
            None => Ok(None),
        }
    }

    /// A block ends where the next one begins, or one of the two is damaged: rows would be hidden, or read in one piece
    /// with those of many blocks.
    fn check_adjoins(&self, end: u64, next_start: u64) -> Result<(), ReadError> {
        if end == next_start {
            return Ok(());
        }
        let wanted = "blocks without a gap between them";
        let error = DecodeError::malformed(0, wanted, format!("{end} before {next_start}"));
        Err(error.in_file(self.stream.path(), self.stream.position()))
    }

    /// The end of the last block for which a test holds. Blocks near the first are looked at first, in growing steps,
    /// as they are described nearby.
    pub fn end_where(&mut self, from: &BlockSpan, holds: &dyn Fn(&Place) -> bool) -> Result<u64, ReadError> {
        let count = self.promoted.block_count;
        let (mut low, mut step) = (from.id as u32, 1);
        let high = loop {
            let next = low.saturating_add(step);
            if next >= count {
                break count;
            }
            if !holds(&self.block(next)?.first) {
                break next;
            }
            low = next;
            step *= 2;
        };
        let last = self.search(low, high, holds)?;
        Ok(self.block(last)?.end)
    }

    /// The block at `low` passes or is the first, the one at `high` fails or is past the last.
    fn search(
        &mut self,
        mut low: u32,
        mut high: u32,
        holds: &dyn Fn(&Place) -> bool,
    ) -> Result<u32, ReadError> {
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if holds(&self.block(middle)?.first) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of one length are passed in a loop of their own, which must stop where the general one does.
    #[test]
    fn entries_are_passed_up_to_the_first_that_is_looked_for_or_not_there_or_has_blocks() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut stops = [0; 3];
        for round in 0..20_000 {
            let lengths = [1 + next(3), next(6), 4];
            let mut entries = Vec::new();
            let mut bytes = Vec::new();
            for _ in 0..next(20) {
                let length = lengths[next(3) as usize];
                let key: Vec<u8> = (0..length).map(|_| next(4) as u8).collect();
                let start = bytes.len();
                push_bytes_after_u16(&mut bytes, &key);
                let bits = next(64);
                push_unsigned_vint(&mut bytes, next(u64::MAX) >> bits);
                let has_blocks = next(12) == 0;
                push_unsigned_vint(&mut bytes, u64::from(has_blocks) * (1 + next(1_000)));
                entries.push((start, key, has_blocks));
            }
            bytes.truncate(bytes.len() - next(3).min(bytes.len() as u64) as usize);
            let wanted: Vec<u8> = (0..lengths[round % 3]).map(|_| next(4) as u8).collect();
            let mut passed = 0;
            for (start, key, has_blocks) in &entries {
                let end = whole_end(&bytes, *start);
                let reasons = [*key == wanted, *has_blocks, end.is_none()];
                if let Some(reason) = reasons.iter().position(|holds| *holds) {
                    stops[reason] += 1;
                    break;
                }
                passed = end.unwrap();
            }
            assert_eq!(pass_entries(&bytes, &wanted), passed, "{bytes:?} for {wanted:?}");
        }
        assert!(stops.iter().all(|&stops| stops > 500), "{stops:?}");
    }

    fn whole_end(bytes: &[u8], start: usize) -> Option<usize> {
        let mut reader = ByteReader::new(bytes.get(start..)?);
        reader.bytes_after_u16().ok()?;
        reader.unsigned_vint().ok()?;
        reader.unsigned_vint().ok()?;
        Some(start + reader.position())
    }
}
