//! How long messages may be that are no statements.

use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeHeader;

use crate::handshake::Stage;

/// A message before the connection is ready: a STARTUP with a dozen options or a password is below 1 KiB, and nobody
/// knows yet who sends it.
const MESSAGE_BYTES_BEFORE_READY_MAX: usize = 4 * 1024;

/// A later message that is no statement: OPTIONS and REGISTER are some dozens of bytes, a custom payload may come with
/// them.
const OTHER_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// A message that is longer than it can have a reason to be.
#[derive(Debug, thiserror::Error)]
#[error("{opcode} of {bytes} bytes is too long: at most {bytes_max} are taken{when}")]
pub struct TooLong {
    opcode: Opcode,
    bytes: usize,
    bytes_max: usize,
    when: &'static str,
}

/// Statements have a bound of their own, and their memory is asked for. Anything else is kept short: it would be received
/// without a reservation, from clients that nobody knows.
pub fn check_bytes(stage: &Stage, header: &EnvelopeHeader, bytes: usize) -> Result<(), TooLong> {
    if stage.is_open() && is_statement(header.opcode) {
        return Ok(());
    }
    let (bytes_max, when) = match stage.is_ready() {
        true => (OTHER_MESSAGE_BYTES_MAX, ""),
        false => (MESSAGE_BYTES_BEFORE_READY_MAX, " before the connection is ready"),
    };
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(TooLong {
        opcode: header.opcode,
        bytes,
        bytes_max,
        when,
    })
}

pub fn is_statement(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Query | Opcode::Execute | Opcode::Batch | Opcode::Prepare
    )
}
