//! Memory, by what it is taken for.

use super::descriptor::MetricKind::{Counter, Gauge};
use super::descriptor::{Metric, Source, Unit};

pub const METRICS: &[Metric] = &[
    Metric {
        name: "helenus_request_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "Memory of requests and answers on their way.",
        source: Source::Shards(|shard| shard.request_bytes as f64),
    },
    Metric {
        name: "helenus_memtable_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "Memory of memtables.",
        source: Source::Shards(|shard| shard.memtable_bytes as f64),
    },
    Metric {
        name: "helenus_page_cache_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "Memory of decompressed pages of SSTables kept for reads.",
        source: Source::Shards(|shard| shard.page_cache_bytes as f64),
    },
    Metric {
        name: "helenus_packed_page_cache_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "Memory of compressed pages of SSTables kept for reads, as they lie in their files.",
        source: Source::Shards(|shard| shard.packed_page_cache_bytes as f64),
    },
    Metric {
        name: "helenus_page_cache_max_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "What pages of SSTables may take at the moment; caches share their memory by what it saves.",
        source: Source::Shards(|shard| shard.page_cache_bytes_max as f64),
    },
    Metric {
        name: "helenus_row_cache_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "Memory of the row cache.",
        source: Source::Shards(|shard| shard.row_cache_bytes as f64),
    },
    Metric {
        name: "helenus_row_cache_max_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "What the row cache may take at the moment.",
        source: Source::Shards(|shard| shard.row_cache_bytes_max as f64),
    },
    Metric {
        name: "helenus_row_cache_evicted_bytes_total",
        kind: Counter,
        unit: Unit::Bytes,
        help: "Bytes that the row cache has let go of for others.",
        source: Source::Shards(|shard| shard.row_cache.evicted_bytes as f64),
    },
    Metric {
        name: "helenus_sstable_memory_bytes",
        kind: Gauge,
        unit: Unit::Bytes,
        help: "Memory of open SSTables: filters, samples and pinned pages of indexes, checksums.",
        source: Source::Shards(|shard| shard.sstable_memory_bytes as f64),
    },
];
