//! Puts envelopes into the bytes a connection will send.

use super::checksum::crc32;
use super::compression::{Compression, compress_envelope, compress_lz4_block};
use super::header::{ENVELOPE_HEADER_BYTES, EnvelopeFlags, EnvelopeHeader, FLAGS_AT, LENGTH_AT, STREAM_AT};
use super::segment::{
    COMPRESSED_HEADER_BYTES, SEGMENT_PAYLOAD_BYTES_MAX, SegmentHeader, UNCOMPRESSED_HEADER_BYTES,
};
use crate::opcode::Opcode;
use crate::version::ProtocolVersion;

/// Writes envelopes straight into the connection's output buffer, each between [`Self::begin`] and [`Self::finish`],
/// its body appended by whoever has it. Lengths are patched at the end of each envelope; in v5 consecutive envelopes
/// share a segment, whose header and checksum are written by [`Self::flush`], which must precede every write to the
/// socket. Works for both directions: the opcode decides which.
#[derive(Debug)]
pub struct FrameWriter {
    framing: Framing,
    /// Where the segment that still takes envelopes starts in the output buffer.
    segment_at: Option<usize>,
    /// An envelope that did not fit its segment, on its way into the next; bounded by the envelope's size.
    overflow: Vec<u8>,
    /// The compressed form of a body or payload before it replaces the plain one.
    compressed: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Envelopes { compression: Option<Compression> },
    Segments { is_compressed: bool },
}

/// An envelope that was begun: hand it to [`FrameWriter::finish`] or [`FrameWriter::abandon`].
#[derive(Debug)]
#[must_use]
pub struct EnvelopeMark {
    header_at: usize,
}

/// A body of 2 GiB or more, whose length the header cannot carry. The envelope was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Response of {bytes} bytes is too big to be sent")]
pub struct ResponseTooBig {
    pub bytes: usize,
}

/// Bodies below this are sent as they are: compression could save less than one packet's worth of bytes.
const COMPRESSED_BODY_BYTES_MIN: usize = 512;

/// The most that each side buffer keeps: what most answers fit. Each connection has two, for as long as it lives.
const KEPT_BYTES_MAX: usize = 16 * 1024;

impl Default for FrameWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameWriter {
    pub fn new() -> Self {
        FrameWriter {
            framing: Framing::Envelopes { compression: None },
            segment_at: None,
            overflow: Vec::new(),
            compressed: Vec::new(),
        }
    }

    /// The answer to STARTUP has been written (a client: has been read): what follows is compressed and framed as
    /// agreed. See [`FrameReader::startup_answered`].
    ///
    /// [`FrameReader::startup_answered`]: super::FrameReader::startup_answered
    pub fn startup_answered(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        debug_assert!(self.segment_at.is_none(), "framing starts once");
        self.framing = if version.has_checksummed_frames() {
            Framing::Segments {
                is_compressed: compression.is_some(),
            }
        } else {
            Framing::Envelopes { compression }
        };
    }

    /// Starts an envelope at the end of `out`; the body is what is appended until [`Self::finish`].
    #[inline]
    pub fn begin(
        &mut self,
        out: &mut Vec<u8>,
        version: ProtocolVersion,
        flags: EnvelopeFlags,
        stream: i16,
        opcode: Opcode,
    ) -> EnvelopeMark {
        let mark = self.open(out);
        let flags = if version.is_beta() {
            flags.with(EnvelopeFlags::USE_BETA)
        } else {
            flags
        };
        EnvelopeHeader {
            version,
            flags,
            stream,
            opcode,
            body_bytes: 0,
        }
        .encode(out);
        mark
    }

    /// Where the body of the envelope starts in the output buffer.
    #[inline]
    pub fn body_at(&self, mark: &EnvelopeMark) -> usize {
        mark.header_at + ENVELOPE_HEADER_BYTES
    }

