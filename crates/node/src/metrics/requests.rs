//! Connections and requests, and what became of them.

use std::sync::atomic::Ordering;

use helenus_protocol::ErrorCode;
use helenus_transport::latency::LatencyCounts;
use helenus_transport::metrics::ConnectionRefusal;

use super::descriptor::MetricKind::{Counter, Gauge, Histogram};
use super::descriptor::{Metric, Source, Unit};
use super::histogram::Distributions;
use super::request_kind::RequestKind;
use super::series::Series;
use super::snapshot::MetricsSnapshot;
use super::{DOOR_CONNECTIONS, MICROSECONDS_PER_SECOND, PANICS};

pub const METRICS: &[Metric] = &[
    Metric {
        name: "helenus_panics_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Panics caught; each one is a bug.",
        source: Source::Process(|| PANICS.load(Ordering::Relaxed) as f64),
    },
    Metric {
        name: "helenus_connections",
        kind: Gauge,
        unit: Unit::Count,
        help: "Open CQL connections.",
        source: Source::Shards(|shard| shard.connections as f64),
    },
    Metric {
        name: "helenus_door_connections",
        kind: Gauge,
        unit: Unit::Count,
        help: "Open connections of HTTP and gRPC.",
        source: Source::Process(|| DOOR_CONNECTIONS.load(Ordering::Relaxed) as f64),
    },
    Metric {
        name: "helenus_connections_accepted_total",
        kind: Counter,
        unit: Unit::Count,
        help: "CQL connections since the start.",
        source: Source::Shards(|shard| shard.connections_accepted as f64),
    },
    Metric {
        name: "helenus_connections_refused_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Connections that never got to send a request, by reason.",
        source: Source::Labelled {
            labels: &["shard", "reason"],
            collect: connections_refused,
        },
    },
    Metric {
        name: "helenus_cql_requests_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Statements taken, by kind.",
        source: Source::Labelled {
            labels: &["shard", "kind"],
            collect: requests,
        },
    },
    Metric {
        name: "helenus_cql_request_duration_seconds",
        kind: Histogram,
        unit: Unit::Seconds,
        help: "Time from a statement's arrival to its answer's way to the client, by kind; of many statements some are measured, each for those around it.",
        source: Source::Distributions {
            labels: &["kind"],
            collect: latencies,
        },
    },
    Metric {
        name: "helenus_cql_errors_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Error responses, by type.",
        source: Source::Labelled {
            labels: &["shard", "type"],
            collect: errors,
        },
    },
    Metric {
        name: "helenus_cql_requests_refused_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Requests refused unread because they had waited too long or memory was short.",
        source: Source::Shards(|shard| shard.refused as f64),
    },
    Metric {
        name: "helenus_cql_requests_shed_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Requests refused before others because they were for a partition or a table that took most of what their shard could do.",
        source: Source::Shards(|shard| shard.shed as f64),
    },
    Metric {
        name: "helenus_queue_delay_seconds",
        kind: Gauge,
        unit: Unit::Seconds,
        help: "The longest that a request may have waited before its shard saw it, of the last 20 ms with any.",
        source: Source::Shards(|shard| shard.queue_delay_us as f64 / MICROSECONDS_PER_SECOND),
    },
    Metric {
        name: "helenus_forwarded_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Statements sent to the shard that owns the partition.",
        source: Source::Shards(|shard| shard.forwarded as f64),
    },
    Metric {
        name: "helenus_prepared_statements",
        kind: Gauge,
        unit: Unit::Count,
        help: "Prepared statements held.",
        source: Source::Shards(|shard| shard.prepared_statements as f64),
    },
    Metric {
        name: "helenus_prepared_statements_evicted_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Prepared statements that made room for others: their clients have to prepare them again.",
        source: Source::Shards(|shard| shard.prepared_statements_evicted as f64),
    },
];

fn requests(shard: &MetricsSnapshot, series: &mut Series) {
    for (kind, count) in RequestKind::NAMES.iter().zip(shard.requests) {
        series.add(&[&shard.shard, kind], count as f64);
    }
}

fn latencies(shard: &MetricsSnapshot, distributions: &mut Distributions) {
    for (kind, latency) in RequestKind::NAMES.iter().zip(&shard.latencies) {
        let bounds_s = (0..).map_while(LatencyCounts::bound_us).map(seconds);
        distributions.add(&[kind], bounds_s, &latency.counts, seconds(latency.sum_us));
    }
}

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / MICROSECONDS_PER_SECOND
}

fn connections_refused(shard: &MetricsSnapshot, series: &mut Series) {
    let reasons = ConnectionRefusal::NAMES.iter().zip(shard.connections_refused);
    for (reason, count) in reasons.filter(|(_, count)| *count > 0) {
        series.add(&[&shard.shard, reason], count as f64);
    }
}

fn errors(shard: &MetricsSnapshot, series: &mut Series) {
    let types = ErrorCode::ALL.iter().zip(shard.errors);
    for (code, count) in types.filter(|(_, count)| *count > 0) {
        series.add(&[&shard.shard, &format_args!("{code:?}")], count as f64);
    }
}
