//! Reads: what they pass over, where they find their pages, and what waits.

use super::descriptor::MetricKind::{Counter, Gauge};
use super::descriptor::{Metric, Source, Unit};

pub const METRICS: &[Metric] = &[
    Metric {
        name: "helenus_rows_read_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Live rows read from storage.",
        source: Source::Shards(|shard| shard.rows_read as f64),
    },
    Metric {
        name: "helenus_tombstones_read_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Tombstones passed over by reads.",
        source: Source::Shards(|shard| shard.tombstones_read as f64),
    },
    Metric {
        name: "helenus_disk_reads_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Reads of SSTable files.",
        source: Source::Shards(|shard| shard.read_cost.reads as f64),
    },
    Metric {
        name: "helenus_disk_read_bytes_total",
        kind: Counter,
        unit: Unit::Bytes,
        help: "Bytes of those reads.",
        source: Source::Shards(|shard| shard.read_cost.read_bytes as f64),
    },
    Metric {
        name: "helenus_index_page_hits_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Index pages that reads found in memory.",
        source: Source::Shards(|shard| shard.read_cost.index_hits as f64),
    },
    Metric {
        name: "helenus_index_page_misses_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Index pages that reads did not find in memory.",
        source: Source::Shards(|shard| shard.read_cost.index_misses as f64),
    },
    Metric {
        name: "helenus_index_page_blocks_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Times that a read waited for index pages.",
        source: Source::Shards(|shard| shard.read_cost.index_blocks as f64),
    },
    Metric {
        name: "helenus_data_page_hits_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Data pages that reads found in memory.",
        source: Source::Shards(|shard| shard.read_cost.cache_hits as f64),
    },
    Metric {
        name: "helenus_data_page_misses_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Data pages that reads did not find in memory.",
        source: Source::Shards(|shard| shard.read_cost.cache_misses as f64),
    },
    Metric {
        name: "helenus_data_page_blocks_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Times that a read waited for data pages.",
        source: Source::Shards(|shard| shard.read_cost.cache_blocks as f64),
    },
    Metric {
        name: "helenus_row_cache_hits_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Reads of one partition that needed no SSTable.",
        source: Source::Shards(|shard| shard.row_cache.hits as f64),
    },
    Metric {
        name: "helenus_row_cache_misses_total",
        kind: Counter,
        unit: Unit::Count,
        help: "Reads of one partition that needed one.",
        source: Source::Shards(|shard| shard.row_cache.misses as f64),
    },
    Metric {
        name: "helenus_read_suspensions_total",
        kind: Counter,
        unit: Unit::Count,
        help: "How often reads let others go first: for the disk, or because they are long.",
        source: Source::Shards(|shard| shard.read_suspensions as f64),
    },
    Metric {
        name: "helenus_long_reads_waiting",
        kind: Gauge,
        unit: Unit::Count,
        help: "Scans, aggregates, filtering reads and reads of several partitions that wait for their turn.",
        source: Source::Shards(|shard| shard.long_reads_waiting as f64),
    },
    Metric {
        name: "helenus_long_reads_begun",
        kind: Gauge,
        unit: Unit::Count,
        help: "Those of them that were begun and are not answered yet.",
        source: Source::Shards(|shard| shard.long_reads_begun as f64),
    },
    Metric {
        name: "helenus_disk_reads_waiting",
        kind: Gauge,
        unit: Unit::Count,
        help: "Reads that miss all caches and wait until fewer are under way at the disk.",
        source: Source::Shards(|shard| shard.disk_reads_waiting as f64),
    },
];
