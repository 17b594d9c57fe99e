//! The threads that check passwords, and the queue in front of them: bounded, and fair to the addresses that ask.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bcrypt::Version;
use helenus_engine::CqlError;
use helenus_transport::round_robin::RoundRobinQueue;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use uuid::Uuid;

/// The logarithm of bcrypt's rounds for new passwords: Cassandra's default.
const COST: u32 = 10;

/// The most that is checked: some 1.2 s. With 31, which bcrypt allows, one login would keep a thread busy for 40 hours.
pub(super) const COST_MAX: u32 = 14;

/// Highest cost that the thread for quick hashes takes, so that costly ones never hold all threads: some 300 ms.
const COST_QUICK_MAX: u32 = 12;

/// One for everything and one for what is quick. They give way to those who serve.
const THREADS: usize = 2;

/// Passwords that wait to be checked: at some 75 ms each, what a thread does in half of the 10 s that a client may take to
/// log in.
pub(super) const WAITING_MAX: usize = 64;

/// Passwords of one address among those: a quarter, so that one client that guesses does not keep the others out.
pub(super) const WAITING_PER_ADDRESS_MAX: usize = WAITING_MAX / 4;

/// Shared by the shards of a node. The threads end when the last of them has gone.
pub(crate) struct PasswordThreads {
    desk: Arc<Desk>,
    /// Secret of this process, so that a digest of a password says nothing to anybody else.
    secret: [u8; 32],
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(super) enum Job {
    Check {
        password: String,
        salted_hash: String,
        cost: u32,
        answer: oneshot::Sender<Result<bool, CqlError>>,
    },
    Hash {
        password: String,
        answer: oneshot::Sender<Result<String, CqlError>>,
    },
}

#[derive(Default)]
struct Desk {
    state: Mutex<DeskState>,
    news: Condvar,
}

struct DeskState {
    /// Each address has its turn.
    queue: RoundRobinQueue<IpAddr, Job>,
    is_closed: bool,
}

impl Default for DeskState {
    fn default() -> Self {
        DeskState {
            queue: RoundRobinQueue::new(WAITING_MAX, WAITING_PER_ADDRESS_MAX),
            is_closed: false,
        }
    }
}

pub(super) type PasswordDigest = [u8; 32];

impl PasswordThreads {
    pub fn start() -> io::Result<Arc<PasswordThreads>> {
        let threads = PasswordThreads::without_threads();
        for number in 0..THREADS {
            let desk = threads.desk.clone();
            let cost_max = if number == 0 { COST_MAX } else { COST_QUICK_MAX };
            let thread = thread::Builder::new()
                .name(format!("passwords-{number}"))
                .spawn(move || {
                    helenus_scheduling::give_way();
                    while let Some(job) = desk.next(cost_max) {
                        job.run();
                    }
                })?;
            threads.handles().push(thread);
        }
        Ok(Arc::new(threads))
    }

