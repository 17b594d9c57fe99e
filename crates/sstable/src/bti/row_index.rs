//! Rows.db: for each partition of two or more blocks a trie of separators between the blocks, and behind it an entry.
//!
//! | field of an entry | bytes |
//! |---|---|
//! | partition key | 2-byte length, bytes |
//! | position | vint: of the partition in Data.db |
//! | root | signed vint: of the trie, from the byte after the key |
//! | blocks | vint: their number |
//! | partition deletion | 1 if there is none, else 12 |
//!
//! A separator is greater than all places of the block before it and not greater than any of its own; the first is
//! empty, and one more stands for the end of the last block. A payload is the block's offset from the partition's
//! start, signed, in as many bytes as its bits say, and with bit 8 the range deletion in force where the block begins.

use super::byte_comparable::{keeps_order, may_change_place, push_clustering};
use super::sized_integer::{push_sized, read_sized};
use super::trie_reader::{StoredPayload, TrieCursor, TrieFile};
use super::trie_writer::{PageSink, Payload, TrieWriter};
use crate::index::entry::TrieIndex;

use crate::block::checksums::PageChecksums;
use crate::block::chunk_stream::ChunkStream;
use crate::component::Component;
use crate::component_writer::PagedFile;
use crate::decode::{ByteReader, DecodeError, push_bytes_after_u16, push_signed_vint, push_unsigned_vint};
use crate::error::ReadError;
use crate::error::WriteError;
use crate::index::entry::BlockSpan;
use crate::rows::deletion_codec::{push_deletion_time, read_deletion_time};
use crate::version::Version;
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Side};
use helenus_rows::deletion::DeletionTime;

/// The payload bit of a range deletion in force.
const BIT_OPEN: u8 = 8;
/// Written to the file at once.
const FLUSH_BYTES: usize = 64 * 1024;

/// Writes Rows.db as blocks and partitions come, in order.
#[derive(Debug)]
pub(crate) struct RowIndexWriter {
    file: PagedFile,
    sink: PageSink,
    comparator: ClusteringComparator,
    trie: TrieWriter,
    block_count: u32,
    /// True if translated places sort as places do, whatever the values.
    keeps_order: bool,
    /// True if they do in the partition at hand. If not, it gets no index, which is always right.
    is_ordered: bool,
    /// The last place of all, translated, if they are watched for their order.
    watched: Vec<u8>,
    /// The last place of the blocks so far, translated.
    last_place: Vec<u8>,
    /// The last separator.
    separator: Vec<u8>,
    buffer: Vec<u8>,
}

/// A place that a row or marker has: a packed clustering, for a marker with its side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceRef<'a> {
    pub prefix: &'a [u8],
    pub side: Option<Side>,
}

