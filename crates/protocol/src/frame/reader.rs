//! Cuts envelopes out of the bytes a connection received.

use super::checksum::crc32;
use super::compression::{Compression, decompress_envelope, decompress_lz4_block};
use super::error::{FrameError, Recovery};
use super::header::{ENVELOPE_HEADER_BYTES, EnvelopeFlags, EnvelopeHeader, decode_version};
use super::receive_buffer::ReceiveBuffer;
use super::segment::{COMPRESSED_HEADER_BYTES, SegmentHeader, TRAILER_BYTES, UNCOMPRESSED_HEADER_BYTES};
use crate::opcode::Direction;
use crate::version::ProtocolVersion;

/// The most a peer may send in one piece.
#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// Header and body of an envelope outside segments: Cassandra's `native_transport_max_frame_size`, 16 MiB.
    pub envelope_bytes_max: u32,
    /// Body of a message in v5 segments: Cassandra's `native_transport_max_message_size`, by default the largest
    /// mutation (half a commit log segment of 32 MiB).
    pub message_bytes_max: u32,
    /// Broken messages in a row that one v5 segment may hold before its boundaries are no longer believed:
    /// Cassandra's `consecutive_message_errors_threshold`.
    pub errors_in_a_row_max: u32,
}

impl Default for FrameLimits {
    fn default() -> Self {
        FrameLimits {
            envelope_bytes_max: 16 << 20,
            message_bytes_max: 16 << 20,
            errors_in_a_row_max: 1,
        }
    }
}

/// A message as it arrived: decompressed, with its boundaries checked and its body not yet looked at.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    pub header: EnvelopeHeader,
    pub body: &'a [u8],
}

/// Reads envelopes from a [`ReceiveBuffer`] without copying them, except for those that were compressed or that
/// arrived in several segments. Has no I/O: call [`Self::next_envelope`] after each read until it returns `None`.
#[derive(Debug)]
pub struct FrameReader {
    direction: Direction,
    limits: FrameLimits,
    framing: Framing,
    /// Fixed by STARTUP; until then each envelope brings its own.
    version: Option<ProtocolVersion>,
    is_ready: bool,
    /// Payload bytes of the current uncompressed segment that are still in the receive buffer.
    segment_rest: usize,
    /// A decompressed body or segment, or the pieces of a large message. Bounded by the limits.
    scratch: Vec<u8>,
    /// How much of a decompressed segment in `scratch` was already given out.
    scratch_read: usize,
    scratch_use: ScratchUse,
    skipped: Option<SkippedMessage>,
    errors_in_a_row: u32,
    last_message_failed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Envelopes { compression: Option<Compression> },
    Segments { is_compressed: bool },
}

/// Content of [`FrameReader::scratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScratchUse {
    /// Nothing that is still needed.
    Free,
    /// A decompressed self-contained segment with unread envelopes.
    Segment,
    /// The first pieces of a large message of `bytes` bytes in all, header included.
    Pieces { bytes: usize },
}

/// A message over the limit: its bytes are thrown away as they arrive, then its stream gets `error`.
#[derive(Debug)]
struct SkippedMessage {
    bytes_left: u64,
    error: FrameError,
}

/// Where the body of a found envelope lies.
#[derive(Clone, Copy)]
enum BodyAt {
    Buffer { from: usize },
    Scratch { from: usize },
}

/// The most the scratch buffer keeps between messages: one segment's payload and its neighbour.
const SCRATCH_KEPT_BYTES_MAX: usize = 256 * 1024;

impl FrameReader {
    /// A reader of a new connection: `direction` is that of the messages it reads (a server reads requests).
    pub fn new(direction: Direction, limits: FrameLimits) -> Self {
        FrameReader {
            direction,
            limits,
            framing: Framing::Envelopes { compression: None },
            version: None,
            is_ready: false,
            segment_rest: 0,
            scratch: Vec::new(),
            scratch_read: 0,
            scratch_use: ScratchUse::Free,
            skipped: None,
            errors_in_a_row: 0,
            last_message_failed: false,
        }
    }

    /// Gives up memory that no message needs any more, for a connection at rest.
    pub fn take_scratch(&mut self) -> Vec<u8> {
        if self.scratch_use != ScratchUse::Free {
            return Vec::new();
        }
        self.scratch_read = 0;
        std::mem::take(&mut self.scratch)
    }

    /// A client has sent STARTUP: its answer may already be compressed in v3 and v4, as Cassandra's is.
    pub fn startup_sent(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        let compression = compression.filter(|_| !version.has_checksummed_frames());
        self.framing = Framing::Envelopes { compression };
    }

