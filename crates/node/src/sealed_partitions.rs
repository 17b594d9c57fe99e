//! Partitions that a transaction has sealed: from when it reads them until it has written, or has given up.
//!
//! Who begins to write to them waits for their turn ([`crate::viewed_writes`]). A share of an atomic batch that was promised
//! before cannot be refused any more; it is kept here meanwhile. A transaction that has sealed partitions waits for no batch, so
//! that nobody waits for each other: who finds one unresolved breaks all seals, and seals again after it.

mod seals;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;
use helenus_rows::update::PackedUpdate;

use crate::write_set::Share;
use crate::written_partitions::WrittenPartition;

/// Shares that came meanwhile, in their order: as many as batches are in flight.
type Kept = Rc<RefCell<Vec<Share>>>;

#[derive(Default)]
pub(crate) struct SealedPartitions {
    by_partition: RefCell<HashMap<WrittenPartition, Kept, RandomState>>,
}

impl SealedPartitions {
    /// The share, if nothing that it changes is sealed by somebody else.
    pub fn keep(&self, share: Share) -> Option<Share> {
        let by_partition = self.by_partition.borrow();
        if by_partition.is_empty() || share.has_turns {
            return Some(share);
        }
        let partitions = share.updates.iter().map(PackedUpdate::partition);
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
