//! The node's snapshots are made and removed by one thread, one after the other: what is asked for by the thousand waits,
//! and beyond a bound it is refused. The owner of the schema has it.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_events::Event;
use helenus_tools::snapshot::remove_expired;
use helenus_vfs::{Threads, Urgency, Worker};
use tokio::sync::oneshot;

use crate::shard::Shard;

/// Jobs that wait: TRUNCATEs of as many tables at once as a script has, and no thread for each of them.
const WAITING_MAX: usize = 64;

/// How often expired snapshots are looked for: Cassandra's `snapshot_cleanup_period`.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

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

    /// What `work` returns, once its turn has come; OVERLOADED if too much waits already, and none if it was not finished.
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

impl Shard {
    /// Removes snapshots whose time is over, again and again.
    pub(crate) async fn sweep_snapshots(self: Rc<Self>) {
        let data_folder = self.store.borrow().data_folder().cloned();
        let (Some(worker), Some(data_folder)) = (&self.snapshot_worker, data_folder) else {
            return;
        };
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            let data_folder = data_folder.clone();
            let swept = worker.run(move || remove_expired(&data_folder)).await;
            // What could not be removed is tried again with the next.
            if let Ok(Some(Err(error))) = swept {
                self.options
                    .events
                    .event(&Event::SnapshotsNotRemoved { error: &error });
            }
        }
    }
}
