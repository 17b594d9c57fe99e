//! Checking passwords, which is made to be slow: on a thread of its own, in a bounded queue, once for each password.
//!
//! A shard remembers what it was told, right or wrong, under a digest of hash and password with a secret of the process:
//! a driver that opens a hundred connections is checked once, and who repeats a wrong password costs no more than the
//! connection. A changed password has another hash, so nothing of this ever has to be forgotten to stay right.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use bcrypt::Version;
use helenus_engine::CqlError;
use sha2::{Digest, Sha256};
use tokio::sync::{OnceCell, oneshot};
use uuid::Uuid;

/// The logarithm of bcrypt's rounds for new passwords: Cassandra's default.
const COST: u32 = 10;

/// Passwords that wait to be checked: at some 75 ms each, what the thread does in half of the 10 s that a client may
/// take to log in.
const WAITING_MAX: usize = 64;

/// Of those, from one address: a quarter, so that one client that guesses does not keep the others out.
const WAITING_PER_ADDRESS_MAX: usize = WAITING_MAX / 4;

/// Passwords that a shard knows to be right: those of more roles than log in to one node.
const RIGHT_MAX: usize = 4_096;

/// Passwords that a shard knows to be wrong or is having checked. Apart from the right ones, so that guessing does not
/// make these be forgotten.
const WRONG_MAX: usize = 1_024;

/// The thread that checks passwords, shared by the shards of a node. Ends when the last of them has gone.
pub(crate) struct PasswordThread {
    jobs: SyncSender<Job>,
    /// Of this process, so that a digest of a password says nothing to anybody else.
    secret: [u8; 32],
}

enum Job {
    Check {
        password: String,
        salted_hash: String,
        answer: oneshot::Sender<bool>,
    },
    Hash {
        password: String,
        answer: oneshot::Sender<Option<String>>,
    },
}

type PasswordDigest = [u8; 32];

/// What a shard knows of passwords.
pub(crate) struct Passwords {
    thread: Arc<PasswordThread>,
    right: RefCell<Remembered<()>>,
    checked: RefCell<Remembered<Rc<OnceCell<bool>>>>,
    waiting: RefCell<HashMap<IpAddr, usize>>,
}

/// A bounded map; the oldest entry makes room.
struct Remembered<T> {
    entries: HashMap<PasswordDigest, T>,
    order: VecDeque<PasswordDigest>,
    entries_max: usize,
}

/// One of an address's checks that wait.
struct WaitingPlace<'a> {
    waiting: &'a RefCell<HashMap<IpAddr, usize>>,
    address: IpAddr,
}

impl PasswordThread {
    pub fn start() -> io::Result<Arc<PasswordThread>> {
        let (jobs, received) = sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name("passwords".to_owned())
            .spawn(move || work(&received))?;
        let mut secret = [0; 32];
        secret[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        secret[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        Ok(Arc::new(PasswordThread { jobs, secret }))
    }

    fn digest(&self, password: &str, salted_hash: &str) -> PasswordDigest {
        let mut digest = Sha256::new();
        digest.update(self.secret);
        digest.update((salted_hash.len() as u64).to_be_bytes());
        digest.update(salted_hash);
        digest.update(password);
        digest.finalize().into()
    }

    fn submit(&self, job: Job) -> Result<(), CqlError> {
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => too_many(),
            TrySendError::Disconnected(_) => gone(),
        })
    }
}

fn work(jobs: &Receiver<Job>) {
    helenus_scheduling::give_way();
    while let Ok(job) = jobs.recv() {
        match job {
            // Whoever asked may have left while the job waited.
            Job::Check { answer, .. } if answer.is_closed() => {}
            Job::Check {
                password,
                salted_hash,
                answer,
            } => {
                let is_right = bcrypt::verify(password, &salted_hash).unwrap_or(false);
                let _gone = answer.send(is_right);
            }
            Job::Hash { password, answer } => {
                let hashed = bcrypt::hash_with_result(password, COST).ok();
                let _gone = answer.send(hashed.map(|parts| parts.format_for_version(Version::TwoA)));
            }
        }
    }
}

fn too_many() -> CqlError {
    CqlError::overloaded(format_args!("Too many passwords are waiting to be checked"))
}

fn gone() -> CqlError {
    CqlError::server(format_args!("The thread that checks passwords has ended"))
}

impl Passwords {
    pub fn new(thread: Arc<PasswordThread>) -> Passwords {
        Passwords {
            thread,
            right: RefCell::new(Remembered::new(RIGHT_MAX)),
            checked: RefCell::new(Remembered::new(WRONG_MAX)),
            waiting: RefCell::default(),
        }
    }

    /// Whether a password is the one that was hashed. OVERLOADED if too many others wait to be told.
    pub(super) async fn is_right(
        &self,
        password: &str,
        salted_hash: &str,
        address: IpAddr,
    ) -> Result<bool, CqlError> {
        let digest = self.thread.digest(password, salted_hash);
        if self.right.borrow().entries.contains_key(&digest) {
            return Ok(true);
        }
        let cell = self.checked.borrow_mut().get_or_insert(digest, Rc::default);
        let is_right = *cell
            .get_or_try_init(|| self.check(password, salted_hash, address))
            .await?;
        if is_right {
            self.right.borrow_mut().get_or_insert(digest, || ());
        }
        Ok(is_right)
    }

