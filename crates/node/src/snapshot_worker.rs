//! The node's snapshots are made and removed by one thread, one after the other: what is asked for by the thousand waits,
//! and beyond a bound it is refused. The owner of the schema has it.

mod expiry;

use std::cell::{Cell, RefCell};
use std::io;

use helenus_engine::CqlError;
use helenus_vfs::{Threads, Urgency, Worker};
use tokio::sync::oneshot;

/// Jobs that wait: TRUNCATEs of as many tables at once as a script has, and no thread for each of them.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct SnapshotWorker {
    worker: RefCell<Worker<Job>>,
    waiting: Cell<usize>,
}

impl SnapshotWorker {
    pub fn start(threads: &dyn Threads) -> io::Result<Self> {
        let worker = Worker::start(threads, "snapshots".to_owned(), Urgency::GivesWay, |job: Job| {
            job()
        })?;
        Ok(SnapshotWorker {
            worker: RefCell::new(worker),
            waiting: Cell::new(0),
        })
    }

    /// Runs `work` once its turn has come and returns its result; OVERLOADED if too much waits already, `None` if it was
    /// not finished.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, CqlError> {
        if self.waiting.get() >= WAITING_MAX {
            return Err(CqlError::overloaded(format_args!(
                "{WAITING_MAX} snapshots are waiting to be made; try again later"
            )));
        }
        let (sender, receiver) = oneshot::channel();
        let _place = Place::take(&self.waiting);
        self.worker.borrow().send(Box::new(move || {
            // Whoever waited may have been told that it took too long.
            let _gone = sender.send(work());
        }));
        Ok(receiver.await.ok())
    }

    /// Waits for the jobs that were begun.
    pub fn stop(&self) {
        self.worker.borrow_mut().finish();
    }
}

struct Place<'a>(&'a Cell<usize>);

impl<'a> Place<'a> {
    fn take(waiting: &'a Cell<usize>) -> Self {
        waiting.set(waiting.get() + 1);
        Place(waiting)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