    /// STARTUP was answered (READY or AUTHENTICATE): from the next byte on, `version` is the connection's, bodies
    /// may be compressed, and v5 travels in segments.
    pub fn startup_answered(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.version = Some(version);
        self.framing = if version.has_checksummed_frames() {
            Framing::Segments {
                is_compressed: compression.is_some(),
            }
        } else {
            Framing::Envelopes { compression }
        };
    }

    /// Authentication, where there is any, has ended: from now on a message may take several segments.
    pub fn ready(&mut self) {
        self.is_ready = true;
    }

    /// The header of the message whose beginning is all that has arrived, after [`Self::next_envelope`] has found no whole
    /// one.
    pub fn begun(&self, buffer: &ReceiveBuffer) -> Option<EnvelopeHeader> {
        if self.skipped.is_some() {
            return None;
        }
        let beginning = match (self.framing, self.scratch_use) {
            (Framing::Envelopes { .. }, _) => buffer.unread(),
            (Framing::Segments { .. }, ScratchUse::Pieces { .. }) => &self.scratch,
            _ => return None,
        };
        let header = EnvelopeHeader::decode(beginning.first_chunk()?, self.direction).ok()?;
        self.check_version(&header).ok().map(|()| header)
    }

    /// Bytes still to come of the message that [`Self::begun`] names.
    pub fn begun_bytes_left(&self, buffer: &ReceiveBuffer) -> usize {
        let Some(header) = self.begun(buffer) else {
            return 0;
        };
        let arrived = match self.framing {
            Framing::Envelopes { .. } => buffer.unread().len(),
            Framing::Segments { .. } => self.scratch.len(),
        };
        (ENVELOPE_HEADER_BYTES + header.body_bytes as usize).saturating_sub(arrived)
    }

    /// Throws the begun message away as it arrives; behind it comes [`FrameError::NoMemory`].
    pub fn skip_begun(&mut self, buffer: &ReceiveBuffer) {
        let Some(header) = self.begun(buffer) else { return };
        let mut bytes_left = (ENVELOPE_HEADER_BYTES as u64) + u64::from(header.body_bytes);
        if let ScratchUse::Pieces { .. } = self.scratch_use {
            bytes_left = bytes_left.saturating_sub(self.scratch.len() as u64);
            self.scratch = Vec::new();
            self.scratch_use = ScratchUse::Free;
        }
        let error = FrameError::NoMemory {
            length: header.body_bytes,
            stream: header.stream,
        };
        self.skipped = Some(SkippedMessage { bytes_left, error });
    }

    /// Returns whether no part of a message has arrived, after [`Self::next_envelope`] has found no whole one.
    pub fn is_between_messages(&self, buffer: &ReceiveBuffer) -> bool {
        buffer.unread().is_empty()
            && self.segment_rest == 0
            && self.skipped.is_none()
            && self.scratch_use == ScratchUse::Free
    }

    /// Compression of bodies, where they are compressed.
    pub fn compression(&self) -> Option<Compression> {
        match self.framing {
            Framing::Envelopes { compression } => compression,
            Framing::Segments { is_compressed } => is_compressed.then_some(Compression::Lz4),
        }
    }

