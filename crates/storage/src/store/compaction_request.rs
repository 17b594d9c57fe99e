//! Compactions as an operator sees them: asking for one, stopping them, and how far they are.

use std::sync::Arc;

use helenus_schema::TableId;
use helenus_types::ShardId;

use super::compact::Compaction;
use super::compaction_history::{CompactionHistory, CompactionRecord};
use super::job::{JobError, JobKind, JobProgress, Made};
use super::shard::ShardStore;
use super::table::Table;
use crate::compaction::{Candidate, Moment, Pace, RewriteError, Task};
use helenus_sstable::error::ReadError;
use helenus_sstable::{Component, Descriptor, SsTable};

/// A compaction of one table, on this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionRequest {
    pub table: TableId,
    pub kind: CompactionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// All SSTables into as few as the strategy wants.
    Major {
        /// Size-tiered tables get SSTables of half, a quarter.. of the size instead of one.
        split_output: bool,
    },
    /// SSTables with partitions of other shards. A start has split them, so there is only something to do for what
    /// was adopted since.
    Cleanup,
}

/// Tells requests of one shard apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompactionTicket(pub u64);

#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    pub ticket: CompactionTicket,
    pub kind: CompactionKind,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactError {
    #[error("there is no table {}", id.0)]
    UnknownTable { id: TableId },
    #[error("a node in memory has no SSTables")]
    InMemory,
    #[error("{requests_max} compactions of this table wait already")]
    TooMany { requests_max: usize },
    #[error(
        "whether the last compaction of {keyspace}.{table} has happened is open, because the disk failed; check the disk and \
         restart the node"
    )]
    Undecided { keyspace: String, table: String },
    #[error("the compaction failed on shard {}: {reason}", shard.0)]
    Failed { shard: ShardId, reason: String },
}

/// The compactions of one shard.
#[derive(Clone, Debug)]
pub struct ShardCompactions {
    pub shard: ShardId,
    pub running: Vec<RunningCompaction>,
    /// Tables for which there is something to do besides.
    pub pending: Vec<PendingCompactions>,
    pub totals: CompactionTotals,
    /// SSTables in which compactions found damage, and which they leave out.
    pub suspects: usize,
    /// The part of their time that compactions may work just now, as requests allow it.
    pub pace_share: f64,
    /// SSTables that wait to be merged, of the table that has most of them.
    pub waiting: usize,
}

/// A flush or a compaction under way.
#[derive(Clone, Debug)]
pub struct RunningCompaction {
    /// Tells the jobs of a process apart.
    pub number: u64,
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub kind: JobKind,
    pub bytes_done: u64,
    pub bytes_total: u64,
    /// SSTables that go in.
    pub sstables: usize,
    /// Microseconds since the Unix epoch.
    pub started_at_us: i64,
    pub target_directory: String,
}

#[derive(Clone, Debug)]
pub struct PendingCompactions {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// Asked for by an operator and not begun.
    pub requested: usize,
    /// Compactions that the strategy would do.
    pub tasks: usize,
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionTotals {
    pub completed: u64,
    /// Stopped ones too.
    pub failed: u64,
    /// On the disk, before and after.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Including what they slept.
    pub busy_us: u64,
}

impl CompactionTotals {
    pub(super) fn count(&mut self, record: &CompactionRecord) {
        let elapsed_us = record.ended_at_us.saturating_sub(record.started_at_us);
        self.completed += 1;
        self.bytes_read += record.bytes_in;
        self.bytes_written += record.bytes_out;
        self.busy_us += u64::try_from(elapsed_us).unwrap_or(0);
    }
}

/// More would only repeat each other.
const REQUESTS_MAX: usize = 8;

/// After an operator has stopped the strategy's compactions of a table, how long none begins: time to set the option
/// that keeps them from coming back.
const PAUSE_NS: u64 = 60_000_000_000;

/// So many SSTables of a table wait at most where its compactions keep up: four of each of some sizes, or of level 0.
const WAITING_SSTABLES_USUAL: usize = 16;
/// With so many its reads suffer more from them than from anything that compactions could do.
const WAITING_SSTABLES_MAX: usize = 48;

impl JobKind {
    /// As Cassandra names it in `system_views.sstable_tasks`.
    pub fn name(self) -> &'static str {
        match self {
            JobKind::Flush => "flush",
            JobKind::Compaction => "compaction",
            JobKind::TombstoneCompaction => "tombstone compaction",
            JobKind::MajorCompaction => "major compaction",
            JobKind::Cleanup => "cleanup",
            JobKind::Release => "release",
            JobKind::Removal => "removal",
            JobKind::IndexBuild => "secondary index build",
        }
    }

