//! Connections on their way from one process to the other, in messages of bounded size.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use helenus_doors::{HandedOverConnection, HandedOverToken};
use helenus_handover::{Channel, DESCRIPTORS_MAX, HandoverError, Kind, Message, PAYLOAD_BYTES_MAX};
use helenus_transport::HandedOver;

use super::door::DoorKind;

/// Connections that nobody serves at the moment.
#[derive(Default)]
pub(crate) struct Connections {
    pub cql: Vec<HandedOver>,
    /// Between two requests of HTTP/1.1, or before the first bytes of any protocol; and the tokens of who has logged in.
    pub doors: helenus_doors::HandedOver,
}

/// In front of each state: its length, and whose it is.
const STATE_HEADER_BYTES: usize = 5;

impl Connections {
    pub fn len(&self) -> usize {
        self.cql.len() + self.doors.connections.len()
    }

    /// Sends them all; they stay open here, too.
    pub fn send(&self, channel: &Channel) -> Result<(), HandoverError> {
        let cql = self
            .cql
            .iter()
            .map(|connection| (DoorKind::Cql, connection.state(), connection.socket.as_fd()));
        let doors = self
            .doors
            .connections
            .iter()
            .map(|door| (DoorKind::HttpAndGrpc, door.received.clone(), door.socket.as_fd()));
        let mut batch = Batch::default();
        for (kind, state, socket) in cql.chain(doors) {
            if !batch.has_room_for(&state) {
                batch.send(channel)?;
            }
            batch.add(kind, &state, socket);
        }
        batch.send(channel)
    }

    /// Adds those of a message. What is not understood of it is closed: its client connects again.
    pub fn receive(&mut self, message: Message) -> Result<(), HandoverError> {
        let Message {
            kind,
            payload,
            descriptors,
        } = message;
        let mut rest = &payload[..];
        for descriptor in descriptors {
            let (door, state) = next_state(&mut rest).ok_or(HandoverError::Unexpected(kind))?;
            self.add(door, state, descriptor);
        }
        Ok(())
    }

    /// Sends the tokens, as many together as fit a message.
    pub fn send_tokens(&self, channel: &Channel) -> Result<(), HandoverError> {
        let (mut payload, mut one) = (Vec::new(), Vec::new());
        for token in &self.doors.tokens {
            one.clear();
            token.encode(&mut one);
            if payload.len() + one.len() > PAYLOAD_BYTES_MAX {
                channel.send(Kind::Tokens, &payload, &[])?;
                payload.clear();
            }
            payload.extend_from_slice(&one);
        }
        match payload.is_empty() {
            true => Ok(()),
            false => channel.send(Kind::Tokens, &payload, &[]),
        }
    }

    /// Adds those of a message. Whose is not understood has to log in again.
    pub fn receive_tokens(&mut self, mut payload: &[u8]) {
        let tokens = std::iter::from_fn(|| HandedOverToken::decode(&mut payload));
        self.doors.tokens.extend(tokens);
    }

    fn add(&mut self, door: u8, state: &[u8], descriptor: OwnedFd) {
        let socket = TcpStream::from(descriptor);
        // It is as it was there, unless that is no connection at all.
        if socket.set_nonblocking(true).is_err() {
            return;
        }
        match DoorKind::of_byte(door) {
            Some(DoorKind::Cql) => self.cql.extend(HandedOver::of_state(socket, state)),
            Some(DoorKind::HttpAndGrpc) => self.doors.connections.push(HandedOverConnection {
                socket,
                received: state.to_vec(),
            }),
            _ => {}
        }
    }
}

fn next_state<'p>(rest: &mut &'p [u8]) -> Option<(u8, &'p [u8])> {
    let (&[l0, l1, l2, l3, door], behind) = rest.split_first_chunk::<STATE_HEADER_BYTES>()?;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let (state, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some((door, state))
}

#[derive(Default)]
struct Batch<'c> {
    payload: Vec<u8>,
    sockets: Vec<BorrowedFd<'c>>,
}

