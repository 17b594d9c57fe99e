//! Counters of one shard. Plain integers that only their shard touches; the metrics page asks each shard for a copy.

use std::cell::Cell;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helenus_protocol::ErrorCode;
use helenus_sstable::{PageLevel, ReadCost};
use helenus_storage::ShardStore;
use helenus_storage::read::ReadStatistics;
use helenus_storage::row_cache::RowCacheCounts;
use helenus_storage::store::{ShardCompactions, UnflushedTable};
use helenus_transport::TransportContext;
use helenus_transport::metrics::ConnectionRefusal;

use crate::hot_partitions::Activity;

/// Panics caught at a request's boundary or in a shard's task, over the life of the process. Each one is a bug.
pub static PANICS: AtomicU64 = AtomicU64::new(0);

/// The kinds of statement that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum RequestKind {
    Read,
    Write,
    Batch,
    Prepare,
    Other,
}

const REQUEST_KIND_NAMES: [&str; 5] = ["read", "write", "batch", "prepare", "other"];

#[derive(Default)]
pub struct ShardMetrics {
    requests: [Cell<u64>; REQUEST_KIND_NAMES.len()],
    errors: [Cell<u64>; ErrorCode::ALL.len()],
    forwarded: Cell<u64>,
    rows_read: Cell<u64>,
    tombstones_read: Cell<u64>,
    read_cost: Cell<ReadCost>,
    read_suspensions: Cell<u64>,
}

/// A copy of one shard's counters, with what only the shard can tell.
#[derive(Clone, Debug)]
pub struct MetricsSnapshot {
    pub shard: u16,
    pub requests: [u64; REQUEST_KIND_NAMES.len()],
    pub errors: [u64; ErrorCode::ALL.len()],
    pub forwarded: u64,
    pub connections: u64,
    pub connections_accepted: u64,
    /// Those that never got to send a request; counted where they were accepted.
    pub connections_refused: [u64; ConnectionRefusal::NAMES.len()],
    pub rows_read: u64,
    pub tombstones_read: u64,
    pub read_cost: ReadCost,
    /// How often reads let others go first: for the disk, or because they are long.
    pub read_suspensions: u64,
    pub prepared_statements: u64,
    /// Requests answered as overload before anything of them was looked at.
    pub refused: u64,
    pub queue_delay_us: u64,
    /// Reads that are not answered at once: those that wait for their turn, and those that were begun.
    pub long_reads_waiting: u64,
    pub long_reads_begun: u64,
    /// Reads that wait until the disk has been asked for less.
    pub disk_reads_waiting: u64,
    pub request_bytes: u64,
    pub memtable_bytes: u64,
    /// Of decompressed pages.
    pub page_cache_bytes: u64,
    /// Of pages as they lie in their files.
    pub packed_page_cache_bytes: u64,
    /// What both may hold at the moment.
    pub page_cache_bytes_max: u64,
    pub row_cache_bytes: u64,
    pub row_cache_bytes_max: u64,
    pub row_cache: RowCacheCounts,
    pub sstables: u64,
    /// Of all shards: they were refused before it was known whose they are. Only the first shard tells.
    pub sstables_refused: Vec<RefusedCount>,
    pub unflushed_tables: Vec<UnflushedTable>,
    pub sstable_memory_bytes: u64,
    pub sidecars_lost: u64,
    pub compactions: ShardCompactions,
    pub activity: Activity,
    /// Requests answered as overload because they were for the heaviest partition.
    pub shed: u64,
}

/// What a shard holds at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    pub prepared_statements: u64,
    pub long_reads_waiting: u64,
    pub long_reads_begun: u64,
    pub disk_reads_waiting: u64,
}

impl ShardMetrics {
    pub fn count_request(&self, kind: RequestKind) {
        add(&self.requests[kind as usize], 1);
    }

    pub fn count_error(&self, code: ErrorCode) {
        if let Some(index) = ErrorCode::ALL.iter().position(|&known| known == code) {
            add(&self.errors[index], 1);
        }
    }

    pub fn count_forwarded(&self) {
        add(&self.forwarded, 1);
    }