    /// As Cassandra names it in `system.compaction_history`: `OperationType.type`.
    pub(crate) fn operation_type(self) -> &'static str {
        match self {
            JobKind::Flush => "Flush",
            JobKind::Compaction => "Compaction",
            JobKind::TombstoneCompaction => "Tombstone Compaction",
            JobKind::MajorCompaction => "Major compaction",
            JobKind::Cleanup => "Cleanup",
            JobKind::Release => "Release",
            JobKind::Removal => "Removal",
            JobKind::IndexBuild => "Secondary index build",
        }
    }
}

impl CompactionKind {
    /// `None` if there is nothing to do.
    pub(super) fn task(self, table: &Table, candidates: &[Candidate]) -> Option<Task> {
        match self {
            CompactionKind::Major { split_output } => table.compaction.major(candidates, split_output),
            CompactionKind::Cleanup => None,
        }
    }
}

impl ShardStore {
    /// Has [`ShardStore::next_job`] compact a table, once what runs there has ended.
    pub fn compact(&mut self, request: CompactionRequest) -> Result<CompactionTicket, CompactError> {
        if self.disk.is_none() {
            return Err(CompactError::InMemory);
        }
        let id = request.table;
        let table = self
            .tables
            .get_mut(&id)
            .ok_or(CompactError::UnknownTable { id })?;
        if table.requested.len() >= REQUESTS_MAX {
            return Err(CompactError::TooMany {
                requests_max: REQUESTS_MAX,
            });
        }
        if table.is_undecided {
            let metadata = &table.layout.metadata;
            return Err(CompactError::Undecided {
                keyspace: metadata.keyspace.to_string(),
                table: metadata.name.to_string(),
            });
        }
        let ticket = self.schedule.new_ticket();
        table.requested.push_back(PendingRequest {
            ticket,
            kind: request.kind,
        });
        Ok(ticket)
    }

    /// Returns whether a request waits or is under way.
    pub fn is_compacting(&self, ticket: CompactionTicket) -> bool {
        let waits = |table: &Table| table.requested.iter().any(|request| request.ticket == ticket);
        self.schedule.is_running(ticket) || self.tables.values().any(waits)
    }

    /// How a request has ended that does not wait and is not under way; once. One that was stopped has not failed.
    pub fn compaction_ended(&mut self, ticket: CompactionTicket) -> Result<(), CompactError> {
        let shard = self.shard();
        match self.schedule.take_failure(ticket) {
            None => Ok(()),
            Some(reason) => Err(CompactError::Failed { shard, reason }),
        }
    }

    /// Stops compactions of a table, or of all with `None`, drops requests for them, and begins none for a minute.
    /// Returns how many were running.
    pub fn stop_compactions(&mut self, id: Option<TableId>) -> usize {
        let Some(disk) = &self.disk else { return 0 };
        let until_ns = disk.folder.clock().monotonic_ns() + PAUSE_NS;
        let chosen = self
            .tables
            .iter_mut()
            .filter(|(table, _)| id.is_none_or(|id| id == **table));
        let mut stopped = 0;
        for (_, table) in chosen {
            table.requested.clear();
            table.compactions_paused_until_ns = until_ns;
            let is_stopped =
                |job: &&Arc<JobProgress>| !matches!(job.kind, JobKind::Flush | JobKind::IndexBuild);
            for job in table.jobs.iter().filter(is_stopped) {
                job.stop();
                stopped += 1;
            }
        }
        stopped
    }

