//! Whose turn it is to work, of the compactions that run.
//!
//! While there are requests, half of the compactors work at a time. Where each core has one, a thread that wakes to answer
//! has to drive one away, which the kernel may do milliseconds late; where half of the cores have none, it goes to one of
//! those. Measured in `docs/decisions/0011-compaction.md`.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::compactors::CompactionLimits;

#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    working: usize,
    /// The numbers of those who wait, the first to come in front; no more than compactions run.
    waiting: VecDeque<u64>,
    next_number: u64,
}

/// The right to work for a while; given back when dropped.
#[derive(Debug)]
pub struct Turn {
    limits: Arc<CompactionLimits>,
}

/// At most this long without looking whether the turn is still wanted.
const WAIT_MAX: Duration = Duration::from_millis(100);

impl CompactionLimits {
    /// Waits until fewer than half of the compactors work, first come, first served. `wants_one` is asked meanwhile:
    /// when it says no, or fails, the wait ends without a turn.
    pub(crate) fn turn<E>(
        self: &Arc<Self>,
        mut wants_one: impl FnMut() -> Result<bool, E>,
    ) -> Result<Option<Turn>, E> {
        let mut queue = self.turns.lock();
        let number = queue.next_number;
        queue.next_number += 1;
        queue.waiting.push_back(number);
        loop {
            let is_wanted = wants_one();
            let working_max = self.concurrent_compactors().div_ceil(2);
            let is_next = queue.working < working_max && queue.waiting.front() == Some(&number);
            if is_next || !matches!(is_wanted, Ok(true)) {
                queue.waiting.retain(|waiting| *waiting != number);
                self.turns.changed.notify_all();
                let turn = is_wanted?.then(|| {
                    queue.working += 1;
                    Turn {
                        limits: Arc::clone(self),
                    }
                });
                return Ok(turn);
            }
            let woken = self.turns.changed.wait_timeout(queue, WAIT_MAX);
            (queue, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A counter and a list of numbers, never changed across a panic but one of `wants_one`, which leaves a number in
        // the list only.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.limits.turns.lock().working -= 1;
        self.limits.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn always() -> Result<bool, ()> {
        Ok(true)
    }

    /// Symptom: while every core compacted, requests waited for the scheduler's next tick.
    #[test]
    fn half_of_the_compactors_work_at_a_time() {
        let limits = CompactionLimits::new(0, 4);
        let (working, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = limits.turn(always).unwrap();
                        let now = working.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        working.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        assert!(limits.turns.lock().waiting.is_empty());
    }

    #[test]
    fn whoever_has_worked_comes_after_those_who_wait() {
        let limits = CompactionLimits::new(0, 2);
        let order = Mutex::new(Vec::new());
        let first = limits.turn(always).unwrap();
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let turn = limits.turn(always).unwrap();
                order.lock().unwrap().push("other");
                drop(turn);
            });
            while limits.turns.lock().waiting.is_empty() {
                thread::yield_now();
            }
            drop(first);
            let again = limits.turn(always).unwrap();
            order.lock().unwrap().push("again");
            drop(again);
            other.join().unwrap();
        });
        assert_eq!(order.into_inner().unwrap(), ["other", "again"]);
    }

    #[test]
    fn whoever_wants_none_any_more_leaves_the_queue() {
        let limits = CompactionLimits::new(0, 2);
        let only = limits.turn(always).unwrap();
        assert!(limits.turn(|| Ok::<_, ()>(false)).unwrap().is_none());
        let mut asked = 0;
        let stopped = limits.turn(|| {
            asked += 1;
            if asked == 1 { Ok(true) } else { Err("stopped") }
        });
        assert_eq!(stopped.unwrap_err(), "stopped");
        drop(only);
        assert!(limits.turn(always).unwrap().is_some());
        assert_eq!(limits.turns.lock().working, 0);
    }
}
