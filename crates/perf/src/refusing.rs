//! `helenus-perf refusing`: the floor of what it can cost to refuse a connection. It accepts, reads once, answers the same
//! bytes to everybody and closes; what it takes is what the kernel takes.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use helenus_protocol::frame::{EnvelopeFlags, FrameWriter};
use helenus_protocol::response::{ErrorBody, write_error};
use helenus_protocol::{Opcode, ProtocolVersion};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(usize::MAX);

/// Serves on the calling thread until the process is killed; prints its address as a server does.
pub fn run(listen: SocketAddr) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(listen)?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("refusing ready: cql {}", listener.local_addr()?);
    let answer = answer()?;
    let mut waiting: HashMap<usize, TcpStream> = HashMap::new();
    let mut next = 0;
    let mut events = Events::with_capacity(256);
    loop {
        poll.poll(&mut events, None)?;
        for event in events.iter() {
            if event.token() != LISTENER {
                if let Some(stream) = waiting.remove(&event.token().0) {
                    refuse(stream, &answer)?;
                }
                continue;
            }
            while let Ok((stream, _peer)) = listener.accept() {
                if let Some(mut stream) = refuse(stream, &answer)? {
                    next = (next + 1) % LISTENER.0;
                    poll.registry()
                        .register(&mut stream, Token(next), Interest::READABLE)?;
                    waiting.insert(next, stream);
                }
            }
        }
    }
}

/// Reads, answers and closes; gives the connection back if nothing has come yet.
fn refuse(mut stream: TcpStream, answer: &[u8]) -> io::Result<Option<TcpStream>> {
    let mut bytes = [0; 4_096];
    match stream.read(&mut bytes) {
        Ok(1..) => {
            // A client that has left is no error of the floor's.
            let _left = stream.write(answer);
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(stream)),
        _ => Ok(None),
    }
}

fn answer() -> io::Result<Vec<u8>> {
    let (mut writer, mut answer) = (FrameWriter::new(), Vec::new());
    let version = ProtocolVersion::CURRENT;
    let mark = writer.begin(&mut answer, version, EnvelopeFlags::NONE, 0, Opcode::Error);
    let text =
        "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)";
    write_error(&mut answer, version, &ErrorBody::ProtocolError, text);
    writer.finish(&mut answer, mark).map_err(io::Error::other)?;
    Ok(answer)
}