    /// How far everything is.
    pub fn compactions(&self) -> ShardCompactions {
        let mut running = Vec::new();
        let mut pending = Vec::new();
        for table in self.tables.values() {
            running.extend(table.jobs.iter().map(|job| RunningCompaction {
                number: job.number,
                keyspace: Arc::clone(&job.keyspace),
                table: Arc::clone(&job.table),
                kind: job.kind,
                bytes_done: job.bytes_done(),
                bytes_total: job.bytes_total,
                sstables: job.sstables,
                started_at_us: job.started_at_us,
                target_directory: job.directory.display().to_string(),
            }));
            let Some(disk) = &self.disk else { continue };
            let moment = table.moment(disk.folder.clock().wall_s(), disk.folder.shard_count());
            let tasks = table.compaction.pending(&table.candidates(&moment), &moment);
            if tasks > 0 || !table.requested.is_empty() {
                pending.push(PendingCompactions {
                    keyspace: Arc::clone(&table.layout.metadata.keyspace),
                    table: Arc::clone(&table.layout.metadata.name),
                    requested: table.requested.len(),
                    tasks,
                });
            }
        }
        running.sort_by_key(|job| job.number);
        pending.sort_by(|left, right| (&left.keyspace, &left.table).cmp(&(&right.keyspace, &right.table)));
        ShardCompactions {
            shard: self.shard(),
            running,
            pending,
            totals: self.schedule.totals,
            suspects: self.tables.values().map(|table| table.suspects.len()).sum(),
            pace_share: self.schedule.pace.share(),
            waiting: self.sstables_waiting(),
        }
    }

    /// Since the start of the process.
    pub fn compaction_history(&self) -> &CompactionHistory {
        &self.schedule.history
    }

    /// Returns the pace, which sets the speed of this shard's compactions.
    pub fn compaction_pace(&self) -> &Arc<Pace> {
        &self.schedule.pace
    }

    /// Returns whether any compaction is under way.
    pub fn has_compactions(&self) -> bool {
        self.tables.values().any(|table| !table.compacting.is_empty())
    }

    /// How much compactions must hurry, from 0 to 1. What they take from writes then keeps their number bounded.
    pub fn compaction_urgency(&self) -> f64 {
        let waiting = self.sstables_waiting().saturating_sub(WAITING_SSTABLES_USUAL);
        (waiting as f64 / (WAITING_SSTABLES_MAX - WAITING_SSTABLES_USUAL) as f64).min(1.0)
    }

    fn sstables_waiting(&self) -> usize {
        self.tables.values().map(|table| table.waiting).max().unwrap_or(0)
    }
}

impl Table {
    pub(super) fn moment(&self, now_s: u32, ring_parts: u16) -> Moment {
        let gc_before_s = if self.holds_unknown() {
            0
        } else {
            now_s.saturating_sub(self.layout.metadata.params.gc_grace_seconds)
        };
        Moment {
            now_s,
            gc_before_s,
            memtable_timestamp_min: self.memtable_min_timestamp_us(),
            flush_bytes: self.flush_bytes,
            ring_parts,
            idle_levels: self.idle_levels,
            merge_yield: self.merge_yield,
        }
    }

    /// Counts the SSTables that wait to be merged, after some came or went: compactions look only when they have room for another one.
    pub(super) fn count_waiting(&mut self, now_s: u32, ring_parts: u16) {
        let moment = self.moment(now_s, ring_parts);
        self.waiting = self.compaction.waiting(&self.candidates(&moment), &moment);
    }

    /// Returns whether tombstones may hide what strategies do not see: then none counts as droppable.
    fn holds_unknown(&self) -> bool {
        self.has_refused || !self.suspects.is_empty() || self.is_rewritten()
    }

