//! The answer to bytes that never became a message.

use super::error::{ErrorBody, write_error};
use crate::error_code::ErrorCode;
use crate::frame::{EnvelopeFlags, FrameError, FrameWriter, ResponseTooBig};
use crate::opcode::Opcode;
use crate::version::ProtocolVersion;

/// Appends the ERROR envelope that answers a [`FrameError`], unless its recovery is to close without an answer.
///
/// `version` is the connection's, if STARTUP has fixed it. A client whose version is not spoken here is answered in
/// a version it can read or step down to: see [`ProtocolVersion::reply_number_for_unsupported`].
pub fn write_refusal(
    writer: &mut FrameWriter,
    out: &mut Vec<u8>,
    version: Option<ProtocolVersion>,
    error: &FrameError,
) -> Result<(), ResponseTooBig> {
    let body = match error.code() {
        ErrorCode::Invalid => ErrorBody::Invalid,
        _ => ErrorBody::ProtocolError,
    };
    if let FrameError::UnsupportedVersion {
        number: number @ (1 | 2),
        ..
    } = error
        && version.is_none()
    {
        write_short_header_refusal(out, *number, &body, error);
        return Ok(());
    }
    let version = match error {
        FrameError::BetaVersion { version } => *version,
        _ => version.unwrap_or(ProtocolVersion::CURRENT),
    };
    let mark = writer.begin(out, version, EnvelopeFlags::NONE, error.stream(), Opcode::Error);
    write_error(out, version, &body, error);
    writer.finish(out, mark)
}

/// v1 and v2 have a header of 8 bytes: their stream has one.
fn write_short_header_refusal(out: &mut Vec<u8>, number: u8, body: &ErrorBody<'_>, error: &FrameError) {
    const RESPONSE_BIT: u8 = 0x80;
    out.extend_from_slice(&[number | RESPONSE_BIT, 0, 0, Opcode::Error.number(), 0, 0, 0, 0]);
    let body_at = out.len();
    write_error(out, ProtocolVersion::V3, body, error);
    // The text of an error is below 64 KiB.
    let length = (out.len() - body_at) as u32;
    out[body_at - 4..body_at].copy_from_slice(&length.to_be_bytes());
}
