//! Reads on threads that block: works everywhere.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{CompletedRead, Notify, QueuedRead, READS_UNDER_WAY_MAX, ReadQueue, read_now};

/// Threads of one shard. Four reads at a time are half of what a SATA drive gains from its queue, and idle threads cost
/// their stacks only.
const THREADS: usize = 4;

/// Their work is one system call.
const STACK_BYTES: usize = 64 * 1024;

pub struct ThreadPoolReads {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Beyond [`READS_UNDER_WAY_MAX`]; as many as the asker's requests in flight.
    waiting: VecDeque<QueuedRead>,
    under_way: usize,
}

struct Shared {
    state: Mutex<State>,
    has_work: Condvar,
    notify: Notify,
}

#[derive(Default)]
struct State {
    /// At most [`READS_UNDER_WAY_MAX`].
    submitted: VecDeque<QueuedRead>,
    completed: Vec<CompletedRead>,
    is_stopping: bool,
}

impl ThreadPoolReads {
    pub fn start(notify: Notify) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            has_work: Condvar::new(),
            notify,
        });
        let mut pool = ThreadPoolReads {
            shared,
            threads: Vec::with_capacity(THREADS),
            waiting: VecDeque::new(),
            under_way: 0,
        };
        for _ in 0..THREADS {
            let shared = pool.shared.clone();
            let thread = thread::Builder::new()
                .name("disk-read".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || shared.serve())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        loop {
            let mut state = self.state();
            let read = loop {
                if state.is_stopping {
                    return;
                }
                if let Some(read) = state.submitted.pop_front() {
                    break read;
                }
                state = self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            let completed = read_now(read);
            let is_first = {
                let mut state = self.state();
                state.completed.push(completed);
                state.completed.len() == 1
            };
            // Whoever takes the first takes those that came after it, too.
            if is_first {
                (self.notify)();
            }
        }
    }
}

impl ReadQueue for ThreadPoolReads {
    fn submit(&mut self, read: QueuedRead) {
        if self.under_way >= READS_UNDER_WAY_MAX {
            self.waiting.push_back(read);
            return;
        }
        self.under_way += 1;
        self.shared.state().submitted.push_back(read);
        self.shared.has_work.notify_one();
    }

    fn take_completed(&mut self, completed: &mut Vec<CompletedRead>) {
        let before = completed.len();
        completed.append(&mut self.shared.state().completed);
        self.under_way -= completed.len() - before;
        while self.under_way < READS_UNDER_WAY_MAX
            && let Some(read) = self.waiting.pop_front()
        {
            self.submit(read);
        }
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}

impl Drop for ThreadPoolReads {
    /// Waits for the reads that have begun; the others are forgotten.
    fn drop(&mut self) {
        self.shared.state().is_stopping = true;
        self.shared.has_work.notify_all();
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}
