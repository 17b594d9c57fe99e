//! `helenus serve`: a node until it is told to stop.

mod arguments;
mod guardrails;
mod options;

use std::process::ExitCode;
use std::time::Instant;

use helenus_server::config::{ConfigError, ConfigFile};
use helenus_server::{Handover, ServeError, Server};
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
    let server = match arguments.replace {
        true => Server::replace(options)?,
        false => Server::start(options)?,
    };
    Ok((server, summary))
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
    match runtime.block_on(until_stopped_or_replaced(server, signals)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("helenus: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn until_stopped_or_replaced(mut server: Server, mut signals: StopSignals) -> Result<(), ServeError> {
    loop {
        let takeover = tokio::select! {
            () = signals.wait() => None,
            takeover = server.takeover() => Some(takeover),
        };
        let Some(takeover) = takeover else {
            // All that this thread has left to do is to end the process: what that frees, nobody waits for.
            helenus_scheduling::give_way();
            server.stop().await;
            return Ok(());
        };
        match server.hand_over(takeover, signals.wait()).await? {
            Handover::Done => return Ok(()),
            Handover::TakenBack(taken_back) => server = *taken_back,
        }
    }
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

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