    pub fn count_read(&self, statistics: &ReadStatistics) {
        add(&self.rows_read, statistics.rows_live);
        add(&self.tombstones_read, statistics.tombstones);
        let mut cost = self.read_cost.get();
        cost.add(statistics.cost);
        self.read_cost.set(cost);
    }

    pub fn count_suspension(&self) {
        add(&self.read_suspensions, 1);
    }

    pub fn snapshot(
        &self,
        shard: u16,
        transport: &TransportContext,
        gauges: &Gauges,
        store: &ShardStore,
        activity: Activity,
        shed: u64,
    ) -> MetricsSnapshot {
        let admission = &transport.admission;
        let connections = &transport.metrics;
        let refused_unread = connections.errors();
        MetricsSnapshot {
            shard,
            requests: std::array::from_fn(|index| self.requests[index].get()),
            errors: std::array::from_fn(|index| self.errors[index].get() + refused_unread[index]),
            forwarded: self.forwarded.get(),
            connections: connections.open(),
            connections_accepted: connections.accepted(),
            connections_refused: connections.refused(),
            rows_read: self.rows_read.get(),
            tombstones_read: self.tombstones_read.get(),
            read_cost: self.read_cost.get(),
            read_suspensions: self.read_suspensions.get(),
            prepared_statements: gauges.prepared_statements,
            refused: admission.refused(),
            queue_delay_us: admission.queue_delay_us(),
            long_reads_waiting: gauges.long_reads_waiting,
            long_reads_begun: gauges.long_reads_begun,
            disk_reads_waiting: gauges.disk_reads_waiting,
            request_bytes: admission.charged_bytes() as u64,
            memtable_bytes: store.memtable_bytes() as u64,
            page_cache_bytes: store.page_cache_bytes(PageLevel::Decompressed) as u64,
            packed_page_cache_bytes: store.page_cache_bytes(PageLevel::Packed) as u64,
            page_cache_bytes_max: store.page_cache_bytes_max() as u64,
            row_cache_bytes: store.row_cache_bytes() as u64,
            row_cache_bytes_max: store.row_cache_bytes_max() as u64,
            row_cache: store.row_cache_counts(),
            sstables: store.sstable_count() as u64,
            sstables_refused: if shard == 0 {
                refused_by_table(store)
            } else {
                Vec::new()
            },
            sstable_memory_bytes: store.sstable_memory_bytes(),
            sidecars_lost: store.lost_sidecars(),
            unflushed_tables: store.unflushed_tables(),
            compactions: store.compactions(),
            activity,
            shed,
        }
    }
}

/// SSTables of one table that were found at the start and could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCount {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub count: u64,
}

fn refused_by_table(store: &ShardStore) -> Vec<RefusedCount> {
    let mut counts: Vec<RefusedCount> = Vec::new();
    for refused in store.refused_sstables() {
        let of_table =
            |count: &&mut RefusedCount| count.keyspace == refused.keyspace && count.table == refused.table;
        match counts.iter_mut().find(of_table) {
            Some(count) => count.count += 1,
            None => counts.push(RefusedCount {
                keyspace: Arc::clone(&refused.keyspace),
                table: Arc::clone(&refused.table),
                count: 1,
            }),
        }
    }
    counts
}

fn add(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get() + amount);
}

