//! Bytes out of the socket, and when they came.

use std::io::{self, Read};
use std::pin::pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::Connection;
use crate::arrivals::Arrivals;
use crate::message_bounds::is_statement;

/// What a turn reads before it handles it: the largest v5 segment and the socket's buffer behind it. A larger message
/// grows the buffer over several turns.
const READ_BYTES_PER_TURN_MAX: usize = 256 * 1024;

/// A message of which as much is still to come asks for memory first: less fits what a read is offered anyway.
const LARGE_BYTES_MIN: usize = 16 * 1024;

/// As much room as the receive buffer has at least.
const READ_AT_ONCE_BYTES: usize = 16 * 1024;

impl Connection {
    /// A message that is larger than a turn's worth is read on until it is whole.
    fn read_bytes_max(&self) -> usize {
        let begun = self.received.unread().len();
        begun
            + READ_BYTES_PER_TURN_MAX
                .saturating_sub(begun)
                .max(READ_BYTES_PER_TURN_MAX / 4)
    }

    /// Reads until the socket is empty or a turn's worth is there; whether the socket may have more.
    pub(super) fn receive(&mut self, context: &mut Context<'_>, now_ns: u64) -> bool {
        if let Some(catching_up) = self.catching_up
            && let Some(sent_after_ns) = catching_up.over_since(now_ns)
        {
            self.catching_up = None;
            self.empty_ns = sent_after_ns;
        }
        let earliest_ns = if self.is_listening && self.catching_up.is_none() {
            self.shard.admission.earliest_arrival(self.empty_ns)
        } else {
            self.empty_ns
        };
        let mut is_empty = false;
        let mut has_read = false;
        let unread = self.received.unread().len();
        let bytes_max = self.read_bytes_max();
        if self.received.capacity() == 0 {
            self.received.lend(self.shard.buffers.take());
        }
        while !is_empty && self.received.unread().len() < bytes_max {
            match pin!(self.stream.read_buf(self.received.tail())).poll(context) {
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.has_ended = true;
                    is_empty = true;
                }
                Poll::Ready(Ok(_)) => has_read = true,
                // What the event loop knows may be old: the client's kernel fills the socket while it is read.
                Poll::Pending if self.catching_up.is_some() => {
                    match read_at_once(&self.stream, self.received.tail()) {
                        Ok(count) if count > 0 => has_read = true,
                        _ => is_empty = true,
                    }
                }
                Poll::Pending => is_empty = true,
            }
        }
        if has_read {
            self.quiet_since = None;
            self.arrivals = Arrivals::new(earliest_ns, now_ns, self.received.unread().len());
        }
        if let Some(catching_up) = &mut self.catching_up {
            catching_up.looked(now_ns, self.received.unread().len() - unread, is_empty);
        }
        self.is_listening = is_empty;
        let read = self.received.unread().len() - unread;
        if let Some(since_ns) = self.emptied.read(now_ns, read, is_empty)
            && !self.backlog.is_empty()
        {
            self.empty_ns = self.empty_ns.max(since_ns);
        }
        // What was sent behind a full socket fills it again: that it was empty says nothing then.
        if is_empty && self.catching_up.is_none() {
            // Without a read nothing is known but that the kernel had no news when it was last asked.
            self.empty_ns = if has_read { now_ns } else { earliest_ns };
        }
        !is_empty
    }

    /// Whether the message of which only the beginning has arrived may come: memory for a large one is set aside before it
    /// is read.
    pub(super) fn has_memory_for_begun(&mut self, now_ns: u64) -> bool {
        let begun = self.reader.begun(&self.received);
        let bytes_left = match begun {
            Some(header) if is_statement(header.opcode) => self.reader.begun_bytes_left(&self.received),
            _ => 0,
        };
        let bytes_left = if bytes_left < LARGE_BYTES_MIN {
            0
        } else {
            bytes_left
        };
        if bytes_left == 0 && !self.has_reservation {
            return true;
        }
        let has_memory =
            self.shard
                .admission
                .reserve(self.id, bytes_left, self.session.outbox().free_bytes(), now_ns);
        self.has_reservation = has_memory && bytes_left > 0;
        has_memory
    }
}

/// Reads what is in the socket now, whatever the event loop knows of it.
fn read_at_once(stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let filled = buffer.len();
    buffer.resize(filled + READ_AT_ONCE_BYTES, 0);
    let read = (&*SockRef::from(stream)).read(&mut buffer[filled..]);
    buffer.truncate(filled + read.as_ref().map_or(0, |count| *count));
    read
}
