//! What happens to a request that was not served.

use helenus_protocol::ErrorCode;

use crate::error::ServerError;

/// How often a request that may have run is sent again, if it is idempotent.
///
/// Requests that provably did not run are no matter of policy: they are sent again until their deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
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

/// What a server's refusal says about the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Refused before any work: it goes out again, after a pause, as if it had not been sent.
    NotRun,
    /// The server has forgotten the statement: it is prepared again first.
    Unprepared,
    /// It may have run in part; another try may succeed.
    MayHaveRun,
    /// Another try would end alike.
    Final,
}

pub(crate) fn judge(error: &ServerError) -> Verdict {
    match error.code {
        Some(ErrorCode::Overloaded | ErrorCode::IsBootstrapping) => Verdict::NotRun,
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
