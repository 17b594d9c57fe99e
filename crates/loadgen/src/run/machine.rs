//! Cost of a run to the machine it runs on.

use std::fs;
use std::time::Duration;

/// CPU and memory of a process; zero where /proc does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    pub cpu: Duration,
    /// Resident now.
    pub resident_bytes: u64,
    /// The most that was ever resident.
    pub resident_bytes_max: u64,
}

/// Clock ticks of /proc/self/stat a second: fixed at 100 on Linux for every architecture's user space.
const TICKS_PER_SECOND: u64 = 100;

pub(crate) fn process_usage() -> ProcessUsage {
    process_usage_of("self")
}

/// Returns the usage of another process, by its id.
pub(crate) fn process_usage_of(process: &str) -> ProcessUsage {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0)
            * 1024
    };
    ProcessUsage {
        cpu: cpu_time(process).unwrap_or_default(),
        resident_bytes: kib("VmRSS:"),
        resident_bytes_max: kib("VmHWM:"),
    }
}

/// utime and stime: the 14th and 15th field, counted behind the name, which may hold anything.
fn cpu_time(process: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split_whitespace().skip(11);
    let user: u64 = ticks.next()?.parse().ok()?;
    let system: u64 = ticks.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// Returns the time that the hypervisor gave to others while this machine had work for its processors, since it was started:
/// all processors together, in steps of 10 ms. `None` where /proc does not tell.
pub(crate) fn stolen_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

impl ProcessUsage {
    /// The CPU since `before`, the memory of now.
    #[must_use]
    pub fn since(&self, before: &ProcessUsage) -> ProcessUsage {
        ProcessUsage {
            cpu: self.cpu.saturating_sub(before.cpu),
            ..*self
        }
    }
}
