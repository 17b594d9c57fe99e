//! The events there are.

use std::fmt::Display;
use std::time::Duration;

/// How much an event matters to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing to do: the node is as it should be.
    Info,
    /// Something was done without, refused or put off.
    Warn,
    /// Writes are refused or data is missing until somebody does something.
    Error,
}

/// Something that happened to a node. [`Display`] is one line in words; [`Event::fields`] has its parts.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Event<'e> {
    /// The first shard is open.
    Started {
        disk_reads: &'e str,
        has_short_slices: bool,
    },
    ShardNotStarted {
        shard: u16,
        error: &'e dyn Display,
    },
    /// The kernel took no reads; those that wait for them get no answer from the disk.
    DiskReadsFailed {
        shard: u16,
        error: &'e dyn Display,
    },
    /// The commit log failed for good.
    LogFailed {
        shard: u16,
        error: &'e dyn Display,
    },
    /// The commit log cannot go on for now; its writes wait.
    LogStalled {
        shard: u16,
        error: &'e dyn Display,
    },
    /// A file of the commit log that is of no more use is still there.
    LogSegmentNotRemoved {
        shard: u16,
        error: &'e dyn Display,
    },
    SchemaUndecided {
        error: &'e dyn Display,
    },
    /// A flush, compaction or removal failed; said once until something changes.
    JobFailed {
        shard: u16,
        job: &'e str,
        keyspace: &'e str,
        table: &'e str,
        error: &'e dyn Display,
    },
    /// A table stays in memory and in the commit log, and is tried again.
    NotFlushed {
        shard: u16,
        keyspace: &'e str,
        table: &'e str,
        error: &'e dyn Display,
    },
    NotFlushedAtStop {
        shard: u16,
    },
    /// Compactions leave it out.
    SsTableDamaged {
        shard: u16,
        keyspace: &'e str,
        table: &'e str,
        sstable: &'e dyn Display,
    },
    SsTableRefused {
        keyspace: &'e str,
        table: &'e str,
        reason: &'e dyn Display,
    },
    /// A component that only this server writes is done without.
    SidecarFault {
        fault: &'e dyn Display,
    },
    WriteSetsUndone {
        count: u64,
    },
    TypeTooLarge {
        place: &'e dyn Display,
    },
    SnapshotsNotRemoved {
        error: &'e dyn Display,
    },
    SnapshotIncomplete {
        keyspace: &'e str,
        table: &'e str,
    },
    /// A batch above `batch_size_fail_threshold`.
    BatchTooLarge {
        tables: &'e str,
        bytes: u64,
        bytes_max: u64,
    },
    /// A partition, row or collection above a guardrail, found in a flush or compaction.
    Guardrail {
        violation: &'e dyn Display,
    },
    HotPartition {
        shard: u16,
        report: &'e dyn Display,
    },
    /// A shard's thread was held for long.
    Stall {
        work: &'e str,
        held: Duration,
        held_max: Duration,
        count: u64,
    },
    TraceNotStored {
        shard: u16,
        error: &'e dyn Display,
    },
    ConnectionsNotAccepted {
        error: &'e dyn Display,
    },
    ConnectionRefused {
        reason: &'e dyn Display,
    },
    ListenerStopped {
        error: &'e dyn Display,
    },
    /// The node serves without the operator's commands.
    ControlSocketNotOpened {
        error: &'e dyn Display,
    },
    /// The node serves CQL, and neither HTTP nor gRPC.
    DoorsNotOpened {
        address: &'e dyn Display,
        error: &'e dyn Display,
    },
    /// The node serves, and its page for Prometheus is not there.
    MetricsNotOpened {
        address: &'e dyn Display,
        error: &'e dyn Display,
    },
    DrainTimedOut {
        drain_timeout: Duration,
    },
    /// The node serves, and can be stopped, but not replaced.
    HandoverNotOffered {
        error: &'e dyn Display,
    },
    /// Another process serves in place of this one.
    Replaced {
        process: u64,
        connections: u64,
        /// From when this process took no more to when the other one did.
        away: Duration,
    },
    /// Another process was to serve and does not; this one goes on.
    NotReplaced {
        error: &'e dyn Display,
    },
}

/// One part of an event.
#[derive(Clone, Copy)]
pub enum Field<'f> {
    Text(&'f dyn Display),
    Number(u64),
    Flag(bool),
}