    /// Ends the envelope: patches its length, compresses it (v3, v4), moves it on if its segment is full (v5).
    #[inline]
    pub fn finish(&mut self, out: &mut Vec<u8>, mark: EnvelopeMark) -> Result<(), ResponseTooBig> {
        let body_at = mark.header_at + ENVELOPE_HEADER_BYTES;
        let bytes = out.len() - body_at;
        if bytes > i32::MAX as usize {
            self.abandon(out, mark);
            return Err(ResponseTooBig { bytes });
        }
        patch_length(out, mark.header_at, bytes);
        match self.framing {
            Framing::Envelopes { compression: None } => {}
            Framing::Envelopes {
                compression: Some(compression),
            } => {
                if bytes >= COMPRESSED_BODY_BYTES_MIN {
                    self.compress_body(out, mark.header_at, compression);
                }
            }
            Framing::Segments { is_compressed } => {
                let segment_at = self.segment_at.unwrap_or(mark.header_at);
                if out.len() - segment_at - header_bytes(is_compressed) > SEGMENT_PAYLOAD_BYTES_MAX {
                    self.move_on(out, mark.header_at, is_compressed);
                }
            }
        }
        Ok(())
    }

    /// Takes the envelope back, as if it had not been begun.
    pub fn abandon(&mut self, out: &mut Vec<u8>, mark: EnvelopeMark) {
        out.truncate(mark.header_at);
    }

    /// Appends an envelope that was encoded elsewhere, header and body: a template, or another shard's answer.
    /// `envelope` is whole, its length right, and it is not compressed.
    #[inline]
    pub fn append(&mut self, out: &mut Vec<u8>, envelope: &[u8]) -> Result<(), ResponseTooBig> {
        let mark = self.open(out);
        out.extend_from_slice(envelope);
        self.finish(out, mark)
    }

    /// As [`Self::append`], with the template's stream replaced: for answers that are the same every time.
    #[inline]
    pub fn append_template(
        &mut self,
        out: &mut Vec<u8>,
        template: &[u8],
        stream: i16,
    ) -> Result<(), ResponseTooBig> {
        debug_assert!(
            template.len() >= ENVELOPE_HEADER_BYTES,
            "a template is a whole envelope"
        );
        let mark = self.open(out);
        out.extend_from_slice(template);
        let at = mark.header_at + STREAM_AT;
        out[at..at + 2].copy_from_slice(&stream.to_be_bytes());
        self.finish(out, mark)
    }