/// The page that Prometheus reads: text exposition format 0.0.4.
pub fn render(snapshots: &[MetricsSnapshot]) -> String {
    let mut page = Page {
        text: String::with_capacity(8 * 1024),
    };
    page.family(
        "helenus_panics_total",
        "counter",
        "Panics caught; each one is a bug.",
    );
    page.sample("helenus_panics_total", "", PANICS.load(Ordering::Relaxed));
    page.family(
        "helenus_cql_requests_total",
        "counter",
        "Statements taken, by kind.",
    );
    for snapshot in snapshots {
        for (name, count) in REQUEST_KIND_NAMES.iter().zip(snapshot.requests) {
            let labels = format!("shard=\"{}\",kind=\"{name}\"", snapshot.shard);
            page.sample("helenus_cql_requests_total", &labels, count);
        }
    }
    page.family(
        "helenus_connections_refused_total",
        "counter",
        "Connections that never got to send a request, by reason.",
    );
    for snapshot in snapshots {
        for (name, count) in ConnectionRefusal::NAMES.iter().zip(snapshot.connections_refused) {
            if count > 0 {
                let labels = format!("shard=\"{}\",reason=\"{name}\"", snapshot.shard);
                page.sample("helenus_connections_refused_total", &labels, count);
            }
        }
    }
    page.family("helenus_cql_errors_total", "counter", "Error responses, by kind.");
    for snapshot in snapshots {
        for (code, count) in ErrorCode::ALL.iter().zip(snapshot.errors) {
            if count > 0 {
                let labels = format!("shard=\"{}\",type=\"{code:?}\"", snapshot.shard);
                page.sample("helenus_cql_errors_total", &labels, count);
            }
        }
    }
    type Value = fn(&MetricsSnapshot) -> u64;
    let families: [(&str, &str, &str, Value); 33] = [
        (
            "helenus_forwarded_total",
            "counter",
            "Statements sent to the shard that owns the partition.",
            |s| s.forwarded,
        ),
        ("helenus_connections", "gauge", "Open CQL connections.", |s| {
            s.connections
        }),
        (
            "helenus_connections_accepted_total",
            "counter",
            "CQL connections since the start.",
            |s| s.connections_accepted,
        ),
        (
            "helenus_rows_read_total",
            "counter",
            "Live rows read from storage.",
            |s| s.rows_read,
        ),
        (
            "helenus_tombstones_read_total",
            "counter",
            "Tombstones passed over by reads.",
            |s| s.tombstones_read,
        ),
        (
            "helenus_disk_reads_total",
            "counter",
            "Reads of SSTable files.",
            |s| s.read_cost.reads,
        ),
        (
            "helenus_disk_read_bytes_total",
            "counter",
            "Bytes of those reads.",
            |s| s.read_cost.read_bytes,
        ),
        (
            "helenus_index_page_hits_total",
            "counter",
            "Index pages that reads found in memory.",
            |s| s.read_cost.index_hits,
        ),
        (
            "helenus_index_page_misses_total",
            "counter",
            "Index pages that reads did not find in memory.",
            |s| s.read_cost.index_misses,
        ),
        (
            "helenus_index_page_blocks_total",
            "counter",
            "Times that a read waited for index pages.",
            |s| s.read_cost.index_blocks,
        ),
        (
            "helenus_data_page_hits_total",
            "counter",
            "Data pages that reads found in memory.",
            |s| s.read_cost.cache_hits,
        ),
        (
            "helenus_data_page_misses_total",
            "counter",
            "Data pages that reads did not find in memory.",
            |s| s.read_cost.cache_misses,
        ),
        (
            "helenus_data_page_blocks_total",
            "counter",
            "Times that a read waited for data pages.",
            |s| s.read_cost.cache_blocks,
        ),
        (
            "helenus_read_suspensions_total",
            "counter",
            "How often reads let others go first: for the disk, or because they are long.",
            |s| s.read_suspensions,
        ),
        (
            "helenus_prepared_statements",
            "gauge",
            "Prepared statements held.",
            |s| s.prepared_statements,
        ),
        (
            "helenus_cql_requests_refused_total",
            "counter",
            "Requests refused unread because they had waited too long or memory was short.",
            |s| s.refused,
        ),
        (
            "helenus_queue_delay_microseconds",
            "gauge",
            "The longest that a request may have waited before its shard saw it, of the last 20 ms with any.",
            |s| s.queue_delay_us,
        ),
        (
            "helenus_long_reads_waiting",
            "gauge",
            "Scans, aggregates, filtering reads and reads of several partitions that wait for their turn.",
            |s| s.long_reads_waiting,
        ),
        (
            "helenus_long_reads_begun",
            "gauge",
            "Those of them that were begun and are not answered yet.",
            |s| s.long_reads_begun,
        ),
        (
            "helenus_disk_reads_waiting",
            "gauge",
            "Reads that miss all caches and wait until fewer are under way at the disk.",
            |s| s.disk_reads_waiting,
        ),
        (
            "helenus_request_bytes",
            "gauge",
            "Memory of requests and answers on their way.",
            |s| s.request_bytes,
        ),
        ("helenus_memtable_bytes", "gauge", "Memory of memtables.", |s| {
            s.memtable_bytes
        }),
        (
            "helenus_page_cache_bytes",
            "gauge",
            "Memory of decompressed pages of SSTables kept for reads.",
            |s| s.page_cache_bytes,
        ),
        (
            "helenus_packed_page_cache_bytes",
            "gauge",
            "Memory of compressed pages of SSTables kept for reads, as they lie in their files.",
            |s| s.packed_page_cache_bytes,
        ),
        (
            "helenus_page_cache_max_bytes",
            "gauge",
            "What pages of SSTables may take at the moment; caches share their memory by what it saves.",
            |s| s.page_cache_bytes_max,
        ),
        (
            "helenus_row_cache_bytes",
            "gauge",
            "Memory of the row cache.",
            |s| s.row_cache_bytes,
        ),
        (
            "helenus_row_cache_max_bytes",
            "gauge",
            "What the row cache may take at the moment.",
            |s| s.row_cache_bytes_max,
        ),
        (
            "helenus_row_cache_hits_total",
            "counter",
            "Reads of one partition that needed no SSTable.",
            |s| s.row_cache.hits,
        ),
        (
            "helenus_row_cache_misses_total",
            "counter",
            "Reads of one partition that needed one.",
            |s| s.row_cache.misses,
        ),
        (
            "helenus_row_cache_evicted_bytes_total",
            "counter",
            "Bytes that the row cache has let go of for others.",
            |s| s.row_cache.evicted_bytes,
        ),
        ("helenus_sstables", "gauge", "SSTables open.", |s| s.sstables),
        (
            "helenus_sstable_memory_bytes",
            "gauge",
            "Memory of open SSTables: filters, samples and pinned pages of indexes, checksums.",
            |s| s.sstable_memory_bytes,
        ),
        (
            "helenus_sstable_sidecars_lost",
            "gauge",
            "Blocks.db and Checksums.db files that could not be written or read since the start; their SSTables are used without.",
            |s| s.sidecars_lost,
        ),
    ];
    for (name, kind, help, value) in families {
        page.family(name, kind, help);
        for snapshot in snapshots {
            page.sample(name, &format!("shard=\"{}\"", snapshot.shard), value(snapshot));
        }
    }
    refused(&mut page, snapshots);
    unflushed(&mut page, snapshots);
    compactions(&mut page, snapshots);
    activity(&mut page, snapshots);
    page.text
}

