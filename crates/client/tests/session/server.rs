//! A Helenus in this process, on a port of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helenus_client::{Session, SessionBuilder};
use helenus_node::{CommitlogSync, CompactionSettings, NodeOptions, SsTableFormat};
use helenus_protocol::frame::FrameLimits;
use helenus_server::{ServeOptions, Server};
use helenus_vfs::{Clock, MemoryDisk, SystemClock};

/// Longer than any answer takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn serve(shard_count: u16, listen: SocketAddr) -> Server {
    let clock = Arc::new(SystemClock::new());
    let node = NodeOptions {
        shard_count,
        data_folder: PathBuf::from("/helenus-data"),
        in_memory: true,
        memory_bytes: 64 << 20,
        row_cache: true,
        commitlog_sync: CommitlogSync::Group,
        column_index_bytes: 64 * 1024,
        sstable_format: SsTableFormat::DEFAULT,
        compaction: CompactionSettings::default(),
        cluster_name: "Test Cluster".to_owned(),
        advertised_address: listen,
        read_request_timeout: PATIENCE,
        range_request_timeout: PATIENCE,
        truncate_request_timeout: PATIENCE,
        write_request_timeout: PATIENCE,
        started_at_s: clock.wall_s(),
        disk_io: Default::default(),
        tombstones: Default::default(),
        guardrails: Default::default(),
        disk: Arc::new(MemoryDisk::new()),
        clock,
    };
    Server::start(ServeOptions {
        node,
        listen,
        shard_aware: Some(any_port()),
        metrics: None,
        frame_limits: FrameLimits::default(),
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