    async fn check(&self, password: &str, salted_hash: &str, address: IpAddr) -> Result<bool, CqlError> {
        let _place = WaitingPlace::take(&self.waiting, address)?;
        let (answer, checked) = oneshot::channel();
        self.thread.submit(Job::Check {
            password: password.to_owned(),
            salted_hash: salted_hash.to_owned(),
            answer,
        })?;
        checked.await.map_err(|_| gone())
    }

    /// A new password's hash, with a salt of its own.
    pub(super) async fn hash(&self, password: &str) -> Result<String, CqlError> {
        let (answer, hashed) = oneshot::channel();
        self.thread.submit(Job::Hash {
            password: password.to_owned(),
            answer,
        })?;
        let hashed = hashed.await.map_err(|_| gone())?;
        hashed.ok_or_else(|| CqlError::server(format_args!("The password could not be hashed")))
    }
}

/// Whether `HASHED PASSWORD` is followed by what bcrypt made.
pub(super) fn is_salted_hash(text: &str) -> bool {
    text.parse::<bcrypt::HashParts>().is_ok()
}

impl<'a> WaitingPlace<'a> {
    fn take(
        waiting: &'a RefCell<HashMap<IpAddr, usize>>,
        address: IpAddr,
    ) -> Result<WaitingPlace<'a>, CqlError> {
        let mut counts = waiting.borrow_mut();
        let count = counts.entry(address).or_insert(0);
        if *count >= WAITING_PER_ADDRESS_MAX {
            return Err(too_many());
        }
        *count += 1;
        Ok(WaitingPlace { waiting, address })
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        let mut counts = self.waiting.borrow_mut();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

impl<T: Clone> Remembered<T> {
    fn new(entries_max: usize) -> Self {
        Remembered {
            entries: HashMap::new(),
            order: VecDeque::new(),
            entries_max,
        }
    }

    fn get_or_insert(&mut self, digest: PasswordDigest, make: impl FnOnce() -> T) -> T {
        if let Some(known) = self.entries.get(&digest) {
            return known.clone();
        }
        if self.order.len() >= self.entries_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
        let made = make();
        self.entries.insert(digest, made.clone());
        self.order.push_back(digest);
        made
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Of the password `x`, with the least cost that bcrypt allows.
    fn cheap_hash() -> String {
        bcrypt::hash("x", 4).unwrap()
    }

    fn passwords_with(jobs: SyncSender<Job>) -> Passwords {
        Passwords::new(Arc::new(PasswordThread {
            jobs,
            secret: [7; 32],
        }))
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn the_default_superusers_hash_is_of_the_password_cassandra() {
        assert!(bcrypt::verify("cassandra", super::super::DEFAULT_SUPERUSER_HASH).unwrap());
    }

    #[test]
    fn a_hundred_logins_with_one_password_are_one_check() {
        let (jobs, received) = sync_channel(WAITING_MAX);
        let passwords = passwords_with(jobs);
        let hash = cheap_hash();
        let checks = thread::spawn(move || {
            let mut checks = 0;
            while let Ok(Job::Check { answer, .. }) = received.recv() {
                checks += 1;
                answer.send(true).unwrap();
            }
            checks
        });
        run(async {
            for _ in 0..100 {
                assert!(passwords.is_right("x", &hash, HERE).await.unwrap());
            }
        });
        drop(passwords);
        assert_eq!(checks.join().unwrap(), 1);
    }

    #[test]
    fn guesses_from_one_address_leave_room_for_others_and_end_in_overloaded() {
        let (jobs, received) = sync_channel(WAITING_MAX);
        let passwords = passwords_with(jobs);
        let hash = cheap_hash();
        run(async {
            let guesses: Vec<_> = (0..WAITING_PER_ADDRESS_MAX + 1)
                .map(|number| {
                    let (passwords, hash) = (&passwords, &hash);
                    Box::pin(async move { passwords.is_right(&number.to_string(), hash, HERE).await })
                })
                .collect();
            let mut results = Vec::new();
            for mut guess in guesses {
                let first =
                    std::future::poll_fn(|context| std::task::Poll::Ready(guess.as_mut().poll(context)));
                results.push((first.await, guess));
            }
            let refused: Vec<_> = results
                .iter()
                .filter(|(result, _)| matches!(result, std::task::Poll::Ready(Err(CqlError::Overloaded(_)))))
                .collect();
            assert_eq!(refused.len(), 1);
            let elsewhere = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
            let mut other = Box::pin(passwords.is_right("other", &hash, elsewhere));
            let first =
                std::future::poll_fn(|context| std::task::Poll::Ready(other.as_mut().poll(context))).await;
            assert!(first.is_pending());
        });
        assert_eq!(received.try_iter().count(), WAITING_PER_ADDRESS_MAX + 1);
        assert!(passwords.waiting.borrow().is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut remembered = Remembered::new(2);
        for number in 0..5_u8 {
            remembered.get_or_insert([number; 32], || ());
        }
        assert_eq!((remembered.entries.len(), remembered.order.len()), (2, 2));
        assert!(remembered.entries.contains_key(&[4; 32]));
    }
}
