//! Clients in this process, as shards are told of them, and their requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_transport::ClientState;
use helenus_transport::request_memory::{Account, Held, RequestMemory};
use helenus_types::ShardId;
use tokio::sync::oneshot;

use super::VERSION;
use super::answer::Reply;
use super::options::{ClientOptions, Login};

/// The numbers of clients begin here, those of connections at 0: both are shown in one list.
const CLIENT_NUMBER_FIRST: u64 = 1 << 63;

/// A client, for the shards that it has asked something.
#[derive(Debug)]
pub(crate) struct Client {
    pub number: u64,
    /// The shard that takes what is not for a known partition, and lists the client.
    pub home: ShardId,
    /// As a connection's STARTUP would have them.
    pub startup_options: [(&'static str, String); 2],
    pub state: ClientState,
    pub must_log_in: bool,
    /// Whom each shard charges for what it holds for the client.
    pub accounts: Box<[Arc<Account>]>,
}

impl Client {
    /// `number` counts the node's clients.
    pub fn new<'m>(
        number: u64,
        options: &ClientOptions,
        asks_for_passwords: bool,
        memories: impl ExactSizeIterator<Item = &'m Arc<RequestMemory>>,
    ) -> Self {
        let shard_count = memories.len().max(1) as u64;
        let spread = || (number % shard_count) as u16;
        let home = options.shard.filter(|shard| u64::from(*shard) < shard_count);
        let no_socket = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), number as u16);
        Client {
            number: CLIENT_NUMBER_FIRST + number,
            home: ShardId(home.unwrap_or_else(spread)),
            startup_options: [
                ("DRIVER_NAME", options.driver_name.clone()),
                ("DRIVER_VERSION", options.driver_version.clone()),
            ],
            state: ClientState {
                peer: options.peer.unwrap_or(no_socket),
                version: VERSION,
                throws_on_overload: options.throws_on_overload,
                knows_rate_limit_error: options.knows_rate_limit_error,
            },
            must_log_in: asks_for_passwords && options.login == Login::AsConfigured,
            accounts: memories.map(Account::of).collect(),
        }
    }
}

/// A request on its way to a shard.
pub(crate) struct Asked {
    pub client: Arc<Client>,
    pub user: Option<Arc<str>>,
    pub opcode: Opcode,
    pub flags: EnvelopeFlags,
    pub body: Vec<u8>,
    /// On the node's monotonic clock.
    pub received_ns: u64,
    /// When the caller wants it to be over at the latest.
    pub latest_ns: u64,
    /// For the body while it waits.
    pub _held: Option<Held>,
    /// Closed where nobody waits for it any more.
    pub answer: oneshot::Sender<Reply>,
}
