//! How a client introduces itself, and how its requests are executed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_protocol::Consistency;

/// The drivers' usual page, in rows.
pub const PAGE_SIZE_DEFAULT: u32 = 5_000;

/// How one request is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOptions {
    /// Default: ONE.
    pub consistency: Consistency,
    /// Serial consistency of conditional statements; SERIAL where there is none.
    pub serial_consistency: Option<Consistency>,
    /// Rows of a page; `None` asks for all rows in one answer. Default: [`PAGE_SIZE_DEFAULT`].
    pub page_size: Option<u32>,
    /// Where the page begins: what [`Rows::paging_state`](super::Rows::paging_state) said of the page before it.
    pub paging_state: Option<Vec<u8>>,
    /// Microseconds since the Unix epoch, for what is written without `USING TIMESTAMP`; the shard's clock where there is none.
    pub timestamp_us: Option<i64>,
    /// Seconds since the Unix epoch, for what expires; the shard's clock where there is none.
    pub now_s: Option<u32>,
    /// The keyspace of table names that have none, in place of the one that USE chose.
    pub keyspace: Option<String>,
    /// How long the request may take, from the call. It shortens the node's own timeouts and never lengthens them; schema changes
    /// and statements on roles take the time that they take.
    pub timeout: Option<Duration>,
    /// True if the request is traced: [`Answer::tracing_id`](super::Answer::tracing_id) finds it in `system_traces` then.
    pub is_traced: bool,
    /// For how long the request was there before the call, where a door has read it from somewhere: it counts for deadline
    /// and admission.
    pub waited: Duration,
}

impl Default for RequestOptions {
    fn default() -> Self {
        RequestOptions {
            consistency: Consistency::One,
            serial_consistency: None,
            page_size: Some(PAGE_SIZE_DEFAULT),
            paging_state: None,
            timestamp_us: None,
            now_s: None,
            keyspace: None,
            timeout: None,
            is_traced: false,
            waited: Duration::ZERO,
        }
    }
}

/// Identity of a client, and how it wants to be treated.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Where it connects from, for `system_views.clients`, traces, and the fair share of logins; an address that no socket has
    /// (0.0.0.0 and a number) where there is none.
    pub peer: Option<SocketAddr>,
    /// Driver's name in `system_views.clients`, which shows it with the version.
    pub driver_name: String,
    /// See [`ClientOptions::driver_name`].
    pub driver_version: String,
    /// Login that the client needs before it may do anything else.
    pub login: Login,
    /// True if requests are refused as soon as the shard has a standing queue, rather than when their time is half over:
    /// for callers who can ask elsewhere.
    pub throws_on_overload: bool,
    /// True if partitions that are asked for too often are answered with ScyllaDB's rate limit error; with Cassandra's
    /// ConfigError otherwise. Default: yes.
    pub knows_rate_limit_error: bool,
    /// The shard that takes what is not for a known partition; `None` spreads clients over the shards.
    pub shard: Option<u16>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            peer: None,
            driver_name: "helenus in process".to_owned(),
            driver_version: env!("CARGO_PKG_VERSION").to_owned(),
            login: Login::AsConfigured,
            throws_on_overload: false,
            knows_rate_limit_error: true,
            shard: None,
        }
    }
}

/// Login that stands between a client and its first statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// The login that the node's authenticator asks of every connection: with passwords,
    /// [`Handle::log_in`](super::Handle::log_in).
    #[default]
    AsConfigured,
    /// Nothing: the caller has found out by other means that it is this user.
    As(Arc<str>),
    /// Nothing: the process that runs the node. It is nobody, so where users log in it may not change roles.
    Trusted,
}
