//! Results of measurements, as they are stored.

use serde::{Deserialize, Serialize};

use super::workload::{GoodputWorkload, RequestSize};

/// Results of one server's measurements.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GoodputReport {
    pub label: String,
    pub deadline_ms: f64,
    pub connections: usize,
    /// Requests without an answer on one connection; what was due beyond them was not sent.
    #[serde(default)]
    pub in_flight_max: usize,
    /// True if clients asked to be told of overload by errors. All did in reports of before there was a choice.
    #[serde(default = "always")]
    pub throws_on_overload: bool,
    /// Requests in flight on one connection of the closed loop that told the capacity; 0 where several were tried and the best
    /// counted.
    #[serde(default)]
    pub capacity_in_flight: usize,
    /// How long due requests were gathered before they were written.
    #[serde(default = "usual_gather_us")]
    pub gather_us: u64,
    /// Length of the load that was offered in each round before anything counted, in seconds.
    #[serde(default)]
    pub warm_up_s: f64,
    #[serde(default)]
    pub rounds: u32,
    pub size: RequestSize,
    pub curves: Vec<Curve>,
    #[serde(default)]
    pub disturbances: Vec<Disturbance>,
    #[serde(default)]
    pub mixes: Vec<Mix>,
}

fn always() -> bool {
    true
}

/// In reports of before there was a choice.
fn usual_gather_us() -> u64 {
    200
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    pub workload: GoodputWorkload,
    /// Answered in a closed loop, a second.
    pub capacity_per_s: f64,
    pub points: Vec<Point>,
    pub recoveries: Vec<Recovery>,
    /// The server's memory while ten times the capacity were offered: seconds and resident bytes.
    pub resident: Vec<(f64, u64)>,
}

/// One load. Rates are of requests by when they were to be sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    pub multiple: f64,
    pub intended_per_s: f64,
    /// Given to a connection.
    pub sent_per_s: f64,
    /// The median of the rounds; everything else is of all rounds together.
    pub good_per_s: f64,
    /// Goodput of each round.
    #[serde(default)]
    pub good_rounds_per_s: Vec<f64>,
    /// Goodput as a share of the best load's at or below the capacity in the same round, from 0 to above 1; the median of the rounds.
    #[serde(default)]
    pub of_best: Option<f64>,
    /// Served, but later than the deadline; those that were never answered are among them.
    pub late_per_s: f64,
    /// Not answered by the end of the load, nor in a second after it.
    #[serde(default)]
    pub unanswered_per_s: f64,
    pub refused_per_s: f64,
    pub failed_per_s: f64,
    /// Not sent because the connection had as many requests in flight as it may. In reports of before: or because the server did not
    /// read it within the deadline.
    pub held_back_per_s: f64,
    /// Not sent within the deadline because the generator was too slow.
    pub not_generated_per_s: f64,
    /// Latencies of served requests: the median, then the 99th percentile and the longest.
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub control_p99_us: u64,
    /// Processor time of the server, as a share of one core.
    pub server_cpu: Option<f64>,
    pub resident_bytes: Option<u64>,
    /// Seconds of which this tells.
    #[serde(default)]
    pub counted_s: f64,
    /// The share of one processor's time that the hypervisor gave to others meanwhile: above zero if there was not enough
    /// quiet time.
    #[serde(default)]
    pub stolen: f64,
    /// The longest time in which the generator did not look at what was due, the warm-up included.
    #[serde(default)]
    pub pause_us_max: u32,
}

/// How long after an overload requests were refused, late or not sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recovery {
    pub multiple: f64,
    pub overload_s: f64,
    /// The median. `None` if it did not recover within the second that was looked at.
    pub recovery_ms: Option<u32>,
    /// Recovery times of all looks, the shortest first.
    #[serde(default)]
    pub all_ms: Vec<Option<u32>>,
    /// Share of the windows of 10 ms before the overload, at the same load, that were not normal either.
    #[serde(default)]
    pub abnormal_before: f64,
    /// The hypervisor took a processor away meanwhile, however often it was tried.
    #[serde(default)]
    pub is_disturbed: bool,
}

/// Disturbance of a server at four fifths of its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DisturbanceKind {
    /// Nothing.
    Steady,
    /// Its process is stopped (SIGSTOP).
    Stall,
    /// It is offered more than it can do.
    Burst,
}

