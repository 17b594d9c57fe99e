//! `helenus bench run` as a process of its own: how it is called, its report, its trace.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use helenus_loadgen::report::Report;

use super::{files, programs};
use crate::{TaskError, process};

/// The command for a load on these nodes and no others, to be completed by what it is to be.
pub fn command(addresses: &[SocketAddr]) -> Command {
    bench_run(programs::helenus(), addresses)
}

/// The same, kept to one core.
pub fn command_on_core(core: &str, addresses: &[SocketAddr]) -> Command {
    bench_run(programs::helenus_on_cores(core), addresses)
}

fn bench_run(mut command: Command, addresses: &[SocketAddr]) -> Command {
    let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    command
        .args(["bench", "run", "--quiet", "--only-these-hosts"])
        .args(["--hosts", &hosts.join(",")])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// Adds a workload of one's own and a report to a command; where the report will be.
pub fn add_workload(command: &mut Command, folder: &Path, workload: &str) -> Result<PathBuf, TaskError> {
    let (file, json) = (folder.join("workload.yaml"), folder.join("report.json"));
    files::write(&file, workload)?;
    command.arg("--workload").arg(&file).arg("--json").arg(&json);
    Ok(json)
}

/// Runs a load of a workload of one's own to its end.
pub fn measure(command: &mut Command, folder: &Path, workload: &str) -> Result<Report, TaskError> {
    let json = add_workload(command, folder, workload)?;
    process::run(command)?;
    files::read(&json)
}

/// A tenth of a second of a trace, with the slow requests that ended in it. Points in time are microseconds since 1970.
pub struct TraceSlice {
    pub at_us: Range<u64>,
    /// The hypervisor took no processor away.
    pub is_undisturbed: bool,
    pub ops: u64,
    pub p99_us: u64,
    /// The one that stood in for the adaptive one.
    pub limit: Option<usize>,
    pub slow: Vec<SlowRequest>,
}

pub struct SlowRequest {
    pub intended_us: u64,
    pub late_us: u64,
    pub latency_us: u64,
}

/// Reads what `--trace` has written. The last line may be cut.
pub fn parse_trace(text: &str) -> Vec<TraceSlice> {
    let mut slices: Vec<TraceSlice> = Vec::new();
    let number = |field: &str| field.parse::<u64>().unwrap_or(0);
    for line in text.lines() {
        match line.split(',').collect::<Vec<_>>()[..] {
            ["slice", end, length, counts, ops, p99, limit] => slices.push(TraceSlice {
                at_us: number(end).saturating_sub(number(length))..number(end),
                is_undisturbed: counts == "1",
                ops: number(ops),
                p99_us: number(p99),
                limit: limit.parse().ok(),
                slow: Vec::new(),
            }),
            ["request", intended, late, latency, _node] => {
                if let Some(slice) = slices.last_mut() {
                    slice.slow.push(SlowRequest {
                        intended_us: number(intended),
                        late_us: number(late),
                        latency_us: number(latency),
                    });
                }
            }
            _ => {}
        }
    }
    slices
}

/// Microseconds since 1970, as in traces.
pub fn now_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_micros() as u64
}
