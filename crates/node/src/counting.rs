//! Counters: reading them and writing what they are then, as one turn of the shard that owns the partition.
//!
//! Where one step reads all counters of an update, nothing comes between it and the write. An update that needs more steps
//! (pages are not in memory, or it has very many rows) takes the partition's turn: whatever else is written to the partition
//! waits for it, since all that writes to counter tables comes this way. What is logged are totals and never increments
//! ([`helenus_storage::store::Counting`]). An increment is tried once: only what was not applied is said to be refused.

mod increments;

use std::cell::RefCell;
use std::collections::HashSet;

use helenus_schema::TableId;
use helenus_storage::store::CounterReading;
use helenus_types::Token;
use tokio::sync::Notify;

/// A longer update is not tried at once: to look for its rows and to write them would hold the shard for long, and buffers
/// that stay would get as long.
const COUNTED_AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// A shard's state for counting.
#[derive(Default)]
pub(crate) struct Counters {
    /// Partitions whose counters are being read in several steps. As many as requests are in flight.
    taken: RefCell<HashSet<(TableId, Token)>>,
    given_back: Notify,
    scratch: RefCell<CountingScratch>,
}

/// For updates that one step is enough for, so that they take nothing from the heap.
#[derive(Default)]
struct CountingScratch {
    reading: CounterReading,
    counted: Vec<u8>,
}

/// Nothing else is written to the partition's counters.
struct Turn<'c> {
    counters: &'c Counters,
    partition: (TableId, Token),
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.counters.taken.borrow_mut().remove(&self.partition);
        self.counters.given_back.notify_waiters();
    }
}

impl Counters {
    fn is_taken(&self, partition: (TableId, Token)) -> bool {
        let taken = self.taken.borrow();
        !taken.is_empty() && taken.contains(&partition)
    }

    fn take(&self, partition: (TableId, Token)) -> Turn<'_> {
        self.taken.borrow_mut().insert(partition);
        Turn {
            counters: self,
            partition,
        }
    }
}
