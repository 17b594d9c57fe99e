//! `helenus bench goodput`: what is answered in time, from a quarter to ten times of what a server can do.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use helenus_loadgen::goodput::{
    self, GoodputOptions, GoodputReport, GoodputWorkload, RequestSize, WireError, to_markdown, to_svg,
};
use helenus_tools::progress::{Progress, Unit};

use crate::bench::parse_duration;
use crate::terminal::Bar;

#[derive(Args)]
pub struct GoodputArguments {
    /// The server; give it other cores than this command has.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9042")]
    hosts: SocketAddr,
    /// The server's process id: its processor time and memory are reported too.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// What is asked for [default: all four].
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    workload: Vec<WorkloadName>,
    /// How much work a request is: one core offers ten times what another serves only of heavy ones.
    #[arg(long, value_enum, default_value = "heavy")]
    requests: SizeName,
    /// Loads, as multiples of the capacity that is measured first.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "0.25,0.5,0.75,1,1.4,2,5,10"
    )]
    multiples: Vec<f64>,
    /// Requests a second to take for the capacity instead of measuring it: two servers are compared at the same loads.
    #[arg(long, value_name = "N")]
    capacity: Option<f64>,
    /// How long each load is measured. Time in which the hypervisor took a processor away does not count.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2s")]
    duration: Duration,
    /// How long each load is offered at most, until --duration of time that counts was seen; what there was is told then,
    /// and how much was stolen [default: 10 times --duration].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration_max: Option<Duration>,
    /// The loads take turns in so many rounds of --duration / N each, in another order each time, so that all meet the
    /// machine's better and worse minutes. The median of its rounds is a load's goodput.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// What a load is offered in each round before anything counts: connections take turns in a second.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    warm_up: Duration,
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Requests without an answer on one connection; what waits beyond them waits in the client, and is given up there.
    /// The Java driver's `max-requests-per-connection` by default.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=32768))]
    in_flight: u16,
    /// An answer that comes later is late, counted from the moment that the request was to be sent.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10ms")]
    deadline: Duration,
    /// How long ten times the capacity are offered before the recovery is measured; 0 for not at all.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    overload: Duration,
    /// The server's name in tables and charts.
    #[arg(long, value_name = "TEXT", default_value = "server")]
    label: String,
    /// Measure nothing: put reports that were written with --json beside each other.
    #[arg(long, value_name = "FILE.json", num_args = 1..)]
    draw: Vec<PathBuf>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one picture of goodput, refusals, late answers and p99.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum WorkloadName {
    SinglePartition,
    UniformWrites,
    UniformReads,
    HotPartition,
}

#[derive(Clone, Copy, ValueEnum)]
enum SizeName {
    Small,
    Heavy,
}

#[derive(Debug, thiserror::Error)]
enum GoodputError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{}: {source}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} is not a report of `helenus bench goodput --json`: {source}", file.display())]
    Report {
        file: PathBuf,
        source: serde_json::Error,
    },
}

pub fn run(arguments: &GoodputArguments) -> ExitCode {
    match reports(arguments).and_then(|reports| write(arguments, &reports)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("helenus bench goodput: {error}");
            ExitCode::FAILURE
        }
    }
}

fn reports(arguments: &GoodputArguments) -> Result<Vec<GoodputReport>, GoodputError> {
    if !arguments.draw.is_empty() {
        return arguments.draw.iter().map(|file| load(file)).collect();
    }
    let mut workloads: Vec<GoodputWorkload> = arguments.workload.iter().map(|name| (*name).into()).collect();
    if workloads.is_empty() {
        workloads = GoodputWorkload::ALL.to_vec();
    }
    let options = GoodputOptions {
        address: arguments.hosts,
        server_pid: arguments.server_pid,
        workloads,
        size: match arguments.requests {
            SizeName::Small => RequestSize::Small,
            SizeName::Heavy => RequestSize::Heavy,
        },
        multiples: arguments.multiples.clone(),
        capacity_per_s: arguments.capacity,
        point: arguments.duration,
        rounds: arguments.rounds,
        warm_up: arguments.warm_up,
        point_max: arguments
            .duration_max
            .unwrap_or(arguments.duration * 10)
            .max(arguments.duration),
        connections: usize::from(arguments.connections),
        in_flight_max: usize::from(arguments.in_flight),
        deadline: arguments.deadline,
        overload: arguments.overload,
    };
    const STEPS: f64 = 1_000.0;
    let bar = Bar::new();
    let mut doing_now = String::new();
    let report = goodput::run(&options, &arguments.label, &mut |what, share| {
        if doing_now != what {
            what.clone_into(&mut doing_now);
            bar.begin(what, Unit::Partitions, STEPS as u64);
        }
        bar.at((share * STEPS) as u64);
    })?;
    drop(bar);
    Ok(vec![report])
}

fn load(file: &Path) -> Result<GoodputReport, GoodputError> {
    let text = fs::read_to_string(file).map_err(|source| GoodputError::File {
        file: file.to_owned(),
        source,
    })?;
    serde_json::from_str(&text).map_err(|source| GoodputError::Report {
        file: file.to_owned(),
        source,
    })
}

fn write(arguments: &GoodputArguments, reports: &[GoodputReport]) -> Result<(), GoodputError> {
    print!("{}", to_markdown(reports));
    let json = match reports {
        [report] => serde_json::to_string_pretty(report),
        reports => serde_json::to_string_pretty(reports),
    };
    for (file, text) in [
        (&arguments.json, json.unwrap_or_default() + "\n"),
        (&arguments.svg, to_svg(reports)),
    ] {
        let Some(file) = file else { continue };
        fs::write(file, text).map_err(|source| GoodputError::File {
            file: file.clone(),
            source,
        })?;
    }
    Ok(())
}

impl From<WorkloadName> for GoodputWorkload {
    fn from(name: WorkloadName) -> Self {
        match name {
            WorkloadName::SinglePartition => GoodputWorkload::SinglePartition,
            WorkloadName::UniformWrites => GoodputWorkload::UniformWrites,
            WorkloadName::UniformReads => GoodputWorkload::UniformReads,
            WorkloadName::HotPartition => GoodputWorkload::HotPartition,
        }
    }
}
