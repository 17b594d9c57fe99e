//! A client's socket.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

/// As much room as the receive buffer has at least.
const READ_AT_ONCE_BYTES: usize = 16 * 1024;

/// All that is read and sent goes through here: an encrypted connection is another variant, and nobody else knows.
pub enum Socket {
    /// TCP without encryption.
    Plain(TcpStream),
}

impl Socket {
    /// Takes over a connection that was accepted elsewhere; the event loop of this thread hears of it from now on.
    pub fn accepted(stream: std::net::TcpStream) -> io::Result<Socket> {
        TcpStream::from_std(stream).map(Socket::Plain)
    }

    /// Appends what is there to `buffer`; 0 at the end. Pending where the event loop knows of nothing.
    #[inline]
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match self {
            Socket::Plain(stream) => pin!(stream.read_buf(buffer)).poll(context),
        }
    }

    /// Appends what is there now to `buffer`, whatever the event loop knows of it.
    pub fn read_at_once(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let filled = buffer.len();
        buffer.resize(filled + READ_AT_ONCE_BYTES, 0);
        let read = match self {
            Socket::Plain(stream) => (&*SockRef::from(&*stream)).read(&mut buffer[filled..]),
        };
        buffer.truncate(filled + read.as_ref().map_or(0, |count| *count));
        read
    }

    /// Sends as much of `bytes` as the kernel takes.
    #[inline]
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Socket::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Another descriptor of the same connection, for who goes on with it.
    pub fn duplicate(&self) -> io::Result<std::net::TcpStream> {
        match self {
            Socket::Plain(stream) => Ok(stream.as_fd().try_clone_to_owned()?.into()),
        }
    }

    /// Says that nothing more is sent.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
