//! Timestamps that a shard gives out: each is later than those before, whatever the wall clock does.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_types::value::timeuuid::TimeuuidGenerator;
use helenus_vfs::Clock;
use uuid::Uuid;

/// How far in the future rows may be for a conditional write to go beyond them: clocks of clients are wrong by less. A later
/// ballot would be as wrong, and the next would follow it.
const AHEAD_US_MAX: i64 = 24 * 60 * 60 * 1_000_000;

/// In microseconds since the Unix epoch.
pub(crate) struct Timestamps {
    clock: Arc<dyn Clock>,
    last_us: Cell<i64>,
    /// The wall clock when that was given out.
    wall_us: Cell<i64>,
    timeuuids: RefCell<TimeuuidGenerator>,
}

impl Timestamps {
    pub fn new(clock: Arc<dyn Clock>, timeuuid_seed: u64) -> Self {
        Timestamps {
            clock,
            last_us: Cell::new(0),
            wall_us: Cell::new(0),
            timeuuids: RefCell::new(TimeuuidGenerator::new(timeuuid_seed)),
        }
    }

    /// A write timestamp, later than any that was given out before.
    pub fn next_us(&self) -> i64 {
        let wall_us = self.clock.wall_us();
        self.wall_us.set(wall_us);
        let timestamp_us = wall_us.max(self.last_us.get() + 1);
        self.last_us.set(timestamp_us);
        timestamp_us
    }

    /// The wall clock at a time that was just given out, which is later where the clock went back, or that was looked at. What is written
    /// expires by the clock by which it is read.
    pub fn wall_s_at(&self, server_timestamp_us: i64) -> u32 {
        let is_last = server_timestamp_us == self.last_us.get();
        let wall_us = if is_last {
            self.wall_us.get()
        } else {
            server_timestamp_us
        };
        (wall_us / 1_000_000) as u32
    }

    /// A timestamp that makes visible what is written: later than what this shard has given out, than when the request
    /// arrived, and than the newest that was read. The last does not move the shard's own clock.
    pub fn ballot_us(&self, newest_us: i64, server_timestamp_us: i64) -> Result<i64, CqlError> {
        let ballot_us = self.next_us().max(server_timestamp_us.saturating_add(1));
        check_ahead(newest_us, ballot_us)?;
        Ok(ballot_us.max(newest_us.saturating_add(1)))
    }

    /// Makes what is given out from now on later.
    pub fn note(&self, timestamp_us: i64) {
        self.last_us.set(self.last_us.get().max(timestamp_us));
    }

    /// The last that was given out.
    pub fn last_us(&self) -> i64 {
        self.last_us.get()
    }

    /// Takes back what was given out after [`Timestamps::last_us`] said this, which nobody has seen.
    pub fn take_back_to(&self, last_us: i64) {
        self.last_us.set(last_us);
    }

    pub fn new_timeuuid(&self) -> Uuid {
        Uuid::from_bytes(self.timeuuids.borrow_mut().next(self.clock.wall_us()))
    }
}

/// Refuses to go beyond what was written too far in the future.
pub(crate) fn check_ahead(newest_us: i64, ballot_us: i64) -> Result<(), CqlError> {
    if newest_us.saturating_sub(ballot_us) > AHEAD_US_MAX {
        return Err(CqlError::invalid(format_args!(
            "The row was written with a timestamp more than a day in the future ({newest_us}); a conditional update would \
             not be visible"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use helenus_vfs::SystemClock;

    use super::*;

    #[test]
    fn what_nobody_has_seen_is_given_out_again_and_what_was_noted_is_passed() {
        let timestamps = Timestamps::new(Arc::new(SystemClock::new()), 1);
        let ahead_us = timestamps.next_us() + 1_000_000_000;
        timestamps.note(ahead_us);
        timestamps.note(0);
        assert_eq!(timestamps.next_us(), ahead_us + 1);
        assert_eq!(timestamps.ballot_us(ahead_us + 10, 0).unwrap(), ahead_us + 11);
        timestamps.take_back_to(ahead_us);
        assert_eq!(timestamps.next_us(), ahead_us + 1);
        assert!(timestamps.ballot_us(ahead_us + 2 * AHEAD_US_MAX, 0).is_err());
    }
}
