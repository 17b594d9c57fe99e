//! Queue of a shard's log: the batch that its thread has, and the writes that wait for it.

use std::cell::{Cell, RefCell};

use helenus_storage::ShardStore;
use helenus_storage::commitlog::LogPosition;

use super::durability::{Acknowledgement, LogThread, Unacknowledged};
use crate::deadline::Deadline;

/// Writes that are acknowledged at once between two looks at the log and the memtables: some 100 KiB of small rows.
const WRITES_PER_TURN_MAX: u32 = 1_024;

/// How often the node says that the log has no file to go on in.
const STALL_SAID_AGAIN_NS: u64 = 60 * 1_000_000_000;

pub(super) struct LogQueue {
    /// None in memory.
    thread: RefCell<Option<LogThread>>,
    /// The thread has a batch.
    is_busy: Cell<bool>,
    /// On the clock's monotonic time, when the thread got the batch it has.
    handed_over_ns: Cell<u64>,
    /// When it was last said that the log has no file to go on in; 0 for never.
    stall_said_ns: Cell<u64>,
    /// A task waits to hand the batch over again.
    is_tried_again: Cell<bool>,
    unacknowledged: RefCell<Unacknowledged>,
    /// Somebody waits for a periodic log to be synced.
    wants_sync: Cell<bool>,
    writes_since_turn: Cell<u32>,
}

impl LogQueue {
    pub fn new(thread: Option<LogThread>) -> Self {
        LogQueue {
            thread: RefCell::new(thread),
            is_busy: Cell::new(false),
            handed_over_ns: Cell::new(0),
            stall_said_ns: Cell::new(0),
            is_tried_again: Cell::new(false),
            unacknowledged: RefCell::default(),
            wants_sync: Cell::new(false),
            writes_since_turn: Cell::new(0),
        }
    }

    /// Counts a write. Whether there are enough of them for the log or a memtable to want attention.
    #[inline]
    pub fn note_write(&self) -> bool {
        let writes = self.writes_since_turn.get() + 1;
        self.writes_since_turn.set(writes);
        writes >= WRITES_PER_TURN_MAX
    }

    pub fn begin_turn(&self) {
        self.writes_since_turn.set(0);
    }

    pub fn push(&self, position: LogPosition, deadline: Deadline, acknowledgement: Acknowledgement) {
        let mut unacknowledged = self.unacknowledged.borrow_mut();
        unacknowledged.push(position, deadline, acknowledgement);
    }

    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged.borrow().len()
    }

    /// The next write that is durable.
    pub fn pop_durable(&self, durable: LogPosition) -> Option<Acknowledgement> {
        self.unacknowledged.borrow_mut().pop_durable(durable)
    }

    /// Takes out those whose time was over at `now_ns`.
    pub fn take_late(&self, now_ns: u64) -> Vec<(Acknowledgement, Deadline)> {
        self.unacknowledged.borrow_mut().take_late(now_ns)
    }

    pub fn take_all(&self) -> Vec<Acknowledgement> {
        self.unacknowledged.borrow_mut().drain().collect()
    }

    pub fn set_wants_sync(&self, wants_sync: bool) {
        self.wants_sync.set(wants_sync);
    }

    pub fn wants_sync(&self) -> bool {
        self.wants_sync.get()
    }

    /// Gives the thread what was appended, unless it is still busy with the last batch or there is nothing.
    pub fn hand_over(&self, store: &RefCell<ShardStore>, sync: bool, now_ns: impl FnOnce() -> u64) -> bool {
        if self.is_busy.get() {
            return false;
        }
        let thread = self.thread.borrow();
        let batch = if sync {
            store.borrow_mut().take_log_batch_to_sync()
        } else {
            store.borrow_mut().take_log_batch()
        };
        let (Some(thread), Some(batch)) = (&*thread, batch) else {
            return false;
        };
        self.is_busy.set(true);
        self.handed_over_ns.set(now_ns());
        thread.persist(batch, sync);
        true
    }

    /// The thread is done with its batch. How long it took.
    pub fn handed_back(&self, now_ns: u64) -> u64 {
        self.is_busy.set(false);
        now_ns.saturating_sub(self.handed_over_ns.get())
    }

    /// Returns whether it is to be said again that the log has no file to go on in.
    pub fn says_stall(&self, now_ns: u64) -> bool {
        let said_ns = self.stall_said_ns.get();
        let is_due = said_ns == 0 || now_ns >= said_ns + STALL_SAID_AGAIN_NS;
        if is_due {
            self.stall_said_ns.set(now_ns.max(1));
        }
        is_due
    }

    /// False if a task waits to hand the batch over again already.
    pub fn begin_retry(&self) -> bool {
        !self.is_tried_again.replace(true)
    }

    pub fn end_retry(&self) {
        self.is_tried_again.set(false);
    }

    /// Waits for the thread.
    pub fn stop(&self) {
        if let Some(thread) = &mut *self.thread.borrow_mut() {
            thread.stop();
        }
    }
}
