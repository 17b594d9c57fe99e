//! Answers into the socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::buffer_pool::BufferPool;
use crate::outbox::Outbox;
use crate::socket::Socket;

/// Sending side of a connection: output being sent, and how long the client may take nothing of it.
pub(super) struct Sender {
    /// Taken from the outbox; the first `sent` bytes are gone.
    sending: Vec<u8>,
    sent: usize,
    /// When the connection is closed unless the client takes something.
    taken_until: Option<Pin<Box<Sleep>>>,
    answer_timeout: Duration,
}

impl Sender {
    pub fn new(answer_timeout: Duration) -> Self {
        Sender {
            sending: Vec::new(),
            sent: 0,
            taken_until: None,
            answer_timeout,
        }
    }

    /// Returns whether everything that was taken from the outbox is sent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.sending.len()
    }

    /// Memory of what is being sent.
    pub fn capacity(&self) -> usize {
        self.sending.capacity()
    }

    /// Sends what is ready. Pending if the socket takes no more.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut Socket,
        outbox: &Outbox,
        buffers: &BufferPool,
    ) -> Poll<io::Result<()>> {
        loop {
            while self.sent < self.sending.len() {
                match socket.poll_write(context, &self.sending[self.sent..]) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => {
                        self.sent += count;
                        self.taken_until = None;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.sending.clear();
            self.sent = 0;
            if !outbox.has_output() {
                buffers.give_back(std::mem::take(&mut self.sending));
                return Poll::Ready(Ok(()));
            }
            outbox.take(&mut self.sending);
        }
    }

    /// Returns whether the client, whose socket took no more when it was last tried, has taken nothing for too long.
    pub fn is_stuck(&mut self, context: &mut Context<'_>) -> bool {
        let timeout = self.answer_timeout;
        let until = self.taken_until.get_or_insert_with(|| Box::pin(sleep(timeout)));
        until.as_mut().poll(context).is_ready()
    }
}
