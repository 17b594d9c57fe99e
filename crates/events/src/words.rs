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
            Event::LogSegmentNotRemoved { shard, error } => write!(
                f,
                "shard {shard}: {error}; all of this segment of the commit log is in SSTables, and to remove it is tried again"
            ),
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
            _ => self.fmt_storage(f),
        }
    }
}

impl Event<'_> {
    /// Formats events of tables, their files and snapshots, and what comes after them.
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
            _ => self.fmt_serving(f),
        }
    }

    /// Formats events of requests and connections.
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
            Event::MetricsNotOpened { address, error } => write!(
                f,
                "metrics are not served: cannot listen on {address}: {error}; --metrics names another address"
            ),
            Event::ListenerStopped { error } => write!(f, "a listener has stopped: {error}"),
            Event::DrainTimedOut { drain_timeout } => {
                write!(f, "some requests were not answered within {drain_timeout:?}")
            }
            Event::HandoverNotOffered { error } => write!(
                f,
                "the node serves and can be stopped, but not replaced by `helenus serve --replace`: {error}"
            ),
            Event::Replaced {
                process,
                connections,
                away,
            } => write!(
                f,
                "process {process} serves in place of this one, with {connections} of its connections; for {} ms nobody \
                 was answered",
                away.as_millis()
            ),
            Event::NotReplaced { error } => {
                write!(
                    f,
                    "this process goes on serving, the one that was to replace it does not: {error}"
                )
            }
            // All others are above.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    fn every_event() -> Vec<Event<'static>> {
        let (shard, keyspace, table, said): (_, _, _, &dyn Display) = (0, "k", "t", &"why");
        let error = said;
        vec![
            Event::Started {
                disk_reads: "threads",
                has_short_slices: true,
            },
            Event::ShardNotStarted { shard, error },
            Event::DiskReadsFailed { shard, error },
            Event::LogFailed { shard, error },
            Event::LogStalled { shard, error },
            Event::LogSegmentNotRemoved { shard, error },
            Event::SchemaUndecided { error },
            Event::JobFailed {
                shard,
                job: "a flush",
                keyspace,
                table,
                error,
            },
            Event::NotFlushed {
                shard,
                keyspace,
                table,
                error,
            },
            Event::NotFlushedAtStop { shard },
            Event::SsTableDamaged {
                shard,
                keyspace,
                table,
                sstable: said,
            },
            Event::SsTableRefused {
                keyspace,
                table,
                reason: said,
            },
            Event::SidecarFault { fault: said },
            Event::WriteSetsUndone { count: 1 },
            Event::TypeTooLarge { place: said },
            Event::SnapshotsNotRemoved { error },
            Event::SnapshotIncomplete { keyspace, table },
            Event::BatchTooLarge {
                tables: "k.t",
                bytes: 2,
                bytes_max: 1,
            },
            Event::Guardrail { violation: said },
            Event::HotPartition { shard, report: said },
            Event::Stall {
                work: "a task",
                held: Duration::ZERO,
                held_max: Duration::ZERO,
                count: 1,
            },
            Event::TraceNotStored { shard, error },
            Event::ConnectionsNotAccepted { error },
            Event::ConnectionRefused { reason: said },
            Event::ListenerStopped { error },
            Event::ControlSocketNotOpened { error },
            Event::DoorsNotOpened { address: said, error },
            Event::MetricsNotOpened { address: said, error },
            Event::DrainTimedOut {
                drain_timeout: Duration::ZERO,
            },
            Event::HandoverNotOffered { error },
            Event::Replaced {
                process: 4711,
                connections: 12,
                away: Duration::from_millis(80),
            },
            Event::NotReplaced { error },
        ]
    }

    #[test]
    fn every_event_is_a_line_and_the_document_has_it() {
        let document = include_str!("../../../docs/operating/log.md");
        let rows = document.lines().filter(|line| line.starts_with("| `"));
        let first = rows.filter_map(|row| row.split('|').nth(1));
        let documented: BTreeSet<&str> = first
            .flat_map(|names| names.split('`').skip(1).step_by(2))
            .collect();
        let events = every_event();
        let names: BTreeSet<&str> = events.iter().map(Event::name).collect();
        assert_eq!(names, documented);
        for event in events {
            let line = event.to_string();
            assert!(
                !line.is_empty() && !line.contains('\n'),
                "{}: {line:?}",
                event.name()
            );
        }
    }
}
