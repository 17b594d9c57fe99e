//! One partition's rows and markers, one after the other as they lie in Data.db.

use crate::block::chunk_stream::ChunkStream;
use crate::decode::{ByteReader, DecodeError};
use crate::error::ReadError;
use crate::index::fences::Stretch;
use crate::meta::header::Header;
use crate::rows::deletion_codec::read_deletion_time;
use crate::rows::row_decoder::{Decoded, Item, RowBuffers, RowDecoder};
use crate::rows::skipping::{pass_items, pass_rows_before};
use crate::rows::stop::Stop;
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;

/// Reads a partition forward from a position that a row or marker begins at.
#[derive(Debug)]
pub(crate) struct PartitionReader<'a> {
    header: &'a Header,
    stream: ChunkStream<'a>,
    decoder: RowDecoder,
    /// Position of the partition in Data.db.
    position: u64,
    header_length: u64,
    deletion: DeletionTime,
    static_row: Vec<u8>,
    pub item: Item,
    /// Where the item begins, in Data.db.
    item_position: u64,
    /// The item was decoded and not passed yet.
    peeked: Option<Decoded>,
    /// Nothing that is wanted lies from this offset on.
    limit: Option<u64>,
    is_at_end: bool,
    /// Rows and markers, since they were counted last.
    decoded: u64,
}

/// Where a partition is, and what an index says of its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionPlace<'e> {
    pub key: &'e [u8],
    /// In Data.db.
    pub position: u64,
    /// Where the next partition begins, if that is known.
    pub end: Option<u64>,
    /// Nothing is asked for from there on.
    pub unpack_end: u64,
    /// It may be another key's.
    pub is_candidate: bool,
    /// Its length and the partition's deletion, if the index has them and a checksum vouches for it.
    pub head: Option<(u64, DeletionTime)>,
}

/// Bytes of a partition of unknown shape that are worth one request: the small ones are read whole.
const WHOLE_PARTITION_BYTES_MAX: u64 = 16 * 1024;
/// Bounds what the width of a block may make us read at once.
const PREFETCH_BYTES_MAX: u64 = 256 * 1024;

impl<'a> PartitionReader<'a> {
    pub fn new(header: &'a Header, stream: ChunkStream<'a>) -> Self {
        let RowBuffers {
            decoder,
            item,
            static_row,
        } = stream.cache().take_row_buffers();
        PartitionReader {
            header,
            stream,
            decoder,
            position: 0,
            header_length: 0,
            deletion: DeletionTime::LIVE,
            static_row,
            item,
            item_position: 0,
            peeked: None,
            limit: None,
            is_at_end: false,
            decoded: 0,
        }
    }

    /// Goes to a partition. Its head is read, and checked to be of its key, unless the index has all of it. False for a
    /// candidate that turns out to be another key's.
    pub fn open(&mut self, place: &PartitionPlace<'_>) -> Result<bool, ReadError> {
        self.position = place.position;
        self.peeked = None;
        self.limit = None;
        self.is_at_end = false;
        self.static_row.clear();
        let whole_end = place.position + WHOLE_PARTITION_BYTES_MAX;
        let end = place.end.map_or(0, |end| end.min(whole_end));
        self.stream.expect_until(end);
        if place.end.is_none() {
            self.stream.unpack_until(place.unpack_end);
        }
        if let Some((header_length, deletion)) = place.head
            && self.header.statics.columns.is_empty()
        {
            self.header_length = header_length;
            self.deletion = deletion;
            self.stream.seek(place.position.saturating_add(header_length));
            return Ok(true);
        }
        self.stream.seek(place.position);
        self.read_head(place.key, place.is_candidate)
    }

    /// Goes to the partition of a key, if it is in a stretch.
    pub fn open_in(&mut self, stretch: Stretch, key: &[u8]) -> Result<bool, ReadError> {
        let mut position = stretch.start;
        while position < stretch.end {
            let place = PartitionPlace {
                key,
                position,
                end: stretch.is_single.then_some(stretch.end),
                unpack_end: stretch.end,
                is_candidate: true,
                head: None,
            };
            if self.open(&place)? {
                return Ok(true);
            }
            position = self.pass_partition()?;
        }
        Ok(false)
    }

