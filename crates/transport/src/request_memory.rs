//! The memory of one shard's requests and answers: what its connections hold, and what is on its way to them.
//!
//! Each connection has an account. Whoever holds something for it, on whatever shard, charges that there from the moment at
//! which it is made, and makes no more where the account has no room. Room is for those who hold little: whoever asks for
//! much and takes nothing is refused, and the others are served from what he cannot have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Part of a shard's memory that requests, queues and answers may take: 64 MiB of 1 GiB, four of the largest requests.
pub const REQUEST_SHARE: u64 = 16;

/// Bytes that one answer may take however small the node is: as many as one message between shards may hold.
const ANSWER_BYTES_MIN: usize = 8 << 20;

/// Beside an answer its account holds the rows that are to come into it, of which a message has an eighth of it, on both
/// sides of the message.
const ROWS_SHARE: usize = 4;

/// Part of the shared memory that is kept for small holders on top of it.
const RESERVE_SHARE: usize = 4;

/// The reserve of a small node: room for sixteen connections with the buffers of a turn.
const RESERVE_BYTES_MIN: usize = 1 << 20;

/// Where the shared memory is taken, an account may hold this part of what is left up to the bound. The part is of the rest,
/// so however many accounts there are, something is left for one more that holds less.
const SMALL_HOLDER_SHARE: usize = 4;

/// Bytes not charged where they are in nobody's way for long: messages between shards carry them by the thousand.
const UNCHARGED_BYTES_MAX: usize = 1024;

/// Charged by any thread.
#[derive(Debug)]
pub struct RequestMemory {
    /// Shared by all. `usize::MAX` where nothing is refused.
    bytes_max: usize,
    charged_bytes: AtomicUsize,
}

impl RequestMemory {
    /// The part of a shard that has `shard_bytes` for everything; without a bound where `is_bounded` says so.
    pub fn of_shard(shard_bytes: u64, is_bounded: bool) -> Arc<Self> {
        let bytes_max = usize::try_from(shard_bytes / REQUEST_SHARE).unwrap_or(usize::MAX);
        Self::with_limit(if is_bounded { bytes_max } else { usize::MAX })
    }

    pub(crate) fn with_limit(bytes_max: usize) -> Arc<Self> {
        Arc::new(RequestMemory {
            bytes_max,
            charged_bytes: AtomicUsize::new(0),
        })
    }

    fn charge(&self, before: usize, now: usize) {
        change(&self.charged_bytes, before, now);
    }

