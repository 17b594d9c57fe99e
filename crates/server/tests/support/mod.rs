//! A served node, a server that is none, and a client that says exactly what it is told to.
#![allow(dead_code, reason = "each test uses some of it")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use helenus_node::metrics::PANICS;
use helenus_node::{Authenticator, NodeOptions};
use helenus_protocol::frame::FrameLimits;
use helenus_protocol::{Opcode, ProtocolVersion};
use helenus_server::{MetricsSettings, ServeOptions, Server};
use helenus_test_service::{CannedOptions, CannedServer};
use helenus_transport::ConnectionLimits;
use helenus_vfs::MemoryDisk;

pub use helenus_test_service::{Client, PATIENCE, Reply};

/// A server of a node, or of what is none.
pub struct Served {
    pub address: SocketAddr,
    service: Running,
}

enum Running {
    Node(Box<Server>),
    Canned(CannedServer),
}

/// Serves with a node, and then with canned rows: what happens between a socket and the service must not depend on what answers.
pub fn each_service() -> impl Iterator<Item = Served> {
    each_service_within(ConnectionLimits::default())
}

pub fn each_service_within(limits: ConnectionLimits) -> impl Iterator<Item = Served> {
    each(limits, Authenticator::AllowAll)
}

pub fn each_service_asking_for_passwords() -> impl Iterator<Item = Served> {
    each(ConnectionLimits::default(), Authenticator::Password)
}

/// One is started when the one before it has stopped.
fn each(connection_limits: ConnectionLimits, authenticator: Authenticator) -> impl Iterator<Item = Served> {
    [false, true].into_iter().map(move |is_canned| {
        if is_canned {
            let canned = CannedServer::start(CannedOptions {
                connection_limits,
                asks_for_passwords: authenticator == Authenticator::Password,
            });
            return Served {
                address: canned.address,
                service: Running::Canned(canned),
            };
        }
        let server = start(connection_limits, false, authenticator);
        Served {
            address: server.address,
            service: Running::Node(Box::new(server)),
        }
    })
}

pub fn serve() -> Server {
    serve_within(ConnectionLimits::default())
}

pub fn serve_within(connection_limits: ConnectionLimits) -> Server {
    start(connection_limits, false, Authenticator::AllowAll)
}

pub fn serve_asking_for(authenticator: Authenticator) -> Server {
    start(ConnectionLimits::default(), false, authenticator)
}

pub fn serve_with_metrics() -> Server {
    start(ConnectionLimits::default(), true, Authenticator::AllowAll)
}

fn start(connection_limits: ConnectionLimits, has_metrics: bool, authenticator: Authenticator) -> Server {
    serve_node(node_options(authenticator), connection_limits, has_metrics)
}

pub fn node_options(authenticator: Authenticator) -> NodeOptions {
    NodeOptions {
        shard_count: 2,
        memory_bytes: 64 << 20,
        read_request_timeout: PATIENCE,
        range_request_timeout: PATIENCE,
        truncate_request_timeout: PATIENCE,
        write_request_timeout: PATIENCE,
        auto_snapshot: false,
        authenticator,
        disk: Arc::new(MemoryDisk::new()),
        ..NodeOptions::new(PathBuf::from("/helenus-data"))
    }
}

pub fn serve_node(node: NodeOptions, connection_limits: ConnectionLimits, has_metrics: bool) -> Server {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    Server::start(ServeOptions {
        node,
        listen: any_port,
        shard_aware: None,
        metrics: has_metrics.then_some(MetricsSettings {
            address: any_port,
            is_asked_for: true,
        }),
        doors: None,
        frame_limits: FrameLimits::default(),
        connection_limits,
        drain_timeout: PATIENCE,
    })
    .expect("a free port")
}

/// Server that can be stopped.
pub trait Stop {
    fn stop(self);
}

impl Stop for Server {
    fn stop(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(Server::stop(self));
    }
}

impl Stop for Served {
    fn stop(self) {
        match self.service {
            Running::Node(server) => Stop::stop(*server),
            Running::Canned(server) => server.stop(),
        }
    }
}

pub fn stop(server: impl Stop) {
    server.stop();
    assert_eq!(PANICS.load(std::sync::atomic::Ordering::Relaxed), 0);
}

pub fn assert_serves(address: SocketAddr) {
    for version in [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5] {
        let mut client = Client::open(address, version);
        assert_eq!(
            client.ask("SELECT release_version FROM system.local"),
            Reply::Message(Opcode::Result)
        );
    }
}
