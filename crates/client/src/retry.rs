//! Retry policy: what happens to a request that was not served.

use helenus_protocol::ErrorCode;

use crate::error::ServerError;

/// How often a request that may have run is sent again, if it is idempotent.
///
/// Requests that provably did not run are no matter of policy: they are sent again until their deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first, for each request; default 2. PREPARE, which changes nothing, is retried
    /// alike.
    pub retries_max: u32,
}

impl Default for RetryPolicy {
    /// Two, as a request that failed on three nodes will hardly do on a fourth.
    fn default() -> Self {
        RetryPolicy { retries_max: 2 }
    }
}

impl RetryPolicy {
    /// Never a second time.
    pub const NEVER: RetryPolicy = RetryPolicy { retries_max: 0 };
}

/// Meaning of a server's refusal for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Refused before any work: it goes out again, after a pause, as if it had not been sent.
    NotRun,
    /// The server has forgotten the statement: it is prepared again first.
    Unprepared,
    /// As `MayHaveRun`, after a pause.
    Overloaded,
    /// It may have run in part; another try may succeed.
    MayHaveRun,
    /// Another try would end alike.
    Final,
}

/// `overloaded_is_not_run`: the server has said so.
pub(crate) fn judge(error: &ServerError, overloaded_is_not_run: bool) -> Verdict {
    match error.code {
        Some(ErrorCode::IsBootstrapping) => Verdict::NotRun,
        Some(ErrorCode::Overloaded) if overloaded_is_not_run || is_refusal_before_work(&error.message) => {
            Verdict::NotRun
        }
        Some(ErrorCode::Overloaded) => Verdict::Overloaded,
        Some(ErrorCode::Unprepared) => Verdict::Unprepared,
        Some(
            ErrorCode::ReadTimeout
            | ErrorCode::WriteTimeout
            | ErrorCode::Unavailable
            | ErrorCode::ServerError
            | ErrorCode::TruncateError,
        ) => Verdict::MayHaveRun,
        _ => Verdict::Final,
    }
}

/// Beginnings of the refusals that Cassandra's transport sends before it hands a request on (`CQLMessageHandler`,
/// `Dispatcher` of 5.0.5). Its coordinator's own refusals ("Too many in flight hints") may come in the middle of a batch, a
/// conditional write or a counter.
const REFUSALS_BEFORE_WORK: [&str; 4] = [
    "Request breached ",
    "Request has spent over ",
    "Query timed out before it could start",
    "Server is shutting down",
];

fn is_refusal_before_work(message: &str) -> bool {
    REFUSALS_BEFORE_WORK
        .iter()
        .any(|beginning| message.starts_with(beginning))
}
