//! Flushes and compactions of one shard: plain blocking work on threads of its own, at low priority.

use helenus_storage::ShardStore;
use helenus_storage::store::{BackgroundJob, COMPACTIONS_PER_SHARD_MAX};
use helenus_vfs::{Threads, Urgency, Worker};

use crate::shard::mailbox::Mailbox;

/// The first takes no compactions, so that a flush never waits behind one; the others take as many as a store runs.
const THREADS: usize = 1 + COMPACTIONS_PER_SHARD_MAX;

/// Runs what the store has to do, a job a thread; nothing queues here.
pub struct BackgroundThreads {
    threads: Vec<BackgroundThread>,
}

struct BackgroundThread {
    worker: Worker<BackgroundJob>,
    is_busy: bool,
}

impl BackgroundThreads {
    pub fn start(threads: &dyn Threads, shard: u16, mailbox: &Mailbox) -> std::io::Result<Self> {
        let started =
            (0..THREADS).map(|index| BackgroundThread::start(threads, shard, index, mailbox.clone()));
        Ok(BackgroundThreads {
            threads: started.collect::<Result<_, _>>()?,
        })
    }

    /// Hands over the store's next jobs, as many as threads are free.
    pub fn offer(&mut self, store: &mut ShardStore) {
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if thread.is_busy {
                continue;
            }
            let job = if index == 0 {
                store.next_short_job()
            } else {
                store.next_job()
            };
            if let Some(job) = job {
                thread.is_busy = thread.worker.send(job);
            }
        }
    }

    pub fn job_finished(&mut self, index: usize) {
        self.threads[index].is_busy = false;
    }

    /// Waits for the jobs under way.
    pub fn stop(&mut self) {
        for thread in &mut self.threads {
            thread.worker.finish();
        }
    }
}

impl BackgroundThread {
    fn start(threads: &dyn Threads, shard: u16, index: usize, mailbox: Mailbox) -> std::io::Result<Self> {
        let name = match index {
            0 => format!("flush-{shard}"),
            _ => format!("compact-{shard}-{index}"),
        };
        let work = move |job: BackgroundJob| {
            let result = job.run();
            mailbox.run(move |shard| shard.persistence.job_finished(index, result));
        };
        Ok(BackgroundThread {
            worker: Worker::start(threads, name, Urgency::GivesWay, work)?,
            is_busy: false,
        })
    }
}
