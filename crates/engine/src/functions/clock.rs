//! Time as functions see it.

use std::cell::RefCell;

use helenus_types::value::TimeuuidGenerator;
use uuid::Uuid;

/// Clock of functions of time: the time of the request, so that a statement sees one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Microseconds since 1970 by the server's clock.
    pub server_timestamp_us: i64,
}

impl Clock {
    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.server_timestamp_us / 1_000
    }
}

thread_local! {
    /// Timeuuids of this shard never repeat and always ascend.
    static TIMEUUIDS: RefCell<TimeuuidGenerator> =
        RefCell::new(TimeuuidGenerator::new(Uuid::new_v4().as_u64_pair().0));
}

/// The next timeuuid of this thread at that time.
pub(crate) fn next_timeuuid(clock: Clock) -> [u8; 16] {
    TIMEUUIDS.with_borrow_mut(|timeuuids| timeuuids.next(clock.server_timestamp_us))
}
