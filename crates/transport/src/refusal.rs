//! The answer to a request that is refused before anybody looks at it: the same bytes every time but for the stream.

use std::sync::LazyLock;

use helenus_protocol::frame::{EnvelopeFlags, FrameWriter};
use helenus_protocol::response::{ErrorBody, write_error};
use helenus_protocol::{Opcode, ProtocolVersion};

/// Cassandra's words for a request that waited too long.
pub const TIMED_OUT_WAITING: &str = "Query timed out before it could start";

/// Whole envelopes, uncompressed, by version.
static OVERLOADED: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| ProtocolVersion::ALL.map(overloaded));

fn overloaded(version: ProtocolVersion) -> Vec<u8> {
    let (mut writer, mut envelope) = (FrameWriter::new(), Vec::new());
    let mark = writer.begin(&mut envelope, version, EnvelopeFlags::NONE, 0, Opcode::Error);
    write_error(&mut envelope, version, &ErrorBody::Overloaded, TIMED_OUT_WAITING);
    // A few dozen bytes fit any envelope.
    let _fits = writer.finish(&mut envelope, mark);
    envelope
}

/// The OVERLOADED answer for connections of `version`.
pub fn overloaded_template(version: ProtocolVersion) -> &'static [u8] {
    let [v3, v4, v5, v6] = &*OVERLOADED;
    match version {
        ProtocolVersion::V3 => v3,
        ProtocolVersion::V4 => v4,
        ProtocolVersion::V5 => v5,
        ProtocolVersion::V6 => v6,
    }
}
