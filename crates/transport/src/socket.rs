//! A client's socket.

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

/// As much room as the receive buffer has at least.
const READ_AT_ONCE_BYTES: usize = 16 * 1024;

/// All that is read and sent goes through here: an encrypted connection is another variant, and nobody else knows.
pub enum Socket {
    /// TCP without encryption.
    Plain(Rc<RefCell<TcpStream>>),
}

impl Socket {
    /// Takes over a connection that was accepted elsewhere; the event loop of this thread hears of it from now on.
    pub fn accepted(stream: std::net::TcpStream) -> io::Result<Socket> {
        Ok(Socket::Plain(Rc::new(RefCell::new(TcpStream::from_std(stream)?))))
    }

    /// Appends what is there to `buffer`; 0 at the end. Pending where the event loop knows of nothing.
    #[inline]
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match self {
            Socket::Plain(stream) => pin!(stream.borrow_mut().read_buf(buffer)).poll(context),
        }
    }

    /// Appends what is there now to `buffer`, whatever the event loop knows of it.
    pub fn read_at_once(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let filled = buffer.len();
        buffer.resize(filled + READ_AT_ONCE_BYTES, 0);
        let read = match self {
            Socket::Plain(stream) => (&*SockRef::from(&*stream.borrow())).read(&mut buffer[filled..]),
        };
        buffer.truncate(filled + read.as_ref().map_or(0, |count| *count));
        read
    }

    /// Sends as much of `bytes` as the kernel takes.
    #[inline]
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Socket::Plain(stream) => Pin::new(&mut *stream.borrow_mut()).poll_write(context, bytes),
        }
    }

    /// Segments that the kernel has dropped of what came for this socket, mostly for want of room; it counts from the beginning and
    /// wraps. 0 where it does not tell.
    pub fn dropped_segments(&self) -> u32 {
        match self {
            Socket::Plain(stream) => dropped_segments(stream.borrow().as_raw_fd()),
        }
    }

    /// Another descriptor of the same connection, for who goes on with it.
    pub fn duplicate(&self) -> io::Result<std::net::TcpStream> {
        match self {
            Socket::Plain(stream) => Ok(stream.borrow().as_fd().try_clone_to_owned()?.into()),
        }
    }

    /// For who has answers while it is not the connection's turn.
    pub(crate) fn sends_at_once(&self) -> SendsAtOnce {
        match self {
            Socket::Plain(stream) => SendsAtOnce(stream.clone()),
        }
    }

    /// Says that nothing more is sent.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Plain(stream) => Pin::new(&mut *stream.borrow_mut()).poll_shutdown(context),
        }
    }
}

/// Another hold of a socket that answers are sent through without its connection.
pub(crate) struct SendsAtOnce(Rc<RefCell<TcpStream>>);

impl SendsAtOnce {
    /// Sends as much as the kernel takes now. What it does not take, for whatever reason, is the connection's to send.
    pub fn send(&self, bytes: &[u8]) -> usize {
        self.0.borrow().try_write(bytes).unwrap_or(0)
    }
}

/// Numbers of `SO_MEMINFO` (`linux/sock_diag.h`), of which the last is `SK_MEMINFO_DROPS`.
const MEMORY_NUMBERS: usize = 9;

fn dropped_segments(socket: RawFd) -> u32 {
    let mut numbers = [0_u32; MEMORY_NUMBERS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
    // SAFETY: the kernel writes no more than `bytes` bytes to `numbers`, which is as long and of which any bytes are a value.
    let result =
        unsafe { libc::getsockopt(socket, level, name, numbers.as_mut_ptr().cast(), &raw mut bytes) };
    match result {
        0 => numbers[MEMORY_NUMBERS - 1],
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;
    use std::os::fd::AsRawFd;

    use super::*;

    /// One byte a segment, until the client's own buffers are full as well.
    #[test]
    fn a_socket_that_is_left_unread_tells_of_what_it_has_dropped() -> io::Result<()> {
        let listener = crate::listen("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
        listener.set_nonblocking(false)?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        assert_eq!(dropped_segments(server.as_raw_fd()), 0);
        client.set_nodelay(true)?;
        client.set_nonblocking(true)?;
        while client.write(&[1]).is_ok() {}
        let dropped = dropped_segments(server.as_raw_fd());
        assert!(dropped > 0, "{dropped}");
        Ok(())
    }
}
