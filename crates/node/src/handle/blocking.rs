//! Futures on threads that may wait.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use helenus_vfs::{Clock, SystemClock};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on the calling thread for what a [`Handle`](super::Handle) was asked. Not for a shard's own thread, which would wait
/// for itself, nor for futures that need a runtime of theirs.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = waker();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// As [`block_on`], but gives the future up, and with it what it waits for, once the time is over.
pub fn block_on_within<T>(timeout: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let (waker, clock) = (waker(), SystemClock::new());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        let left = timeout.checked_sub(Duration::from_nanos(clock.monotonic_ns()))?;
        thread::park_timeout(left);
    }
}

/// Wakes the calling thread.
fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}
