//! Errors in the byte stream of a connection, and whether the connection survives them.

use super::compression::CompressionError;
use crate::error_code::ErrorCode;
use crate::opcode::{Direction, Opcode};
use crate::version::ProtocolVersion;

/// Handling of a connection after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Answer the stream; the next message is intact.
    Continue,
    /// Answer, send what is queued, stop writing and throw away what still arrives: its boundaries are lost. Closing
    /// while bytes are unread would make the kernel reset the connection and the peer lose the answer.
    CloseAfterReply,
    /// Close without an answer: the bytes were damaged on the way, so nothing can be said about whose they were.
    Close,
}

/// Why an envelope could not be cut out of the stream. The text is the message of the ERROR response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error(
        "Invalid or unsupported protocol version ({number}); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)"
    )]
    UnsupportedVersion { number: u8, stream: i16 },
    #[error("Beta version of the protocol used ({version}), but USE_BETA flag is unset")]
    BetaVersion { version: ProtocolVersion },
    #[error(
        "Invalid message version. Got {found} but previous messages on this connection had version {connection}"
    )]
    VersionChanged {
        found: ProtocolVersion,
        connection: ProtocolVersion,
        stream: i16,
        recovery: Recovery,
    },
    #[error("Unknown opcode {opcode}")]
    UnknownOpcode {
        opcode: u8,
        stream: i16,
        recovery: Recovery,
    },
    #[error(
        "Wrong protocol direction (expected {}, got {found}) for opcode {} ({opcode})",
        if found == wanted { opcode.direction() } else { *wanted },
        opcode.number()
    )]
    WrongDirection {
        opcode: Opcode,
        found: Direction,
        wanted: Direction,
        stream: i16,
        recovery: Recovery,
    },
    #[error("Invalid value for envelope header body length field: {length}")]
    NegativeLength { length: i32, stream: i16 },
    /// Sent once all of the message has been skipped. An envelope outside segments.
    #[error("Request is too big: length {length} exceeds maximum allowed length {maximum}.")]
    EnvelopeTooBig { length: u64, maximum: u64, stream: i16 },
    /// Sent once all of the message has been skipped. A message in v5 segments.
    #[error("CQL Message of size {length} bytes exceeds allowed maximum of {maximum} bytes")]
    MessageTooBig { length: u64, maximum: u64, stream: i16 },
    /// Sent once all of the message has been skipped, because its reader had no memory for it.
    #[error("There is no memory for the {length} bytes of the request")]
    NoMemory { length: u32, stream: i16 },
    #[error("{error}")]
    Compression { error: CompressionError, stream: i16 },
    #[error("Segment header checksum mismatch: wanted {wanted:#08x}, found {found:#08x}")]
    HeaderChecksum { wanted: u32, found: u32 },
    #[error("Segment payload checksum mismatch: wanted {wanted:#010x}, found {found:#010x}")]
    PayloadChecksum { wanted: u32, found: u32 },
    #[error("Segment payload: {0}")]
    SegmentCompression(CompressionError),
    #[error("A segment ends {missing} bytes before the envelope inside it")]
    EnvelopeCut { missing: u64 },
    #[error("A segment goes on for {excess} bytes after the end of the large message inside it")]
    PieceTooLong { excess: u64 },
    #[error("A self-contained segment interrupts a large message")]
    LargeMessageInterrupted,
    #[error(
        "The connection is not yet in a valid state to process multi frame CQL Messages, usually this means that \
         authentication is still pending. type = {opcode}, size = {length}"
    )]
    LargeMessageBeforeReady { opcode: Opcode, length: u32 },
}

impl FrameError {
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::EnvelopeTooBig { .. }
            | Self::MessageTooBig { .. }
            | Self::NoMemory { .. }
            | Self::Compression { .. } => Recovery::Continue,
            Self::VersionChanged { recovery, .. }
            | Self::UnknownOpcode { recovery, .. }
            | Self::WrongDirection { recovery, .. } => *recovery,
            Self::UnsupportedVersion { .. }
            | Self::BetaVersion { .. }
            | Self::NegativeLength { .. }
            | Self::EnvelopeCut { .. }
            | Self::PieceTooLong { .. }
            | Self::LargeMessageInterrupted
            | Self::LargeMessageBeforeReady { .. } => Recovery::CloseAfterReply,
            Self::HeaderChecksum { .. } | Self::PayloadChecksum { .. } | Self::SegmentCompression(_) => {
                Recovery::Close
            }
        }
    }

    /// The stream to answer on; 0 where the message's own is unknown or, for versions, not to be trusted.
    pub fn stream(&self) -> i16 {
        match self {
            Self::UnsupportedVersion { stream, .. }
            | Self::VersionChanged { stream, .. }
            | Self::UnknownOpcode { stream, .. }
            | Self::WrongDirection { stream, .. }
            | Self::NegativeLength { stream, .. }
            | Self::EnvelopeTooBig { stream, .. }
            | Self::MessageTooBig { stream, .. }
            | Self::NoMemory { stream, .. }
            | Self::Compression { stream, .. } => *stream,
            Self::BetaVersion { .. }
            | Self::HeaderChecksum { .. }
            | Self::PayloadChecksum { .. }
            | Self::SegmentCompression(_)
            | Self::EnvelopeCut { .. }
            | Self::PieceTooLong { .. }
            | Self::LargeMessageInterrupted
            | Self::LargeMessageBeforeReady { .. } => 0,
        }
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            Self::EnvelopeTooBig { .. }
            | Self::MessageTooBig { .. }
            | Self::Compression {
                error: CompressionError::TooLarge { .. },
                ..
            } => ErrorCode::Invalid,
            Self::NoMemory { .. } => ErrorCode::Overloaded,
            _ => ErrorCode::ProtocolError,
        }
    }

    /// The same error where boundaries can no longer be trusted.
    #[must_use]
    pub(super) fn fatal(self) -> Self {
        let recovery = Recovery::CloseAfterReply;
        match self {
            Self::VersionChanged {
                found,
                connection,
                stream,
                ..
            } => Self::VersionChanged {
                found,
                connection,
                stream,
                recovery,
            },
            Self::UnknownOpcode { opcode, stream, .. } => Self::UnknownOpcode {
                opcode,
                stream,
                recovery,
            },
            Self::WrongDirection {
                opcode,
                found,
                wanted,
                stream,
                ..
            } => Self::WrongDirection {
                opcode,
                found,
                wanted,
                stream,
                recovery,
            },
            other => other,
        }
    }
}
