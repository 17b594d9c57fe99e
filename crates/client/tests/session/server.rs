//! A Helenus in this process, on a port of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_client::{Session, SessionBuilder};
use helenus_node::NodeOptions;
use helenus_protocol::frame::FrameLimits;
use helenus_server::{ServeOptions, Server};
use helenus_vfs::{Clock, MemoryDisk, SystemClock};

/// Longer than any answer takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn serve(shard_count: u16, listen: SocketAddr) -> Server {
    serve_on(Arc::new(MemoryDisk::new()), shard_count, listen)
}

/// A server that keeps its data on `disk`, for the next one to find.
pub fn serve_on(disk: Arc<MemoryDisk>, shard_count: u16, listen: SocketAddr) -> Server {
    serve_by(Arc::new(SystemClock::new()), disk, shard_count, listen)
}

pub fn serve_by(
    clock: Arc<dyn Clock>,
    disk: Arc<MemoryDisk>,
    shard_count: u16,
    listen: SocketAddr,
) -> Server {
    let node = NodeOptions {
        memory_bytes: 64 << 20,
        read_request_timeout: PATIENCE,
        write_request_timeout: PATIENCE,
        ..helenus_test_node::options(shard_count, disk, clock)
    };
    Server::start(ServeOptions {
        node,
        listen,
        shard_aware: Some(any_port()),
        metrics: None,
        doors: None,
        frame_limits: FrameLimits::default(),
        connection_limits: Default::default(),
        drain_timeout: PATIENCE,
    })
    .expect("the port is free")
}

pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub fn builder(server: &Server) -> SessionBuilder {
    Session::builder()
        .node(server.address.to_string())
        .timeout(PATIENCE)
        .connect_timeout(PATIENCE)
}

/// Runs `test` on one thread, then stops what it leaves behind.
pub fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test)
}
