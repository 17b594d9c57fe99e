//! Flushes and compactions.

use super::MICROSECONDS_PER_SECOND;
use super::descriptor::MetricKind::{Counter, Gauge};
use super::descriptor::{Metric, Source, Unit};
use super::snapshot::MetricsSnapshot;

pub const METRICS: &[Metric] = &[
    Metric {
        name: "helenus_compaction_running",
        kind: Gauge,
        unit: Unit::Count,
        help: "Flushes and compactions under way.",
        source: Source::Shards(|shard| shard.compactions.running.len() as f64),
    },
    Metric {
        name: "helenus_compaction_pending_tasks",
        kind: Gauge,
        unit: Unit::Count,
        help: "Compactions that strategies want.",
        source: Source::Shards(|shard| pending_tasks(shard) as f64),
    },
    Metric {
        name: "helenus_compaction_waiting_sstables",
        kind: Gauge,
        unit: Unit::Count,
        help: "SSTables that wait to be merged, of the table that has most of them; from 16 to 48 compactions hurry more and more.",
        source: Source::Shards(|shard| shard.compactions.waiting as f64),
    },
    Metric {
        name: "helenus_compaction_completed_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Compactions done.",
        source: Source::Shards(|shard| shard.compactions.totals.completed as f64),
    },
    Metric {
        name: "helenus_compaction_failed_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Compactions that failed or were stopped.",
        source: Source::Shards(|shard| shard.compactions.totals.failed as f64),
    },
    Metric {
        name: "helenus_compaction_suspect_sstables",
        kind: Gauge,
        unit: Unit::Count,
        help: "SSTables in which compactions found damage, and which they leave out.",
        source: Source::Shards(|shard| shard.compactions.suspects as f64),
    },
    Metric {
        name: "helenus_compaction_read_bytes_total",
        kind: Counter,
        unit: Unit::Bytes,
        help: "Bytes of SSTables that were compacted.",
        source: Source::Shards(|shard| shard.compactions.totals.bytes_read as f64),
    },
    Metric {
        name: "helenus_compaction_written_bytes_total",
        kind: Counter,
        unit: Unit::Bytes,
        help: "Bytes of SSTables that compactions made.",
        source: Source::Shards(|shard| shard.compactions.totals.bytes_written as f64),
    },
    Metric {
        name: "helenus_compaction_busy_seconds_total",
        kind: Counter,
        unit: Unit::Seconds,
        help: "Time that compactions took, rests included.",
        source: Source::Shards(|shard| shard.compactions.totals.busy_us as f64 / MICROSECONDS_PER_SECOND),
    },
    Metric {
        name: "helenus_compaction_pace_ratio",
        kind: Gauge,
        unit: Unit::Ratio,
        help: "The part of their time that compactions may work, as requests allow it.",
        source: Source::Shards(|shard| shard.compactions.pace_share),
    },
];

fn pending_tasks(shard: &MetricsSnapshot) -> usize {
    let tables = shard.compactions.pending.iter();
    tables.map(|table| table.tasks).sum()
}