    /// Passes the partition that the position is at the beginning of; returns where the next one begins.
    fn pass_partition(&mut self) -> Result<u64, ReadError> {
        let PartitionReader { header, stream, .. } = self;
        let length = stream.decode(|bytes| {
            let mut head = ByteReader::new(bytes);
            head.bytes_after_u16()?;
            read_deletion_time(&mut head, header.version)?;
            Ok(head.position())
        })?;
        stream.consume(length);
        loop {
            let passed = stream.decode(|bytes| pass_items(bytes, header))?;
            stream.consume(passed.bytes);
            if passed.is_end {
                return Ok(stream.position());
            }
        }
    }

    fn read_head(&mut self, key: &[u8], is_candidate: bool) -> Result<bool, ReadError> {
        let PartitionReader {
            header,
            stream,
            decoder,
            static_row,
            ..
        } = self;
        let head = stream.decode(|bytes| {
            let mut head = ByteReader::new(bytes);
            let stored = head.bytes_after_u16()?;
            if stored != key && is_candidate {
                return Ok(None);
            }
            if stored != key {
                let found = format!("another of {} bytes", stored.len());
                return Err(DecodeError::malformed(0, "the key that the index names", found));
            }
            let deletion = read_deletion_time(&mut head, header.version)?;
            Ok(Some((head.position(), deletion)))
        })?;
        let Some((length, deletion)) = head else {
            return Ok(false);
        };
        stream.consume(length);
        if !header.statics.columns.is_empty() {
            let length = stream.decode(|bytes| decoder.decode_static(bytes, header, static_row))?;
            stream.consume(length);
        }
        self.deletion = deletion;
        self.header_length = self.stream.position() - self.position;
        Ok(true)
    }

