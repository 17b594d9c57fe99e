//! Reads of a simulated disk: they complete in an order that a seed decides, some of them late.

use super::{CompletedRead, Notify, QueuedRead, ReadQueue, read_now};
use crate::random::{Random, SeededRandom};

/// Errors are those of the files that are read.
pub(crate) struct ShuffledReads {
    notify: Notify,
    random: SeededRandom,
    under_way: Vec<QueuedRead>,
}

impl ShuffledReads {
    pub fn new(seed: u64, notify: Notify) -> Self {
        ShuffledReads {
            notify,
            random: SeededRandom::new(seed),
            under_way: Vec::new(),
        }
    }
}

impl ReadQueue for ShuffledReads {
    fn submit(&mut self, read: QueuedRead) {
        self.under_way.push(read);
        (self.notify)();
    }

    /// Completes at least one read, so that waiting ends, and by chance more.
    fn take_completed(&mut self, completed: &mut Vec<CompletedRead>) {
        while !self.under_way.is_empty() {
            let index = self.random.below(self.under_way.len() as u64) as usize;
            completed.push(read_now(self.under_way.swap_remove(index)));
            if self.random.below(2) == 0 {
                break;
            }
        }
        if !self.under_way.is_empty() {
            (self.notify)();
        }
    }

    fn name(&self) -> &'static str {
        "simulated"
    }
}
