//! Answers of a node: progress now and then, and at the end what came of it.

use helenus_storage::store::ShardCompactions;
use serde::{Deserialize, Serialize};

use crate::host::ViewBuild;
use crate::import::Imported;
use crate::progress::Unit;
use crate::snapshot::{Created, SnapshotInfo};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// A new task begins.
    Begin {
        task: String,
        unit: Unit,
        total: u64,
    },
    Progress {
        done: u64,
    },
    /// The last line of a request that was carried out.
    Done {
        answer: Answer,
    },
    /// The last line of one that was not.
    Failed {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    SnapshotsCreated(Vec<Created>),
    Snapshots(Vec<SnapshotInfo>),
    SnapshotsRestored(Vec<Imported>),
    SnapshotsRemoved(Vec<SnapshotInfo>),
    Imported(Imported),
    Flushed(TableCount),
    RefusedSsTables(Vec<RefusedSsTable>),
    Compactions(Compactions),
    Compacted(TableCount),
    CompactionsStopped { count: u64 },
    Views(Vec<ViewBuild>),
}

/// An SSTable without which its table is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedSsTable {
    pub keyspace: String,
    pub table: String,
    /// Names the file that is at fault.
    pub reason: String,
}

impl RefusedSsTable {
    /// Advice to an operator about those of a table.
    pub fn advice(keyspace: &str, table: &str) -> String {
        format!(
            "{keyspace}.{table} is read without what these files hold, and keeps all its tombstones. Bring it back from a copy \
             (`helenus snapshot restore`, `helenus sstable import`), or stop the node and run `helenus sstable scrub` on \
             the table's folder, which saves what is good and keeps the originals in a snapshot. Files of another \
             version: have the version that wrote them write a format that this one reads. Then start the node again."
        )
    }
}

/// Compactions of all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compactions {
    pub running: Vec<RunningTask>,
    pub pending: Vec<PendingTasks>,
    /// Since the start.
    pub completed: u64,
    /// Stopped ones too.
    pub failed: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTask {
    pub shard: u16,
    pub keyspace: String,
    pub table: String,
    pub kind: String,
    pub bytes_done: u64,
    pub bytes_total: u64,
    pub sstables: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingTasks {
    pub shard: u16,
    pub keyspace: String,
    pub table: String,
    pub tasks: u64,
    pub requested: u64,
}

impl Compactions {
    pub(super) fn of(shards: &[ShardCompactions]) -> Self {
        let mut all = Compactions::default();
        for shard in shards {
            all.running.extend(shard.running.iter().map(|task| RunningTask {
                shard: shard.shard.0,
                keyspace: task.keyspace.to_string(),
                table: task.table.to_string(),
                kind: task.kind.name().to_owned(),
                bytes_done: task.bytes_done,
                bytes_total: task.bytes_total,
                sstables: task.sstables as u64,
            }));
            all.pending.extend(shard.pending.iter().map(|table| PendingTasks {
                shard: shard.shard.0,
                keyspace: table.keyspace.to_string(),
                table: table.table.to_string(),
                tasks: table.tasks as u64,
                requested: table.requested as u64,
            }));
            all.completed += shard.totals.completed;
            all.failed += shard.totals.failed;
            all.bytes_read += shard.totals.bytes_read;
            all.bytes_written += shard.totals.bytes_written;
        }
        all
    }
}

/// How many tables were flushed or compacted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableCount {
    pub tables: u64,
}
