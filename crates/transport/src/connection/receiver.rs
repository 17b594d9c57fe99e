//! Bytes out of the socket, and when they came.

use std::task::{Context, Poll};

use helenus_protocol::Direction;
use helenus_protocol::frame::{
    Envelope, EnvelopeHeader, FrameError, FrameLimits, FrameReader, ReceiveBuffer,
};

use crate::backlog_drain::BacklogDrain;
use crate::context::TransportContext;
use crate::message_bounds::is_statement;
use crate::receive_times::{Emptied, ReceiveTimes};
use crate::socket::Socket;

/// Bytes that a turn reads before it handles them: the largest v5 segment and the socket's buffer behind it. A larger message
/// grows the buffer over several turns.
const READ_BYTES_PER_TURN_MAX: usize = 256 * 1024;

/// Messages with at least as many bytes outstanding reserve memory first; smaller ones fit the default read buffer.
const LARGE_BYTES_MIN: usize = 16 * 1024;

/// Receiving side of a connection: bytes read and not handled yet, and what is known of when they came.
pub(super) struct Receiver {
    pub reader: FrameReader,
    pub received: ReceiveBuffer,
    /// Whole messages may be left in `received` from the last turn.
    pub has_leftover: bool,
    /// The peer sends no more; what it sent is still handled.
    pub has_ended: bool,
    /// Arrival times of the bytes in `received`.
    times: ReceiveTimes,
    /// When the socket was last seen empty, on the thread's clock.
    empty_ns: u64,
    emptied: Emptied,
    /// Since then nothing has kept the connection from hearing at once that there is something to read.
    is_listening: bool,
    /// After the connection was left unread.
    backlog_drain: Option<BacklogDrain>,
    /// [`Socket::dropped_segments`] when the connection was last read again.
    dropped_segments: u32,
    /// Memory is reserved for the rest of a message.
    has_reservation: bool,
}

/// Result of a look at the socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub has_read: bool,
    /// The socket was not seen empty.
    pub has_more: bool,
}

impl Receiver {
    /// `first` was read before the connection came to this thread.
    pub fn new(first: &[u8], limits: FrameLimits, transport: &TransportContext) -> Self {
        let mut received = ReceiveBuffer::new();
        received.lend(transport.buffers.take());
        received.feed(first);
        let now_ns = transport.look_at_clock();
        Receiver {
            reader: FrameReader::new(Direction::Request, limits),
            received,
            has_leftover: true,
            has_ended: false,
            times: ReceiveTimes::new(now_ns, now_ns, first.len()),
            // A client whose handshake is not over has sent nothing that waits.
            empty_ns: now_ns,
            emptied: Emptied::default(),
            is_listening: true,
            backlog_drain: None,
            dropped_segments: 0,
            has_reservation: false,
        }
    }

    /// A turn begins: unless it comes to read, the connection does not listen. Whether it did before.
    pub fn take_listening(&mut self) -> bool {
        std::mem::take(&mut self.is_listening)
    }

    /// This turn comes to read, so it listens as it did before.
    pub fn set_listening(&mut self, was_listening: bool) {
        self.is_listening = was_listening;
    }

    /// The connection is read again after a pause, in which its socket has dropped what it had no room for.
    pub fn resumed(&mut self, now_ns: u64, socket: &Socket) {
        let before = std::mem::replace(&mut self.dropped_segments, socket.dropped_segments());
        let was_incomplete = (self.backlog_drain.as_ref()).is_some_and(BacklogDrain::is_incomplete);
        let is_incomplete = before != self.dropped_segments || was_incomplete;
        self.backlog_drain = Some(BacklogDrain::new(now_ns, is_incomplete));
    }

    /// Returns whether the bytes that come may all have been sent while the connection was left unread.
    pub fn is_draining_backlog(&self) -> bool {
        (self.backlog_drain.as_ref()).is_some_and(BacklogDrain::is_of_the_pause)
    }

    /// Nothing that was received came before.
    pub fn earliest_ns(&self) -> u64 {
        self.times.earliest_ns()
    }

