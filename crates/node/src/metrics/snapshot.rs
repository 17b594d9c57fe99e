//! A copy of one shard's counters, which may leave its thread.

use std::sync::Arc;

use helenus_protocol::ErrorCode;
use helenus_sstable::{PageLevel, ReadCost};
use helenus_storage::ShardStore;
use helenus_storage::row_cache::RowCacheCounts;
use helenus_storage::store::{ShardCompactions, UnflushedTable};
use helenus_transport::TransportContext;
use helenus_transport::latency::LatencyCounts;
use helenus_transport::metrics::ConnectionRefusal;

use super::counters::ShardMetrics;
use super::request_kind::RequestKind;
use crate::hot_partitions::Activity;

/// A copy of one shard's counters, with what only the shard can tell.
#[derive(Clone, Debug)]
pub struct MetricsSnapshot {
    pub shard: u16,
    pub requests: [u64; RequestKind::NAMES.len()],
    pub latencies: [LatencyCounts; RequestKind::NAMES.len()],
    pub errors: [u64; ErrorCode::ALL.len()],
    pub forwarded: u64,
    pub connections: u64,
    pub connections_accepted: u64,
    /// Those that never got to send a request; counted where they were accepted.
    pub connections_refused: [u64; ConnectionRefusal::NAMES.len()],
    pub rows_read: u64,
    pub tombstones_read: u64,
    pub index_reads: u64,
    pub expired_rows_deleted: u64,
    pub read_cost: ReadCost,
    /// How often reads let others go first: for the disk, or because they are long.
    pub read_suspensions: u64,
    pub selects_at_once: u64,
    pub prepared_statements: u64,
    pub prepared_statements_evicted: u64,
    /// Executions of prepared statements, and statements that came as text; those of batches count as neither.
    pub prepared_executed: u64,
    pub texts_executed: u64,
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
    /// Bytes of decompressed pages.
    pub page_cache_bytes: u64,
    /// Bytes of pages as they lie in their files.
    pub packed_page_cache_bytes: u64,
    /// Bytes that both may hold at the moment.
    pub page_cache_bytes_max: u64,
    pub row_cache_bytes: u64,
    pub row_cache_bytes_max: u64,
    pub row_cache: RowCacheCounts,
    pub sstables: u64,
    /// Refused SSTables of all shards: they were refused before it was known whose they are. Only the first shard tells.
    pub sstables_refused: Vec<RefusedCount>,
    pub unflushed_tables: Vec<UnflushedTable>,
    pub sstable_memory_bytes: u64,
    pub sidecars_lost: u64,
    pub compactions: ShardCompactions,
    pub activity: Activity,
    /// Requests answered as overload because they were for the heaviest partition.
    pub shed: u64,
}

/// Numbers of statements and reads that a shard holds at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    pub prepared_statements: u64,
    pub prepared_statements_evicted: u64,
    pub long_reads_waiting: u64,
    pub long_reads_begun: u64,
    pub disk_reads_waiting: u64,
}

impl ShardMetrics {
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
            latencies: self.latencies.counts(),
            errors: std::array::from_fn(|index| self.errors[index].get() + refused_unread[index]),
            forwarded: self.forwarded.get(),
            connections: connections.open(),
            connections_accepted: connections.accepted(),
            connections_refused: connections.refused(),
            rows_read: self.rows_read.get(),
            tombstones_read: self.tombstones_read.get(),
            index_reads: self.index_reads.get(),
            expired_rows_deleted: self.expired_rows_deleted.get(),
            read_cost: self.read_cost.get(),
            read_suspensions: self.read_suspensions.get(),
            selects_at_once: self.selects_at_once.get(),
            prepared_statements: gauges.prepared_statements,
            prepared_statements_evicted: gauges.prepared_statements_evicted,
            prepared_executed: self.prepared_executed.get(),
            texts_executed: self.texts_executed.get(),
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
