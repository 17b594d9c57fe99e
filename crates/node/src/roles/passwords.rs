//! Checking passwords, which is made to be slow: on threads of their own, once for each password.
//!
//! A shard remembers what it was told, right or wrong, under a digest of hash and password with a secret of the process:
//! a driver that opens a hundred connections is checked once, and who repeats a wrong password costs no more than the
//! connection. A changed password has another hash, so nothing of this ever has to be forgotten to stay right.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use bcrypt::HashParts;
use helenus_engine::CqlError;
use tokio::sync::{OnceCell, oneshot};

use super::password_threads::{COST_MAX, Job, PasswordDigest, PasswordThreads};

/// Whom new passwords are hashed for: together they wait as one client does.
const NEW_PASSWORDS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Passwords that a shard knows to be right: those of more roles than log in to one node.
const RIGHT_MAX: usize = 4_096;

/// Passwords that a shard knows to be wrong or is having checked. Apart from the right ones, so that guessing does not
/// make these be forgotten.
const WRONG_MAX: usize = 1_024;

/// Passwords that a shard knows to be right or wrong, and the threads that check others.
pub(crate) struct Passwords {
    threads: Arc<PasswordThreads>,
    right: RefCell<Remembered<()>>,
    checked: RefCell<Remembered<Rc<OnceCell<bool>>>>,
}

/// A bounded map; the oldest entry makes room.
struct Remembered<T> {
    entries: HashMap<PasswordDigest, T>,
    order: VecDeque<PasswordDigest>,
    entries_max: usize,
}

fn gone() -> CqlError {
    CqlError::server(format_args!("The threads that check passwords have ended"))
}

impl Passwords {
    pub fn new(threads: Arc<PasswordThreads>) -> Passwords {
        Passwords {
            threads,
            right: RefCell::new(Remembered::new(RIGHT_MAX)),
            checked: RefCell::new(Remembered::new(WRONG_MAX)),
        }
    }

    /// Returns whether a password is the one that was hashed. OVERLOADED if too many others wait to be told.
    pub(super) async fn is_right(
        &self,
        password: &str,
        salted_hash: &str,
        address: IpAddr,
    ) -> Result<bool, CqlError> {
        let digest = self.threads.digest(password, salted_hash);
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
        let Ok(hash) = salted_hash.parse::<HashParts>() else {
            return Ok(false);
        };
        let cost = hash.get_cost();
        if cost > COST_MAX {
            return Err(CqlError::server(format_args!(
                "The hash of this role's password has cost {cost}, and at most {COST_MAX} is checked; give it another \
                 password"
            )));
        }
        let (answer, checked) = oneshot::channel();
        let job = Job::Check {
            password: password.to_owned(),
            salted_hash: salted_hash.to_owned(),
            cost,
            answer,
        };
        self.threads.submit(address, job);
        checked.await.unwrap_or_else(|_| Err(gone()))
    }

    /// A new password's hash, with a salt of its own.
    pub(super) async fn hash(&self, password: &str) -> Result<String, CqlError> {
        let (answer, hashed) = oneshot::channel();
        let password = password.to_owned();
        self.threads.submit(NEW_PASSWORDS, Job::Hash { password, answer });
        hashed.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Checks that the text after `HASHED PASSWORD` was made by bcrypt, and can be checked.
pub(super) fn check_salted_hash(text: &str) -> Result<(), CqlError> {
    match text.parse::<HashParts>().map(|hash| hash.get_cost()) {
        Err(_) => Err(CqlError::invalid(format_args!(
            "Invalid hashed password value. Please use jBcrypt."
        ))),
        Ok(cost) if cost > COST_MAX => Err(CqlError::invalid(format_args!(
            "Invalid hashed password value: its cost is {cost}, and at most {COST_MAX} is checked"
        ))),
        Ok(_) => Ok(()),
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
    use std::task::{Context, Poll, Waker};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn passwords() -> (Passwords, Arc<PasswordThreads>) {
        let threads = Arc::new(PasswordThreads::without_threads());
        (Passwords::new(threads.clone()), threads)
    }

    #[test]
    fn the_default_superusers_hash_is_of_the_password_cassandra() {
        assert!(bcrypt::verify("cassandra", super::super::DEFAULT_SUPERUSER_HASH).unwrap());
    }

    #[test]
    fn a_hundred_logins_with_one_password_are_one_check() {
        let (passwords, threads) = passwords();
        // Of the password `x`, with the least cost that bcrypt allows.
        let hash = bcrypt::hash("x", 4).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut logins: Vec<_> = (0..100)
            .map(|_| Box::pin(passwords.is_right("x", &hash, HERE)))
            .collect();
        for login in &mut logins {
            assert!(login.as_mut().poll(&mut context).is_pending());
        }
        let Some(Job::Check { answer, .. }) = threads.take() else {
            panic!("nothing is checked");
        };
        answer.send(Ok(true)).ok().unwrap();
        for login in &mut logins {
            assert!(matches!(login.as_mut().poll(&mut context), Poll::Ready(Ok(true))));
        }
        assert!(threads.take().is_none());
    }

    /// One login attempt at a role with such a hash stopped all new logins for some 40 hours.
    #[test]
    fn hashes_that_take_hours_are_not_checked() {
        let (passwords, threads) = passwords();
        let of_cost = |cost| {
            let hash = bcrypt::hash("x", 4).unwrap();
            hash.replacen("$04$", &format!("${cost}$"), 1)
        };
        assert!(check_salted_hash(&of_cost(14)).is_ok());
        let refused = check_salted_hash(&of_cost(15)).unwrap_err().to_string();
        assert_eq!(
            refused,
            "Invalid hashed password value: its cost is 15, and at most 14 is checked"
        );
        let hash = of_cost(31);
        let mut login = Box::pin(passwords.is_right("x", &hash, HERE));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(
            login.as_mut().poll(&mut context),
            Poll::Ready(Err(CqlError::Server(_)))
        ));
        assert!(threads.take().is_none());
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
