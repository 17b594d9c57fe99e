//! Requests of each phase, and `helenus bench run` sending them.

use std::time::Duration;

use helenus_loadgen::report::Report;

use super::Distribution;
use crate::compare::load_generator;
use crate::node::Node;
use crate::{TaskError, workspace};

/// In this order, on the same table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Every row once.
    Fill,
    /// Rows are written again.
    Churn,
    Read,
    /// As many reads as writes, while what they write is flushed and compacted.
    Mixed,
    Delete,
}

/// Workload that all phases share.
pub struct Workload {
    pub rows: u64,
    pub distribution: Distribution,
    pub ttl_s: u32,
    /// Class of the table's compaction; the default without.
    pub compaction: Option<&'static str>,
}

const VALUES: usize = 5;
const VALUE_BYTES: usize = 34;
const KEY_BYTES: usize = 8;
/// Bytes that a client writes with one row.
pub const ROW_BYTES: usize = KEY_BYTES + VALUES * VALUE_BYTES;

const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS helenus_loadgen WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE IF NOT EXISTS helenus_loadgen.steady (key bigint PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)";

impl Phase {
    pub const ALL: [Phase; 5] = [
        Phase::Fill,
        Phase::Churn,
        Phase::Read,
        Phase::Mixed,
        Phase::Delete,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Fill => "fill",
            Phase::Churn => "churn",
            Phase::Read => "read",
            Phase::Mixed => "read and write",
            Phase::Delete => "delete",
        }
    }

    /// How many of a hundred requests write a row's values.
    pub fn percent_written(self) -> u64 {
        match self {
            Phase::Fill | Phase::Churn => 100,
            Phase::Mixed => 50,
            Phase::Read | Phase::Delete => 0,
        }
    }
}

impl Workload {
    /// How long it takes to write every row once.
    pub fn fill_duration(&self, rate: u32) -> Duration {
        Duration::from_secs_f64(self.rows as f64 / f64::from(rate.max(1)))
    }

    /// As the load generator reads it.
    fn text(&self, phase: Phase) -> String {
        let of = self.rows;
        let key = match (phase, self.distribution) {
            (Phase::Fill, _) => format!("{{sequence: {{of: {of}}}}}"),
            (_, Distribution::Uniform) => format!("{{uniform: {{of: {of}}}}}"),
            (_, Distribution::Zipf) => format!("{{zipf: {{of: {of}}}}}"),
        };
        let compaction = self.compaction.map_or_else(String::new, |class| {
            format!(" WITH compaction = {{'class': '{class}'}}")
        });
        let mut text = format!(
            "name: steady-state\nschema:\n  - \"{KEYSPACE}\"\n  - \"{TABLE}{compaction}\"\nstatements:\n"
        );
        if matches!(phase, Phase::Fill | Phase::Churn | Phase::Mixed) {
            let expiry = match self.ttl_s {
                0 => String::new(),
                seconds => format!(" USING TTL {seconds}"),
            };
            let values = format!(", {{blob: {{bytes: {VALUE_BYTES}}}}}").repeat(VALUES);
            text.push_str(&format!(
                "  write:\n    cql: INSERT INTO helenus_loadgen.steady (key, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?){expiry}\n    \
                 values: [{key}{values}]\n"
            ));
        }
        if matches!(phase, Phase::Read | Phase::Mixed) {
            text.push_str(&format!(
                "  read:\n    cql: SELECT * FROM helenus_loadgen.steady WHERE key = ?\n    values: [{key}]\n"
            ));
        }
        if phase == Phase::Delete {
            text.push_str(&format!(
                "  delete:\n    cql: DELETE FROM helenus_loadgen.steady WHERE key = ?\n    values: [{key}]\n"
            ));
        }
        text
    }
}

/// An open loop: a server that is late is not asked for less.
pub fn run(
    node: &Node,
    workload: &Workload,
    phase: Phase,
    rate: u32,
    duration: Duration,
    core: &str,
) -> Result<Report, TaskError> {
    load_generator::measure(
        load_generator::command_on_core(core, &[node.address()])
            .args(["--threads", "1"])
            .args(["--rate", &rate.to_string(), "--warm-up", "0s"])
            .args(["--duration", &format!("{:.1}s", duration.as_secs_f64())]),
        &workspace::scratch(&format!("steady-state-load-{}", node.address().ip())),
        &workload.text(phase),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_asks_for_what_it_is_named_after() {
        let workload = Workload {
            rows: 10,
            distribution: Distribution::Zipf,
            ttl_s: 60,
            compaction: Some("LeveledCompactionStrategy"),
        };
        let kinds = |phase| {
            let text = workload.text(phase);
            ["INSERT", "SELECT", "DELETE"].map(|word| text.contains(word))
        };
        assert_eq!(kinds(Phase::Fill), [true, false, false]);
        assert_eq!(kinds(Phase::Mixed), [true, true, false]);
        assert_eq!(kinds(Phase::Delete), [false, false, true]);
        let fill = workload.text(Phase::Fill);
        assert!(fill.contains("sequence: {of: 10}"));
        assert!(fill.contains("c4 blob) WITH compaction = {'class': 'LeveledCompactionStrategy'}\""));
        let churn = workload.text(Phase::Churn);
        assert!(churn.contains("zipf: {of: 10}") && churn.contains("USING TTL 60"));
    }
}