/// Outcomes of requests while and after something happened to the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Disturbance {
    pub workload: GoodputWorkload,
    pub kind: DisturbanceKind,
    pub capacity_per_s: f64,
    /// Load before and after, as a share of the capacity.
    pub load: f64,
    /// Load meanwhile, as a share of the capacity; 0 if the server was stopped.
    pub meanwhile: f64,
    /// How long it lasted.
    pub length_ms: u32,
    pub window_ms: u32,
    /// Windows of all looks together.
    pub windows: Vec<DisturbedWindow>,
    /// When 100 ms began in which nothing was refused, in milliseconds behind the end; by look, the shortest first. `None` where there
    /// were none.
    pub unrefused_from_ms: Vec<Option<u32>>,
    /// When the last request that was refused was due, in milliseconds behind the end; by look, the shortest first. `None` where that
    /// went on to the end of what was looked at.
    pub refused_until_ms: Vec<Option<u32>>,
    /// The same of the last request that was not answered in time.
    pub bad_until_ms: Vec<Option<u32>>,
    /// Looks in which the hypervisor took a processor away; they count only where there are no others.
    pub looks_stolen: u32,
}

/// Requests that were due in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DisturbedWindow {
    /// From the end of the disturbance; below zero before it.
    pub from_ms: i32,
    pub good: u64,
    pub late: u64,
    pub refused: u64,
    pub failed: u64,
    pub unsent: u64,
}

impl DisturbedWindow {
    pub fn due(&self) -> u64 {
        self.good + self.late + self.refused + self.failed + self.unsent
    }

    /// Returns `count` as a share of the requests that were due, from 0 to 1.
    pub fn share(&self, count: u64) -> f64 {
        count as f64 / self.due().max(1) as f64
    }
}

/// Kind of mix: which loads have to live with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixKind {
    /// Nine of ten requests are point reads within the capacity, one is an aggregate, ten times as many as can be done.
    Aggregates,
    /// One of sixteen connections sends a hundred times what each of the others sends.
    GreedyConnection,
    /// One of sixteen tables is sent a hundred times what each of the others is sent, over the same connections.
    GreedyTable,
    /// The same of one user, who has half of the connections.
    GreedyUser,
}

/// A load that behaves, by itself and beside another one that does not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mix {
    pub kind: MixKind,
    pub workload: GoodputWorkload,
    /// Capacity of the load that behaves, by itself.
    pub capacity_per_s: f64,
    pub alone: Figures,
    pub beside: Figures,
    /// Goodput beside the other load as a share of that without it; the median of the rounds.
    pub kept: f64,
    pub kept_rounds: Vec<f64>,
    pub other_workload: GoodputWorkload,
    pub other_capacity_per_s: f64,
    pub other: Figures,
}

/// Outcomes of one part of a mix, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub intended_per_s: f64,
    pub good_per_s: f64,
    pub late_per_s: f64,
    pub refused_per_s: f64,
    pub failed_per_s: f64,
    /// No stream was free, or this process was too slow.
    pub unsent_per_s: f64,
    pub p50_us: u64,
    pub p99_us: u64,
}

impl Recovery {
    /// The longest of all looks; `None` if one never ended.
    pub fn worst_ms(&self) -> Option<u32> {
        self.all_ms.last().copied().unwrap_or(self.recovery_ms)
    }
}

impl Curve {
    /// The most that was answered in time under any load in its median round, a second.
    pub fn peak_per_s(&self) -> f64 {
        self.points
            .iter()
            .map(|point| point.good_per_s)
            .fold(0.0, f64::max)
    }

    pub fn point(&self, multiple: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.multiple == multiple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_before_there_were_choices_is_read_as_what_it_was() {
        let text = r#"{"label": "x", "deadline_ms": 10.0, "connections": 16, "in_flight_max": 1024, "size": "heavy",
            "curves": [{"workload": "uniform-reads", "capacity_per_s": 1.0, "points": [], "recoveries": [], "resident": []}]}"#;
        let report: GoodputReport = serde_json::from_str(text).unwrap();
        assert!(report.throws_on_overload && report.disturbances.is_empty() && report.mixes.is_empty());
        assert_eq!((report.gather_us, report.capacity_in_flight), (200, 0));
    }
}
