//! `helenus bench run` as a process of its own: how it is called, and what its report says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::{TaskError, workspace};

/// What `helenus bench run --json` says that matters here.
#[derive(Clone, Default, Deserialize)]
pub struct Figures {
    #[serde(flatten)]
    all: Measured,
    pub errors: u64,
    pub errors_by_kind: BTreeMap<String, u64>,
    elapsed_s: f64,
    pub sent_again: u64,
    /// Of the time in which the hypervisor took no processor away.
    undisturbed: Undisturbed,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub struct Measured {
    pub ops: u64,
    pub ops_per_s: f64,
    pub latency_us: Latencies,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Undisturbed {
    elapsed_s: f64,
    #[serde(flatten)]
    measured: Measured,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub struct Latencies {
    pub p50: u64,
    pub p99: u64,
}

/// The share of a run that must have been undisturbed for that part to speak for it.
const UNDISTURBED_SHARE_MIN: f64 = 0.1;

impl Figures {
    pub fn parse(json: &str) -> Result<Figures, TaskError> {
        serde_json::from_str(json).map_err(|error| TaskError::Report {
            text: format!("{error} in a report of `helenus bench run`: {json:?}"),
        })
    }

    #[cfg(test)]
    pub fn of(measured: Measured) -> Figures {
        Figures {
            all: measured,
            ..Figures::default()
        }
    }

    /// Requests answered in the whole run.
    pub fn ops(&self) -> u64 {
        self.all.ops
    }

    /// Whether enough of the run was undisturbed.
    pub fn is_undisturbed(&self) -> bool {
        self.undisturbed_s() > 0.0 && self.undisturbed_s() >= self.elapsed_s * UNDISTURBED_SHARE_MIN
    }

    pub fn undisturbed_s(&self) -> f64 {
        self.undisturbed.elapsed_s
    }

    /// What was measured while the machine was undisturbed; where that was hardly ever, all of it.
    pub fn measured(&self) -> &Measured {
        if self.is_undisturbed() {
            &self.undisturbed.measured
        } else {
            &self.all
        }
    }
}

/// The command for a load on these nodes and no others, to be completed by what it is to be.
pub fn command(addresses: &[SocketAddr]) -> Command {
    let mut command = Command::new(workspace::target().join("release/helenus"));
    add_arguments(&mut command, addresses);
    command
}

/// The same, kept to one core.
pub fn command_on_core(core: &str, addresses: &[SocketAddr]) -> Command {
    let mut command = Command::new("taskset");
    command
        .args(["-c", core])
        .arg(workspace::target().join("release/helenus"));
    add_arguments(&mut command, addresses);
    command
}

fn add_arguments(command: &mut Command, addresses: &[SocketAddr]) {
    let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    command
        .args(["bench", "run", "--quiet", "--only-these-hosts"])
        .args(["--hosts", &hosts.join(",")])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"ops": 100, "ops_per_s": 10.0, "latency_us": {"p50": 1, "p99": 900}, "errors": 0,
        "errors_by_kind": {}, "elapsed_s": 10.0, "sent_again": 0,
        "undisturbed": {"elapsed_s": SECONDS, "ops": 30, "ops_per_s": 15.0, "latency_us": {"p50": 1, "p99": 30}}}"#;

    #[test]
    fn undisturbed_time_speaks_for_a_run_unless_there_is_hardly_any() {
        let of = |seconds| Figures::parse(&REPORT.replace("SECONDS", seconds)).unwrap();
        assert_eq!(of("2.0").measured().latency_us.p99, 30);
        assert_eq!(of("0.5").measured().latency_us.p99, 900);
        assert_eq!(of("2.0").ops(), 100);
    }
}
