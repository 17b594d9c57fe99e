//! One partition's rows and markers, one after the other as they lie in Data.db.

use super::chunk_stream::ChunkStream;
use super::chunked_file::ChunkedFile;
use super::decode::{ByteReader, DecodeError};
use super::deletion_codec::read_deletion_time;
use super::header::Header;
use super::index::decode_with;
use super::pages::Pages;
use super::row_decoder::{Decoded, Item, RowDecoder};
use crate::deletion::DeletionTime;
use crate::error::ReadError;
use crate::row::RowRef;

/// Reads a partition forward from a position that a row or marker begins at.
#[derive(Debug)]
pub(super) struct PartitionReader<'a> {
    header: &'a Header,
    stream: ChunkStream<'a>,
    decoder: RowDecoder,
    /// Of the partition, in Data.db.
    position: u64,
    header_length: u64,
    deletion: DeletionTime,
    static_row: Vec<u8>,
    pub item: Item,
    /// Where the item begins, in Data.db.
    item_position: u64,
    /// Whether the item is still to be given out.
    is_put_back: Option<Decoded>,
    is_at_end: bool,
}

impl<'a> PartitionReader<'a> {
    /// Reads the head of the partition at a position, which must be that of the key.
    pub fn open(
        header: &'a Header,
        data: &'a ChunkedFile,
        pages: Pages<'a>,
        position: u64,
        key: &[u8],
    ) -> Result<Self, ReadError> {
        let mut reader = PartitionReader {
            header,
            stream: ChunkStream::new(data, pages),
            decoder: RowDecoder::default(),
            position,
            header_length: 0,
            deletion: DeletionTime::LIVE,
            static_row: Vec::new(),
            item: Item::default(),
            item_position: position,
            is_put_back: None,
            is_at_end: false,
        };
        reader.stream.seek(position);
        let (length, deletion) = decode_with(&mut reader.stream, |bytes| {
            let mut head = ByteReader::new(bytes);
            let stored = head.bytes_after_u16()?;
            if stored != key {
                let found = format!("another of {} bytes", stored.len());
                return Err(DecodeError::malformed(0, "the key that the index names", found));
            }
            let deletion = read_deletion_time(&mut head, header.version)?;
            Ok((head.position(), deletion))
        })?;
        reader.deletion = deletion;
        reader.stream.consume(length);
        if !header.statics.columns.is_empty() {
            let PartitionReader {
                stream,
                decoder,
                static_row,
                ..
            } = &mut reader;
            let length = decode_with(stream, |bytes| decoder.decode_static(bytes, header, static_row))?;
            reader.stream.consume(length);
        }
        reader.header_length = reader.stream.position() - position;
        Ok(reader)
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

    /// Where the next item begins, from the partition's start.
    pub fn offset(&self) -> u64 {
        self.stream.position() - self.position
    }

    /// Where the item that was read last begins, in Data.db.
    pub fn item_position(&self) -> u64 {
        self.item_position
    }

    /// Where the first row or marker begins, in Data.db: behind the static row.
    pub fn rows_position(&self) -> u64 {
        self.position + self.header_length
    }

    pub fn path(&self) -> &std::path::Path {
        self.stream.path()
    }

    /// Moves to an item, by its distance from the partition's start; the index says where items begin.
    pub fn seek(&mut self, offset: u64) {
        self.stream
            .seek(self.position.saturating_add(offset.max(self.header_length)));
        self.is_put_back = None;
        self.is_at_end = false;
    }

    /// Reads the next row or marker into [`Self::item`]; `EndOfPartition` at the end, however often asked.
    pub fn next(&mut self) -> Result<Decoded, ReadError> {
        if let Some(decoded) = self.is_put_back.take() {
            return Ok(decoded);
        }
        if self.is_at_end {
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
        let (decoded, length) = decode_with(stream, |bytes| decoder.decode(bytes, header, item))?;
        self.stream.consume(length);
        self.is_at_end = decoded == Decoded::EndOfPartition;
        Ok(decoded)
    }

    /// The item, as [`Self::next`] just returned it, is returned again.
    pub fn put_back(&mut self, decoded: Decoded) {
        self.is_put_back = Some(decoded);
    }
}
