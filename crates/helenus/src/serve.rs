//! `helenus serve`: a node until it is told to stop.

mod arguments;
mod guardrails;
mod options;

use std::process::ExitCode;
use std::time::Instant;

use helenus_server::config::{ConfigError, ConfigFile};
use helenus_server::{ServeError, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use arguments::ServeArguments;
use options::options;

pub fn run(arguments: &ServeArguments) -> ExitCode {
    let started = Instant::now();
    match start(arguments) {
        Ok((server, data)) => serve(server, &data, started),
        Err(error) => {
            eprintln!("helenus: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum StartupError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

fn start(arguments: &ServeArguments) -> Result<(Server, Summary), StartupError> {
    let config = match &arguments.config {
        Some(path) => ConfigFile::load(path)?,
        None => ConfigFile::default(),
    };
    let options = options(arguments, &config);
    let summary = Summary {
        shards: options.node.shard_count,
        data: if options.node.in_memory {
            "in memory".to_owned()
        } else {
            format!("data {}", options.node.data_folder.display())
        },
    };
    Ok((Server::start(options)?, summary))
}

struct Summary {
    shards: u16,
    data: String,
}

fn serve(server: Server, summary: &Summary, started: Instant) -> ExitCode {
    let stopping = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let stopping = stopping.and_then(|runtime| {
        let _entered = runtime.enter();
        // Before anybody is told that the node is ready: who is may end it at once.
        let signals = StopSignals::listen()?;
        Ok((runtime, signals))
    });
    let (runtime, signals) = match stopping {
        Ok(stopping) => stopping,
        Err(error) => {
            eprintln!("helenus: cannot wait for signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    say_ready(&server, summary, started);
    // All that this thread has left to do is to end the process: what that frees, nobody waits for.
    helenus_scheduling::give_way();
    runtime.block_on(async {
        signals.wait().await;
        server.stop().await;
    });
    ExitCode::SUCCESS
}

fn say_ready(server: &Server, summary: &Summary, started: Instant) {
    let shard_aware = server
        .shard_aware_address
        .map_or(String::new(), |address| format!(" (shard-aware {address})"));
    let metrics = server
        .metrics_address
        .map_or(String::new(), |address| format!(", metrics {address}"));
    let doors = server
        .doors_address
        .map_or(String::new(), |address| format!(", http and grpc {address}"));
    println!(
        "helenus ready: cql {}{shard_aware}, {} shards, {}{metrics}{doors}, {} ms",
        server.address,
        summary.shards,
        summary.data,
        started.elapsed().as_millis()
    );
}

/// SIGTERM and SIGINT, which stop the node.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on they end the process no more. Called within a runtime.
    fn listen() -> std::io::Result<Self> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