    /// If a compaction failed for damage in one of its inputs, that one is left alone from now on, so that the others
    /// are compacted. Returns it.
    pub(super) fn suspect_of(&mut self, compaction: &Compaction, error: &JobError) -> Option<Descriptor> {
        let JobError::Rewrite(RewriteError::Read(ReadError::Corrupt { file, .. })) = error else {
            return None;
        };
        let name = file.file_name()?.to_str()?;
        if name.ends_with(Component::Blocks.file_suffix()) {
            // The next try does without it.
            return None;
        }
        let suspect = compaction
            .replaced()
            .map(|input| input.descriptor())
            .find(|descriptor| {
                name.strip_prefix(&descriptor.to_string())
                    .is_some_and(|component| component.starts_with('-'))
            })?;
        self.suspects.push(suspect);
        Some(suspect)
    }

    /// The SSTables as strategies see them, the oldest first; they are named by their place among them.
    pub(super) fn candidates(&self, moment: &Moment) -> Vec<Candidate> {
        let by_age = self.sstables_by_age().into_iter().enumerate();
        by_age
            .filter(|(_, sstable)| !self.suspects.contains(&sstable.descriptor()))
            .map(|(place, sstable)| {
                let statistics = sstable.statistics();
                let generation = sstable.descriptor();
                let is_settled = self.settled.contains(&generation);
                Candidate {
                    generation: place as u64,
                    bytes: sstable.disk_bytes(),
                    level: statistics.level,
                    timestamp_min: statistics.timestamp_us_min,
                    timestamp_max: statistics.timestamp_us_max,
                    local_deletion_s_max: statistics.local_deletion_s_max,
                    first: sstable.first_token(),
                    last: sstable.last_token(),
                    partitions: statistics.partition_count(),
                    keys: sstable.keys().cloned(),
                    droppable_tombstones: if is_settled {
                        0.0
                    } else {
                        statistics.droppable_tombstone_ratio(moment.gc_before_s)
                    },
                    created_at_s: self.created_at_s.get(&generation).copied().unwrap_or(0),
                    is_busy: self.compacting.contains(&generation),
                }
            })
            .collect()
    }

    /// A task with the SSTables that it means.
    pub(super) fn compaction_of(&self, task: &Task) -> Compaction {
        let mut compaction = Compaction {
            inputs: Vec::new(),
            expired: Vec::new(),
            others: Vec::new(),
            memtable_min_timestamp_us: self.memtable_min_timestamp_us(),
            shape: task.output,
            is_relabelling: task.is_relabelling,
            // Suspects are among the others, whose timestamps limit what goes.
            purges: !self.compaction.tombstones.only_purge_repaired
                && !self.has_refused
                && !self.is_rewritten(),
        };
        for (place, sstable) in self.sstables_by_age().into_iter().enumerate() {
            let place = place as u64;
            let side = if task.inputs.contains(&place) {
                &mut compaction.inputs
            } else if task.expired.contains(&place) {
                &mut compaction.expired
            } else {
                &mut compaction.others
            };
            side.push(Arc::clone(sstable));
        }
        compaction
    }

    fn sstables_by_age(&self) -> Vec<&Arc<SsTable>> {
        let mut by_age: Vec<&Arc<SsTable>> = self.sstables.iter().collect();
        by_age.sort_by_key(|sstable| sstable.descriptor());
        by_age
    }

    /// Takes in SSTables that this process wrote.
    pub(super) fn sstables_made(&mut self, made: impl IntoIterator<Item = Made>, now_s: u32) {
        for Made { sstable, terms } in made {
            self.created_at_s.insert(sstable.descriptor(), now_s);
            self.indexes.add(sstable.descriptor(), terms);
            self.add_sstables([sstable]);
        }
    }

    /// Forgets what was known of SSTables that are no longer the table's.
    pub(super) fn forget_replaced(&mut self) {
        let sstables = &self.sstables;
        let is_there = |generation| sstables.iter().any(|sstable| sstable.descriptor() == generation);
        self.settled.retain(|generation| is_there(*generation));
        self.suspects.retain(|generation| is_there(*generation));
        self.created_at_s.retain(|generation, _| is_there(*generation));
        self.indexes.forget_replaced(is_there);
    }

    /// A moving average, a fifth of it new.
    pub(super) fn note_flush(&mut self, bytes: u64) {
        self.flush_bytes = if self.flush_bytes == 0 {
            bytes
        } else {
            (self.flush_bytes * 4 + bytes) / 5
        };
    }
}
