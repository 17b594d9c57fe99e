//! A request that is under way, held by its caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
        let abandoned = {
            let state = &mut *lock(&self.connection.state);
            state.streams.abandon(self.stream);
            state.streams.abandoned()
        };
        if abandoned > ABANDONED_STREAMS_MAX {
            // A peer that answers nothing any more: its silence is given a second before it is told apart from
            // callers who give up often, by the owner's heartbeat.
            let silence = self.connection.last_received().elapsed();
            if silence > SILENCE_MAX {
                self.connection.close(ConnectError::Unresponsive {
                    address: self.connection.peer.address,
                    abandoned,
                });
            }
        }
    }
}

/// How long a connection with many abandoned requests may be silent.
const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(1);
