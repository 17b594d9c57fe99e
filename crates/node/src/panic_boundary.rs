//! Where a panic stops: at the request, message or task that caused it, never at the shard.
//!
//! A panic is a bug. The process's hook has printed it, and counted it where [`count_panics`] was called; whoever waited for an
//! answer gets a server error, and the shard goes on with what it has.
//!
//! Asserting unwind safety is sound in the sense that matters to a shard: `RefCell` borrows are given back while
//! unwinding, an envelope that was begun is taken back (see [`Session::try_respond`](helenus_transport::Session::try_respond)),
//! and the scratch space is cleared by its next user. The store's structures are safe Rust, so the worst that a panic
//! in the middle of a write can leave there is one update applied in part, of a write that was never acknowledged;
//! losing the whole shard would be worse.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use helenus_engine::CqlError;

use crate::metrics::PANICS;

/// Something panicked; the hook has said what.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

impl Panicked {
    pub fn error(self) -> CqlError {
        CqlError::server(format_args!(
            "Internal error: executing the request panicked, which is a bug; the node's standard error has the place"
        ))
    }
}

/// True once [`count_panics`] has been called.
static ALL_ARE_COUNTED: AtomicBool = AtomicBool::new(false);

/// Has `helenus_panics_total` count every panic of the process, whoever catches it: for processes that are a node. It changes
/// the process's panic hook; without it those are counted that end at a request.
pub fn count_panics() {
    if ALL_ARE_COUNTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |report| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        previous(report);
    }));
}

#[inline]
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| caught())
}

#[cold]
fn caught() -> Panicked {
    if !ALL_ARE_COUNTED.load(Ordering::Relaxed) {
        PANICS.fetch_add(1, Ordering::Relaxed);
    }
    Panicked
}

/// As `catch`, for work that waits. It is boxed, because a future is as large as all that it waits for: each that
/// wraps it would copy it, and hold it twice.
pub fn catch_async<'w, T>(work: impl Future<Output = T> + 'w) -> Caught<'w, T> {
    catch_boxed(Box::pin(work))
}

/// As `catch_async`, for work that is in a box already.
pub fn catch_boxed<T>(work: Pin<Box<dyn Future<Output = T> + '_>>) -> Caught<'_, T> {
    Caught { work }
}

/// Future of [`catch_async`].
pub struct Caught<'w, T> {
    work: Pin<Box<dyn Future<Output = T> + 'w>>,
}

impl<T> Future for Caught<'_, T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch(|| self.work.as_mut().poll(context)) {
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Ok(Poll::Pending) => Poll::Pending,
            // A future that has panicked is not polled again.
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_panic_ends_at_the_work_that_waited() {
        let mut context = Context::from_waker(Waker::noop());
        let mut has_waited = false;
        let mut caught = pin!(catch_async(std::future::poll_fn(move |_| {
            assert!(!has_waited, "as it is meant to");
            has_waited = true;
            Poll::<()>::Pending
        })));
        assert!(caught.as_mut().poll(&mut context).is_pending());
        assert!(matches!(caught.poll(&mut context), Poll::Ready(Err(Panicked))));
        let mut done = pin!(catch_boxed(Box::pin(std::future::ready(7))));
        assert!(matches!(done.as_mut().poll(&mut context), Poll::Ready(Ok(7))));
    }
}
