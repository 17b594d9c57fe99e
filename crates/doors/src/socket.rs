//! A client's socket, which is here until the client has closed it, also while and after HTTP has it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::bounds::{FIRST_BYTES_TIMEOUT, HALF_CLOSED, LINGER, PREFACE_PAUSE, WRITE_TIMEOUT};
use crate::underway::Underway;

/// Bytes that HTTP/1.1 reads at a time.
const READ_BYTES: usize = 16 * 1024;

/// Bytes that are received at a time at most: some calls of each of many streams, or frames of the longest kind.
const SCRATCH_BYTES: usize = 64 * 1024;

/// First bytes of a client of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

thread_local! {
    /// Where bytes are on their way from the kernel to whoever reads them: HTTP/1.1 puts them into its own buffers, HTTP/2 reads them here.
    pub static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice());
}

/// A connected socket. Clones are the same one.
#[derive(Clone)]
pub struct Socket(Rc<Connected>);

struct Connected {
    stream: TcpStream,
    /// Runs while the client takes nothing of what is sent.
    stalled: RefCell<Option<Pin<Box<Sleep>>>>,
    /// Bytes of the connection that another process has read and not answered; they come first.
    received: RefCell<Vec<u8>>,
    underway: Underway,
    end: End,
}

/// End of what the client sends. HTTP drops what is under way when it hears of it, so it hears of it last.
#[derive(Default)]
struct End {
    /// Runs from when it was seen.
    seen: RefCell<Option<Pin<Box<Sleep>>>>,
    /// How many requests had ever begun when last all were answered, and written. What came together with the end may begin after that.
    written_of: Cell<Option<u64>>,
}

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    Http1,
    Http2,
}

impl Socket {
    /// `received` was read by another process.
    pub fn new(stream: TcpStream, received: Vec<u8>) -> Self {
        // Without it an answer waits for the acknowledgement of the one before; a socket that refuses is only slower.
        let _slower = stream.set_nodelay(true);
        Socket(Rc::new(Connected {
            stream,
            stalled: RefCell::new(None),
            received: RefCell::new(received),
            underway: Underway::default(),
            end: End::default(),
        }))
    }

    /// Its requests that are not answered to the end.
    pub fn underway(&self) -> &Underway {
        &self.0.underway
    }

    /// Takes the bytes that were read elsewhere, if they have not come yet.
    pub fn take_received(&self) -> Vec<u8> {
        self.0.received.take()
    }

    /// Returns whether something is to be sent that the client does not take.
    pub fn is_stalled(&self) -> bool {
        self.0.stalled.borrow().is_some()
    }

    /// Tells the protocol by the first bytes, which are left where they are; `None` if none come in time.
    pub async fn spoken(&self) -> Option<Spoken> {
        tokio::time::timeout(FIRST_BYTES_TIMEOUT, self.peek_spoken())
            .await
            .ok()?
    }

    async fn peek_spoken(&self) -> Option<Spoken> {
        // Only a connection of HTTP/1.1 was read elsewhere.
        if !self.0.received.borrow().is_empty() {
            return Some(Spoken::Http1);
        }
        let mut first = [0; PREFACE.len()];
        loop {
            // Looked at first: what comes together with the end is seen below.
            let ready = self.0.stream.ready(Interest::READABLE).await.ok()?;
            let count = self.0.stream.peek(&mut first).await.ok()?;
            let seen = first.get(..count).unwrap_or_default();
            match seen {
                [] => return None,
                _ if seen == PREFACE => return Some(Spoken::Http2),
                _ if !PREFACE.starts_with(seen) => return Some(Spoken::Http1),
                // Of a client that has gone no more will come.
                _ if ready.is_read_closed() => return None,
                // The kernel would say at once that there is something.
                _ => tokio::time::sleep(PREFACE_PAUSE).await,
            }
        }
    }

    /// Says that no more is sent, and waits for the client to say so, too: a socket that is closed while bytes of the client are
    /// unread takes away what the client has not read yet.
    pub async fn linger(&self) {
        let _closed_by_the_client =
            socket2::SockRef::from(&self.0.stream).shutdown(std::net::Shutdown::Write);
        let _given_up = tokio::time::timeout(LINGER, self.read_to_end()).await;
    }

