//! `helenus serve`: a node until it is told to stop.

mod arguments;
mod detached;
mod guardrails;
mod options;
mod service_manager;

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use helenus_server::config::{ConfigError, ConfigFile};
use helenus_server::{Handover, ServeError, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use arguments::ServeArguments;
use options::options;
use service_manager::{Notice, ServiceManager};

/// With less than that as `--memory`, in bytes, what the allocator takes besides counts: it is 40 to 120 MB (decision 35).
const AMPLE_MEMORY_BYTES: u64 = 1 << 30;

pub fn run(arguments: &ServeArguments) -> ExitCode {
    if arguments.detach {
        return detached::run();
    }
    let started = Instant::now();
    match start(arguments) {
        Ok((server, summary)) => serve(server, &summary, started),
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
    #[error("the service manager that NOTIFY_SOCKET names is not there: {0}; unset it where there is none")]
    ServiceManager(io::Error),
}

fn start(arguments: &ServeArguments) -> Result<(Server, Summary), StartupError> {
    let manager = ServiceManager::from_environment().map_err(StartupError::ServiceManager)?;
    let config = match &arguments.config {
        Some(path) => ConfigFile::load(path)?,
        None => ConfigFile::default(),
    };
    let options = options(arguments, &config);
    if options.node.memory_bytes < AMPLE_MEMORY_BYTES {
        let _without_huge_pages_anyway = helenus_allocator::take_little();
    } else {
        let _touched_when_needed = helenus_allocator::touch_ahead(helenus_scheduling::give_way);
    }
    let summary = Summary {
        shards: options.node.shard_count,
        data: if options.node.in_memory {
            "in memory".to_owned()
        } else {
            format!("data {}", options.node.data_folder.display())
        },
        manager,
    };
    let server = match arguments.replace {
        true => Server::replace(options)?,
        false => Server::start(options)?,
    };
    Ok((server, summary))
}

/// Summary of a started node, and the service manager that is told of it.
struct Summary {
    shards: u16,
    data: String,
    manager: ServiceManager,
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
    match runtime.block_on(until_stopped_or_replaced(server, signals, &summary.manager)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("helenus: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn until_stopped_or_replaced(
    mut server: Server,
    mut signals: StopSignals,
    manager: &ServiceManager,
) -> Result<(), ServeError> {
    loop {
        let takeover = tokio::select! {
            () = signals.wait() => None,
            takeover = server.takeover() => Some(takeover),
        };
        let Some(takeover) = takeover else {
            manager.tell(Notice::Stopping);
            // All that this thread has left to do is to end the process: what that frees, nobody waits for.
            helenus_scheduling::give_way();
            server.stop().await;
            return Ok(());
        };
        let successor = takeover.process();
        match server.hand_over(takeover, signals.wait()).await? {
            Handover::Done => {
                // From the process that the manager knows, and before it ends: the end is that of the service otherwise.
                manager.tell(Notice::ReplacedBy(successor));
                return Ok(());
            }
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
    summary.manager.tell(Notice::Ready);
}

/// SIGTERM and SIGINT, which stop the node.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on they end the process no more. Called within a runtime.
    fn listen() -> io::Result<Self> {
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