    pub(super) fn without_threads() -> PasswordThreads {
        let mut secret = [0; 32];
        secret[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        secret[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        PasswordThreads {
            desk: Arc::default(),
            secret,
            threads: Mutex::default(),
        }
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks no more, and waits for what is being checked.
    pub fn stop(&self) {
        self.desk.close();
        for thread in self.handles().drain(..) {
            // The panic hook has reported it.
            let _panicked = thread.join();
        }
    }

    pub(super) fn digest(&self, password: &str, salted_hash: &str) -> PasswordDigest {
        let mut digest = Sha256::new();
        digest.update(self.secret);
        digest.update((salted_hash.len() as u64).to_be_bytes());
        digest.update(salted_hash);
        digest.update(password);
        digest.finalize().into()
    }

    /// Queues a job. Whoever has to leave for it, or the job itself if it is one too many, is told OVERLOADED.
    pub(super) fn submit(&self, address: IpAddr, job: Job) {
        if let Some(refused) = self.desk.state().queue.push(address, job) {
            refused.fail(too_many());
        }
        self.desk.news.notify_all();
    }

    /// Takes the job that a thread that takes everything would take next.
    #[cfg(test)]
    pub(super) fn take(&self) -> Option<Job> {
        self.desk.state().queue.pop(|_| true)
    }
}

impl Drop for PasswordThreads {
    fn drop(&mut self) {
        self.desk.close();
    }
}

impl Desk {
    fn close(&self) {
        self.state().is_closed = true;
        self.news.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job of at most that cost; none once nobody asks any more.
    fn next(&self, cost_max: u32) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.queue.pop(|job| job.cost() <= cost_max) {
                return Some(job);
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Job {
    fn cost(&self) -> u32 {
        match self {
            Job::Check { cost, .. } => *cost,
            Job::Hash { .. } => COST,
        }
    }

    fn run(self) {
        // Whoever asked may have left.
        match self {
            Job::Check { answer, .. } if answer.is_closed() => {}
            Job::Check {
                password,
                salted_hash,
                answer,
                ..
            } => {
                let is_right = bcrypt::verify(password, &salted_hash).unwrap_or(false);
                let _gone = answer.send(Ok(is_right));
            }
            Job::Hash { password, answer } => {
                let hashed = bcrypt::hash_with_result(password, COST)
                    .map(|parts| parts.format_for_version(Version::TwoA))
                    .map_err(|_| CqlError::server(format_args!("The password could not be hashed")));
                let _gone = answer.send(hashed);
            }
        }
    }

    fn fail(self, error: CqlError) {
        match self {
            Job::Check { answer, .. } => drop(answer.send(Err(error))),
            Job::Hash { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

fn too_many() -> CqlError {
    CqlError::overloaded(format_args!("Too many passwords are waiting to be checked"))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
    }

    /// 80 wrong passwords from 127.0.0.2 on four shards, and a right one from 127.0.0.1 waited for 5.6 s: drivers give 5.
    #[test]
    fn whoever_asks_once_waits_for_one_of_another() {
        let mut queue = RoundRobinQueue::new(WAITING_MAX, WAITING_PER_ADDRESS_MAX);
        let refused = (0..80).filter_map(|guess| queue.push(address(2), guess)).count();
        assert_eq!(refused, 80 - WAITING_PER_ADDRESS_MAX);
        assert_eq!(queue.push(address(1), 1_000), None);
        assert_eq!(queue.pop(|_| true), Some(0));
        assert_eq!(queue.pop(|_| true), Some(1_000));
        assert_eq!(queue.pop(|_| true), Some(1));
    }

    /// Where many addresses guess, the one that asks least still gets in.
    #[test]
    fn a_full_queue_makes_room_for_who_asks_less() {
        let mut queue = RoundRobinQueue::new(WAITING_MAX, WAITING_PER_ADDRESS_MAX);
        for last in 10..14 {
            for number in 0..WAITING_PER_ADDRESS_MAX {
                assert_eq!(queue.push(address(last), (last, number)), None);
            }
        }
        assert_eq!(queue.len(), WAITING_MAX);
        let refused = queue.push(address(1), (1, 0)).unwrap();
        assert_eq!(
            (refused.1, queue.len()),
            (WAITING_PER_ADDRESS_MAX - 1, WAITING_MAX)
        );
        assert_ne!(refused.0, 1);
        let taken: Vec<_> = (0..5).filter_map(|_| queue.pop(|_| true)).collect();
        assert!(taken.contains(&(1, 0)), "{taken:?}");
    }

    /// One hash that takes 40 hours, and nobody else could log in.
    #[test]
    fn a_costly_hash_keeps_one_thread_only() {
        let mut queue = RoundRobinQueue::new(WAITING_MAX, WAITING_PER_ADDRESS_MAX);
        queue.push(address(1), COST_MAX);
        queue.push(address(2), COST);
        let is_quick = |cost: &u32| *cost <= COST_QUICK_MAX;
        assert_eq!(queue.pop(is_quick), Some(COST));
        assert_eq!(queue.pop(is_quick), None);
        assert_eq!(queue.pop(|_| true), Some(COST_MAX));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_threads_check_and_hash() {
        let threads = PasswordThreads::start().unwrap();
        let (answer, hashed) = oneshot::channel();
        let password = "secret".to_owned();
        threads.submit(address(1), Job::Hash { password, answer });
        let salted_hash = hashed.blocking_recv().unwrap().unwrap();
        for (password, wanted) in [("secret", true), ("other", false)] {
            let (answer, checked) = oneshot::channel();
            let job = Job::Check {
                password: password.to_owned(),
                salted_hash: salted_hash.clone(),
                cost: COST,
                answer,
            };
            threads.submit(address(1), job);
            assert_eq!(checked.blocking_recv().unwrap().ok(), Some(wanted));
        }
    }
}