    /// The next message, and when it came by all that is known at `now_ns`. None where the rest of it is still to come.
    #[inline]
    pub fn next_message(&mut self, now_ns: u64) -> Result<Option<(Envelope<'_>, u64)>, FrameError> {
        let received_ns = self.times.arrival_ns(|| self.received.unread().len());
        let Some(envelope) = self.reader.next_envelope(&mut self.received)? else {
            return Ok(None);
        };
        let sent_after_ns =
            (self.backlog_drain.as_mut()).and_then(|drain| drain.received(now_ns, envelope.header.stream));
        Ok(Some((envelope, received_ns.max(sent_after_ns.unwrap_or(0)))))
    }

    /// Gives memory back that holds nothing.
    pub fn give_back(&mut self, transport: &TransportContext) {
        if let Some(memory) = self.received.take_memory() {
            transport.buffers.give_back(memory);
            transport.buffers.give_back(self.reader.take_scratch());
        }
    }

    /// Memory of what was received, and of what is known of it.
    pub fn capacity(&self) -> usize {
        let drain = self.backlog_drain.as_ref().map_or(0, BacklogDrain::memory_bytes);
        self.received.capacity() + self.reader.scratch_bytes() + drain
    }

    /// A message that is larger than a turn's worth is read on until it is whole.
    fn read_bytes_max(&self) -> usize {
        let begun = self.received.unread().len();
        begun
            + READ_BYTES_PER_TURN_MAX
                .saturating_sub(begun)
                .max(READ_BYTES_PER_TURN_MAX / 4)
    }

    /// Reads until the socket is empty or a turn's worth is there. `has_backlog`: requests that were
    /// taken out of the socket wait.
    pub fn receive(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut Socket,
        transport: &TransportContext,
        now_ns: u64,
        has_backlog: bool,
    ) -> Read {
        if let Some(drain) = &self.backlog_drain
            && let Some(sent_after_ns) = drain.over_since(now_ns)
        {
            self.backlog_drain = None;
            self.empty_ns = sent_after_ns;
        }
        let earliest_ns = if self.is_listening && self.backlog_drain.is_none() {
            transport.admission.earliest_arrival(self.empty_ns)
        } else {
            self.empty_ns
        };
        let unread = self.received.unread().len();
        if self.received.capacity() == 0 {
            self.received.lend(transport.buffers.take());
        }
        let (has_read, is_empty) = self.read_out(context, socket);
        if has_read {
            self.times = ReceiveTimes::new(earliest_ns, now_ns, self.received.unread().len());
        }
        let read = self.received.unread().len() - unread;
        if let Some(drain) = &mut self.backlog_drain {
            drain.looked(now_ns, read, is_empty);
        }
        self.is_listening = is_empty;
        if let Some(since_ns) = self.emptied.read(now_ns, read, is_empty)
            && has_backlog
        {
            self.empty_ns = self.empty_ns.max(since_ns);
        }
        // What was sent behind a full socket fills it again: that it was empty says nothing then.
        if is_empty && self.backlog_drain.is_none() {
            // Without a read nothing is known but that the kernel had no news when it was last asked.
            self.empty_ns = if has_read { now_ns } else { earliest_ns };
        }
        Read {
            has_read,
            has_more: !is_empty,
        }
    }

    /// Reads the socket out; returns whether anything was read, and whether the socket was seen empty.
    fn read_out(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> (bool, bool) {
        let bytes_max = self.read_bytes_max();
        let (mut has_read, mut is_empty) = (false, false);
        while !is_empty && self.received.unread().len() < bytes_max {
            match socket.poll_read(context, self.received.tail()) {
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.has_ended = true;
                    is_empty = true;
                }
                Poll::Ready(Ok(_)) => has_read = true,
                // What the event loop knows may be old: the client's kernel fills the socket while it is read.
                Poll::Pending if self.backlog_drain.is_some() => {
                    match socket.read_at_once(self.received.tail()) {
                        Ok(count) if count > 0 => has_read = true,
                        _ => is_empty = true,
                    }
                }
                Poll::Pending => is_empty = true,
            }
        }
        (has_read, is_empty)
    }

    /// Returns whether no part of a message has arrived.
    pub fn is_between_messages(&self) -> bool {
        self.reader.is_between_messages(&self.received)
    }

    /// The message of which the beginning has arrived.
    pub fn begun(&self) -> Option<EnvelopeHeader> {
        self.reader.begun(&self.received)
    }

