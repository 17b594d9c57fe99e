//! Requests beside the limits of their partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_types::ShardId;

use crate::shard::Shard;
use crate::written_partitions::WrittenPartition;

impl Shard {
    /// Has the owners of a batch's partitions look at their limits before anything of it is written. What was admitted
    /// of a batch that is refused is counted all the same.
    pub(crate) async fn check_rates_everywhere(
        self: &Rc<Self>,
        partitions: Vec<(ShardId, WrittenPartition)>,
    ) -> Result<(), CqlError> {
        let mut by_shard: BTreeMap<ShardId, BTreeSet<WrittenPartition>> = BTreeMap::new();
        for (owner, partition) in partitions {
            by_shard.entry(owner).or_default().insert(partition);
        }
        let checked = self.on_each_with(by_shard, |shard, partitions| async move {
            partitions
                .into_iter()
                .try_for_each(|(table, token)| shard.rates.check_write(&shard.schema, table, token))
        });
        checked.await.map(|_of_each: Vec<()>| ())
    }
}