    /// All that is charged now.
    pub fn charged_bytes(&self) -> usize {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that may still be charged before something is refused.
    pub fn free_bytes(&self) -> usize {
        self.bytes_max.saturating_sub(self.charged_bytes())
    }

    /// Bytes that one answer may take: all of it, as nothing else is begun then.
    pub fn answer_bytes_max(&self) -> usize {
        self.bytes_max.max(ANSWER_BYTES_MIN)
    }

    /// An answer while it is made.
    fn making_bytes_max(&self) -> usize {
        let answer_bytes_max = self.answer_bytes_max();
        answer_bytes_max.saturating_add(answer_bytes_max / ROWS_SHARE)
    }

    /// All that can be charged together, but for what the shards are making in this moment and rows that are longer than an
    /// answer: the shared memory, what one account may hold and an answer that is made for it, and the reserve.
    fn hard_bytes_max(&self) -> usize {
        self.bytes_max
            .saturating_add(self.making_bytes_max())
            .saturating_add(self.answer_bytes_max())
            .saturating_add(self.reserve_bytes())
    }

    fn reserve_bytes(&self) -> usize {
        (self.bytes_max / RESERVE_SHARE).max(RESERVE_BYTES_MIN)
    }

    fn left_bytes(&self) -> usize {
        self.hard_bytes_max().saturating_sub(self.charged_bytes())
    }

    /// Returns whether someone who holds `own_bytes` of what is charged may hold them and go on, with the `made_bytes` of
    /// them that are in the making. Those have a bound of their own: a row that is longer than an answer may be is served
    /// alone.
    fn has_room_for(&self, own_bytes: usize, made_bytes: usize) -> bool {
        let charged_bytes = self.charged_bytes();
        if charged_bytes <= self.bytes_max {
            return true;
        }
        let others_bytes = charged_bytes.saturating_sub(own_bytes);
        let other_own_bytes = own_bytes.saturating_sub(made_bytes);
        if others_bytes <= self.bytes_max && other_own_bytes <= self.making_bytes_max() {
            return true;
        }
        own_bytes <= self.left_bytes() / SMALL_HOLDER_SHARE
    }
}

/// Memory account of one connection: its holdings, what is made for it, and its state as far as others who serve it need it.
#[derive(Debug)]
pub struct Account {
    memory: Arc<RequestMemory>,
    bytes: AtomicUsize,
    kept_requests: AtomicUsize,
    is_closed: AtomicBool,
}

impl Account {
    /// The account of a new connection.
    pub fn of(memory: &Arc<RequestMemory>) -> Arc<Self> {
        Arc::new(Account {
            memory: memory.clone(),
            bytes: AtomicUsize::new(0),
            kept_requests: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Nobody is there to take anything: what is being made ends with its next step.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client has gone.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// So many requests of the client wait in its connection, behind those that its service has queued.
    pub(crate) fn set_kept_requests(&self, requests: usize) {
        self.kept_requests.store(requests, Ordering::Relaxed);
    }

    /// As of the last turn of its connection.
    pub fn kept_requests(&self) -> usize {
        self.kept_requests.load(Ordering::Relaxed)
    }

    /// Charges the change of its holdings from `before` to `now` bytes.
    fn charge(&self, before: usize, now: usize) {
        change(&self.bytes, before, now);
        self.memory.charge(before, now);
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns whether something may be begun for it.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.has_room_beside(0)
    }

    #[inline]
    fn has_room_beside(&self, made_bytes: usize) -> bool {
        // Nearly always: then what it holds itself does not matter.
        self.memory.charged_bytes() <= self.memory.bytes_max
            || self.memory.has_room_for(self.bytes(), made_bytes)
    }

    /// Bytes that a request may bring with it. Memory meant for an answer is not for requests.
    pub fn free_bytes(&self) -> usize {
        let reserve_bytes = self.memory.left_bytes().min(self.memory.reserve_bytes());
        let of_reserve = (reserve_bytes / SMALL_HOLDER_SHARE).saturating_sub(self.bytes());
        self.memory.free_bytes().max(of_reserve)
    }
}

fn change(bytes: &AtomicUsize, before: usize, now: usize) {
    if now >= before {
        bytes.fetch_add(now - before, Ordering::Relaxed);
    } else {
        bytes.fetch_sub(before - now, Ordering::Relaxed);
    }
}

/// Something that is charged for as long as it lives.
#[derive(Debug)]
pub struct Held {
    account: Arc<Account>,
    /// Changed by its owner only, which may be on any thread.
    bytes: AtomicUsize,
}

impl Held {
    /// Charged to `account`, and nothing yet.
    pub fn nothing_of(account: &Arc<Account>) -> Self {
        Held {
            account: account.clone(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Something that waits: nothing where it is too small to be worth it.
    #[inline]
    pub fn waiting(account: &Arc<Account>, bytes: usize) -> Option<Self> {
        (bytes > UNCHARGED_BYTES_MAX).then(|| {
            let held = Held::nothing_of(account);
            held.set(bytes);
            held
        })
    }

    /// Whom it is charged to.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// It takes `bytes` now.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes();
        if before != bytes {
            self.bytes.store(bytes, Ordering::Relaxed);
            self.account.charge(before, bytes);
        }
    }

    /// As [`Held::set`], if its account has room for that, and somebody is there to take it.
    pub fn try_set(&self, bytes: usize) -> Result<(), NoMemory> {
        self.set(bytes);
        if self.account.has_room_beside(bytes) && !self.account.is_closed() {
            Ok(())
        } else {
            Err(NoMemory)
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The account has no room for more, or its client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no memory for the answer; ask again later, or for smaller pages")]
pub struct NoMemory;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_is_held_is_charged_until_it_is_gone() {
        let memory = RequestMemory::with_limit(1_000);
        let account = Account::of(&memory);
        let (one, other) = (Held::nothing_of(&account), Held::nothing_of(&account));
        assert!(one.try_set(1_500).is_ok(), "it is alone");
        assert!(other.try_set(1).is_ok());
        assert_eq!((memory.charged_bytes(), memory.free_bytes()), (1_501, 0));
        drop(one);
        assert_eq!((account.bytes(), memory.charged_bytes()), (1, 1));
        drop(other);
        assert_eq!(memory.charged_bytes(), 0);
    }

    #[test]
    fn nothing_is_made_for_who_has_gone() {
        let account = Account::of(&RequestMemory::with_limit(6 * MIB));
        let held = Held::nothing_of(&account);
        assert!(held.try_set(1).is_ok());
        account.close();
        assert!(held.try_set(2).is_err());
    }

    /// Four connections that took none of their answers, and everybody else's requests were refused for fifteen seconds.
    #[test]
    fn who_holds_little_is_served_while_others_hold_all_there_is() {
        let memory = RequestMemory::with_limit(6 * MIB);
        let greedy: Vec<Held> = (0..8).map(|_| Held::nothing_of(&Account::of(&memory))).collect();
        // Each takes more until it is refused or has the largest answer, and keeps what it had.
        for _ in 0..100 {
            for held in &greedy {
                let before = held.bytes();
                let wanted = (before + 100_000).min(memory.answer_bytes_max());
                if held.try_set(wanted).is_err() {
                    held.set(before);
                }
            }
        }
        assert!(memory.free_bytes() == 0 && memory.charged_bytes() < memory.hard_bytes_max());
        let polite = Held::nothing_of(&Account::of(&memory));
        assert!(polite.account().has_room() && polite.account().free_bytes() > 64 << 10);
        assert!(polite.try_set(64 << 10).is_ok());
    }

    /// However many there are, and however they grow.
    #[test]
    fn nobody_gets_beyond_the_bound() {
        let memory = RequestMemory::with_limit(6 * MIB);
        let held: Vec<Held> = (0..1_000)
            .map(|_| Held::nothing_of(&Account::of(&memory)))
            .collect();
        for round in 1..100 {
            for (place, held) in (1..).zip(&held) {
                let before = held.bytes();
                let wanted = (before + place * round * 100).min(memory.answer_bytes_max());
                if held.try_set(wanted).is_err() {
                    held.set(before);
                }
                assert!(memory.charged_bytes() <= memory.hard_bytes_max());
            }
        }
        assert_eq!(memory.hard_bytes_max(), (6 + 10 + 8) * MIB + 3 * MIB / 2);
    }

    #[test]
    fn one_answer_of_the_largest_is_made_beside_what_all_others_may_hold() {
        let memory = RequestMemory::with_limit(6 * MIB);
        let (others, one) = (
            Held::nothing_of(&Account::of(&memory)),
            Held::nothing_of(&Account::of(&memory)),
        );
        assert!(others.try_set(6 * MIB).is_ok());
        assert!(one.try_set(memory.answer_bytes_max() + MIB).is_ok());
        let next = Held::nothing_of(&Account::of(&memory));
        assert!(
            next.try_set(4 * MIB).is_err(),
            "the next waits until one of them is gone"
        );
    }
}
