//! The task that owns a connection's socket.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use helenus_protocol::Opcode;
use helenus_protocol::frame::{FrameReader, ReceiveBuffer};
use helenus_protocol::response::{Event, Response as Message};
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::handshake::Socket;
use super::{Connection, EventSender, Lifecycle, ReceivedEvent};
use crate::buffer_pool::BufferPool;
use crate::error::ConnectError;
use crate::lock::lock;
use crate::response::Response;

/// Reads of one run: afterwards the other tasks of the thread get their turn.
const READS_PER_TURN_MAX: usize = 8;

/// Largest output buffer that an idle connection keeps, in bytes: one large write.
const KEPT_OUTPUT_BYTES_MAX: usize = 256 * 1024;

pub(super) struct IoTask {
    pub socket: Box<dyn Socket>,
    pub connection: Arc<Connection>,
    pub reader: FrameReader,
    pub received: ReceiveBuffer,
    pub buffers: Arc<BufferPool>,
    pub events: Option<EventSender>,
    /// Taken from the connection's output; the first `sent` bytes are gone.
    pub sending: Vec<u8>,
    pub sent: usize,
    /// The number of the write in `sending`.
    pub sending_batch: u64,
    /// Answers of one read, handed over under one lock.
    pub answers: Vec<(i16, Response)>,
}

impl IoTask {
    /// Sends everything that has gathered. Pending while the socket takes no more or nothing is left; then the
    /// connection wakes this task.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.sent < self.sending.len() {
                let rest = self.sending.get(self.sent..).unwrap_or_default();
                match Pin::new(&mut self.socket).poll_write(context, rest) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => self.sent += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            let state = &mut *lock(&self.connection.state);
            if state.output.is_empty() {
                match &state.lifecycle {
                    Lifecycle::Closed(_) => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                    Lifecycle::Draining if state.streams.unanswered() == 0 => {
                        return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
                    }
                    _ => {}
                }
                state.task = Some(context.waker().clone());
                return Poll::Pending;
            }
            state.writer.flush(&mut state.output);
            self.sending.clear();
            if self.sending.capacity() > KEPT_OUTPUT_BYTES_MAX {
                self.sending = Vec::new();
            }
            std::mem::swap(&mut state.output, &mut self.sending);
            self.sending_batch = state.batch;
            state.batch += 1;
            self.sent = 0;
        }
    }

    /// Cuts what has arrived into answers and hands them to their callers.
    fn deliver(&mut self) -> Result<(), ConnectError> {
        let address = self.connection.peer.address;
        let protocol = |reason: String| ConnectError::Protocol { address, reason };
        while let Some(envelope) = self
            .reader
            .next_envelope(&mut self.received)
            .map_err(|error| protocol(error.to_string()))?
        {
            let response = Response {
                version: envelope.header.version,
                flags: envelope.header.flags,
                opcode: envelope.header.opcode,
                body: self.buffers.copy_of(envelope.body),
            };
            if response.opcode == Opcode::Event {
                event_received(&self.connection, self.events.as_ref(), response);
            } else {
                self.answers.push((envelope.header.stream, response));
            }
        }
        let mut wakers = Vec::with_capacity(self.answers.len());
        {
            let state = &mut *lock(&self.connection.state);
            if !self.answers.is_empty() {
                state.last_answered = Instant::now();
            }
            for (stream, response) in self.answers.drain(..) {
                match state.streams.answer(stream, response) {
                    Ok(waker) => wakers.extend(waker),
                    Err(unknown) => {
                        return Err(protocol(format!(
                            "it answered on stream {}, where nobody asked",
                            unknown.0
                        )));
                    }
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Runs until the connection ends; says why. Reads before it sends: a connection that the server has closed or
    /// drains is found out before a request goes into it.
    fn poll_run(&mut self, context: &mut Context<'_>) -> Poll<ConnectError> {
        let address = self.connection.peer.address;
        let io = |source| ConnectError::Io { address, source };
        let mut is_quiet = false;
        for _ in 0..READS_PER_TURN_MAX {
            let read = pin!(self.socket.read_buf(self.received.tail())).poll(context);
            match read {
                Poll::Ready(Ok(0)) => return Poll::Ready(ConnectError::ClosedByServer { address }),
                Poll::Ready(Ok(_)) => {
                    if let Err(error) = self.deliver() {
                        return Poll::Ready(error);
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(io(error)),
                Poll::Pending => {
                    is_quiet = true;
                    break;
                }
            }
        }
        if let Poll::Ready(Err(error)) = self.poll_send(context) {
            return Poll::Ready(io(error));
        }
        if !is_quiet {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

fn event_received(connection: &Connection, events: Option<&EventSender>, response: Response) {
    if let Ok((Message::Event(Event::GracefulDisconnect), _)) = response.decode() {
        connection.drain();
        return;
    }
    if let Some(events) = events {
        // A client that is so far behind refreshes what it knows in time anyway.
        let _dropped_if_full = events.try_send(ReceivedEvent { response });
    }
}

impl Future for IoTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Poll::Ready(reason) = this.poll_run(context) else {
            return Poll::Pending;
        };
        let wakers = {
            let state = &mut *lock(&this.connection.state);
            let (batch, is_sent) = (this.sending_batch, this.sent > 0);
            let wakers = state
                .streams
                .lose_all(|written| written < batch || (written == batch && is_sent));
            if !matches!(state.lifecycle, Lifecycle::Closed(_)) {
                state.lifecycle = Lifecycle::Closed(Arc::new(reason));
            }
            wakers
        };
        this.connection.leaves();
        wakers.into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }
}

/// The runtime ends before the connection: whoever waits is told.
impl Drop for IoTask {
    fn drop(&mut self) {
        self.connection.close(ConnectError::SessionClosed);
    }
}
