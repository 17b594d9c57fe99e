//! Judgement of a connection's first message.

use helenus_protocol::frame::{
    Envelope, EnvelopeFlags, EnvelopeHeader, FirstMessage, FrameError, FrameWriter, first_message,
    is_one_message,
};
use helenus_protocol::request::{Request, StartupError};
use helenus_protocol::response::{ErrorBody, write_error};
use helenus_protocol::wire::DecodeError;
use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};

use crate::metrics::ConnectionMetrics;

/// A connection's first message, header included: a STARTUP with a dozen options is below 1 KiB.
const FIRST_MESSAGE_BYTES_MAX: u32 = 4 * 1024;

/// Verdict on a pending connection.
pub(super) enum Judgement {
    /// More bytes are needed.
    Incomplete,
    /// The handshake may begin.
    Accepted,
    /// Its answer is written.
    Rejected(Rest),
}

/// Input that a rejected client may still have to send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// It has sent one message, to the end, and waits for the answer.
    Nothing,
    Unknown,
}

/// Why a first message is rejected.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("Unexpected message {0}, expecting STARTUP or OPTIONS")]
    Unexpected(Opcode),
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    #[error(transparent)]
    Startup(#[from] StartupError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// An answer that nothing follows.
struct Rejection {
    version: ProtocolVersion,
    stream: i16,
    cause: Cause,
}

impl Rejection {
    fn of_message(header: &EnvelopeHeader, cause: Cause) -> Self {
        Rejection {
            version: header.version,
            stream: header.stream,
            cause,
        }
    }

    fn of_frame(received: &[u8], error: FrameError) -> Self {
        let version = received
            .first()
            .and_then(|first| ProtocolVersion::from_number(*first))
            .filter(|_| !matches!(error, FrameError::BetaVersion { .. }))
            .unwrap_or(ProtocolVersion::CURRENT);
        Rejection {
            version,
            stream: error.stream(),
            cause: Cause::Frame(error),
        }
    }

    /// `None` where nothing is wrong: drivers step down to the version of the answer to one that nobody knows.
    fn counted_as(&self) -> Option<ErrorCode> {
        match &self.cause {
            Cause::Frame(FrameError::UnsupportedVersion { .. }) => None,
            Cause::Frame(error) => Some(error.code()),
            _ => Some(ErrorCode::ProtocolError),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let body = match &self.cause {
            Cause::Frame(error) if error.code() == ErrorCode::Invalid => ErrorBody::Invalid,
            _ => ErrorBody::ProtocolError,
        };
        let mut writer = FrameWriter::new();
        let mark = writer.begin(out, self.version, EnvelopeFlags::NONE, self.stream, Opcode::Error);
        write_error(out, self.version, &body, &self.cause);
        // A line of text fits any envelope.
        let _fits = writer.finish(out, mark);
    }
}

/// Judges what was received so far. What a rejected client is told is in `answer` then, and counted.
pub(super) fn judge(received: &[u8], answer: &mut Vec<u8>, metrics: &ConnectionMetrics) -> Judgement {
    let rejection = match is_acceptable(received) {
        Ok(true) => return Judgement::Accepted,
        Ok(false) => return Judgement::Incomplete,
        Err(rejection) => rejection,
    };
    if let Some(code) = rejection.counted_as() {
        metrics.count_error(code);
    }
    answer.clear();
    rejection.write(answer);
    Judgement::Rejected(if is_one_message(received) {
        Rest::Nothing
    } else {
        Rest::Unknown
    })
}

/// Returns whether a whole first message has arrived that a handshake may begin with.
fn is_acceptable(received: &[u8]) -> Result<bool, Rejection> {
    let first = first_message(received, FIRST_MESSAGE_BYTES_MAX)
        .map_err(|error| Rejection::of_frame(received, error))?;
    let header = match &first {
        FirstMessage::Nothing => return Ok(false),
        FirstMessage::Begun(header) => *header,
        FirstMessage::Whole(envelope) => envelope.header,
    };
    if !may_come_first(header.opcode) {
        return Err(Rejection::of_message(&header, Cause::Unexpected(header.opcode)));
    }
    let FirstMessage::Whole(envelope) = first else {
        return Ok(false);
    };
    check(&envelope)
        .map(|()| true)
        .map_err(|cause| Rejection::of_message(&header, cause))
}

fn check(envelope: &Envelope<'_>) -> Result<(), Cause> {
    let (request, _payload) = Request::decode(envelope)?;
    if let Request::Startup(startup) = request {
        startup.negotiate(envelope.header.version)?;
    }
    Ok(())
}

/// Returns whether a client may send the message before anything else.
fn may_come_first(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Startup | Opcode::Options)
}
