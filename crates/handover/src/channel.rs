//! Messages over a connected socket.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use crate::DESCRIPTORS_MAX;
use crate::message::{HEADER_BYTES, HandoverError, Header, Kind, Message};

/// How long the other process may take nothing of what is sent: it reads while it waits.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// One side of a handover.
#[derive(Debug)]
pub struct Channel {
    stream: UnixStream,
}

impl Channel {
    /// Over a connected socket. An error is the kernel's.
    pub fn new(stream: UnixStream) -> io::Result<Channel> {
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Channel { stream })
    }

    /// The user and the process on the other side, when it connected.
    pub fn peer(&self) -> io::Result<(u32, i32)> {
        let peer = rustix::net::sockopt::get_socket_peercred(&self.stream)?;
        Ok((peer.uid.as_raw(), peer.pid.as_raw_nonzero().get()))
    }

    /// The same side again, for a thread that waits or one that ends the wait.
    pub fn duplicate(&self) -> io::Result<Channel> {
        let stream = self.stream.try_clone()?;
        Ok(Channel { stream })
    }

    /// Ends the conversation: who waits for a message on either side is told that the other process has gone.
    pub fn close(&self) {
        // Closed already.
        let _gone = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Says something; descriptors stay open here, too.
    pub fn send(
        &self,
        kind: Kind,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), HandoverError> {
        let header = Header {
            kind,
            descriptors: descriptors.len(),
            payload_bytes: payload.len(),
        };
        let bytes = header.check()?.encode();
        let mut space = [0; rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let sent = rustix::net::sendmsg(
            &self.stream,
            &[IoSlice::new(&bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        );
        let sent = sent.map_err(io::Error::from)?;
        let mut stream = &self.stream;
        stream.write_all(bytes.get(sent..).unwrap_or_default())?;
        Ok(stream.write_all(payload)?)
    }

    /// Says that nothing comes of it, to whoever may still be there.
    pub fn fail(&self, why: &str) {
        let end = why.floor_char_boundary(4096);
        let _gone = self.send(Kind::Failed, &why.as_bytes()[..end], &[]);
    }

    /// Waits for a message, between two bytes of it at most for `timeout`. One that says why nothing comes of it is an error.
    pub fn receive(&self, timeout: Duration) -> Result<Message, HandoverError> {
        self.stream.set_read_timeout(Some(timeout))?;
        let mut bytes = [0; HEADER_BYTES];
        let mut descriptors = Vec::new();
        let mut filled = 0;
        while filled < HEADER_BYTES {
            match self.receive_some(&mut bytes[filled..], &mut descriptors)? {
                0 => return Err(HandoverError::Gone),
                count => filled += count,
            }
        }
        let header = Header::decode(&bytes)?;
        if descriptors.len() != header.descriptors {
            return Err(HandoverError::Descriptors {
                came: descriptors.len(),
                announced: header.descriptors,
            });
        }
        let mut payload = vec![0; header.payload_bytes];
        (&self.stream).read_exact(&mut payload)?;
        if header.kind == Kind::Failed {
            let text = String::from_utf8_lossy(&payload).into_owned();
            return Err(HandoverError::Refused(text));
        }
        Ok(Message {
            kind: header.kind,
            payload,
            descriptors,
        })
    }

    /// Waits for a message of that kind.
    pub fn expect(&self, kind: Kind, timeout: Duration) -> Result<Message, HandoverError> {
        let message = self.receive(timeout)?;
        match message.kind == kind {
            true => Ok(message),
            false => Err(HandoverError::Unexpected(message.kind)),
        }
    }

    fn receive_some(&self, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut space = [0; rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let received = rustix::net::recvmsg(
                &self.stream,
                &mut [IoSliceMut::new(bytes)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            match received {
                Err(rustix::io::Errno::INTR) => {}
                received => break received?,
            }
        };
        for message in control.drain() {
            // More than a message has cannot come: there is no room for them.
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one).unwrap(), Channel::new(other).unwrap())
    }

    #[test]
    fn a_listening_socket_is_the_same_on_the_other_side() {
        let (one, other) = pair();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        one.send(Kind::Listeners, b"x", &[listener.as_fd()]).unwrap();
        drop(listener);
        let mut message = other.expect(Kind::Listeners, SHORT).unwrap();
        assert_eq!(message.payload, b"x");
        let received = TcpListener::from(message.descriptors.pop().unwrap());
        assert_eq!(received.local_addr().unwrap(), address);
        let _client = std::net::TcpStream::connect(address).unwrap();
        received.accept().unwrap();
    }

    #[test]
    fn as_many_descriptors_as_fit_come_with_their_bytes_and_one_more_is_refused() {
        let (one, other) = pair();
        let file = std::fs::File::open("/dev/null").unwrap();
        let descriptors = vec![file.as_fd(); DESCRIPTORS_MAX + 1];
        let payload = vec![7; 200_000];
        let sending = std::thread::scope(|scope| {
            let sending = scope.spawn(|| one.send(Kind::Connections, &payload, &descriptors[1..]));
            let message = other.receive(SHORT).unwrap();
            assert_eq!(message.descriptors.len(), DESCRIPTORS_MAX);
            assert!(message.payload == payload);
            sending.join().unwrap()
        });
        sending.unwrap();
        let refused = one.send(Kind::Connections, &[], &descriptors);
        assert!(matches!(refused, Err(HandoverError::TooLarge { .. })));
    }

    #[test]
    fn what_is_no_message_is_an_error_and_neither_waits_nor_takes_memory() {
        let cases: [(&[u8], &str); 5] = [
            (b"GET / HTTP/1.1\r\n\r\n", "NotOurs"),
            (b"HLNH\x02\x01\0\0\0\0\0\0", "Version { theirs: 2 }"),
            (b"HLNH\x01\x04\0\0\xFF\xFF\xFF\xFF", "TooLarge"),
            (
                b"HLNH\x01\x02\0\x03\0\0\0\0",
                "Descriptors { came: 0, announced: 3 }",
            ),
            (b"HLNH\x01\x01\0\0\0\0\0\x09abc", "Gone"),
        ];
        for (bytes, wanted) in cases {
            let (mut one, other) = UnixStream::pair().unwrap();
            one.write_all(bytes).unwrap();
            drop(one);
            let error = Channel::new(other).unwrap().receive(SHORT).unwrap_err();
            assert!(format!("{error:?}").starts_with(wanted), "{error:?}");
        }
        let (mut one, other) = UnixStream::pair().unwrap();
        one.write_all(b"HLNH\x01").unwrap();
        let silent = Channel::new(other).unwrap().receive(SHORT);
        assert!(matches!(silent, Err(HandoverError::Silent)));
    }

    #[test]
    fn who_failed_says_why() {
        let (one, other) = pair();
        one.fail("no room");
        let error = other.expect(Kind::Released, SHORT).unwrap_err();
        assert_eq!(error.to_string(), "no room");
        one.close();
        assert!(matches!(other.receive(SHORT), Err(HandoverError::Gone)));
    }

    #[test]
    fn the_other_process_is_known() {
        let (one, _other) = pair();
        let (user, process) = one.peer().unwrap();
        assert_eq!(process, std::process::id() as i32);
        assert_eq!(user, rustix::process::geteuid().as_raw());
    }
}