impl RowIndexWriter {
    pub fn new(file: PagedFile, comparator: ClusteringComparator) -> Self {
        RowIndexWriter {
            file,
            sink: PageSink::default(),
            keeps_order: keeps_order(&comparator),
            is_ordered: true,
            comparator,
            trie: TrieWriter::default(),
            block_count: 0,
            watched: Vec::new(),
            last_place: Vec::new(),
            separator: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Told of every row and marker.
    pub fn place(&mut self, place: PlaceRef<'_>) {
        if !self.keeps_order && self.is_ordered {
            self.translate(place);
            self.is_ordered = self.watched < self.buffer;
            std::mem::swap(&mut self.watched, &mut self.buffer);
        }
    }

    /// Adds a block: its first and last place, its offset, and the range deletion in force where it begins.
    pub fn add_block(&mut self, first: PlaceRef<'_>, last: PlaceRef<'_>, offset: u64, open: DeletionTime) {
        self.translate(first);
        let is_first = self.block_count == 0;
        self.is_ordered &= is_first || self.last_place < self.buffer;
        if !self.is_ordered {
            return;
        }
        if !is_first {
            separate(&mut self.separator, &self.last_place, &self.buffer);
        }
        self.trie
            .add(&mut self.sink, &self.separator, payload_of(offset, open));
        self.block_count += 1;
        self.translate(last);
        std::mem::swap(&mut self.last_place, &mut self.buffer);
    }

    fn translate(&mut self, place: PlaceRef<'_>) {
        self.buffer.clear();
        push_clustering(&mut self.buffer, &self.comparator, place.prefix, place.side);
    }

    /// Ends a partition. Returns the position of its entry, or `None` if it has less than two blocks and needs none.
    /// `end_offset` is where the mark of the partition's end lies.
    pub fn end_partition(
        &mut self,
        key: &[u8],
        position: u64,
        deletion: DeletionTime,
        end_offset: u64,
    ) -> Result<Option<u64>, WriteError> {
        let block_count = std::mem::take(&mut self.block_count);
        let is_ordered = std::mem::replace(&mut self.is_ordered, true);
        let mut entry = None;
        if block_count > 1 && is_ordered {
            let end = place_after(&self.last_place, &self.separator);
            self.trie
                .add(&mut self.sink, &end, payload_of(end_offset, DeletionTime::LIVE));
            let root = self.trie.finish(&mut self.sink);
            entry = Some(self.sink.position());
            self.buffer.clear();
            push_bytes_after_u16(&mut self.buffer, key);
            let base = self.sink.position() + self.buffer.len() as u64;
            push_unsigned_vint(&mut self.buffer, position);
            push_signed_vint(&mut self.buffer, root.cast_signed() - base.cast_signed());
            push_unsigned_vint(&mut self.buffer, u64::from(block_count));
            push_deletion_time(&mut self.buffer, Version::Da, deletion);
            self.sink.append(&self.buffer);
        } else {
            // What was written of it already stays, and nothing points to it.
            self.trie = TrieWriter::default();
        }
        self.watched.clear();
        self.last_place.clear();
        self.separator.clear();
        if self.sink.pending_bytes() >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(entry)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let mut result = Ok(());
        let file = &mut self.file;
        self.sink.take(|pending| result = file.append(pending));
        result
    }

    /// Makes the file durable; returns its length and the checksums of its pages.
    pub fn finish(mut self) -> Result<(u64, PageChecksums), WriteError> {
        self.flush()?;
        self.file.finish(Component::Rows)
    }
}

/// The shared start of two places and one byte that is the least after the first's.
fn separate(separator: &mut Vec<u8>, before: &[u8], after: &[u8]) {
    let shared = before
        .iter()
        .zip(after)
        .take_while(|(before, after)| before == after)
        .count();
    separator.clear();
    separator.extend_from_slice(&before[..shared]);
    // The other place has a greater byte here, so that this one is below 255.
    separator.push(before.get(shared).map_or(0, |byte| byte + 1));
}

/// As short as the last separator allows: the last place up to where they differ, one byte incremented.
fn place_after(last_place: &[u8], separator: &[u8]) -> Vec<u8> {
    let shared = last_place
        .iter()
        .zip(separator)
        .take_while(|(last, separator)| last == separator)
        .count();
    let mut out = last_place[..shared].to_vec();
    for byte in &last_place[shared..] {
        out.push(byte.saturating_add(1));
        if *byte < 0xff {
            return out;
        }
    }
    out.push(0);
    out
}

fn payload_of(offset: u64, open: DeletionTime) -> Payload {
    let mut bytes = Vec::with_capacity(20);
    push_sized(&mut bytes, offset.cast_signed());
    let mut bits = bytes.len() as u8;
    debug_assert!(bits < BIT_OPEN, "a partition is smaller than 32 PiB");
    if !open.is_live() {
        bits |= BIT_OPEN;
        push_deletion_time(&mut bytes, Version::Da, open);
    }
    Payload::new(bits, &[&bytes])
}

/// A partition's entry in Rows.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowIndexEntry {
    pub key: Vec<u8>,
    /// Position of the partition in Data.db.
    pub position: u64,
    pub trie: TrieIndex,
}

impl RowIndexEntry {
    pub fn read(file: TrieFile<'_>, position: u64) -> Result<Self, ReadError> {
        // An entry that crosses into a page that is not in memory is read from its start.
        match file
            .pinned_from(position)
            .map(|bytes| Self::decode(bytes, position))
        {
            Some(Ok(entry)) => return Ok(entry),
            Some(Err(DecodeError::Truncated { .. })) | None => {}
            Some(Err(error)) => return Err(error.in_file(file.file.path(), position)),
        }
        let mut stream = ChunkStream::new(file.file, file.pages);
        stream.seek(position);
        stream.decode(|bytes| Self::decode(bytes, position))
    }

    fn decode(bytes: &[u8], position: u64) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let key = reader.bytes_after_u16()?.to_vec();
        let base = position + reader.position() as u64;
        let data_position = reader.unsigned_vint()?;
        let root_at = reader.position();
        let distance = reader.signed_vint()?;
        let root = base
            .checked_add_signed(distance)
            .filter(|root| *root < position)
            .ok_or_else(|| {
                DecodeError::malformed(root_at, "a root before the partition's entry", distance)
            })?;
        let count_at = reader.position();
        let count = reader.unsigned_vint()?;
        let block_count = u32::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| DecodeError::malformed(count_at, "a number of blocks", count))?;
        let deletion = read_deletion_time(&mut reader, Version::Da)?;
        let trie = TrieIndex {
            root,
            block_count,
            deletion,
        };
        Ok(RowIndexEntry {
            key,
            position: data_position,
            trie,
        })
    }
}

/// The blocks of one partition, found by place. Lookups read the index only. A place whose translation may sort otherwise than it
/// does ([`may_change_place`]) is looked for in all of them.
#[derive(Debug)]
pub(crate) struct TrieBlocks<'a> {
    trie: TrieCursor<'a>,
    comparator: &'a ClusteringComparator,
    key: Vec<u8>,
}

impl TrieIndex {
    pub fn blocks<'a>(
        self,
        file: TrieFile<'a>,
        comparator: &'a ClusteringComparator,
    ) -> Result<TrieBlocks<'a>, ReadError> {
        Ok(TrieBlocks {
            trie: TrieCursor::new(file, self.root)?,
            comparator,
            key: Vec::new(),
        })
    }
}

