//! Rest of a thread that has nothing to do: what looks again and again looks seldom then.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// So long after the last thing that it did a thread rests: longer than the shortest timeouts, so that requests that have one are
/// looked after to the millisecond.
const IDLE_AFTER_NS: u64 = 1_000_000_000;

/// How often a resting thread's tasks look all the same: some things come without a word.
const REST_INTERVAL: Duration = Duration::from_millis(250);

/// One thread's rest.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    is_resting: Cell<bool>,
    ended: Notify,
}

impl Rest {
    /// The thread does something.
    #[inline]
    pub fn end(&self) {
        if self.is_resting.get() {
            self.end_now();
        }
    }

    #[cold]
    fn end_now(&self) {
        self.is_resting.set(false);
        self.ended.notify_waiters();
    }

    /// Sleeps for `interval`, or longer if the thread has done nothing for a while, until it does something. Returns how long that was
    /// at least.
    pub async fn pause(&self, interval: Duration, idle_ns: u64) -> Duration {
        if idle_ns < IDLE_AFTER_NS || interval >= REST_INTERVAL {
            sleep(interval).await;
            return interval;
        }
        self.is_resting.set(true);
        match timeout(REST_INTERVAL, self.ended.notified()).await {
            Ok(()) => Duration::ZERO,
            Err(_) => REST_INTERVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::time::Instant;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(5);

    #[tokio::test(start_paused = true)]
    async fn a_busy_thread_looks_often_and_an_idle_one_seldom() {
        let rest = Rest::default();
        let begun = Instant::now();
        assert_eq!(rest.pause(INTERVAL, IDLE_AFTER_NS - 1).await, INTERVAL);
        assert_eq!(begun.elapsed(), INTERVAL);
        assert_eq!(rest.pause(INTERVAL, IDLE_AFTER_NS).await, REST_INTERVAL);
        assert_eq!(begun.elapsed(), INTERVAL + REST_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_rests_is_woken_by_the_first_thing_that_is_done() {
        let rest = Rc::new(Rest::default());
        let begun = Instant::now();
        let tasks = tokio::task::LocalSet::new();
        tasks
            .run_until(async {
                let resting: Vec<_> = (0..2)
                    .map(|_| {
                        let rest = rest.clone();
                        tokio::task::spawn_local(async move { rest.pause(INTERVAL, u64::MAX).await })
                    })
                    .collect();
                sleep(Duration::from_millis(7)).await;
                rest.end();
                for one in resting {
                    assert_eq!(one.await.ok(), Some(Duration::ZERO));
                }
            })
            .await;
        assert_eq!(begun.elapsed(), Duration::from_millis(7));
    }
}
