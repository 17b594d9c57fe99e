//! When something was deleted, and what that hides.

/// A deletion of a partition, a row, a range of rows or a collection: hides all that was written at or before
/// `timestamp_us`. `local_s` is the server's clock at the deletion, from which gc_grace counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionTime {
    /// Microseconds since the Unix epoch by the writer's clock.
    pub timestamp_us: i64,
    /// Seconds since the Unix epoch by the server's clock.
    pub local_s: u32,
}

/// The local deletion time of what is not deleted and does not expire.
pub const NEVER_S: u32 = u32::MAX;

/// The timestamp of what was never written.
pub const NO_TIMESTAMP: i64 = i64::MIN;

impl DeletionTime {
    /// Deletes nothing.
    pub const LIVE: DeletionTime = DeletionTime {
        timestamp_us: NO_TIMESTAMP,
        local_s: NEVER_S,
    };

    pub fn is_live(self) -> bool {
        self == Self::LIVE
    }

    pub fn hides(self, timestamp_us: i64) -> bool {
        timestamp_us <= self.timestamp_us
    }

    /// The one that hides more; of two with the same timestamp the one that lasts longer.
    pub fn max(self, other: DeletionTime) -> DeletionTime {
        if self.supersedes(other) { self } else { other }
    }

    /// A live deletion has the smallest timestamp there is, so anything real supersedes it.
    pub fn supersedes(self, other: DeletionTime) -> bool {
        self.timestamp_us > other.timestamp_us
            || (self.timestamp_us == other.timestamp_us && !self.is_live() && self.local_s > other.local_s)
    }
}
