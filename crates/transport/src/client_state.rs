//! State of a client: the agreements with the server at the start of their conversation.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use helenus_protocol::ProtocolVersion;

/// Identity of a client and all it negotiated, in one value: whoever answers for a connection has all of it. Does not change
/// once STARTUP is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientState {
    /// Where the client connects from; unspecified for one without a socket.
    pub peer: SocketAddr,
    /// The version of the protocol that the client is spoken to in.
    pub version: ProtocolVersion,
    /// The client wants an error rather than a slower connection when the server has too much to do.
    pub throws_on_overload: bool,
    /// The client knows ScyllaDB's error for partitions that are asked for too often.
    pub knows_rate_limit_error: bool,
}

impl ClientState {
    /// Before anything was negotiated.
    pub fn new(peer: SocketAddr, version: ProtocolVersion) -> Self {
        ClientState {
            peer,
            version,
            throws_on_overload: false,
            knows_rate_limit_error: false,
        }
    }

    /// A client within the process, which speaks `version`.
    pub fn in_process(version: ProtocolVersion) -> Self {
        Self::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), version)
    }
}
