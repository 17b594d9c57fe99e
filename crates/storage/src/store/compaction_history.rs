//! History of a shard's last compactions, for `system.compaction_history`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::job::JobProgress;

/// Kept of each shard since its start: a busy shard's last hours in some tens of KiB. Cassandra keeps a week's in a table.
const COMPACTIONS_KEPT_MAX: usize = 256;

/// How many partitions were made of how many inputs' parts, by the number of parts.
pub type PartitionsBySources = BTreeMap<u32, u64>;

/// A compaction that has ended well.
#[derive(Clone, Debug)]
pub struct CompactionRecord {
    /// Tells the jobs of a process apart.
    pub number: u64,
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    /// Microseconds since the Unix epoch.
    pub started_at_us: i64,
    pub ended_at_us: i64,
    /// On the disk, before and after.
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub partitions: PartitionsBySources,
    pub kind: &'static str,
}

/// The latest of them, the oldest first.
#[derive(Debug, Default)]
pub struct CompactionHistory {
    records: VecDeque<CompactionRecord>,
}

impl CompactionHistory {
    pub(super) fn note(&mut self, record: CompactionRecord) {
        if self.records.len() == COMPACTIONS_KEPT_MAX {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    pub fn records(&self) -> impl Iterator<Item = &CompactionRecord> {
        self.records.iter()
    }
}

impl CompactionRecord {
    pub(super) fn of_job(progress: &JobProgress, ended_at_us: i64) -> Self {
        CompactionRecord {
            number: progress.number,
            keyspace: Arc::clone(&progress.keyspace),
            table: Arc::clone(&progress.table),
            started_at_us: progress.started_at_us,
            ended_at_us,
            bytes_in: 0,
            bytes_out: 0,
            partitions: PartitionsBySources::new(),
            kind: progress.kind.operation_type(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let mut history = CompactionHistory::default();
        for number in 0..COMPACTIONS_KEPT_MAX as u64 + 3 {
            history.note(CompactionRecord {
                number,
                keyspace: "k".into(),
                table: "t".into(),
                started_at_us: 1,
                ended_at_us: 2,
                bytes_in: 3,
                bytes_out: 4,
                partitions: PartitionsBySources::new(),
                kind: "Compaction",
            });
        }
        let numbers: Vec<u64> = history.records().map(|record| record.number).collect();
        assert_eq!(numbers.len(), COMPACTIONS_KEPT_MAX);
        assert_eq!(
            (numbers[0], numbers.last()),
            (3, Some(&(COMPACTIONS_KEPT_MAX as u64 + 2)))
        );
    }
}