impl Event<'_> {
    pub fn level(&self) -> Level {
        match self {
            Event::Started { .. } | Event::HotPartition { .. } | Event::Replaced { .. } => Level::Info,
            Event::ShardNotStarted { .. }
            | Event::DiskReadsFailed { .. }
            | Event::LogFailed { .. }
            | Event::SchemaUndecided { .. }
            | Event::NotFlushed { .. }
            | Event::SsTableDamaged { .. }
            | Event::SsTableRefused { .. }
            | Event::ListenerStopped { .. } => Level::Error,
            _ => Level::Warn,
        }
    }

    /// Subject of the event.
    pub fn target(&self) -> &'static str {
        match self {
            Event::Started { .. } | Event::ShardNotStarted { .. } | Event::Stall { .. } => "shard",
            Event::DiskReadsFailed { .. } => "disk",
            Event::LogFailed { .. }
            | Event::LogStalled { .. }
            | Event::LogSegmentNotRemoved { .. }
            | Event::WriteSetsUndone { .. } => "commitlog",
            Event::SchemaUndecided { .. } | Event::TypeTooLarge { .. } => "schema",
            Event::JobFailed { .. }
            | Event::NotFlushed { .. }
            | Event::NotFlushedAtStop { .. }
            | Event::SsTableDamaged { .. }
            | Event::SsTableRefused { .. }
            | Event::SidecarFault { .. } => "storage",
            Event::SnapshotsNotRemoved { .. } | Event::SnapshotIncomplete { .. } => "snapshot",
            Event::BatchTooLarge { .. } | Event::Guardrail { .. } => "guardrails",
            Event::HotPartition { .. } => "overload",
            Event::TraceNotStored { .. } => "tracing",
            Event::ConnectionsNotAccepted { .. }
            | Event::ConnectionRefused { .. }
            | Event::ListenerStopped { .. }
            | Event::ControlSocketNotOpened { .. }
            | Event::DoorsNotOpened { .. }
            | Event::MetricsNotOpened { .. }
            | Event::DrainTimedOut { .. }
            | Event::HandoverNotOffered { .. }
            | Event::Replaced { .. }
            | Event::NotReplaced { .. } => "transport",
        }
    }

    /// Kind of the event, for programs that read the log.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Started { .. } => "started",
            Event::ShardNotStarted { .. } => "shard_not_started",
            Event::DiskReadsFailed { .. } => "disk_reads_failed",
            Event::LogFailed { .. } => "log_failed",
            Event::LogStalled { .. } => "log_stalled",
            Event::LogSegmentNotRemoved { .. } => "log_segment_not_removed",
            Event::SchemaUndecided { .. } => "schema_undecided",
            Event::JobFailed { .. } => "job_failed",
            Event::NotFlushed { .. } => "not_flushed",
            Event::NotFlushedAtStop { .. } => "not_flushed_at_stop",
            Event::SsTableDamaged { .. } => "sstable_damaged",
            Event::SsTableRefused { .. } => "sstable_refused",
            Event::SidecarFault { .. } => "sidecar_fault",
            Event::WriteSetsUndone { .. } => "write_sets_undone",
            Event::TypeTooLarge { .. } => "type_too_large",
            Event::SnapshotsNotRemoved { .. } => "snapshots_not_removed",
            Event::SnapshotIncomplete { .. } => "snapshot_incomplete",
            Event::BatchTooLarge { .. } => "batch_too_large",
            Event::Guardrail { .. } => "guardrail",
            Event::HotPartition { .. } => "hot_partition",
            Event::Stall { .. } => "stall",
            Event::TraceNotStored { .. } => "trace_not_stored",
            Event::ConnectionsNotAccepted { .. } => "connections_not_accepted",
            Event::ConnectionRefused { .. } => "connection_refused",
            Event::ListenerStopped { .. } => "listener_stopped",
            Event::ControlSocketNotOpened { .. } => "control_socket_not_opened",
            Event::DoorsNotOpened { .. } => "doors_not_opened",
            Event::MetricsNotOpened { .. } => "metrics_not_opened",
            Event::DrainTimedOut { .. } => "drain_timed_out",
            Event::HandoverNotOffered { .. } => "handover_not_offered",
            Event::Replaced { .. } => "replaced",
            Event::NotReplaced { .. } => "not_replaced",
        }
    }

    /// Hands out the parts that a program filters by: where it happened, and numbers.
    pub fn fields(&self, take: &mut dyn FnMut(&'static str, Field<'_>)) {
        match *self {
            Event::Started {
                disk_reads,
                has_short_slices,
            } => {
                take("disk_reads", Field::Text(&disk_reads));
                take("has_short_slices", Field::Flag(has_short_slices));
            }
            Event::ShardNotStarted { shard, .. }
            | Event::DiskReadsFailed { shard, .. }
            | Event::LogFailed { shard, .. }
            | Event::LogStalled { shard, .. }
            | Event::LogSegmentNotRemoved { shard, .. }
            | Event::NotFlushedAtStop { shard }
            | Event::HotPartition { shard, .. }
            | Event::TraceNotStored { shard, .. } => take("shard", Field::Number(shard.into())),
            Event::JobFailed {
                shard,
                job,
                keyspace,
                table,
                ..
            } => {
                take("shard", Field::Number(shard.into()));
                take("job", Field::Text(&job));
                take("keyspace", Field::Text(&keyspace));
                take("table", Field::Text(&table));
            }
            Event::NotFlushed {
                shard,
                keyspace,
                table,
                ..
            }
            | Event::SsTableDamaged {
                shard,
                keyspace,
                table,
                ..
            } => {
                take("shard", Field::Number(shard.into()));
                take("keyspace", Field::Text(&keyspace));
                take("table", Field::Text(&table));
            }
            Event::SsTableRefused { keyspace, table, .. } | Event::SnapshotIncomplete { keyspace, table } => {
                take("keyspace", Field::Text(&keyspace));
                take("table", Field::Text(&table));
            }
            Event::WriteSetsUndone { count } => take("count", Field::Number(count)),
            Event::BatchTooLarge {
                tables,
                bytes,
                bytes_max,
            } => {
                take("tables", Field::Text(&tables));
                take("bytes", Field::Number(bytes));
                take("bytes_max", Field::Number(bytes_max));
            }
            Event::Stall {
                work, held, count, ..
            } => {
                take("work", Field::Text(&work));
                take("held_us", Field::Number(microseconds(held)));
                take("count", Field::Number(count));
            }
            _ => self.fields_of_transport(take),
        }
    }

    fn fields_of_transport(&self, take: &mut dyn FnMut(&'static str, Field<'_>)) {
        if let Event::Replaced {
            process,
            connections,
            away,
        } = *self
        {
            take("process", Field::Number(process));
            take("connections", Field::Number(connections));
            take("away_us", Field::Number(microseconds(away)));
        }
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
