//! Where a panic stops: at the request, message or task that caused it, never at the shard.
//!
//! A panic is a bug. The process-wide hook has printed and counted it before it is caught here; whoever waited for an
//! answer gets a server error, and the shard goes on with what it has.
//!
//! Asserting unwind safety is sound in the sense that matters to a shard: `RefCell` borrows are given back while
//! unwinding, an envelope that was begun is taken back (see [`Session::try_respond`](helenus_transport::Session::try_respond)),
//! and the scratch space is cleared by its next user. The store's structures are safe Rust, so the worst that a panic
//! in the middle of a write can leave there is one update applied in part, of a write that was never acknowledged;
//! losing the whole shard would be worse.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use helenus_engine::CqlError;

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

#[inline]
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// As [`catch`], for work that waits. It is boxed, because a future is as large as all that it waits for: each that
/// wraps it would copy it, and hold it twice.
pub fn catch_async<T>(work: impl Future<Output = T>) -> impl Future<Output = Result<T, Panicked>> {
    let mut work = Box::pin(work);
    poll_fn(move |context| match catch(|| work.as_mut().poll(context)) {
        Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
        Ok(Poll::Pending) => Poll::Pending,
        // A future that has panicked is not polled again.
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
}
