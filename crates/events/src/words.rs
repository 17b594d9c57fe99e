//! Events in words: a line of the log each.

use std::fmt::{self, Display, Formatter};

use crate::event::Event;

impl Display for Event<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::Started {
                disk_reads,
                has_short_slices,
            } => {
                let slices = match has_short_slices {
                    true => "short slices of the processor",
                    false => "the kernel's usual slices of the processor",
                };
                write!(f, "the disk is read through {disk_reads}; shards have {slices}")
            }
            Event::ShardNotStarted { shard, error } => write!(f, "shard {shard} cannot start: {error}"),
            Event::DiskReadsFailed { shard, error } => {
                write!(f, "shard {shard} cannot read the disk: {error}; restart the node")
            }
            Event::LogFailed { shard, error } => write!(
                f,
                "shard {shard}: {error}; writes are refused until a restart, reads go on"
            ),
            Event::LogStalled { shard, error } => write!(f, "shard {shard}: {error}"),
            Event::SchemaUndecided { error } => write!(
                f,
                "the schema on the disk is unknown ({error}); writes are refused until a restart"
            ),
            Event::WriteSetsUndone { count } => write!(
                f,
                "{count} atomic batches that were being written when the node stopped, none of them acknowledged, are undone"
            ),
            Event::TypeTooLarge { place } => write!(
                f,
                "{place}: the type is larger than can be declared; its values are served as blobs"
            ),
            Event::JobFailed { .. }
            | Event::NotFlushed { .. }
            | Event::NotFlushedAtStop { .. }
            | Event::SsTableDamaged { .. }
            | Event::SsTableRefused { .. }
            | Event::SidecarFault { .. }
            | Event::SnapshotsNotRemoved { .. }
            | Event::SnapshotIncomplete { .. } => self.fmt_storage(f),
            Event::BatchTooLarge { .. }
            | Event::Guardrail { .. }
            | Event::HotPartition { .. }
            | Event::Stall { .. }
            | Event::TraceNotStored { .. }
            | Event::ConnectionsNotAccepted { .. }
            | Event::ConnectionRefused { .. }
            | Event::ControlSocketNotOpened { .. }
            | Event::DoorsNotOpened { .. }
            | Event::ListenerStopped { .. }
            | Event::DrainTimedOut { .. } => self.fmt_serving(f),
        }
    }
}

impl Event<'_> {
    /// Of tables, their files and snapshots.
    fn fmt_storage(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::JobFailed {
                shard,
                job,
                keyspace,
                table,
                error,
            } => write!(f, "shard {shard}: {job} of {keyspace}.{table}: {error}"),
            Event::NotFlushed {
                shard,
                keyspace,
                table,
                error,
            } => write!(
                f,
                "shard {shard}: {keyspace}.{table} cannot be flushed, stays in memory and in the commit log, and is tried \
                 again: {error}; this is said once an hour"
            ),
            Event::NotFlushedAtStop { shard } => write!(
                f,
                "shard {shard}: not everything was flushed; the commit log still has it"
            ),
            Event::SsTableDamaged {
                shard,
                keyspace,
                table,
                sstable,
            } => write!(
                f,
                "shard {shard}: {sstable} of {keyspace}.{table} is damaged and left out of compactions; `helenus sstable \
                 scrub` saves what is good of it"
            ),
            Event::SsTableRefused {
                keyspace,
                table,
                reason,
            } => write!(
                f,
                "{keyspace}.{table} is served without an SSTable that was refused: {reason}"
            ),
            Event::SidecarFault { fault } => fault.fmt(f),
            Event::SnapshotsNotRemoved { error } => write!(f, "expired snapshots: {error}"),
            Event::SnapshotIncomplete { keyspace, table } => write!(
                f,
                "{keyspace}.{table} cannot be flushed: its snapshot is without what it had in memory only"
            ),
            _ => Ok(()),
        }
    }

    /// Of requests and connections.
    fn fmt_serving(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::BatchTooLarge {
                tables,
                bytes,
                bytes_max,
            } => write!(
                f,
                "Batch for [{tables}] is of size {bytes}, exceeding specified threshold of {bytes_max} by {}. (see \
                 batch_size_fail_threshold)",
                bytes.saturating_sub(*bytes_max)
            ),
            Event::Guardrail { violation } => violation.fmt(f),
            Event::HotPartition { shard, report } => write!(f, "shard {shard}: {report}"),
            Event::Stall {
                work,
                held,
                held_max,
                count,
            } => write!(
                f,
                "stall {count}: {work} held the shard for {held:.1?} (longest {held_max:.1?})"
            ),
            Event::TraceNotStored { shard, error } => {
                write!(f, "shard {shard}: a trace was not stored: {error}")
            }
            Event::ConnectionsNotAccepted { error } => write!(f, "cannot accept connections: {error}"),
            Event::ConnectionRefused { reason } => reason.fmt(f),
            Event::ControlSocketNotOpened { error } => error.fmt(f),
            Event::DoorsNotOpened { address, error } => write!(
                f,
                "HTTP and gRPC are not served: cannot listen on {address}: {error}; --grpc names another address"
            ),
            Event::ListenerStopped { error } => write!(f, "a listener has stopped: {error}"),
            Event::DrainTimedOut { drain_timeout } => {
                write!(f, "some requests were not answered within {drain_timeout:?}")
            }
            _ => Ok(()),
        }
    }
}
