//! A panic is a bug and ends where it happened: the request that caused it is answered, the doors go on.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

/// `None` if it panicked. What the future has borrowed of the doors' state is given back as it unwinds.
pub async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        let future: Pin<&mut _> = future.as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_counted_by_the_hook) => Poll::Ready(None),
        }
    })
    .await
}
