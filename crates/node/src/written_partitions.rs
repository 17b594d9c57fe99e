//! The partitions that updates are of.

use helenus_rows::update::PackedUpdate;
use helenus_schema::TableId;
use helenus_types::{ShardId, Token};

use crate::built_updates::UpdatesByShard;

/// A partition that a batch writes to.
pub(crate) type WrittenPartition = (TableId, Token);

pub(crate) fn partitions_of(updates: &UpdatesByShard) -> Vec<(ShardId, WrittenPartition)> {
    let partitions = updates
        .iter()
        .flat_map(|(owner, updates)| updates.iter().map(|update| (*owner, update.partition())));
    partitions.collect()
}

pub(crate) fn partitions_in(updates: &[PackedUpdate]) -> Vec<WrittenPartition> {
    updates.iter().map(PackedUpdate::partition).collect()
}
