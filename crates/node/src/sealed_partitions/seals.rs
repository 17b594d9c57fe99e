//! Seals of this shard's partitions: set by a transaction, and broken with what came meanwhile.

use std::rc::Rc;

use super::Kept;
use crate::shard::Shard;
use crate::written_partitions::WrittenPartition;

impl Shard {
    /// The caller has the turns of all of them.
    pub(crate) fn seal(&self, partitions: &[WrittenPartition]) {
        let kept = Kept::default();
        let mut by_partition = self.sealed.by_partition.borrow_mut();
        by_partition.extend(partitions.iter().map(|partition| (*partition, kept.clone())));
    }

    /// Takes the shares that came meanwhile. Nothing happens to what is not sealed.
    pub(crate) fn break_seals(self: &Rc<Self>, partitions: &[WrittenPartition]) {
        let mut kept = None;
        let mut by_partition = self.sealed.by_partition.borrow_mut();
        for partition in partitions {
            kept = by_partition.remove(partition).or(kept);
        }
        drop(by_partition);
        let shares = kept.map(|kept| kept.take()).unwrap_or_default();
        for share in shares {
            self.take_share(share);
        }
    }
}