    /// Memory of what was decompressed or put together.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.capacity()
    }

    /// The connection's version, once STARTUP fixed it.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// The body of the last envelope could not be decoded. Says whether the rest of its segment is still believed.
    pub fn message_failed(&mut self) -> Recovery {
        self.last_message_failed = true;
        self.errors_in_a_row += 1;
        match self.framing {
            Framing::Segments { .. } if self.errors_in_a_row > self.limits.errors_in_a_row_max => {
                Recovery::CloseAfterReply
            }
            _ => Recovery::Continue,
        }
    }

    /// The next whole envelope, or `None` until more bytes arrive.
    ///
    /// After an error whose [`FrameError::recovery`] is `Continue`, reading goes on behind the broken message.
    #[inline]
    pub fn next_envelope<'a>(
        &'a mut self,
        buffer: &'a mut ReceiveBuffer,
    ) -> Result<Option<Envelope<'a>>, FrameError> {
        if !self.last_message_failed {
            self.errors_in_a_row = 0;
        }
        self.last_message_failed = false;
        let found = match self.framing {
            Framing::Envelopes { compression } => self.next_unframed(buffer, compression),
            Framing::Segments { is_compressed } => self.next_in_segments(buffer, is_compressed),
        };
        let Some((header, at)) = found? else {
            return Ok(None);
        };
        let bytes = header.body_bytes as usize;
        let body = match at {
            BodyAt::Buffer { from } => buffer.slice(from, bytes),
            BodyAt::Scratch { from } => &self.scratch[from..from + bytes],
        };
        Ok(Some(Envelope { header, body }))
    }

    #[inline]
    fn next_unframed(
        &mut self,
        buffer: &mut ReceiveBuffer,
        compression: Option<Compression>,
    ) -> Result<Option<(EnvelopeHeader, BodyAt)>, FrameError> {
        self.release_scratch();
        if let Some(skipped) = &mut self.skipped {
            let bytes = skipped.bytes_left.min(buffer.unread().len() as u64);
            buffer.consume(bytes as usize);
            skipped.bytes_left -= bytes;
            return self.skip_ended();
        }
        let unread = buffer.unread();
        let Some(&first) = unread.first() else {
            return Ok(None);
        };
        decode_version(first, 0)?;
        let Some(bytes) = unread.first_chunk::<ENVELOPE_HEADER_BYTES>() else {
            return Ok(None);
        };
        let mut header = match EnvelopeHeader::decode(bytes, self.direction) {
            Ok(header) => header,
            Err(error) => return Err(error.fatal()),
        };
        let envelope_bytes = ENVELOPE_HEADER_BYTES as u64 + u64::from(header.body_bytes);
        if envelope_bytes > u64::from(self.limits.envelope_bytes_max) {
            let maximum = u64::from(self.limits.envelope_bytes_max);
            let error = FrameError::EnvelopeTooBig {
                length: envelope_bytes,
                maximum,
                stream: header.stream,
            };
            self.skipped = Some(SkippedMessage {
                bytes_left: envelope_bytes,
                error,
            });
            return self.next_unframed(buffer, compression);
        }
        let envelope_bytes = envelope_bytes as usize;
        if unread.len() < envelope_bytes {
            return Ok(None);
        }
        let from = buffer.position() + ENVELOPE_HEADER_BYTES;
        buffer.consume(envelope_bytes);
        self.check_version(&header)?;
        let Some(compression) = compression.filter(|_| header.flags.contains(EnvelopeFlags::COMPRESSED))
        else {
            return Ok(Some((header, BodyAt::Buffer { from })));
        };
        let body = buffer.slice(from, header.body_bytes as usize);
        let bytes_max = self.limits.envelope_bytes_max as usize;
        decompress_envelope(compression, body, bytes_max, &mut self.scratch).map_err(|error| {
            FrameError::Compression {
                error,
                stream: header.stream,
            }
        })?;
        header.body_bytes = self.scratch.len() as u32;
        Ok(Some((header, BodyAt::Scratch { from: 0 })))
    }

    fn next_in_segments(
        &mut self,
        buffer: &mut ReceiveBuffer,
        is_compressed: bool,
    ) -> Result<Option<(EnvelopeHeader, BodyAt)>, FrameError> {
        loop {
            if self.segment_rest > 0 {
                return self.next_in_buffered_segment(buffer).map(Some);
            }
            if self.scratch_use == ScratchUse::Segment {
                if self.scratch_read < self.scratch.len() {
                    return self.next_in_scratch_segment().map(Some);
                }
                self.scratch_use = ScratchUse::Free;
            }
            if self.scratch_use == ScratchUse::Free {
                self.release_scratch();
            }
            let Some((header, header_bytes)) = peek_segment(buffer.unread(), is_compressed)? else {
                return Ok(None);
            };
            let from = buffer.position() + header_bytes;
            if header.is_self_contained {
                self.open_self_contained(buffer, header, header_bytes)?;
            } else {
                self.take_piece(buffer.slice(from, header.payload_bytes), header)?;
                buffer.consume(header_bytes + header.payload_bytes + TRAILER_BYTES);
                if let Some(found) = self.large_message_ended()? {
                    return Ok(Some(found));
                }
            }
        }
    }

    /// Makes the envelopes of a self-contained segment, which is whole in the buffer, the next to be read.
    #[inline]
    fn open_self_contained(
        &mut self,
        buffer: &mut ReceiveBuffer,
        header: SegmentHeader,
        header_bytes: usize,
    ) -> Result<(), FrameError> {
        if self.skipped.is_some() || self.scratch_use != ScratchUse::Free {
            return Err(FrameError::LargeMessageInterrupted);
        }
        self.errors_in_a_row = 0;
        if header.uncompressed_bytes == 0 {
            buffer.consume(header_bytes);
            self.segment_rest = header.payload_bytes;
            if header.payload_bytes == 0 {
                buffer.consume(TRAILER_BYTES);
            }
            return Ok(());
        }
        let payload = buffer.slice(buffer.position() + header_bytes, header.payload_bytes);
        self.scratch.clear();
        self.scratch_read = 0;
        decompress_lz4_block(payload, header.uncompressed_bytes, &mut self.scratch)
            .map_err(FrameError::SegmentCompression)?;
        self.scratch_use = ScratchUse::Segment;
        buffer.consume(header_bytes + header.payload_bytes + TRAILER_BYTES);
        Ok(())
    }

    #[inline]
    fn next_in_buffered_segment(
        &mut self,
        buffer: &mut ReceiveBuffer,
    ) -> Result<(EnvelopeHeader, BodyAt), FrameError> {
        let payload = &buffer.unread()[..self.segment_rest];
        let (result, bytes) = self.envelope_in(payload);
        let from = buffer.position() + ENVELOPE_HEADER_BYTES;
        buffer.consume(bytes);
        self.segment_rest -= bytes;
        if self.segment_rest == 0 {
            buffer.consume(TRAILER_BYTES);
        }
        if result.is_err() {
            self.count_header_error();
        }
        result.map(|header| (header, BodyAt::Buffer { from }))
    }

    fn next_in_scratch_segment(&mut self) -> Result<(EnvelopeHeader, BodyAt), FrameError> {
        let (result, bytes) = self.envelope_in(&self.scratch[self.scratch_read..]);
        let from = self.scratch_read + ENVELOPE_HEADER_BYTES;
        self.scratch_read += bytes;
        if result.is_err() {
            self.count_header_error();
        }
        result.map(|header| (header, BodyAt::Scratch { from }))
    }

    /// The envelope at the front of a self-contained segment's payload, and how many bytes to move past.
    #[inline]
    fn envelope_in(&self, payload: &[u8]) -> (Result<EnvelopeHeader, FrameError>, usize) {
        let Some(bytes) = payload.first_chunk::<ENVELOPE_HEADER_BYTES>() else {
            let missing = (ENVELOPE_HEADER_BYTES - payload.len()) as u64;
            return (Err(FrameError::EnvelopeCut { missing }), payload.len());
        };
        let stream = i16::from_be_bytes([bytes[2], bytes[3]]);
        let length = i32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
        let Ok(body_bytes) = usize::try_from(length) else {
            return (Err(FrameError::NegativeLength { length, stream }), payload.len());
        };
        let envelope_bytes = ENVELOPE_HEADER_BYTES + body_bytes;
        let header = EnvelopeHeader::decode(bytes, self.direction)
            .and_then(|header| self.check_version(&header).map(|()| header));
        match header {
            Err(error) => {
                let is_believed = self.errors_in_a_row < self.limits.errors_in_a_row_max;
                let error = if is_believed { error } else { error.fatal() };
                (Err(error), envelope_bytes.min(payload.len()))
            }
            Ok(_) if envelope_bytes > payload.len() => {
                let missing = (envelope_bytes - payload.len()) as u64;
                (Err(FrameError::EnvelopeCut { missing }), payload.len())
            }
            Ok(header) => (Ok(header), envelope_bytes),
        }
    }

    /// Takes one piece of a large message: the first decides how long the message is and whether it is kept.
    fn take_piece(&mut self, payload: &[u8], segment: SegmentHeader) -> Result<(), FrameError> {
        let piece_bytes = if segment.uncompressed_bytes == 0 {
            payload.len()
        } else {
            segment.uncompressed_bytes
        };
        if let Some(skipped) = &mut self.skipped {
            let excess = (piece_bytes as u64).saturating_sub(skipped.bytes_left);
            if excess > 0 {
                return Err(FrameError::PieceTooLong { excess });
            }
            skipped.bytes_left -= piece_bytes as u64;
            return Ok(());
        }
        if segment.uncompressed_bytes == 0 {
            self.scratch.extend_from_slice(payload);
        } else {
            decompress_lz4_block(payload, segment.uncompressed_bytes, &mut self.scratch)
                .map_err(FrameError::SegmentCompression)?;
        }
        if self.scratch_use == ScratchUse::Free {
            self.begin_large_message()?;
        }
        if let ScratchUse::Pieces { bytes } = self.scratch_use
            && self.scratch.len() > bytes
        {
            return Err(FrameError::PieceTooLong {
                excess: (self.scratch.len() - bytes) as u64,
            });
        }
        Ok(())
    }

    /// Reads the header of a large message from its first piece, which `scratch` holds.
    fn begin_large_message(&mut self) -> Result<(), FrameError> {
        let Some(bytes) = self.scratch.first_chunk::<ENVELOPE_HEADER_BYTES>() else {
            let missing = (ENVELOPE_HEADER_BYTES - self.scratch.len()) as u64;
            return Err(FrameError::EnvelopeCut { missing });
        };
        let header = EnvelopeHeader::decode(bytes, self.direction)
            .and_then(|header| self.check_version(&header).map(|()| header))
            .map_err(FrameError::fatal)?;
        let length = header.body_bytes.cast_signed();
        if length < 0 {
            return Err(FrameError::NegativeLength {
                length,
                stream: header.stream,
            });
        }
        if !self.is_ready {
            return Err(FrameError::LargeMessageBeforeReady {
                opcode: header.opcode,
                length: header.body_bytes,
            });
        }
        let bytes = ENVELOPE_HEADER_BYTES + header.body_bytes as usize;
        if header.body_bytes > self.limits.message_bytes_max {
            let error = FrameError::MessageTooBig {
                length: u64::from(header.body_bytes),
                maximum: u64::from(self.limits.message_bytes_max),
                stream: header.stream,
            };
            let bytes_left = (bytes as u64).saturating_sub(self.scratch.len() as u64);
            self.skipped = Some(SkippedMessage { bytes_left, error });
            return Ok(());
        }
        self.scratch_use = ScratchUse::Pieces { bytes };
        Ok(())
    }

    /// The large message, if its last piece has been taken.
    fn large_message_ended(&mut self) -> Result<Option<(EnvelopeHeader, BodyAt)>, FrameError> {
        if self.skipped.is_some() {
            return self.skip_ended();
        }
        let ScratchUse::Pieces { bytes } = self.scratch_use else {
            return Ok(None);
        };
        if self.scratch.len() < bytes {
            return Ok(None);
        }
        self.scratch_use = ScratchUse::Free;
        let Some(header) = self.scratch.first_chunk::<ENVELOPE_HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = EnvelopeHeader::decode(header, self.direction)?;
        Ok(Some((
            header,
            BodyAt::Scratch {
                from: ENVELOPE_HEADER_BYTES,
            },
        )))
    }

    fn skip_ended(&mut self) -> Result<Option<(EnvelopeHeader, BodyAt)>, FrameError> {
        match self.skipped.take_if(|skipped| skipped.bytes_left == 0) {
            Some(skipped) => Err(skipped.error),
            None => Ok(None),
        }
    }

    #[inline]
    fn check_version(&self, header: &EnvelopeHeader) -> Result<(), FrameError> {
        match self.version {
            Some(connection) if connection != header.version => Err(FrameError::VersionChanged {
                found: header.version,
                connection,
                stream: header.stream,
                recovery: Recovery::Continue,
            }),
            _ => Ok(()),
        }
    }

    fn count_header_error(&mut self) {
        self.last_message_failed = true;
        self.errors_in_a_row += 1;
    }

    #[inline]
    fn release_scratch(&mut self) {
        self.scratch.clear();
        if self.scratch.capacity() > SCRATCH_KEPT_BYTES_MAX {
            self.scratch = Vec::new();
        }
    }
}