    async fn read_to_end(&self) {
        while self.0.stream.readable().await.is_ok() {
            let read = SCRATCH.with_borrow_mut(|scratch| self.0.stream.try_read(scratch));
            match read {
                Ok(0) => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut received = self.0.received.borrow_mut();
        if !received.is_empty() {
            let count = received.len().min(buffer.remaining());
            buffer.put_slice(received.get(..count).unwrap_or_default());
            received.drain(..count);
            return Poll::Ready(Ok(()));
        }
        if self.0.end.seen.borrow().is_some() {
            return self.poll_end(context);
        }
        let room = READ_BYTES.min(buffer.remaining());
        let count = SCRATCH.with_borrow_mut(|scratch| {
            let place = scratch.get_mut(..room).unwrap_or_default();
            let count = ready!(self.poll_receive(context, place))?;
            buffer.put_slice(place.get(..count).unwrap_or_default());
            Poll::Ready(Ok::<usize, io::Error>(count))
        });
        match ready!(count)? {
            0 if room > 0 => self.poll_end(context),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl Socket {
    /// Receives as many bytes as there are, and `place` has room for; none at the end of what the client sends.
    pub fn poll_receive(&self, context: &mut Context<'_>, place: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.stream.poll_read_ready(context))?;
            match self.0.stream.try_read(place) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(count) if 0 < count && count < place.len() => {
                    self.nothing_left();
                    return Poll::Ready(Ok(count));
                }
                received => return Poll::Ready(received),
            }
        }
    }

    /// Sends some of these bytes, and returns how many.
    pub fn poll_send(&self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll_written(context, |stream| stream.try_write_vectored(slices))
    }

    /// The kernel had less than there was room for: until it says that more has come there is none, which it need not be asked for.
    fn nothing_left(&self) {
        let would_block = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _noted = self.0.stream.try_io(Interest::READABLE, would_block);
    }

    /// The client sends no more.
    fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Connected { underway, end, .. } = &*self.0;
        if underway.is_empty() && end.written_of.get() == Some(underway.begun()) {
            return Poll::Ready(Ok(()));
        }
        underway.wake_when_empty(context.waker());
        // What is written after this has everything; `poll_flush` sees to it that the end is looked at once more.
        let mut seen = end.seen.borrow_mut();
        if seen.is_none() {
            // HTTP may have come from there just now, and would not come again.
            context.waker().wake_by_ref();
        }
        let timer = seen.get_or_insert_with(|| Box::pin(tokio::time::sleep(HALF_CLOSED)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Ok(()))
    }

    fn poll_written(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.0.stream.poll_write_ready(context)? {
                Poll::Ready(()) => {}
                Poll::Pending => return self.poll_stalled(context),
            }
            match write(&self.0.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.0.stalled.take();
                    return Poll::Ready(written);
                }
            }
        }
    }

    /// Waits for the client, but not for ever.
    fn poll_stalled(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut stalled = self.0.stalled.borrow_mut();
        let timer = stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Write for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_written(context, |stream| stream.try_write(bytes))
    }

    /// HTTP has written all that it had.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Connected { underway, end, .. } = &*self.0;
        if end.seen.borrow().is_some() && underway.is_empty() {
            let written = Some(underway.begun());
            if end.written_of.replace(written) != written {
                context.waker().wake_by_ref();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The socket is shut down by [`Socket::linger`].
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(context, |stream| stream.try_write_vectored(slices))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    /// It held its place for ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_goes_within_its_first_bytes_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        client.write_all(b"PR").await.unwrap();
        drop(client);
        let began = Instant::now();
        assert_eq!(Socket::new(stream, Vec::new()).spoken().await, None);
        assert!(began.elapsed() < FIRST_BYTES_TIMEOUT);
    }

    /// HTTP/1.1 looks for more right after it has written: a client that was answered and sent no more held its place for five seconds.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_ends_after_its_answer_was_written_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        drop(client);
        let mut socket = Socket::new(stream, Vec::new());
        socket.0.stream.readable().await.unwrap();
        let began = Instant::now();
        std::future::poll_fn(|context| {
            let _written = Pin::new(&mut socket).poll_flush(context)?;
            let mut room = [std::mem::MaybeUninit::uninit(); 1];
            let mut buffer = hyper::rt::ReadBuf::uninit(&mut room);
            Pin::new(&mut socket).poll_read(context, buffer.unfilled())
        })
        .await
        .unwrap();
        assert!(began.elapsed() < HALF_CLOSED);
    }
}