impl<'c> Batch<'c> {
    fn has_room_for(&self, state: &[u8]) -> bool {
        self.sockets.len() < DESCRIPTORS_MAX
            && self.payload.len() + STATE_HEADER_BYTES + state.len() <= PAYLOAD_BYTES_MAX
    }

    fn add(&mut self, kind: DoorKind, state: &[u8], socket: BorrowedFd<'c>) {
        // No state is longer than some names and what a client has sent of its first message.
        self.payload
            .extend_from_slice(&(state.len() as u32).to_be_bytes());
        self.payload.push(kind as u8);
        self.payload.extend_from_slice(state);
        self.sockets.push(socket);
    }

    fn send(&mut self, channel: &Channel) -> Result<(), HandoverError> {
        if !self.sockets.is_empty() {
            channel.send(Kind::Connections, &self.payload, &self.sockets)?;
        }
        self.payload.clear();
        self.sockets.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn channels() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one).unwrap(), Channel::new(other).unwrap())
    }

    fn token(number: u128) -> HandedOverToken {
        let user = number.to_string();
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.extend(1_u64.to_be_bytes());
        for text in [&*user, "a hash"] {
            bytes.extend((text.len() as u32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        HandedOverToken::decode(&mut &bytes[..]).unwrap()
    }

    #[test]
    fn more_connections_than_fit_a_message_arrive_all_the_same() {
        let (one, other) = channels();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connected = TcpStream::connect(address).unwrap();
        let connect = || connected.try_clone().unwrap();
        // The beginning of a first message that did not come to its end.
        let pending = |socket| HandedOver::of_state(socket, &[&[0][..], &[4; 5000]].concat()).unwrap();
        let count = 2 * DESCRIPTORS_MAX + 1;
        // More than a message holds.
        let tokens: Vec<HandedOverToken> = (0..30_000_u128).map(token).collect();
        let connections = Connections {
            cql: (0..count).map(|_| pending(connect())).collect(),
            doors: helenus_doors::HandedOver {
                connections: vec![HandedOverConnection {
                    socket: connect(),
                    received: b"GET".to_vec(),
                }],
                tokens: tokens.clone(),
            },
        };
        assert_eq!(connections.len(), count + 1);
        let arrived = std::thread::scope(|scope| {
            scope.spawn(|| {
                connections.send(&one).unwrap();
                connections.send_tokens(&one).unwrap();
                one.send(Kind::Released, &[], &[]).unwrap();
            });
            let mut arrived = Connections::default();
            loop {
                let message = other.receive(PATIENCE).unwrap();
                match message.kind {
                    Kind::Connections => arrived.receive(message).unwrap(),
                    Kind::Tokens => arrived.receive_tokens(&message.payload),
                    _ => return arrived,
                }
            }
        });
        assert_eq!((arrived.cql.len(), arrived.doors.connections.len()), (count, 1));
        assert!(arrived.doors.tokens == tokens);
        assert_eq!(arrived.doors.connections[0].received, b"GET");
        let state = connections.cql[0].state();
        assert!(arrived.cql.iter().all(|connection| connection.state() == state));
    }

    #[test]
    fn states_that_are_cut_are_an_error_and_unknown_ones_are_closed() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let message = |payload: &[u8]| Message {
            kind: Kind::Connections,
            payload: payload.to_vec(),
            descriptors: vec![file()],
        };
        for cut in [&[0, 0, 0, 1, 1][..], &[0, 0, 0], &[255, 255, 255, 255, 1, 0]] {
            let received = Connections::default().receive(message(cut));
            assert!(matches!(received, Err(HandoverError::Unexpected(_))));
        }
        for unknown in [&[0, 0, 0, 1, 1, 9][..], &[0, 0, 0, 0, 77]] {
            let mut connections = Connections::default();
            connections.receive(message(unknown)).unwrap();
            assert_eq!(connections.len(), 0);
        }
    }
}
