//! `helenus bench`: load any CQL cluster and compare what came of it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use helenus_client::throttle::ThrottleMode;
use helenus_loadgen::compare;
use helenus_loadgen::live;
use helenus_loadgen::report::{Report, to_csv, to_html, to_text};
use helenus_loadgen::run::{
    FindMax, Length, Load, Measurement, Progress, RunError, RunOptions, Second, TraceOptions, find_max,
    run as run_load,
};
use helenus_loadgen::storm::{self, StormMode, StormOptions};
use helenus_loadgen::workload::{Preset, Workload, WorkloadError};
use helenus_protocol::frame::Compression;
use helenus_protocol::{Consistency, ProtocolVersion};

use crate::goodput::{self, GoodputArguments};

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Load a cluster and measure it.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArguments>),
    /// Tell what differs between two reports, and whether that is noise.
    #[command(after_help = "Example:\n  helenus bench compare before.json after.json")]
    Compare(CompareArguments),
    /// Make connections that a server can only refuse.
    #[command(
        after_help = "Example:\n  helenus bench storm --mode wrong-version --connects 100000 --server-pid 4711"
    )]
    Storm(StormArguments),
    /// Measure the goodput: requests answered in time, at loads from half to ten times of what a server can do.
    #[command(after_help = GOODPUT_EXAMPLES)]
    Goodput(Box<GoodputArguments>),
}

#[derive(Args)]
pub struct StormArguments {
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9042")]
    address: SocketAddr,
    /// Behaviour of each connection.
    #[arg(long, value_enum, default_value = "wrong-version")]
    mode: StormModeName,
    /// In all.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    connects: u64,
    /// Threads that connect, one connection after the other.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Connects a second of all threads together [default: as fast as they can].
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Connections that each thread holds open in silence and half-frame.
    #[arg(long, value_name = "N", default_value_t = 100)]
    open: usize,
    /// The server's process on this machine: its processor time is reported.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum StormModeName {
    WrongVersion,
    BadFirstFrame,
    BadLogin,
    Silence,
    HalfFrame,
}

const GOODPUT_EXAMPLES: &str = "Examples:
  taskset -c 1 helenus bench goodput --hosts 127.0.0.1:9042 --json here.json --svg here.svg
  taskset -c 1 helenus bench goodput --default-clients --workload count,filtering
  taskset -c 1 helenus bench goodput --disturb stall,burst --workload point-read --server-pid $(pidof helenus)
  taskset -c 1 helenus bench goodput --mix aggregates,greedy-connection,greedy-table --workload slice
  helenus bench goodput --workload uniform-reads --requests small --multiples 0.5,1,2
  helenus bench goodput --draw one.json another.json --svg both.svg";

const RUN_EXAMPLES: &str = "Examples:
  helenus bench run                                   mixed reads and writes on 127.0.0.1:9042 for 30 s
  helenus bench run --hosts db1:9042,db2:9042 --preset write --duration 2m --html report.html
  helenus bench run --preset read --rate 20000        open loop: latency from the intended start
  helenus bench run --preset read --find-max --p99 10ms
  helenus bench run --workload orders.yaml --concurrency 100000 --json result.json";