impl TrieBlocks<'_> {
    /// Returns whether a place can be told from its neighbours by its translation. Else every block may have it.
    pub fn finds(&self, prefix: &[u8]) -> bool {
        !may_change_place(self.comparator, prefix)
    }

    /// Where the first block starts, which the root says: the length of the partition's head.
    pub fn header_length(&mut self) -> Result<u64, ReadError> {
        self.trie.first()?;
        self.trie.read(read_payload).map(|(start, _)| start)
    }

    /// The block that has what follows a bound first, or the one before it. If `is_key`, the bound is that before a
    /// complete key, and what precedes the key's row is not sought. An empty block if the bound is after all blocks.
    pub fn first_of(&mut self, start: &ClusteringBound, is_key: bool) -> Result<BlockSpan, ReadError> {
        match self.finds(&start.prefix) {
            true => self.seek(&start.prefix, (!is_key).then_some(start.side))?,
            false => self.trie.first()?,
        }
        if let Some(block) = self.block()? {
            return Ok(block);
        }
        let (end, _) = self.trie.read(read_payload)?;
        Ok(span(end, end, DeletionTime::LIVE))
    }

    /// The block that has the last row or marker before a bound, or the one after it. If `is_key`, the bound is that
    /// after a complete key, and it is the block that has or would have the key's row.
    pub fn last_before(&mut self, end: &ClusteringBound, is_key: bool) -> Result<BlockSpan, ReadError> {
        if !self.finds(&end.prefix) {
            return self.last();
        }
        self.seek(&end.prefix, (!is_key).then_some(end.side))?;
        match self.block()? {
            Some(block) => Ok(block),
            None => self.last(),
        }
    }

    /// Before which offset everything lies that comes before a bound.
    pub fn end_before(&mut self, end: &ClusteringBound) -> Result<u64, ReadError> {
        if *end == ClusteringBound::top() || !self.finds(&end.prefix) {
            return Ok(u64::MAX);
        }
        self.seek(&end.prefix, Some(end.side))?;
        Ok(self.block()?.map_or(u64::MAX, |block| block.end))
    }

    pub fn last(&mut self) -> Result<BlockSpan, ReadError> {
        self.trie.last()?;
        if self.trie.previous()?
            && let Some(block) = self.block()?
        {
            return Ok(block);
        }
        Err(self.trie.corrupt("a block before the end of all blocks"))
    }

    /// The block before another one, if there is one.
    pub fn before(&mut self, block: &BlockSpan) -> Result<Option<BlockSpan>, ReadError> {
        // The trie is at that block, unless another one was looked at since.
        let mut start = self.trie.read(read_payload)?.0;
        while start < block.start && self.trie.next()? {
            start = self.ascending(start)?;
        }
        while start >= block.start {
            if !self.trie.previous()? {
                self.trie.first()?;
                return Ok(None);
            }
            let before = self.trie.read(read_payload)?.0;
            if before >= start {
                return Err(self.trie.corrupt("blocks of ascending offsets"));
            }
            start = before;
        }
        self.block()
    }

    fn seek(&mut self, prefix: &[u8], side: Option<Side>) -> Result<(), ReadError> {
        self.key.clear();
        push_clustering(&mut self.key, self.comparator, prefix, side);
        if !self.trie.floor(&self.key)? {
            self.trie.first()?;
        }
        Ok(())
    }

    /// The current block, with the trie at it; `None` at the end of all blocks.
    fn block(&mut self) -> Result<Option<BlockSpan>, ReadError> {
        let (start, open) = self.trie.read(read_payload)?;
        if !self.trie.next()? {
            self.trie.last()?;
            return Ok(None);
        }
        let end = self.ascending(start)?;
        self.trie.previous()?;
        Ok(Some(span(start, end, open)))
    }

    /// The current offset, which must be greater than the one before.
    fn ascending(&self, before: u64) -> Result<u64, ReadError> {
        match self.trie.read(read_payload)? {
            (start, _) if start > before => Ok(start),
            _ => Err(self.trie.corrupt("blocks of ascending offsets")),
        }
    }
}

fn span(start: u64, end: u64, open_before: DeletionTime) -> BlockSpan {
    BlockSpan {
        id: start,
        start,
        end,
        first: None,
        open_before,
    }
}

fn read_payload(payload: StoredPayload<'_>) -> Result<(u64, DeletionTime), &'static str> {
    const WANTED: &str = "a block's offset and open deletion within the page";
    let length = usize::from(payload.bits & !BIT_OPEN);
    let (offset, rest) = payload.bytes.split_at_checked(length).ok_or(WANTED)?;
    let offset = u64::try_from(read_sized(offset)).map_err(|_| WANTED)?;
    let open = if payload.bits & BIT_OPEN == 0 {
        DeletionTime::LIVE
    } else {
        read_deletion_time(&mut ByteReader::new(rest), Version::Da).map_err(|_| WANTED)?
    };
    Ok((offset, open))
}

#[cfg(test)]
mod tests;