fn refused(page: &mut Page, snapshots: &[MetricsSnapshot]) {
    let name = "helenus_sstables_refused";
    page.family(
        name,
        "gauge",
        "SSTables that could not be opened at the start, by table; reads do without them.",
    );
    for refused in snapshots.iter().flat_map(|snapshot| &snapshot.sstables_refused) {
        let labels = format!("keyspace=\"{}\",table=\"{}\"", refused.keyspace, refused.table);
        page.sample(name, &labels, refused.count);
    }
}

fn unflushed(page: &mut Page, snapshots: &[MetricsSnapshot]) {
    let name = "helenus_table_unflushed_bytes";
    page.family(
        name,
        "gauge",
        "Memory of tables whose last flush failed: what they hold is in the commit log, and beyond a bound they take no writes.",
    );
    for snapshot in snapshots {
        for table in &snapshot.unflushed_tables {
            let labels = format!(
                "shard=\"{}\",keyspace=\"{}\",table=\"{}\"",
                snapshot.shard, table.keyspace, table.table
            );
            page.sample(name, &labels, table.bytes);
        }
    }
}

/// Hot partitions of each shard on the page: its series come and go with the keys, so they are few.
const HOT_PARTITIONS_MAX: usize = 5;

/// The smallest share of its shard's requests with which a partition is on the page.
const HOT_SHARE_MIN: f64 = 0.01;