#[derive(Args)]
pub struct RunArguments {
    /// Nodes to begin with.
    #[arg(
        long,
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        default_value = "127.0.0.1:9042"
    )]
    hosts: Vec<String>,
    /// Do not use other nodes that these name.
    #[arg(long)]
    only_these_hosts: bool,
    /// A workload that needs no file.
    #[arg(long, value_enum, conflicts_with = "workload", default_value = "mixed")]
    preset: PresetName,
    /// A workload of your own: schema, statements, generators of values.
    #[arg(long, value_name = "FILE.yaml")]
    workload: Option<PathBuf>,
    /// Keys of a preset.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u64,
    /// Workers with one request at a time each.
    #[arg(long, value_name = "N", default_value_t = 256)]
    concurrency: usize,
    /// Requests a second, evenly spaced: an open loop. Latency counts from the intended start.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// How long to measure.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    duration: Duration,
    /// Requests of each worker, instead of a duration; without a warm-up.
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,
    /// Loads before it measures.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "3s")]
    warm_up: Duration,
    /// Let the load grow to its full size over this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    ramp: Duration,
    /// Find the highest rate that keeps --p99.
    #[arg(long, requires = "p99", conflicts_with_all = ["rate", "requests"])]
    find_max: bool,
    /// The bound of --find-max.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    p99: Option<Duration>,
    /// Requests under way per node and thread: adaptive, off, a number, or rate:N a second.
    #[arg(long, value_name = "MODE", value_parser = parse_throttle, default_value = "adaptive")]
    throttle: ThrottleMode,
    /// Fixed limits that take turns with the adaptive one, 0.3 s each; --trace tells them apart.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    beside: Vec<usize>,
    /// Connections per node and thread, where the server has no shards.
    #[arg(long, value_name = "N", default_value_t = 2)]
    connections: usize,
    /// Threads, each with a session of its own [default: one per core].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[arg(long, value_enum)]
    compression: Option<CompressionName>,
    /// As in CQL: ONE, LOCAL_QUORUM, ...
    #[arg(long, value_name = "LEVEL", value_parser = parse_consistency, default_value = "LOCAL_ONE")]
    consistency: Consistency,
    /// The newest protocol version to speak.
    #[arg(long, value_name = "N", value_parser = parse_version, default_value = "5")]
    protocol_version: ProtocolVersion,
    /// A request's deadline, waiting for its turn included.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "12s")]
    timeout: Duration,
    #[arg(long, value_name = "NAME", requires = "password")]
    user: Option<String>,
    #[arg(long, value_name = "TEXT", requires = "user")]
    password: Option<String>,
    #[cfg(feature = "tls")]
    #[command(flatten)]
    tls: crate::tls::TlsArguments,
    /// The schema and the rows are there already.
    #[arg(long)]
    no_set_up: bool,
    /// Allocate each large answer anew, to measure what the pool saves.
    #[arg(long)]
    no_buffer_pool: bool,
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the report as JSON; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the seconds as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with charts that opens without a network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write down each tenth of a second and each request slower than --trace-over.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1ms")]
    trace_over: Duration,
    /// Show nothing while running.
    #[arg(long)]
    quiet: bool,
}

#[derive(Args)]
pub struct CompareArguments {
    before: PathBuf,
    after: PathBuf,
    /// The differences as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PresetName {
    Read,
    Write,
    Mixed,
    Lwt,
    Counter,
    Mv,
    LargePartition,
    ConcurrentClient,
}

#[derive(Clone, Copy, ValueEnum)]
enum CompressionName {
    Lz4,
    Snappy,
}

#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{}: {source}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} is not a report of `helenus bench run --json`: {source}", file.display())]
    Report {
        file: PathBuf,
        source: serde_json::Error,
    },
    #[error(transparent)]
    Storm(io::Error),
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] helenus_client::TlsError),
    #[error("no rate keeps the bound: even the lowest tried did not")]
    NoRate,
}

