//! How a run is to be.

use std::time::Duration;

use helenus_client::statement::TIMEOUT_DEFAULT;
use helenus_client::throttle::ThrottleMode;
use helenus_client::{RequestError, Session};
use helenus_protocol::frame::Compression;
use helenus_protocol::{Consistency, ProtocolVersion};

use super::trace::TraceOptions;
use crate::workload::Workload;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many workers, each with one request at a time.
    Closed { workers: usize },
    /// So many requests a second, by up to so many workers.
    Open { per_second: f64, workers: usize },
}

impl Load {
    pub fn workers(self) -> usize {
        match self {
            Load::Closed { workers } | Load::Open { workers, .. } => workers,
        }
    }
}

/// When a run has measured enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Time(Duration),
    RequestsPerWorker(u64),
}

#[derive(Clone, Debug)]
pub struct RunOptions {
    /// `HOST:PORT` of the nodes to begin with.
    pub hosts: Vec<String>,
    pub only_these_hosts: bool,
    pub workload: Workload,
    pub load: Load,
    pub length: Length,
    pub warm_up: Duration,
    /// The load grows to its full size over this time.
    pub ramp: Duration,
    /// Threads, each with a session of its own.
    pub threads: usize,
    pub throttle: ThrottleMode,
    /// Fixed limits that take turns with the adaptive one, so that what the machine does meets all of them alike.
    pub beside: Vec<usize>,
    pub connections_per_node: usize,
    pub compression: Option<Compression>,
    pub consistency: Consistency,
    pub protocol_version_max: ProtocolVersion,
    pub timeout: Duration,
    pub credentials: Option<(String, String)>,
    #[cfg(feature = "tls")]
    pub tls: Option<helenus_client::Tls>,
    pub buffer_pool: bool,
    /// True if the schema is made and rows are written first.
    pub sets_up: bool,
    pub seed: u64,
    pub trace: Option<TraceOptions>,
}

impl RunOptions {
    pub fn new(hosts: Vec<String>, workload: Workload, load: Load) -> Self {
        RunOptions {
            hosts,
            only_these_hosts: false,
            workload,
            load,
            length: Length::Time(Duration::from_secs(30)),
            warm_up: Duration::from_secs(3),
            ramp: Duration::ZERO,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            throttle: ThrottleMode::Adaptive,
            beside: Vec::new(),
            connections_per_node: 2,
            compression: None,
            consistency: Consistency::LocalOne,
            protocol_version_max: ProtocolVersion::V5,
            timeout: TIMEOUT_DEFAULT,
            credentials: None,
            #[cfg(feature = "tls")]
            tls: None,
            buffer_pool: true,
            sets_up: true,
            seed: 1,
            trace: None,
        }
    }

    pub(super) async fn connect(&self) -> Result<Session, RequestError> {
        let mut builder = Session::builder()
            .throttle(self.throttle)
            .connections_per_node(self.connections_per_node)
            .compression(self.compression)
            .consistency(self.consistency)
            .protocol_version_max(self.protocol_version_max)
            .timeout(self.timeout)
            .buffer_pool(self.buffer_pool)
            .waiting_max(usize::MAX)
            .wait_for_ready();
        for host in &self.hosts {
            builder = builder.node(host.clone());
        }
        if self.only_these_hosts {
            builder = builder.only_these_nodes();
        }
        if let Some((user, password)) = &self.credentials {
            builder = builder.credentials(user, password);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            builder = builder.tls(tls.clone());
        }
        builder.connect().await
    }
}
