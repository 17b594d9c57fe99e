//! The drivers that applications use, as programs that read one row by many workers; and the servers that they read from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;

use clap::ValueEnum;
use serde::Deserialize;

use crate::node::Target;
use crate::{TaskError, runtime, workspace};

/// A driver as it is configured for one run.
#[derive(Clone, Copy)]
pub enum Driver {
    Gocql,
    Java { throttle: u32 },
}

/// Report of a driver's program, printed when all its workers have ended; latencies are those of successful reads.
#[derive(Deserialize)]
pub struct Figures {
    pub client: String,
    pub elapsed_s: f64,
    pub ok: u64,
    pub errors: BTreeMap<String, u64>,
    pub ops_per_s: f64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
    pub latency_us_p999: u64,
}

impl Driver {
    pub fn label(self) -> String {
        match self {
            Self::Gocql => "gocql".to_owned(),
            Self::Java { throttle: 0 } => "Java driver without throttle".to_owned(),
            Self::Java { throttle } => format!("Java driver throttled to {throttle}"),
        }
    }

    /// The driver's program against this server, which prints [`Figures`] last.
    pub fn command(self, workers: u32, queries: u32, address: SocketAddr) -> Result<Command, TaskError> {
        let mut command = match self {
            Self::Gocql => runtime::go_program("bench-go", &workspace::path("xtask/clients/go"))?,
            Self::Java { .. } => {
                let mut java = runtime::java_program("bench-java", &workspace::path("xtask/clients/java"))?;
                java.arg("ConcurrentClient");
                java
            }
        };
        command.args([workers.to_string(), queries.to_string()]);
        if let Self::Java { throttle } = self {
            command.arg(throttle.to_string());
        }
        name_server(&mut command, address);
        Ok(command)
    }
}

/// Tells a program where the server is.
pub fn name_server(command: &mut Command, address: SocketAddr) {
    command
        .env("CQL_HOST", address.ip().to_string())
        .env("CQL_PORT", address.port().to_string());
}

/// Server that drivers read from.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Helenus,
    Cassandra,
}

impl Server {
    pub fn label(self) -> &'static str {
        match self {
            Server::Helenus => "Helenus",
            Server::Cassandra => "Cassandra 5.0",
        }
    }

    pub fn target(self) -> Target {
        match self {
            Server::Helenus => Target::Helenus,
            Server::Cassandra => Target::Cassandra,
        }
    }
}