    /// It is passed over as it comes, and then answered as one that there was no memory for.
    pub fn skip_begun(&mut self) {
        self.reader.skip_begun(&self.received);
    }

    /// Returns whether the message of which only the beginning has arrived may come: memory for a large one is reserved
    /// before it is read.
    pub fn has_memory_for_begun(
        &mut self,
        transport: &TransportContext,
        connection: u64,
        free_bytes: impl FnOnce() -> usize,
        now_ns: u64,
    ) -> bool {
        let bytes_left = match self.begun() {
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
        let admission = &transport.admission;
        let has_memory = admission.reserve(connection, bytes_left, free_bytes(), now_ns);
        self.has_reservation = has_memory && bytes_left > 0;
        has_memory
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{self, Write};
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::time::Duration;

    use helenus_protocol::Opcode;
    use helenus_vfs::ManualClock;

    use super::*;
    use crate::{RequestMemory, TransportOptions};

    const MS: u64 = 1_000_000;

    fn options(stream: u8) -> [u8; 9] {
        [4, 0, 0, stream, Opcode::Options as u8, 0, 0, 0, 0]
    }

    /// A receiver, its socket and the client's, which has sent something on each of the streams.
    struct Received {
        receiver: Receiver,
        socket: Socket,
        client: TcpStream,
        transport: std::rc::Rc<TransportContext>,
    }

    impl Received {
        fn new() -> io::Result<Received> {
            let listener = crate::listen("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
            listener.set_nonblocking(false)?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            let (server, _) = listener.accept()?;
            server.set_nonblocking(true)?;
            let options = TransportOptions {
                admission: true,
                request_timeout: Duration::from_secs(5),
                buffer_pool: true,
                memory: RequestMemory::of_shard(32 << 20, true),
                clock: Arc::new(ManualClock::starting_at(0)),
                events: helenus_events::silent(),
            };
            let transport = TransportContext::new(options, Arc::default());
            Ok(Received {
                receiver: Receiver::new(&[], FrameLimits::default(), &transport),
                socket: Socket::accepted(server)?,
                client,
                transport,
            })
        }

        /// Stream and time of each message that the client sends and `now_ns` finds in the socket.
        async fn times(&mut self, streams: &[u8], now_ns: u64) -> io::Result<Vec<(i16, u64)>> {
            for stream in streams {
                self.client.write_all(&options(*stream))?;
            }
            let mut times = Vec::new();
            while times.len() < streams.len() {
                poll_fn(|context| {
                    let (socket, transport) = (&mut self.socket, &*self.transport);
                    let read = self.receiver.receive(context, socket, transport, now_ns, false);
                    match read.has_read {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
                while let Some((envelope, received_ns)) =
                    self.receiver.next_message(now_ns).map_err(io::Error::other)?
                {
                    times.push((envelope.header.stream, received_ns));
                }
            }
            Ok(times)
        }
    }

    /// Requests that a client had sent while it was left unread counted as new once its socket had been empty.
    #[test]
    fn what_comes_after_a_pause_is_as_old_as_the_pause_until_a_stream_is_used_again() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        runtime.block_on(async {
            let mut received = Received::new()?;
            received.receiver.resumed(1_000 * MS, &received.socket);
            assert_eq!(received.times(&[1, 2], 1_001 * MS).await?, [(1, 0), (2, 0)]);
            assert_eq!(received.times(&[3], 1_010 * MS).await?, [(3, 0)]);
            assert!(received.receiver.is_draining_backlog());
            let since_ns = 1_000 * MS;
            assert_eq!(
                received.times(&[2, 4], 1_011 * MS).await?,
                [(2, since_ns), (4, since_ns)]
            );
            assert!(!received.receiver.is_draining_backlog());
            assert_eq!(received.times(&[5], 1_012 * MS).await?, [(5, since_ns)]);
            assert_eq!(received.times(&[2], 1_014 * MS).await?, [(2, 1_011 * MS)]);
            // That is young enough: it has caught up, and an empty socket counts again.
            assert_eq!(received.times(&[6], 1_015 * MS).await?, [(6, 1_011 * MS)]);
            assert_eq!(received.times(&[7], 1_016 * MS).await?, [(7, 1_015 * MS)]);
            Ok(())
        })
    }
}