fn activity(page: &mut Page, snapshots: &[MetricsSnapshot]) {
    let name = "helenus_cql_requests_shed_total";
    page.family(
        name,
        "counter",
        "Requests refused because they were for their shard's heaviest partition while requests waited.",
    );
    for snapshot in snapshots {
        page.sample(name, &format!("shard=\"{}\"", snapshot.shard), snapshot.shed);
    }
    let name = "helenus_table_requests_per_second";
    page.family(
        name,
        "gauge",
        "Requests for partitions by table, of the last seconds.",
    );
    for snapshot in snapshots {
        for table in &snapshot.activity.tables {
            for (kind, rate) in [
                ("read", table.reads_per_second),
                ("write", table.writes_per_second),
            ] {
                let labels = format!(
                    "shard=\"{}\",keyspace=\"{}\",table=\"{}\",kind=\"{kind}\"",
                    snapshot.shard, table.keyspace, table.table
                );
                page.sample(name, &labels, rate.round() as u64);
            }
        }
    }
    let name = "helenus_hot_partition_requests_per_second";
    page.family(
        name,
        "gauge",
        "Requests for the hottest partitions, of the last seconds.",
    );
    for snapshot in snapshots {
        let hottest = snapshot.activity.partitions.iter().take(HOT_PARTITIONS_MAX);
        for hot in hottest.filter(|hot| hot.share >= HOT_SHARE_MIN) {
            let labels = format!(
                "shard=\"{}\",keyspace=\"{}\",table=\"{}\",partition_key=\"{}\"",
                snapshot.shard,
                hot.keyspace,
                hot.table,
                escaped(&hot.key)
            );
            page.sample(
                name,
                &labels,
                (hot.reads_per_second + hot.writes_per_second).round() as u64,
            );
        }
    }
}

/// A label's value as the exposition format has it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The page's samples: name, labels and value of each.
pub fn samples(page: &str) -> impl Iterator<Item = (&str, &str, f64)> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}')?),
            None => (series, ""),
        };
        Some((name, labels, value.parse().ok()?))
    })
}

fn compactions(page: &mut Page, snapshots: &[MetricsSnapshot]) {
    type Value = fn(&ShardCompactions) -> u64;
    let families: [(&str, &str, &str, Value); 9] = [
        (
            "helenus_compaction_running",
            "gauge",
            "Flushes and compactions under way.",
            |c| c.running.len() as u64,
        ),
        (
            "helenus_compaction_pending_tasks",
            "gauge",
            "Compactions that strategies want.",
            |c| c.pending.iter().map(|table| table.tasks as u64).sum(),
        ),
        (
            "helenus_compaction_completed_total",
            "counter",
            "Compactions done.",
            |c| c.totals.completed,
        ),
        (
            "helenus_compaction_failed_total",
            "counter",
            "Compactions that failed or were stopped.",
            |c| c.totals.failed,
        ),
        (
            "helenus_compaction_suspect_sstables",
            "gauge",
            "SSTables in which compactions found damage, and which they leave out.",
            |c| c.suspects as u64,
        ),
        (
            "helenus_compaction_read_bytes_total",
            "counter",
            "Bytes of SSTables that were compacted.",
            |c| c.totals.bytes_read,
        ),
        (
            "helenus_compaction_written_bytes_total",
            "counter",
            "Bytes of SSTables that compactions made.",
            |c| c.totals.bytes_written,
        ),
        (
            "helenus_compaction_busy_microseconds_total",
            "counter",
            "Time that compactions took, rests included.",
            |c| c.totals.busy_us,
        ),
        (
            "helenus_compaction_pace_permille",
            "gauge",
            "The part of their time that compactions may work, as requests allow it.",
            |c| (c.pace_share * 1000.0) as u64,
        ),
    ];
    for (name, kind, help, value) in families {
        page.family(name, kind, help);
        for snapshot in snapshots {
            let labels = format!("shard=\"{}\"", snapshot.shard);
            page.sample(name, &labels, value(&snapshot.compactions));
        }
    }
}

struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &str, value: u64) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _infallible = writeln!(self.text, "{line}");
    }
}
