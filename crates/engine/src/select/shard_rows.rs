//! Reads of a SELECT on a shard, and the rows that answer them.

use std::sync::Arc;

use helenus_types::ShardId;

use super::bound::BoundClause;
use super::paging::Position;
use super::read_partitions::ReadPartitions;

/// Next read of a SELECT on one shard.
#[derive(Clone, Debug)]
pub struct ShardRead {
    pub shard: ShardId,
    pub partitions: ReadPartitions,
    pub(super) clause: Arc<BoundClause>,
    /// Only what comes after this row.
    pub(super) after: Option<Position>,
    pub(super) rows_max: u32,
    pub(super) rows_left_in_partition: u32,
    pub(super) rows_per_partition_max: u32,
}

/// A shard's answer: rows, each as its fetched values, and where it stopped.
#[derive(Clone, Debug, Default)]
pub struct ShardRows {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
    /// Where to go on; none if the shard has nothing more.
    pub(super) stopped_at: Option<Position>,
    pub(super) rows_left_in_partition: u32,
    /// The page ends here although more rows would fit.
    pub(super) is_cut: bool,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
}

impl ShardRows {
    /// Returns whether the answer to a read that was made ahead is the one that `read`, of the same target, would have: it was not ended
    /// by how many rows it was to have.
    pub fn is_whole(&self, read: &ShardRead) -> bool {
        self.count < read.rows_max
    }
}
