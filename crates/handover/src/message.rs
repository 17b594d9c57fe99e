//! Messages of a handover, their encoding and errors.

use std::io;
use std::os::fd::OwnedFd;

use crate::{DESCRIPTORS_MAX, PAYLOAD_BYTES_MAX, VERSION};

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The successor is there; which release it is, as text.
    Hello = 1,
    /// Listening sockets: a byte for each descriptor says which.
    Listeners = 2,
    /// The successor has made ready all that it can, and wants the data folder; with a byte for each kind of message that it understands
    /// beside those that every release does.
    Take = 3,
    /// Connections: for each descriptor, the length of its state in four bytes and the state.
    Connections = 4,
    /// The data folder is free.
    Released = 5,
    /// The successor serves.
    Serving = 6,
    /// Why nothing comes of it, as text.
    Failed = 7,
    /// Logins of clients of HTTP and gRPC. Only for a successor that says in [`Kind::Take`] that it understands them.
    Tokens = 8,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Hello,
        Kind::Listeners,
        Kind::Take,
        Kind::Connections,
        Kind::Released,
        Kind::Serving,
        Kind::Failed,
        Kind::Tokens,
    ];
}

/// One message.
#[derive(Debug)]
pub struct Message {
    /// Its kind.
    pub kind: Kind,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandoverError {
    /// The other process has closed the socket.
    #[error("the other process has gone")]
    Gone,
    /// Nothing came for too long.
    #[error("the other process says nothing")]
    Silent,
    /// It is another kind of program.
    #[error("what came over the socket is no message of a node")]
    NotOurs,
    /// It is another release, with other messages.
    #[error("the other process speaks version {theirs} of the handover, this one {VERSION}")]
    Version {
        /// Version that the other process speaks.
        theirs: u8,
    },
    /// More than a message may have.
    #[error("a message with {bytes} bytes and {descriptors} descriptors is larger than any")]
    TooLarge {
        /// Bytes beside the header.
        bytes: usize,
        /// Descriptors.
        descriptors: usize,
    },
    /// Other descriptors came than were announced: the process has no room for them, or the message is wrong.
    #[error("{came} descriptors came where there should be {announced}; see the limit of open files")]
    Descriptors {
        /// As many as came.
        came: usize,
        /// As many as the message has.
        announced: usize,
    },
    /// The message has no place here, or its bytes mean nothing.
    #[error("a message that has no place here, or says nothing ({0:?})")]
    Unexpected(Kind),
    /// The other process says why nothing comes of it.
    #[error("{0}")]
    Refused(String),
    /// The socket's.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for HandoverError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => HandoverError::Silent,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                HandoverError::Gone
            }
            _ => HandoverError::Io(error),
        }
    }
}

/// Bytes in front of each message.
pub(crate) const HEADER_BYTES: usize = 12;

const MAGIC: [u8; 4] = *b"HLNH";

/// Header of a message, known before the rest has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    pub descriptors: usize,
    pub payload_bytes: usize,
}

impl Header {
    /// The caller keeps to the bounds.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[6..8].copy_from_slice(&(self.descriptors as u16).to_be_bytes());
        bytes[8..].copy_from_slice(&(self.payload_bytes as u32).to_be_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, HandoverError> {
        let [m0, m1, m2, m3, version, kind, d0, d1, p0, p1, p2, p3] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HandoverError::NotOurs);
        }
        if version != VERSION {
            return Err(HandoverError::Version { theirs: version });
        }
        let known = Kind::ALL.into_iter().find(|known| *known as u8 == kind);
        let header = Header {
            kind: known.ok_or(HandoverError::NotOurs)?,
            descriptors: usize::from(u16::from_be_bytes([d0, d1])),
            payload_bytes: u32::from_be_bytes([p0, p1, p2, p3]) as usize,
        };
        header.check()
    }

    /// Itself, if it is within the bounds.
    pub fn check(self) -> Result<Header, HandoverError> {
        if self.descriptors > DESCRIPTORS_MAX || self.payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(HandoverError::TooLarge {
                bytes: self.payload_bytes,
                descriptors: self.descriptors,
            });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_nothing_else_is() {
        let header = Header {
            kind: Kind::Connections,
            descriptors: 7,
            payload_bytes: 70_000,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        let changed = |place: usize, value: u8| {
            let mut changed = bytes;
            changed[place] = value;
            Header::decode(&changed)
        };
        assert!(matches!(changed(0, b'X'), Err(HandoverError::NotOurs)));
        assert!(matches!(changed(4, 2), Err(HandoverError::Version { theirs: 2 })));
        assert!(matches!(changed(5, 0), Err(HandoverError::NotOurs)));
        assert!(matches!(changed(5, 99), Err(HandoverError::NotOurs)));
        assert!(matches!(changed(6, 1), Err(HandoverError::TooLarge { .. })));
        assert!(matches!(changed(8, 1), Err(HandoverError::TooLarge { .. })));
    }
}
