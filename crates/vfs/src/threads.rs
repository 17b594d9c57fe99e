//! Threads for work that blocks: a shard hands them jobs and hears from them in its mailbox.
//!
//! A [`Worker`] does one job after the other. What runs it comes from [`Threads`]: a thread of the machine, or a
//! simulation that decides when each job is done.

use std::fmt::Debug;
use std::io;
use std::sync::mpsc;
use std::thread;

/// Where workers run.
pub trait Threads: Send + Sync + Debug {
    /// Starts to do `jobs`.
    fn start(&self, name: String, urgency: Urgency, jobs: Box<dyn Jobs>) -> io::Result<Box<dyn Running>>;

    /// The calling thread answers nobody any more: others go first from now on.
    fn give_way(&self);
}

/// Priority of a thread where there are fewer processors than work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Requests wait for it.
    Answers,
    /// Nobody waits for it.
    GivesWay,
}

/// Jobs in the order in which they were sent.
pub trait Jobs: Send {
    /// Waits for the next job and does it. False once there will be none.
    fn wait_and_do(&mut self) -> bool;

    /// Does the next job if there is one. False if there was none.
    fn try_and_do(&mut self) -> bool;
}

/// Runner of a worker's jobs, seen from who sends them.
pub trait Running: Send {
    /// A job was sent.
    fn job_sent(&self);

    /// No job will be sent any more: waits until all that were are done.
    fn finish(&mut self);
}

/// Does jobs of one kind, one after the other, in the order in which they were sent. Dropped without
/// [`Worker::finish`], it does what it was sent and nobody waits for it.
pub struct Worker<T> {
    jobs: Option<mpsc::Sender<T>>,
    running: Box<dyn Running>,
}

struct JobsOf<T, F> {
    received: mpsc::Receiver<T>,
    work: F,
}

impl<T: Send + 'static> Worker<T> {
    pub fn start(
        threads: &dyn Threads,
        name: String,
        urgency: Urgency,
        work: impl FnMut(T) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, received) = mpsc::channel();
        let running = threads.start(name, urgency, Box::new(JobsOf { received, work }))?;
        Ok(Worker {
            jobs: Some(sender),
            running,
        })
    }

    /// False if nothing does jobs any more. How many may wait is the sender's business.
    pub fn send(&self, job: T) -> bool {
        let is_sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if is_sent {
            self.running.job_sent();
        }
        is_sent
    }

    /// Waits until what was sent is done. Nothing can be sent afterwards.
    pub fn finish(&mut self) {
        self.jobs = None;
        self.running.finish();
    }
}

impl<T: Send, F: FnMut(T) + Send> Jobs for JobsOf<T, F> {
    fn wait_and_do(&mut self) -> bool {
        self.received.recv().map(&mut self.work).is_ok()
    }

    fn try_and_do(&mut self) -> bool {
        self.received.try_recv().map(&mut self.work).is_ok()
    }
}

/// Each worker has a thread of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemThreads;

/// The stack of a worker's thread, in bytes: that of a shard's, because statements are planned on it, too. Memory is taken
/// for what is used of it.
const WORKER_STACK_BYTES: usize = 8 << 20;

struct SystemThread(Option<thread::JoinHandle<()>>);

impl Threads for SystemThreads {
    fn start(&self, name: String, urgency: Urgency, mut jobs: Box<dyn Jobs>) -> io::Result<Box<dyn Running>> {
        let thread = thread::Builder::new().name(name).stack_size(WORKER_STACK_BYTES);
        let handle = thread.spawn(move || {
            match urgency {
                Urgency::Answers => {
                    helenus_scheduling::answer_soon();
                }
                Urgency::GivesWay => helenus_scheduling::give_way(),
            }
            while jobs.wait_and_do() {}
        })?;
        Ok(Box::new(SystemThread(Some(handle))))
    }

    fn give_way(&self) {
        helenus_scheduling::give_way();
    }
}

impl Running for SystemThread {
    fn job_sent(&self) {}

    fn finish(&mut self) {
        if let Some(handle) = self.0.take() {
            // The panic hook has reported and counted it.
            let _panicked = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_finished_worker_has_done_every_job_in_order() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let list = done.clone();
        let mut worker = Worker::start(
            &SystemThreads,
            "worker".to_owned(),
            Urgency::GivesWay,
            move |job: u32| {
                list.lock().unwrap().push(job);
            },
        )
        .unwrap();
        assert!((0..100).all(|job| worker.send(job)));
        worker.finish();
        assert_eq!(*done.lock().unwrap(), (0..100).collect::<Vec<_>>());
        assert!(!worker.send(100));
    }
}