pub fn run(command: &BenchCommand) -> ExitCode {
    let result = match command {
        BenchCommand::Run(arguments) => run_workload(arguments),
        BenchCommand::Compare(arguments) => run_compare(arguments),
        BenchCommand::Storm(arguments) => run_storm(arguments),
        BenchCommand::Goodput(arguments) => return goodput::run(arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("helenus bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Exits with a failure if any request failed, so that scripts notice.
fn run_workload(arguments: &RunArguments) -> Result<ExitCode, BenchError> {
    let options = options(arguments)?;
    let report = {
        let shown: Box<dyn Progress> = if arguments.quiet {
            Box::new(live::Quiet)
        } else {
            live::for_this_terminal()
        };
        let mut progress = UntilSignal::watch(shown);
        if arguments.find_max {
            let wanted = FindMax {
                p99_max: arguments.p99.unwrap_or_default(),
                step: arguments.duration.min(FIND_MAX_STEP_MAX),
            };
            let found = find_max(&options, wanted, &mut progress)?;
            drop(progress);
            for (per_second, p99_us, holds) in &found.tried {
                let verdict = if *holds { "holds" } else { "too much" };
                eprintln!("{per_second:>12.0}/s  p99 {p99_us:>8} us  {verdict}");
            }
            Report::of(&found.measurement.ok_or(BenchError::NoRate)?)
        } else {
            Report::of(&run_load(&options, &mut progress)?)
        }
    };
    write_reports(arguments, &report)?;
    Ok(if report.errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
}

/// Ends a run on SIGINT or SIGTERM; it still reports what it has measured.
struct UntilSignal {
    shown: Box<dyn Progress>,
    is_signalled: Arc<AtomicBool>,
}

impl UntilSignal {
    fn watch(shown: Box<dyn Progress>) -> Self {
        let is_signalled = Arc::new(AtomicBool::new(false));
        let flag = is_signalled.clone();
        // Without this thread a signal ends the process as usual.
        let _watcher = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                if let Ok(runtime) = runtime {
                    runtime.block_on(signalled());
                    flag.store(true, Ordering::Relaxed);
                }
            });
        UntilSignal { shown, is_signalled }
    }
}

async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

impl Progress for UntilSignal {
    fn doing(&mut self, what: &str, share: f64) {
        self.shown.doing(what, share);
    }

    fn second(&mut self, second: &Second, measured: &Measurement) {
        self.shown.second(second, measured);
    }

    fn is_stopped(&mut self) -> bool {
        self.is_signalled.load(Ordering::Relaxed) || self.shown.is_stopped()
    }
}

/// A step of --find-max: longer ones tell little more.
const FIND_MAX_STEP_MAX: Duration = Duration::from_secs(10);

fn options(arguments: &RunArguments) -> Result<RunOptions, BenchError> {
    let workload = match &arguments.workload {
        Some(file) => Workload::load(file)?,
        None => preset(arguments.preset).workload(arguments.keys),
    };
    let workers = arguments.concurrency.max(1);
    let load = match arguments.rate {
        Some(per_second) => Load::Open { per_second, workers },
        None => Load::Closed { workers },
    };
    let mut options = RunOptions::new(arguments.hosts.clone(), workload, load);
    options.length = Length::Time(arguments.duration);
    options.warm_up = arguments.warm_up;
    if let Some(requests) = arguments.requests {
        options.length = Length::RequestsPerWorker(requests);
        options.warm_up = Duration::ZERO;
    }
    options.only_these_hosts = arguments.only_these_hosts;
    options.ramp = arguments.ramp;
    options.threads = arguments.threads.unwrap_or(options.threads).max(1);
    options.throttle = arguments.throttle;
    options.beside.clone_from(&arguments.beside);
    options.connections_per_node = arguments.connections;
    options.compression = arguments.compression.map(|name| match name {
        CompressionName::Lz4 => Compression::Lz4,
        CompressionName::Snappy => Compression::Snappy,
    });
    options.consistency = arguments.consistency;
    options.protocol_version_max = arguments.protocol_version;
    options.timeout = arguments.timeout;
    options.credentials = arguments.user.clone().zip(arguments.password.clone());
    #[cfg(feature = "tls")]
    {
        options.tls = arguments.tls.tls()?;
    }
    options.buffer_pool = !arguments.no_buffer_pool;
    options.sets_up = !arguments.no_set_up;
    options.seed = arguments.seed;
    options.trace = arguments.trace.clone().map(|file| TraceOptions {
        file,
        over: arguments.trace_over,
    });
    Ok(options)
}

fn preset(name: PresetName) -> Preset {
    match name {
        PresetName::Read => Preset::Read,
        PresetName::Write => Preset::Write,
        PresetName::Mixed => Preset::Mixed,
        PresetName::Lwt => Preset::Lwt,
        PresetName::Counter => Preset::Counter,
        PresetName::Mv => Preset::Mv,
        PresetName::LargePartition => Preset::LargePartition,
        PresetName::ConcurrentClient => Preset::ConcurrentClient,
    }
}

fn write_reports(arguments: &RunArguments, report: &Report) -> Result<(), BenchError> {
    let json = serde_json::to_string_pretty(report).unwrap_or_default() + "\n";
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    if to_stdout {
        print!("{json}");
    } else {
        print!("{}", to_text(report));
    }
    let files = [
        (arguments.json.as_ref().filter(|_| !to_stdout), json),
        (arguments.csv.as_ref(), to_csv(report)),
        (arguments.html.as_ref(), to_html(report)),
    ];
    for (file, text) in files {
        let Some(file) = file else { continue };
        fs::write(file, text).map_err(|source| BenchError::File {
            file: file.clone(),
            source,
        })?;
    }
    Ok(())
}

fn run_storm(arguments: &StormArguments) -> Result<ExitCode, BenchError> {
    let options = StormOptions {
        address: arguments.address,
        mode: match arguments.mode {
            StormModeName::WrongVersion => StormMode::WrongVersion,
            StormModeName::BadFirstFrame => StormMode::BadFirstFrame,
            StormModeName::BadLogin => StormMode::BadLogin,
            StormModeName::Silence => StormMode::Silence,
            StormModeName::HalfFrame => StormMode::HalfFrame,
        },
        connects: arguments.connects,
        threads: arguments.threads,
        per_second: arguments.rate.filter(|&rate| rate > 0.0),
        open: arguments.open,
        server_pid: arguments.server_pid,
    };
    let report = storm::run(&options).map_err(BenchError::Storm)?;
    if arguments.json {
        println!("{}", serde_json::to_string(&report).unwrap_or_default());
    } else {
        println!("{report}");
    }
    Ok(ExitCode::SUCCESS)
}

fn run_compare(arguments: &CompareArguments) -> Result<ExitCode, BenchError> {
    let (before, after) = (load(&arguments.before)?, load(&arguments.after)?);
    let differences = compare::compare(&before, &after);
    if arguments.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&differences).unwrap_or_default()
        );
    } else {
        print!("{}", compare::to_text(&differences));
    }
    Ok(ExitCode::SUCCESS)
}

