//! `helenus bench goodput`: what is answered in time, from a quarter to ten times of what a server can do.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use helenus_loadgen::goodput::{
    self, DisturbanceKind, GoodputOptions, GoodputReport, GoodputWorkload, Login, MixKind, RequestSize,
    WireError, disturbances_to_svg, to_markdown, to_svg,
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
    /// Workloads to measure [default: the eight statements from point-read to filtering].
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    workload: Vec<WorkloadName>,
    /// How much work a request is of single-partition, uniform-writes, uniform-reads and hot-partition: one core offers ten times what
    /// another serves only of heavy ones.
    #[arg(long, value_enum, default_value = "heavy")]
    requests: SizeName,
    /// Size of the table that cold-reads go to; give the server a tenth of it as its memory.
    #[arg(long, value_name = "MIB", default_value_t = 2560)]
    cold_mib: u64,
    /// Loads, as multiples of the capacity that is measured first.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "0.5,0.8,0.95,2,5,10"
    )]
    multiples: Vec<f64>,
    /// Requests a second to take for the capacity instead of measuring it: two servers are compared at the same loads.
    #[arg(long, value_name = "N")]
    capacity: Option<f64>,
    /// How long each load is measured. Time in which the hypervisor took a processor away does not count.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "4s")]
    duration: Duration,
    /// How long each load is offered at most, until --duration of time that counts was seen; what there was is told then,
    /// and how much was stolen [default: 10 times --duration].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration_max: Option<Duration>,
    /// The loads take turns in so many rounds of --duration / N each, in another order each time, so that all meet the
    /// machine's better and worse minutes. The median of its rounds is a load's goodput.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of the load that is offered in each round before anything counts: what clients that ask for no errors get is
    /// promised from the second second on.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    warm_up: Duration,
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Requests without an answer on one connection; what is due beyond them is not sent. As many as the protocol has streams by default,
    /// so that nothing but the server bounds them; the Java driver's own bound is 1024.
    #[arg(long, value_name = "N", default_value_t = 32768, value_parser = clap::value_parser!(u32).range(1..=32768))]
    in_flight: u32,
    /// Connect as every driver does: without THROW_ON_OVERLOAD, which asks for OVERLOADED instead of a wait.
    #[arg(long)]
    default_clients: bool,
    /// Requests in flight on each connection of the closed loop that tells the capacity.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=32768))]
    capacity_in_flight: u32,
    /// How long due requests are gathered before they are written; gocql and the C++ driver do so for 200us.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "100us")]
    gather: Duration,
    /// User and password, where the server asks for them.
    #[arg(long, value_name = "USER:PASSWORD", value_parser = parse_login)]
    login: Option<Login>,
    /// An answer that comes later is late, counted from the moment that the request was to be sent.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10ms")]
    deadline: Duration,
    /// How long ten times the capacity are offered before the recovery is measured; 0 for not at all.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    overload: Duration,
    /// Disturbances at 0.8 of the capacity, instead of curves: nothing, a stop of the server's process for 200 ms (--server-pid),
    /// or a second of 1.4 times the capacity.
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    disturb: Vec<DisturbanceName>,
    /// How often each of them is looked at.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    looks: u32,
    /// How long nothing happens.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    steady: Duration,
    /// Loads that are to share the server, instead of curves: point reads with ten times the aggregates that it can do; or one
    /// connection, table or user that sends 100 shares with others that send 15 together (a user: --login).
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    mix: Vec<MixName>,
    /// The server's name in tables and charts.
    #[arg(long, value_name = "TEXT", default_value = "server")]
    label: String,
    /// Measure nothing: put reports that were written with --json beside each other.
    #[arg(long, value_name = "FILE.json", num_args = 1..)]
    draw: Vec<PathBuf>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one picture of goodput, refusals, late answers and p99, or of what happened.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum WorkloadName {
    PointRead,
    PointWrite,
    Slice,
    ClusteringIn,
    PartitionIn,
    Scan,
    Count,
    Filtering,
    SinglePartition,
    UniformWrites,
    UniformReads,
    HotPartition,
    ColdReads,
}

