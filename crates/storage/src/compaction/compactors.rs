//! How many compactions run at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::pace::ThroughputLimit;

/// Limits on compaction that all shards of a node share.
#[derive(Debug)]
pub struct CompactionLimits {
    pub throughput: ThroughputLimit,
    /// Bytes of its inputs that one compaction has asked for at once; it holds as many again of what they decompress to. Each of 90
    /// inputs with 128 KiB was a sixth of the memory of a small node (decision 35).
    pub(crate) read_bytes: usize,
    compactors: Compactors,
}

#[derive(Debug)]
struct Compactors {
    /// Cassandra's `concurrent_compactors`.
    count_max: AtomicUsize,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    all: usize,
    large: usize,
}

/// The right to run one compaction; given back when dropped.
#[derive(Debug)]
pub(crate) struct CompactorPermit {
    limits: Arc<CompactionLimits>,
    is_large: bool,
}

/// From this many bytes of input on, compactions leave one compactor to the smaller ones: at 64 MiB/s it is 16 seconds,
/// and a flush every second would pile up as many SSTables meanwhile.
const LARGE_BYTES: u64 = 1 << 30;

impl CompactionLimits {
    /// As much as helps the fastest drive: 128 inputs with the largest request.
    pub const READ_BYTES_MAX: usize = 16 << 20;

    /// Bytes a second, 0 for no bound; at least one compactor; bytes that each has asked for at once, up to [`Self::READ_BYTES_MAX`].
    pub fn new(bytes_per_s: u64, concurrent_compactors: usize, read_bytes: usize) -> Arc<Self> {
        Arc::new(CompactionLimits {
            throughput: ThroughputLimit::new(bytes_per_s),
            read_bytes: read_bytes.min(Self::READ_BYTES_MAX),
            compactors: Compactors {
                count_max: AtomicUsize::new(concurrent_compactors.max(1)),
                running: Mutex::default(),
            },
        })
    }

    pub fn concurrent_compactors(&self) -> usize {
        self.compactors.count_max.load(Ordering::Relaxed)
    }

    /// `None` while as many run as may.
    pub(crate) fn permit(self: &Arc<Self>, input_bytes: u64) -> Option<CompactorPermit> {
        let is_large = input_bytes >= LARGE_BYTES;
        let count_max = self.concurrent_compactors();
        let mut running = self.compactors.lock();
        if running.all >= count_max || (is_large && running.large >= count_max.saturating_sub(1).max(1)) {
            return None;
        }
        running.all += 1;
        running.large += usize::from(is_large);
        Some(CompactorPermit {
            limits: Arc::clone(self),
            is_large,
        })
    }
}

impl Compactors {
    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        // Two counters, always changed together and never across a panic.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CompactorPermit {
    fn drop(&mut self) {
        let mut running = self.limits.compactors.lock();
        running.all -= 1;
        running.large -= usize::from(self.is_large);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_compactions_leave_one_compactor_to_small_ones() {
        let limits = CompactionLimits::new(0, 3, 0);
        let large: Vec<_> = (0..3).filter_map(|_| limits.permit(LARGE_BYTES)).collect();
        assert_eq!(large.len(), 2);
        let small = limits.permit(1);
        assert!(small.is_some() && limits.permit(1).is_none());
        drop(large);
        assert!(limits.permit(LARGE_BYTES).is_some());
    }

    #[test]
    fn a_single_compactor_takes_all() {
        let limits = CompactionLimits::new(0, 0, 0);
        let only = limits.permit(LARGE_BYTES);
        assert!(only.is_some() && limits.permit(1).is_none());
        drop(only);
        assert!(limits.permit(1).is_some());
    }
}