fn load(file: &Path) -> Result<Report, BenchError> {
    let text = fs::read_to_string(file).map_err(|source| BenchError::File {
        file: file.to_owned(),
        source,
    })?;
    serde_json::from_str(&text).map_err(|source| BenchError::Report {
        file: file.to_owned(),
        source,
    })
}

/// `500us`, `10ms`, `30s`, `2m`, `1h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number
        .parse()
        .map_err(|_| "give a number and a unit, as 10ms or 30s".to_owned())?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" | "" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("{unit} is no unit of time; use us, ms, s, m or h")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn parse_throttle(text: &str) -> Result<ThrottleMode, String> {
    let wanted = || "use adaptive, off, a number of requests, or rate:N".to_owned();
    match text.split_once(':') {
        Some(("rate", rate)) => rate.parse().map(ThrottleMode::Rate).map_err(|_| wanted()),
        Some(_) => Err(wanted()),
        None => match text {
            "adaptive" => Ok(ThrottleMode::Adaptive),
            "off" | "none" => Ok(ThrottleMode::Off),
            number => number
                .parse()
                .map(ThrottleMode::Concurrency)
                .map_err(|_| wanted()),
        },
    }
}

fn parse_consistency(text: &str) -> Result<Consistency, String> {
    let found = Consistency::ALL
        .into_iter()
        .find(|level| level.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names: Vec<_> = Consistency::ALL.iter().map(|level| level.name()).collect();
        format!("use one of {}", names.join(", "))
    })
}

fn parse_version(text: &str) -> Result<ProtocolVersion, String> {
    match text {
        "3" => Ok(ProtocolVersion::V3),
        "4" => Ok(ProtocolVersion::V4),
        "5" => Ok(ProtocolVersion::V5),
        _ => Err("use 3, 4 or 5".to_owned()),
    }
}
