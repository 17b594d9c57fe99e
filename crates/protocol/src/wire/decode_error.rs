//! Errors in the body of a message.

use crate::opcode::Opcode;
use crate::version::ProtocolVersion;

/// Why a message body could not be decoded. The text is what the peer is told, in Cassandra's words where it has any.
///
/// All of these are answered with a protocol error on the message's stream; none endangers the messages after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("Not enough bytes to read {what}: wanted {wanted}, found {found}")]
    Truncated {
        what: &'static str,
        wanted: usize,
        found: usize,
    },
    #[error("Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length")]
    TruncatedString,
    #[error("Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length")]
    TruncatedLongString,
    #[error("Not enough bytes to read a byte array preceded by its 2 bytes length")]
    TruncatedShortBytes,
    #[error("Cannot decode string as UTF8: invalid byte at offset {offset}")]
    NotUtf8 { offset: usize },
    #[error("Invalid ByteBuf length {0}")]
    InvalidValueLength(i32),
    #[error("{what} count {count} cannot fit in the {found} bytes that follow")]
    CountBeyondBody {
        what: &'static str,
        count: usize,
        found: usize,
    },
    #[error("Unknown code {0} for a consistency level")]
    UnknownConsistency(u16),
    #[error("Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] (got {0})")]
    TimestampOutOfBounds(i64),
    #[error("Invalid query kind in BATCH messages. Must be 0 or 1 but got {0}")]
    UnknownBatchQueryKind(i8),
    #[error("Invalid BATCH message type {0}")]
    UnknownBatchType(i8),
    #[error("Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4")]
    CustomPayloadBeforeV4,
    #[error("Invalid value '{value}' for {kind}")]
    UnknownName { value: Box<str>, kind: &'static str },
    #[error("Event {event} not valid for protocol version {version}")]
    EventNotInVersion {
        event: &'static str,
        version: ProtocolVersion,
    },
    #[error("Unsupported message")]
    UnsupportedMessage,
    #[error("Unexpected message {0}")]
    UnexpectedMessage(Opcode),
    #[error("Unknown kind id {0} in RESULT message")]
    UnknownResultKind(i32),
    #[error("Unknown error code {0}")]
    UnknownErrorCode(u32),
    #[error("Unknown option id {0}")]
    UnknownTypeOption(u16),
    #[error("Type nested deeper than {0} levels")]
    TypeTooDeep(usize),
    #[error("Invalid address of {0} bytes while deserializing inet address")]
    InvalidAddressLength(u8),
    #[error("Invalid {what}: {value}")]
    InvalidNumber { what: &'static str, value: i64 },
}
