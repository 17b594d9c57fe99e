//! Reads that have completed when they are asked for: of disks in memory, whose answers wait for nothing.

use super::{CompletedRead, Notify, QueuedRead, ReadQueue, read_now};

pub(crate) struct ImmediateReads {
    notify: Notify,
    completed: Vec<CompletedRead>,
}

impl ImmediateReads {
    pub fn new(notify: Notify) -> Self {
        ImmediateReads {
            notify,
            completed: Vec::new(),
        }
    }
}

impl ReadQueue for ImmediateReads {
    fn submit(&mut self, read: QueuedRead) {
        self.completed.push(read_now(read));
        (self.notify)();
    }

    fn take_completed(&mut self, completed: &mut Vec<CompletedRead>) {
        completed.append(&mut self.completed);
    }

    fn name(&self) -> &'static str {
        "memory"
    }
}
