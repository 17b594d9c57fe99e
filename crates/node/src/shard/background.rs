//! Flushes and compactions of one shard: plain blocking work on threads of its own, at low priority.

use std::sync::mpsc;
use std::thread;

use helenus_storage::ShardStore;
use helenus_storage::store::{BackgroundJob, COMPACTIONS_PER_SHARD_MAX};

use crate::mailbox::Mailbox;

/// The first takes no compactions, so that a flush never waits behind one; the others take as many as a store runs.
const THREADS: usize = 1 + COMPACTIONS_PER_SHARD_MAX;

/// Runs what the store has to do, a job a thread; nothing queues here.
pub struct BackgroundThreads {
    threads: Vec<BackgroundThread>,
}

struct BackgroundThread {
    jobs: Option<mpsc::Sender<BackgroundJob>>,
    handle: Option<thread::JoinHandle<()>>,
    is_busy: bool,
}

impl BackgroundThreads {
    pub fn start(shard: u16, mailbox: &Mailbox) -> std::io::Result<Self> {
        let threads = (0..THREADS).map(|index| BackgroundThread::start(shard, index, mailbox.clone()));
        Ok(BackgroundThreads {
            threads: threads.collect::<Result<_, _>>()?,
        })
    }

    /// Hands over the store's next jobs, as many as threads are free.
    pub fn offer(&mut self, store: &mut ShardStore) {
        for (index, thread) in self.threads.iter_mut().enumerate() {
            let Some(jobs) = thread.jobs.as_ref().filter(|_| !thread.is_busy) else {
                continue;
            };
            let job = if index == 0 {
                store.next_short_job()
            } else {
                store.next_job()
            };
            if let Some(job) = job {
                thread.is_busy = jobs.send(job).is_ok();
            }
        }
    }

    pub fn job_finished(&mut self, index: usize) {
        self.threads[index].is_busy = false;
    }

    /// Waits for the jobs under way.
    pub fn stop(&mut self) {
        for thread in &mut self.threads {
            thread.jobs = None;
            if let Some(handle) = thread.handle.take() {
                // The panic hook has reported and counted it.
                let _panicked = handle.join();
            }
        }
    }
}

impl BackgroundThread {
    fn start(shard: u16, index: usize, mailbox: Mailbox) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<BackgroundJob>();
        let name = match index {
            0 => format!("flush-{shard}"),
            _ => format!("compact-{shard}-{index}"),
        };
        let handle = thread::Builder::new().name(name).spawn(move || {
            helenus_scheduling::give_way();
            while let Ok(job) = receiver.recv() {
                let result = job.run();
                mailbox.run(move |shard| shard.job_finished(index, result));
            }
        })?;
        Ok(BackgroundThread {
            jobs: Some(sender),
            handle: Some(handle),
            is_busy: false,
        })
    }
}
