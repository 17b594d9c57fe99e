//! Partitions that a transaction has sealed: from when it reads them until it has written, or has given up.
//!
//! Who begins to write to them waits for their turn ([`crate::viewed_writes`]). A share of an atomic batch that was promised
//! before cannot be refused any more; it is kept here meanwhile. A transaction that has sealed partitions waits for no batch, so
//! that nobody waits for each other: who finds one unresolved breaks all seals, and seals again after it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::rate_limit::WrittenPartition;
use crate::shard::Shard;
use crate::write::partition_of;
use crate::write_set::Share;

/// Shares that came meanwhile, in their order: as many as batches are in flight.
type Kept = Rc<RefCell<Vec<Share>>>;

#[derive(Default)]
pub(crate) struct SealedPartitions {
    by_partition: RefCell<HashMap<WrittenPartition, Kept>>,
}

impl SealedPartitions {
    /// The share, if nothing that it changes is sealed by somebody else.
    pub fn keep(&self, share: Share) -> Option<Share> {
        let by_partition = self.by_partition.borrow();
        if by_partition.is_empty() || share.has_turns {
            return Some(share);
        }
        let partitions = share.updates.iter().filter_map(|update| partition_of(update));
        let kept = partitions
            .filter_map(|partition| by_partition.get(&partition))
            .next();
        match kept {
            None => Some(share),
            Some(kept) => {
                kept.borrow_mut().push(share);
                None
            }
        }
    }
}

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
