//! Buffers of answers: one goes back when the last byte of its answer has left, or when nobody reads it any more, and is lent again.

use std::sync::{Mutex, PoisonError};

/// Smaller ones are not worth keeping: the allocator has them at hand.
const BUFFER_BYTES_MIN: usize = 1_024;

/// Larger ones belonged to one large answer.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Memory of all idle buffers: an eighth of what the doors of the smallest node may take, and 128 answers of 8 KiB.
const IDLE_BYTES_MAX: usize = 1 << 20;

/// Those that nobody uses. All answers are made and sent by the doors' thread, so that nobody waits for the lock.
#[derive(Debug)]
pub struct Buffers {
    idle_bytes_max: usize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The last one that was given back is the next to be lent: its bytes are in the cache.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers {
            idle_bytes_max: IDLE_BYTES_MAX,
            idle: Mutex::default(),
        }
    }
}

impl Buffers {
    /// Keeps nothing: what pooling is compared with.
    pub fn keeping_nothing() -> Self {
        Buffers {
            idle_bytes_max: 0,
            ..Buffers::default()
        }
    }

    /// An empty buffer with room for so many bytes.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes < BUFFER_BYTES_MIN {
            return Vec::with_capacity(bytes);
        }
        let idle = &mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = idle.buffers.pop().unwrap_or_default();
        idle.bytes -= taken.capacity();
        taken.reserve_exact(bytes);
        taken
    }

    /// Of whoever has no use for it any more.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&bytes) {
            return;
        }
        let idle = &mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.bytes + bytes <= self.idle_bytes_max {
            buffer.clear();
            idle.bytes += bytes;
            idle.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Buffers {
        fn idle_bytes(&self) -> usize {
            self.idle.lock().unwrap().bytes
        }
    }

    #[test]
    fn a_buffer_is_lent_again_empty_and_small_or_huge_ones_are_not_kept() {
        let buffers = Buffers::default();
        buffers.give_back(vec![1; 8_192]);
        for unwanted in [0, BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MAX + 1] {
            buffers.give_back(Vec::with_capacity(unwanted));
        }
        assert_eq!(buffers.idle_bytes(), 8_192);
        assert_eq!(
            buffers.take(BUFFER_BYTES_MIN - 1).capacity(),
            BUFFER_BYTES_MIN - 1
        );
        let lent = buffers.take(2_000);
        assert!(lent.is_empty() && lent.capacity() == 8_192);
        assert_eq!(buffers.idle_bytes(), 0);
    }

    #[test]
    fn what_is_idle_has_a_bound_which_may_be_none() {
        let buffers = Buffers::default();
        (0..1_000).for_each(|_| buffers.give_back(Vec::with_capacity(64 * 1024)));
        assert_eq!(buffers.idle_bytes(), IDLE_BYTES_MAX);
        let none = Buffers::keeping_nothing();
        none.give_back(Vec::with_capacity(2_000));
        assert_eq!(none.idle_bytes(), 0);
    }
}
