//! File descriptors: as many as the system gives, and some of them that no connection gets.
//!
//! The commit log needs one for its next segment, a flush or a compaction a dozen for its SSTable, a read of a new SSTable
//! two. A client that connects as often as it can must not be what they are missing for.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that connections leave to the rest of the node: some dozens for each of the flushes and compactions that
/// run at once, of which there are eight by default.
const RESERVE: u64 = 256;

/// Part of a small limit that is the reserve, so that most of it is for connections.
const RESERVE_SHARE: u64 = 4;

/// The descriptors that connections do not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorReserve {
    begins_at: RawFd,
    /// Descriptors that the process may have open, the reserve included.
    pub limit: u64,
    /// How many they are.
    pub descriptors: u64,
}

impl DescriptorReserve {
    /// Raises the process's limit as far as it may, and keeps the reserve of that.
    pub fn of_this_process() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        let current = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            // What the process has is what it had.
            Err(_) => limit.current,
        };
        DescriptorReserve::of(current.unwrap_or(u64::MAX))
    }

    fn of(limit: u64) -> Self {
        let descriptors = RESERVE.min(limit / RESERVE_SHARE);
        DescriptorReserve {
            begins_at: RawFd::try_from(limit - descriptors).unwrap_or(RawFd::MAX),
            limit,
            descriptors,
        }
    }

    /// Returns whether fewer than the reserve were free when `newest` was opened. A new descriptor gets the smallest number
    /// that is free, so all below it were taken.
    pub fn is_touched_by(self, newest: &impl AsFd) -> bool {
        newest.as_fd().as_raw_fd() >= self.begins_at
    }

    /// Returns whether the reserve is whole. Opens a descriptor, a second name of `any`, to see.
    pub fn is_whole(self, any: &impl AsFd) -> bool {
        any.as_fd()
            .try_clone_to_owned()
            .is_ok_and(|newest| !self.is_touched_by(&newest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_leaves_most_of_it_to_connections() {
        let of = |limit| {
            let reserve = DescriptorReserve::of(limit);
            (reserve.begins_at, reserve.descriptors)
        };
        assert_eq!(of(1 << 20), ((1 << 20) - 256, 256));
        assert_eq!(of(1_024), (768, 256));
        assert_eq!(of(128), (96, 32));
        assert_eq!(of(u64::MAX), (RawFd::MAX, 256));
    }
}
