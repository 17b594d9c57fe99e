//! The page and the picture of a run.

use std::fmt::Write as _;

use helenus_loadgen::chart::{Chart, Line, side_by_side};

use super::load::ROW_BYTES;
use super::observer::{Observation, Purpose};
use super::{Arguments, Measured, Run};

pub const MIB: f64 = 1_048_576.0;

/// Points of a line: more would not be seen.
const POINTS_MAX: usize = 120;

impl Measured {
    pub fn last(&self) -> Observation {
        self.observations.last().cloned().unwrap_or_default()
    }

    /// Microseconds of the server's processor for each answer.
    pub fn cpu_us(&self) -> [f64; Purpose::ALL.len()] {
        let answers = self.report.ops.max(1) as f64;
        self.last().cpu_s.map(|seconds| seconds * 1e6 / answers)
    }

    /// Bytes that went to files for each byte that clients wrote; `None` where they wrote none.
    pub fn write_amplification(&self) -> Option<f64> {
        let rows = self.report.ops * self.phase.percent_written() / 100;
        (rows > 0).then(|| self.last().written_bytes as f64 / (rows * ROW_BYTES as u64) as f64)
    }

    pub fn table_bytes_max(&self) -> u64 {
        let observations = self.observations.iter();
        observations.map(|now| now.table_bytes).max().unwrap_or_default()
    }

    /// Requests that found no answer, or were not even sent.
    pub fn failed(&self) -> u64 {
        self.report.errors + self.report.unsent
    }
}

pub fn page(arguments: &Arguments, runs: &[Run]) -> String {
    let mut text = head(arguments);
    for run in runs {
        let _infallible = write!(
            text,
            "\n## {}, {} requests a second offered\n\n\
             | phase | answered/s | p50 us | p99 us | p99.9 us | failed or not sent | CPU us an answer | {} | written bytes for a client's | reads of files | files, MiB | tables: end, most, MiB |\n\
             |{}\n",
            run.server,
            run.rate,
            Purpose::ALL.map(Purpose::name).join(" | "),
            "---|".repeat(11 + Purpose::ALL.len())
        );
        for measured in &run.phases {
            text.push_str(&line(measured));
        }
    }
    let _infallible = write!(text, "\n![over time](steady-state.svg)\n");
    text
}

fn line(measured: &Measured) -> String {
    let latency = &measured.report.latency_us;
    let cpu = measured.cpu_us();
    let last = measured.last();
    let purposes = cpu.map(|microseconds| format!("{microseconds:.1}"));
    let or_none =
        |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2}"));
    let reads = (last.disk_reads > 0.0).then(|| last.disk_reads / measured.report.ops.max(1) as f64);
    format!(
        "| {} | {:.0} | {} | {} | {} | {} | {:.1} | {} | {} | {} | {:.0} | {:.0}, {:.0} |\n",
        measured.phase.name(),
        measured.report.ops_per_s,
        latency.p50,
        latency.p99,
        latency.p999,
        measured.failed(),
        cpu.iter().sum::<f64>(),
        purposes.join(" | "),
        or_none(measured.write_amplification()),
        or_none(reads),
        last.file_bytes as f64 / MIB,
        last.table_bytes as f64 / MIB,
        measured.table_bytes_max() as f64 / MIB,
    )
}

fn head(arguments: &Arguments) -> String {
    let expiry = match arguments.ttl {
        0 => String::new(),
        seconds => format!(", rows expire after {seconds} s"),
    };
    let (flag, cores) = if arguments.side_by_side {
        (
            " --side-by-side",
            "Both servers at the same time, each on one core that it shares with its",
        )
    } else {
        ("", "One core for the server, another one for")
    };
    format!(
        "# Steady state: writes that never stop\n\n\
         `cargo xtask compare storage steady --minutes {} --later-minutes {} --rows {} --rate {} --peer-rate {} --distribution {} --ttl {} --memory {} \
         --commitlog-sync {}{flag}`: a table of five blobs of 34 bytes and a key of 8, {} rows, default format and options{expiry}. \
         {cores} `helenus bench run` (open loop, one thread, an adaptive limit of requests under way, latency from the moment at which a \
         request was due). The phases follow each other on the same files: every row once; rows again; reads; half reads, half writes; deletions. \
         Processor time is all that the process took in a phase, by the names of its threads; `other` has what ended between two looks, and \
         Java's compiler and garbage collector. Bytes written include the log, the files all that lies in the data folder, the log too. \
         Cassandra has a heap of {}, the rest of the machine's memory is the kernel's cache. Digits are this machine's: hold as ratios.\n",
        arguments.minutes,
        arguments.later_minutes,
        arguments.rows,
        arguments.rate,
        arguments.peer_rate,
        format!("{:?}", arguments.distribution).to_lowercase(),
        arguments.ttl,
        arguments.memory,
        arguments.commitlog_sync,
        arguments.rows,
        super::PEER_HEAP,
    )
}