#[derive(Clone, Copy, ValueEnum)]
enum DisturbanceName {
    Steady,
    Stall,
    Burst,
}

#[derive(Clone, Copy, ValueEnum)]
enum MixName {
    Aggregates,
    GreedyConnection,
    GreedyTable,
    GreedyUser,
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
        workloads = GoodputWorkload::STATEMENTS.to_vec();
    }
    let report = measure(arguments, workloads)?;
    Ok(vec![report])
}

fn options(arguments: &GoodputArguments, workloads: Vec<GoodputWorkload>) -> GoodputOptions {
    GoodputOptions {
        address: arguments.hosts,
        server_pid: arguments.server_pid,
        workloads,
        size: match arguments.requests {
            SizeName::Small => RequestSize::Small,
            SizeName::Heavy => RequestSize::Heavy,
        },
        cold_bytes: arguments.cold_mib << 20,
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
        in_flight_max: arguments.in_flight as usize,
        capacity_in_flight: arguments.capacity_in_flight as usize,
        gather: arguments.gather,
        throws_on_overload: !arguments.default_clients,
        login: arguments.login.clone(),
        deadline: arguments.deadline,
        overload: arguments.overload,
        disturbances: arguments.disturb.iter().map(|name| (*name).into()).collect(),
        looks: arguments.looks,
        steady: arguments.steady,
        mixes: arguments.mix.iter().map(|name| (*name).into()).collect(),
    }
}

fn measure(
    arguments: &GoodputArguments,
    workloads: Vec<GoodputWorkload>,
) -> Result<GoodputReport, GoodputError> {
    let options = options(arguments, workloads);
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
    Ok(report)
}

fn parse_login(text: &str) -> Result<Login, String> {
    let (user, password) = text
        .split_once(':')
        .ok_or("a user and a password, with : between them")?;
    Ok(Login {
        user: user.to_owned(),
        password: password.to_owned(),
    })
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
    let svg = match reports.iter().all(|report| report.curves.is_empty()) {
        true => disturbances_to_svg(reports),
        false => to_svg(reports),
    };
    for (file, text) in [
        (&arguments.json, json.unwrap_or_default() + "\n"),
        (&arguments.svg, svg),
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
            WorkloadName::PointRead => GoodputWorkload::PointRead,
            WorkloadName::PointWrite => GoodputWorkload::PointWrite,
            WorkloadName::Slice => GoodputWorkload::Slice,
            WorkloadName::ClusteringIn => GoodputWorkload::ClusteringIn,
            WorkloadName::PartitionIn => GoodputWorkload::PartitionIn,
            WorkloadName::Scan => GoodputWorkload::Scan,
            WorkloadName::Count => GoodputWorkload::Count,
            WorkloadName::Filtering => GoodputWorkload::Filtering,
            WorkloadName::SinglePartition => GoodputWorkload::SinglePartition,
            WorkloadName::UniformWrites => GoodputWorkload::UniformWrites,
            WorkloadName::UniformReads => GoodputWorkload::UniformReads,
            WorkloadName::HotPartition => GoodputWorkload::HotPartition,
            WorkloadName::ColdReads => GoodputWorkload::ColdReads,
        }
    }
}

impl From<DisturbanceName> for DisturbanceKind {
    fn from(name: DisturbanceName) -> Self {
        match name {
            DisturbanceName::Steady => DisturbanceKind::Steady,
            DisturbanceName::Stall => DisturbanceKind::Stall,
            DisturbanceName::Burst => DisturbanceKind::Burst,
        }
    }
}

impl From<MixName> for MixKind {
    fn from(name: MixName) -> Self {
        match name {
            MixName::Aggregates => MixKind::Aggregates,
            MixName::GreedyConnection => MixKind::GreedyConnection,
            MixName::GreedyTable => MixKind::GreedyTable,
            MixName::GreedyUser => MixKind::GreedyUser,
        }
    }
}
