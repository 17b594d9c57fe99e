//! Connections that go from this process to another one, who goes on with them where this one has stopped: between two
//! messages, when everything is answered.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use helenus_protocol::ProtocolVersion;
use helenus_protocol::frame::Compression;
use helenus_protocol::request::Register;
use helenus_protocol::wire::{DecodeError, WireReader, put_short, put_string};

use crate::client_state::ClientState;
use crate::placement::Placement;

/// A connection at rest: nothing of a message has been read that was not answered.
pub struct HandedOver {
    /// The connection itself.
    pub socket: TcpStream,
    progress: Progress,
}

/// How far it has come.
pub(crate) enum Progress {
    /// Not even its first message has arrived as a whole.
    Pending { placement: Placement, received: Vec<u8> },
    /// A thread has served it.
    Served(Resumed),
}

/// State of a connection that a thread has served: all that has been agreed on over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resumed {
    /// Which thread has served it: clients that know threads have been told.
    pub thread: u16,
    pub stage: ResumedStage,
    pub version: ProtocolVersion,
    pub throws_on_overload: bool,
    pub knows_rate_limit_error: bool,
    pub compression: Option<Compression>,
    pub events: Register,
    pub user: Option<Arc<str>>,
    /// The service's own, see [`Service::conversation_of`](crate::Service::conversation_of).
    pub conversation: Vec<u8>,
}

/// How far a connection had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumedStage {
    AwaitingStartup,
    Authenticating,
    Open,
}

impl Resumed {
    /// Returns the state of the client at `peer`.
    pub fn client(&self, peer: SocketAddr) -> ClientState {
        ClientState {
            peer,
            version: self.version,
            throws_on_overload: self.throws_on_overload,
            knows_rate_limit_error: self.knows_rate_limit_error,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_short(out, self.thread);
        out.push(match self.stage {
            ResumedStage::AwaitingStartup => 0,
            ResumedStage::Authenticating => 1,
            ResumedStage::Open => 2,
        });
        out.push(self.version.number());
        out.push(u8::from(self.throws_on_overload));
        out.push(u8::from(self.knows_rate_limit_error));
        out.push(match self.compression {
            None => 0,
            Some(Compression::Lz4) => 1,
            Some(Compression::Snappy) => 2,
        });
        out.push(self.events.to_byte());
        out.push(u8::from(self.user.is_some()));
        put_string(out, self.user.as_deref().unwrap_or_default());
        out.extend_from_slice(&self.conversation);
    }

    fn decode(reader: &mut WireReader<'_>) -> Result<Self, DecodeError> {
        let thread = reader.short("thread")?;
        let stage = match reader.byte("stage")? {
            0 => ResumedStage::AwaitingStartup,
            1 => ResumedStage::Authenticating,
            2 => ResumedStage::Open,
            value => return Err(unknown(value, "stage")),
        };
        let version = reader.byte("version")?;
        let version = ProtocolVersion::from_number(version).ok_or_else(|| unknown(version, "version"))?;
        let throws_on_overload = reader.byte("flag")? != 0;
        let knows_rate_limit_error = reader.byte("flag")? != 0;
        let compression = match reader.byte("compression")? {
            0 => None,
            1 => Some(Compression::Lz4),
            2 => Some(Compression::Snappy),
            value => return Err(unknown(value, "compression")),
        };
        let events = Register::of_byte(reader.byte("events")?);
        let has_user = reader.byte("flag")? != 0;
        let user = reader.string()?;
        Ok(Resumed {
            thread,
            stage,
            version,
            throws_on_overload,
            knows_rate_limit_error,
            compression,
            events,
            user: has_user.then(|| user.into()),
            conversation: reader.rest().to_vec(),
        })
    }
}

fn unknown(value: u8, kind: &'static str) -> DecodeError {
    DecodeError::UnknownName {
        value: value.to_string().into(),
        kind,
    }
}

impl HandedOver {
    pub(crate) fn new(socket: TcpStream, progress: Progress) -> Self {
        HandedOver { socket, progress }
    }

    pub(crate) fn into_parts(self) -> (TcpStream, Progress) {
        (self.socket, self.progress)
    }

    /// Encodes the state that has to go with the socket.
    pub fn state(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.progress {
            Progress::Pending { placement, received } => {
                out.push(match placement {
                    Placement::FewestConnections => 0,
                    Placement::BySourcePort => 1,
                });
                out.extend_from_slice(received);
            }
            Progress::Served(resumed) => {
                out.push(2);
                resumed.encode(&mut out);
            }
        }
        out
    }

    /// The connection that `socket` is, of which another process has said `state`.
    pub fn of_state(socket: TcpStream, state: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = WireReader::new(state);
        let kind = reader.byte("kind")?;
        let pending = |placement, reader: &WireReader<'_>| Progress::Pending {
            placement,
            received: reader.rest().to_vec(),
        };
        let progress = match kind {
            0 => pending(Placement::FewestConnections, &reader),
            1 => pending(Placement::BySourcePort, &reader),
            2 => Progress::Served(Resumed::decode(&mut reader)?),
            value => return Err(unknown(value, "kind of connection")),
        };
        Ok(HandedOver { socket, progress })
    }
}

/// Where connections that are at rest are put, by the threads that have served them.
#[derive(Default)]
pub(crate) struct Departures {
    has_begun: AtomicBool,
    connections: Mutex<Vec<HandedOver>>,
}

impl Departures {
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    pub fn add(&self, connection: HandedOver) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.push(connection);
    }

    pub fn take(&self) -> Vec<HandedOver> {
        std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed() -> Resumed {
        Resumed {
            thread: 3,
            stage: ResumedStage::Open,
            version: ProtocolVersion::V5,
            throws_on_overload: true,
            knows_rate_limit_error: false,
            compression: Some(Compression::Lz4),
            events: Register::of_byte(0b101),
            user: Some("app".into()),
            conversation: b"what the service knows".to_vec(),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Resumed, DecodeError> {
        Resumed::decode(&mut WireReader::new(bytes))
    }

    #[test]
    fn what_was_agreed_on_is_understood_by_the_next_process() {
        for (stage, compression) in [
            (ResumedStage::AwaitingStartup, None),
            (ResumedStage::Authenticating, Some(Compression::Snappy)),
            (ResumedStage::Open, Some(Compression::Lz4)),
        ] {
            let told = Resumed {
                stage,
                compression,
                ..resumed()
            };
            let mut bytes = Vec::new();
            told.encode(&mut bytes);
            assert_eq!(decode(&bytes).unwrap(), told);
        }
        let nobody = Resumed {
            user: None,
            ..resumed()
        };
        let mut bytes = Vec::new();
        nobody.encode(&mut bytes);
        assert_eq!(decode(&bytes).unwrap(), nobody);
    }

    #[test]
    fn the_client_is_who_it_was() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let client = resumed().client(peer);
        assert!(client.throws_on_overload && !client.knows_rate_limit_error);
        assert_eq!((client.peer, client.version), (peer, ProtocolVersion::V5));
    }

    /// Also a process of the same user can say anything.
    #[test]
    fn bytes_that_are_cut_or_changed_are_errors_or_another_state() {
        let mut bytes = Vec::new();
        resumed().encode(&mut bytes);
        let fixed = bytes.len() - resumed().conversation.len();
        for length in 0..fixed {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        for place in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[place] = value;
                let _an_error_or_not = decode(&changed);
            }
        }
        let wrong_stage = [&bytes[..2], &[9], &bytes[3..]].concat();
        assert!(decode(&wrong_stage).is_err());
    }
}