    /// Data.db, from anywhere on; [`Self::open`] goes back to a partition.
    pub fn stream_mut(&mut self) -> &mut ChunkStream<'a> {
        &mut self.stream
    }

    pub fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    pub fn static_row(&self) -> RowRef<'_> {
        if self.static_row.is_empty() {
            RowRef::EMPTY
        } else {
            RowRef::new(&self.static_row)
        }
    }

    /// Behind the item that was decoded last, from the partition's start.
    pub fn offset(&self) -> u64 {
        self.stream.position() - self.position
    }

    /// Where the item that was decoded last begins, in Data.db.
    pub fn item_position(&self) -> u64 {
        self.item_position
    }

    /// Where the next item begins, in Data.db.
    pub fn end_position(&self) -> u64 {
        self.stream.position()
    }

    /// Where the first row or marker begins, in Data.db: behind the static row.
    pub fn rows_position(&self) -> u64 {
        self.position + self.header_length
    }

    /// Where the partition begins, in Data.db.
    pub fn partition_position(&self) -> u64 {
        self.position
    }

    /// Where the item that was decoded last begins, from the partition's start, and whether it was passed. One that
    /// could not be decoded was not.
    pub fn last_item(&self) -> (u64, bool) {
        let offset = self.item_position.saturating_sub(self.position);
        let is_passed =
            self.peeked.is_none() && !self.is_at_end && self.stream.position() != self.item_position;
        (offset, is_passed)
    }

    /// Data.db, as the page cache tells files apart.
    pub fn file(&self) -> u64 {
        self.stream.file_id()
    }

    /// Returns whether the read may go on in another step.
    pub fn is_in_steps(&self) -> bool {
        self.stream.ticket().is_some()
    }

    pub fn take_stop(&self, far: &ClusteringBound) -> Option<Stop> {
        let ticket = self.stream.ticket()?;
        ticket.take_stop(self.file(), self.position, far)
    }

    pub fn note_stop(&self, stop: Stop) {
        if let Some(ticket) = self.stream.ticket() {
            ticket.note_stop(stop);
        }
    }

    pub fn count_decoded(&mut self) {
        self.stream.count_decoded(std::mem::take(&mut self.decoded));
    }

    pub fn path(&self) -> &std::path::Path {
        self.stream.path()
    }

    /// Moves to an item, by its distance from the partition's start; the index says where items begin.
    pub fn seek(&mut self, offset: u64) {
        self.stream
            .seek(self.position.saturating_add(offset.max(self.header_length)));
        self.peeked = None;
        self.is_at_end = false;
    }

    /// From here on, the partition counts as ended at an offset where an item begins; what lies before it is read in
    /// few requests. `u64::MAX` for its own end.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = Some(limit);
        let end = if limit == u64::MAX {
            0
        } else {
            self.position.saturating_add(limit)
        };
        self.stream.expect_until(end);
    }

    /// Rows behind the limit will be asked for as well.
    pub fn read_on(&mut self) {
        self.stream.read_on();
    }

    /// Returns whether a stretch of the partition is in memory where seeks find it.
    pub fn holds(&self, start: u64, end: u64) -> bool {
        let start = start.max(self.header_length);
        self.stream
            .holds(self.position.saturating_add(start), end.saturating_sub(start))
    }

    /// Brings a stretch of the partition into memory in one request, so that seeks within it find it.
    pub fn prefetch(&mut self, start: u64, end: u64) -> Result<(), ReadError> {
        let start = start.max(self.header_length);
        let length = end.saturating_sub(start);
        if length > PREFETCH_BYTES_MAX {
            return Ok(());
        }
        self.seek(start);
        self.stream.expect_until(self.position.saturating_add(end));
        // Where the file ends before, decoding finds out what is wrong.
        self.stream.ensure(length as usize).map(|_| ())
    }

    /// The next row or marker, whose content is [`Self::item`]; `EndOfPartition` at the end, however often asked.
    pub fn peek(&mut self) -> Result<Decoded, ReadError> {
        if let Some(decoded) = self.peeked {
            return Ok(decoded);
        }
        if self.is_at_end || self.limit.is_some_and(|limit| self.offset() >= limit) {
            return Ok(Decoded::EndOfPartition);
        }
        let PartitionReader {
            header,
            stream,
            decoder,
            item,
            item_position,
            ..
        } = self;
        *item_position = stream.position();
        let (decoded, length) = stream.decode(|bytes| decoder.decode(bytes, header, item))?;
        self.stream.consume(length);
        self.decoded += 1;
        self.is_at_end = decoded == Decoded::EndOfPartition;
        if !self.is_at_end {
            self.peeked = Some(decoded);
        }
        Ok(decoded)
    }

    /// Passes rows before a bound, up to one that is not, a marker, or the end. Nothing is passed where the next item was looked at.
    pub fn pass_rows_before(
        &mut self,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
    ) -> Result<(), ReadError> {
        while self.peeked.is_none() && !self.is_at_end {
            // Where another step goes on, if this one ends here.
            self.item_position = self.stream.position();
            let left = self.limit.unwrap_or(u64::MAX).saturating_sub(self.offset());
            let PartitionReader {
                header, stream, item, ..
            } = self;
            let is_before = |clustering: &[u8]| comparator.compare_to_bound(clustering, bound).is_lt();
            let passed = stream
                .decode(|bytes| pass_rows_before(bytes, left, header, is_before, &mut item.clustering))?;
            stream.consume(passed.bytes);
            self.item_position = self.stream.position();
            if passed.is_all {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next [`Self::peek`] is of what follows. The item stays as it is until then.
    pub fn pass(&mut self) {
        self.peeked = None;
    }
}

impl Drop for PartitionReader<'_> {
    fn drop(&mut self) {
        let buffers = RowBuffers {
            decoder: std::mem::take(&mut self.decoder),
            item: std::mem::take(&mut self.item),
            static_row: std::mem::take(&mut self.static_row),
        };
        self.stream.cache().give_row_buffers(buffers);
    }
}
