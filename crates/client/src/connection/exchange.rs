//! A request that is under way, held by its caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{ABANDONED_STREAMS_MAX, Connection, Lifecycle};
use crate::error::ConnectError;
use crate::lock::lock;
use crate::response::Response;

/// Ends with the answer, or with the connection. Dropped before, it leaves the stream to its late answer.
#[derive(Debug)]
#[must_use = "an exchange that is dropped is given up"]
pub(crate) struct Exchange {
    connection: Arc<Connection>,
    stream: u16,
    is_over: bool,
}

/// The connection ended before the answer came.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    /// False only if not one byte of the write that carried the request left this process.
    pub may_have_run: bool,
    pub reason: Arc<ConnectError>,
}

impl Exchange {
    pub(super) fn new(connection: Arc<Connection>, stream: u16) -> Self {
        Exchange {
            connection,
            stream,
            is_over: false,
        }
    }
}

impl Future for Exchange {
    type Output = Result<Response, Lost>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let state = &mut *lock(&this.connection.state);
        let Poll::Ready(outcome) = state.streams.poll(this.stream, context) else {
            return Poll::Pending;
        };
        this.is_over = true;
        if state.was_busy {
            state.was_busy = false;
            this.connection.changed.notify_waiters();
        }
        Poll::Ready(outcome.map_err(|may_have_run| Lost {
            may_have_run,
            reason: match &state.lifecycle {
                Lifecycle::Closed(reason) => reason.clone(),
                // Streams are lost with their connection only.
                Lifecycle::Open | Lifecycle::Draining => Arc::new(ConnectError::SessionClosed),
            },
        }))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (abandoned, silence) = {
            let state = &mut *lock(&self.connection.state);
            state.streams.abandon(self.stream);
            (state.streams.abandoned(), state.last_answered.elapsed())
        };
        // Callers give up for reasons of their own, too; a connection that answers somebody is alive.
        let silence_max = if abandoned > ABANDONED_STREAMS_MAX {
            SILENCE_MAX_OF_MANY
        } else {
            SILENCE_MAX
        };
        if abandoned > 0 && silence > silence_max {
            self.connection.close(ConnectError::Unresponsive {
                address: self.connection.peer.address,
                abandoned,
            });
        }
    }
}

/// How long a connection with an abandoned request may answer nothing: longer than a server pauses to collect garbage.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The same for one with more than [`ABANDONED_STREAMS_MAX`] of them.
const SILENCE_MAX_OF_MANY: Duration = Duration::from_secs(1);
