//! The partitions that updates are of.

use helenus_rows::update::Update;
use helenus_schema::TableId;
use helenus_types::{ShardId, Token, token_of};

use crate::built_updates::UpdatesByShard;

/// A partition that a batch writes to.
pub(crate) type WrittenPartition = (TableId, Token);

pub(crate) fn partitions_of(updates: &UpdatesByShard) -> Vec<(ShardId, WrittenPartition)> {
    let partitions = updates
        .iter()
        .flat_map(|(owner, updates)| updates.iter().map(|update| (*owner, partition_of(update))));
    partitions
        .filter_map(|(owner, partition)| Some((owner, partition?)))
        .collect()
}

pub(crate) fn partition_of(update: &[u8]) -> Option<WrittenPartition> {
    Update::decode_trusted(update).map(|update| (update.table, token_of(update.partition_key)))
}

pub(crate) fn partitions_in(updates: &[Vec<u8>]) -> Vec<WrittenPartition> {
    updates.iter().filter_map(|update| partition_of(update)).collect()
}