/// The header of the segment at the front of `unread` and the header's size, once the whole segment has arrived and
/// both checksums are right.
#[inline]
fn peek_segment(unread: &[u8], is_compressed: bool) -> Result<Option<(SegmentHeader, usize)>, FrameError> {
    let (header, header_bytes) = if is_compressed {
        let Some(bytes) = unread.first_chunk::<COMPRESSED_HEADER_BYTES>() else {
            return Ok(None);
        };
        (SegmentHeader::decode_compressed(bytes)?, COMPRESSED_HEADER_BYTES)
    } else {
        let Some(bytes) = unread.first_chunk::<UNCOMPRESSED_HEADER_BYTES>() else {
            return Ok(None);
        };
        (
            SegmentHeader::decode_uncompressed(bytes)?,
            UNCOMPRESSED_HEADER_BYTES,
        )
    };
    let Some((payload, rest)) = unread[header_bytes..].split_at_checked(header.payload_bytes) else {
        return Ok(None);
    };
    let Some(trailer) = rest.first_chunk::<TRAILER_BYTES>() else {
        return Ok(None);
    };
    let (wanted, found) = (crc32(payload), u32::from_le_bytes(*trailer));
    if wanted != found {
        return Err(FrameError::PayloadChecksum { wanted, found });
    }
    Ok(Some((header, header_bytes)))
}