/// A row of charts for both servers, then one of processor time for each.
pub fn picture(runs: &[Run]) -> String {
    let of_runs = |title: &str, y_label: &str, is_log: bool, points: fn(&Run) -> Vec<(f64, f64)>| Chart {
        title: title.to_owned(),
        x_label: "seconds, all phases".to_owned(),
        y_label: y_label.to_owned(),
        lines: runs
            .iter()
            .map(|run| Line::new(run.server, thinned(points(run))))
            .collect(),
        has_log_y: is_log,
        ..Chart::default()
    };
    let mut rows = vec![vec![
        of_runs("Answers", "a second", true, |run| {
            run.seconds(|second| second.ops_per_s)
        }),
        of_runs("p99 of each second", "us", true, |run| {
            run.seconds(|second| second.p99_us as f64)
        }),
        of_runs("Files of tables", "MiB", false, |run| {
            run.observed(|_, now| now.table_bytes as f64 / MIB)
        }),
    ]];
    rows.push(runs.iter().map(processor_time).collect());
    side_by_side(&rows)
}

fn processor_time(run: &Run) -> Chart {
    let line = |purpose: Purpose| {
        let index = purpose as usize;
        let points = run.observed(move |before, now| {
            100.0 * (now.cpu_s[index] - before.cpu_s[index]) / (now.at_s - before.at_s).max(0.001)
        });
        Line::new(purpose.name(), thinned(points))
    };
    Chart {
        title: format!("{}: its core", run.server),
        x_label: "seconds, all phases".to_owned(),
        y_label: "% by purpose".to_owned(),
        lines: Purpose::ALL.into_iter().map(line).collect(),
        ..Chart::default()
    }
}

impl Run {
    /// Returns a point for each second of the load generator's reports, one phase behind the other.
    fn seconds(&self, value: fn(&helenus_loadgen::report::ReportSecond) -> f64) -> Vec<(f64, f64)> {
        let mut begun_s = 0.0;
        let mut points = Vec::new();
        for measured in &self.phases {
            points.extend(
                measured
                    .report
                    .seconds
                    .iter()
                    .map(|second| (begun_s + second.at_s, value(second))),
            );
            begun_s += measured.last().at_s;
        }
        points
    }

    /// Returns a point for each look and the one before it.
    fn observed(&self, value: impl Fn(&Observation, &Observation) -> f64) -> Vec<(f64, f64)> {
        let mut begun_s = 0.0;
        let mut points = Vec::new();
        for measured in &self.phases {
            let pairs = measured.observations.windows(2);
            points.extend(pairs.filter_map(|pair| match pair {
                [before, now] => Some((begun_s + now.at_s, value(before, now))),
                _ => None,
            }));
            begun_s += measured.last().at_s;
        }
        points
    }
}

/// As many means of neighbours as can be seen.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(POINTS_MAX).max(1);
    let mean = |group: &[(f64, f64)]| {
        let count = group.len() as f64;
        let sum = group
            .iter()
            .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / count, sum.1 / count)
    };
    points.chunks(group).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::super::load::Phase;
    use super::*;

    #[test]
    fn long_series_become_means_of_neighbours() {
        let points: Vec<(f64, f64)> = (0..240).map(|second| (f64::from(second), 2.0)).collect();
        let thin = thinned(points);
        assert_eq!(thin.len(), POINTS_MAX);
        assert_eq!(thin[0], (0.5, 2.0));
        assert_eq!(thinned(vec![(1.0, 3.0)]), [(1.0, 3.0)]);
    }

    #[test]
    fn amplification_counts_what_clients_wrote() {
        let report: helenus_loadgen::report::Report = serde_json::from_str(REPORT).expect("a report");
        let seen = Observation {
            cpu_s: [0.5, 0.25, 0.125, 0.125, 0.0],
            written_bytes: 100 * ROW_BYTES as u64,
            ..Observation::default()
        };
        let mut measured = Measured {
            phase: Phase::Mixed,
            report,
            observations: vec![seen],
        };
        assert_eq!(measured.write_amplification(), Some(2.0));
        assert_eq!(measured.cpu_us().iter().sum::<f64>(), 10_000.0);
        measured.phase = Phase::Read;
        assert_eq!(measured.write_amplification(), None);
    }

    const REPORT: &str = r#"{"workload": "", "mode": "", "workers": 1, "threads": 1, "elapsed_s": 1.0, "ops": 100, "errors": 0,
        "errors_by_kind": {}, "error_samples": {}, "unsent": 0, "ops_per_s": 100.0,
        "latency_us": {"mean": 1.0, "p50": 1, "p90": 1, "p95": 1, "p99": 1, "p999": 1, "max": 1}, "spectrum": [],
        "client_cpu_s": 0.0, "client_cpu_us_per_op": 0.0, "generator_us_per_op": 0.0, "client_resident_bytes_max": 0,
        "sent_again": 0, "retried": 0, "refused": 0, "seconds": []}"#;
}
