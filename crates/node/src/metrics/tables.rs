//! Tables, their files, and the partitions that are asked for most.

use super::descriptor::MetricKind::Gauge;
use super::descriptor::{Metric, Source, Unit};
use super::series::Series;
use super::snapshot::MetricsSnapshot;

/// Hot partitions of each shard on the page: its series come and go with the keys, so they are few.
const HOT_PARTITIONS_MAX: usize = 5;

/// The smallest share of its shard's requests with which a partition is on the page.
const HOT_SHARE_MIN: f64 = 0.01;

pub const METRICS: &[Metric] = &[
    Metric {
        name: "helenus_sstables",
        kind: Gauge,
        unit: Unit::Count,
        help: "SSTables open.",
        source: Source::Shards(|shard| shard.sstables as f64),
    },
    Metric {
        name: "helenus_sstable_sidecars_lost",
        kind: Gauge,
        unit: Unit::Count,
        help: "Blocks.db, Fences.db and Checksums.db files that could not be written or read since the start; their SSTables are used without.",
        source: Source::Shards(|shard| shard.sidecars_lost as f64),
    },
    Metric {
        name: "helenus_sstables_refused",
        kind: Gauge,
        unit: Unit::Count,
        help: "SSTables that could not be opened at the start, by table; reads do without them.",
        source: Source::Labelled {
            labels: &["keyspace", "table"],
            collect: refused_sstables,
        },
    },
    Metric {
        name: "helenus_table_unflushed_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "Memory of tables whose last flush failed: what they hold is in the commit log, and beyond a bound they take no writes.",
        source: Source::Labelled {
            labels: &["shard", "keyspace", "table"],
            collect: unflushed_tables,
        },
    },
    Metric {
        name: "helenus_table_requests_per_second",
        kind: Gauge,
        unit: Unit::PerSecond,
        help: "Requests for partitions by table, of the last seconds.",
        source: Source::Labelled {
            labels: &["shard", "keyspace", "table", "kind"],
            collect: table_requests,
        },
    },
    Metric {
        name: "helenus_hot_partition_requests_per_second",
        kind: Gauge,
        unit: Unit::PerSecond,
        help: "Requests for the hottest partitions, of the last seconds.",
        source: Source::Labelled {
            labels: &["shard", "keyspace", "table", "partition_key"],
            collect: hot_partitions,
        },
    },
];

fn refused_sstables(shard: &MetricsSnapshot, series: &mut Series) {
    for refused in &shard.sstables_refused {
        series.add(&[&refused.keyspace, &refused.table], refused.count as f64);
    }
}

fn unflushed_tables(shard: &MetricsSnapshot, series: &mut Series) {
    for table in &shard.unflushed_tables {
        series.add(&[&shard.shard, &table.keyspace, &table.table], table.bytes as f64);
    }
}

fn table_requests(shard: &MetricsSnapshot, series: &mut Series) {
    for table in &shard.activity.tables {
        for (kind, rate) in [
            ("read", table.reads_per_second),
            ("write", table.writes_per_second),
        ] {
            series.add(
                &[&shard.shard, &table.keyspace, &table.table, &kind],
                rate.round(),
            );
        }
    }
}

fn hot_partitions(shard: &MetricsSnapshot, series: &mut Series) {
    let hottest = shard.activity.partitions.iter().take(HOT_PARTITIONS_MAX);
    for hot in hottest.filter(|hot| hot.share >= HOT_SHARE_MIN) {
        let rate = hot.reads_per_second + hot.writes_per_second;
        series.add(&[&shard.shard, &hot.keyspace, &hot.table, &hot.key], rate.round());
    }
}