    /// Closes the open segment, if there is one: from here on `out` may be sent.
    #[inline]
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if let Framing::Segments { is_compressed } = self.framing
            && let Some(segment_at) = self.segment_at.take()
        {
            self.close_segment(out, segment_at, is_compressed, true);
        }
        self.let_go_of_large_buffers();
    }

    /// Frees large side buffers: a client that takes no more answers would keep the last large one twice.
    #[inline]
    fn let_go_of_large_buffers(&mut self) {
        for side in [&mut self.overflow, &mut self.compressed] {
            if side.capacity() > KEPT_BYTES_MAX {
                *side = Vec::new();
            }
        }
    }

    /// Memory of the buffers beside the output.
    pub fn side_bytes(&self) -> usize {
        self.overflow.capacity() + self.compressed.capacity()
    }

    /// Where the next envelope starts, in a segment if the framing needs one.
    #[inline]
    fn open(&mut self, out: &mut Vec<u8>) -> EnvelopeMark {
        if let Framing::Segments { is_compressed } = self.framing
            && self.segment_at.is_none()
        {
            self.segment_at = Some(out.len());
            out.extend_from_slice(&[0; COMPRESSED_HEADER_BYTES][..header_bytes(is_compressed)]);
        }
        EnvelopeMark { header_at: out.len() }
    }

    fn compress_body(&mut self, out: &mut Vec<u8>, header_at: usize, compression: Compression) {
        let body_at = header_at + ENVELOPE_HEADER_BYTES;
        let is_compressed = compress_envelope(compression, &out[body_at..], &mut self.compressed);
        if is_compressed && self.compressed.len() < out.len() - body_at {
            out.truncate(body_at);
            out.extend_from_slice(&self.compressed);
            out[header_at + FLAGS_AT] |= EnvelopeFlags::COMPRESSED.0;
            patch_length(out, header_at, self.compressed.len());
        }
        self.let_go_of_large_buffers();
    }

    /// Takes the envelope at `header_at` out of its full segment, closes that, and starts the next with it; one too
    /// large for any segment is sent in pieces.
    fn move_on(&mut self, out: &mut Vec<u8>, header_at: usize, is_compressed: bool) {
        let mut envelope = std::mem::take(&mut self.overflow);
        envelope.clear();
        envelope.extend_from_slice(&out[header_at..]);
        out.truncate(header_at);
        match self.segment_at.take() {
            Some(segment_at) if header_at > segment_at + header_bytes(is_compressed) => {
                self.close_segment(out, segment_at, is_compressed, true);
            }
            // Nothing precedes the envelope: its segment was opened for it alone.
            Some(segment_at) => out.truncate(segment_at),
            None => {}
        }
        let is_whole = envelope.len() <= SEGMENT_PAYLOAD_BYTES_MAX;
        for piece in envelope.chunks(SEGMENT_PAYLOAD_BYTES_MAX) {
            let segment_at = out.len();
            out.extend_from_slice(&[0; COMPRESSED_HEADER_BYTES][..header_bytes(is_compressed)]);
            out.extend_from_slice(piece);
            if is_whole {
                self.segment_at = Some(segment_at);
            } else {
                self.close_segment(out, segment_at, is_compressed, false);
            }
        }
        self.overflow = envelope;
        self.let_go_of_large_buffers();
    }

    #[inline]
    fn close_segment(
        &mut self,
        out: &mut Vec<u8>,
        segment_at: usize,
        is_compressed: bool,
        is_self_contained: bool,
    ) {
        let payload_at = segment_at + header_bytes(is_compressed);
        if out.len() == payload_at {
            // Every envelope in it was abandoned.
            out.truncate(segment_at);
            return;
        }
        if is_compressed {
            self.close_compressed_segment(out, segment_at, is_self_contained);
        } else {
            let payload_bytes = out.len() - payload_at;
            let header = SegmentHeader {
                payload_bytes,
                uncompressed_bytes: 0,
                is_self_contained,
            };
            out[segment_at..payload_at].copy_from_slice(&header.encode_uncompressed());
        }
        let checksum = crc32(&out[payload_at..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    fn close_compressed_segment(&mut self, out: &mut Vec<u8>, segment_at: usize, is_self_contained: bool) {
        let payload_at = segment_at + COMPRESSED_HEADER_BYTES;
        let plain_bytes = out.len() - payload_at;
        self.compressed.clear();
        let is_smaller = compress_lz4_block(&out[payload_at..], &mut self.compressed)
            && self.compressed.len() < plain_bytes;
        let header = if is_smaller {
            out.truncate(payload_at);
            out.extend_from_slice(&self.compressed);
            let payload_bytes = self.compressed.len();
            SegmentHeader {
                payload_bytes,
                uncompressed_bytes: plain_bytes,
                is_self_contained,
            }
        } else {
            SegmentHeader {
                payload_bytes: plain_bytes,
                uncompressed_bytes: 0,
                is_self_contained,
            }
        };
        out[segment_at..payload_at].copy_from_slice(&header.encode_compressed());
    }
}

#[inline]
fn header_bytes(is_compressed: bool) -> usize {
    if is_compressed {
        COMPRESSED_HEADER_BYTES
    } else {
        UNCOMPRESSED_HEADER_BYTES
    }
}

#[inline]
fn patch_length(out: &mut [u8], header_at: usize, body_bytes: usize) {
    let at = header_at + LENGTH_AT;
    out[at..at + 4].copy_from_slice(&(body_bytes as u32).to_be_bytes());
}
