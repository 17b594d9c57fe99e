//! Buffers of requests and answers: one goes back when the last byte of its answer has left, or nobody reads its request any more, and is
//! lent again.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smaller ones are not worth keeping: the allocator has them at hand.
const BUFFER_BYTES_MIN: usize = 1_024;

/// Larger ones belonged to one large answer.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Memory of all idle buffers: an eighth of what the doors of the smallest node may take, and 128 answers of 8 KiB.
const IDLE_BYTES_MAX: usize = 1 << 20;

/// Powers of two that a buffer's capacity may lie above. Whoever asks is lent one of his own class, so that nobody holds more than twice what
/// he was charged for.
const CLASSES: usize = (BUFFER_BYTES_MAX / BUFFER_BYTES_MIN).ilog2() as usize + 1;

/// Those that nobody uses. All answers are made and sent by the doors' thread, so that nobody waits for the lock.
#[derive(Debug)]
pub struct Buffers {
    idle_bytes_max: usize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// By class. The last one that was given back is the next to be lent: its bytes are in the cache.
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
}

/// Returns the class of a buffer's capacity; `None` where the buffer is not kept.
fn class_of(bytes: usize) -> Option<usize> {
    let is_kept = (BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&bytes);
    is_kept.then(|| (bytes / BUFFER_BYTES_MIN).ilog2() as usize)
}

impl Idle {
    fn take(&mut self, class: usize) -> Option<Vec<u8>> {
        let taken = self.classes.get_mut(class)?.pop()?;
        self.bytes -= taken.capacity();
        Some(taken)
    }

    /// Frees a buffer of the class that has most: it was asked for when answers were of another length.
    fn forget_one(&mut self) {
        let bytes_of = |class: &Vec<Vec<u8>>| class.iter().map(Vec::capacity).sum::<usize>();
        let most = (0..CLASSES).max_by_key(|class| self.classes.get(*class).map(bytes_of));
        drop(most.and_then(|class| self.take(class)));
    }
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
        let lent = class_of(bytes).and_then(|class| self.idle().take(class));
        let mut taken = lent.unwrap_or_default();
        taken.reserve_exact(bytes);
        taken
    }

    /// Takes a buffer back from whoever has no use for it any more.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        let Some(class) = class_of(bytes).filter(|_| bytes <= self.idle_bytes_max) else {
            return;
        };
        buffer.clear();
        let idle = &mut *self.idle();
        while idle.bytes + bytes > self.idle_bytes_max {
            idle.forget_one();
        }
        if let Some(class) = idle.classes.get_mut(class) {
            idle.bytes += bytes;
            class.push(buffer);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
        let lent = buffers.take(8_000);
        // The longer one is of another class.
        assert!(lent.is_empty() && lent.capacity() == 8_000);
        assert_eq!(buffers.idle_bytes(), 8_192);
        let lent = buffers.take(8_192);
        assert!(lent.is_empty() && lent.capacity() == 8_192);
        assert_eq!(buffers.idle_bytes(), 0);
    }

    /// Answers of 1 KiB that nobody read held buffers of 256 KiB, which nobody was charged for.
    #[test]
    fn nobody_holds_more_than_twice_what_he_asked_for() {
        let buffers = Buffers::default();
        buffers.give_back(Vec::with_capacity(BUFFER_BYTES_MAX));
        buffers.give_back(Vec::with_capacity(2_000));
        for bytes in [BUFFER_BYTES_MIN, 1_500, 2_048, 100_000, BUFFER_BYTES_MAX] {
            let lent = buffers.take(bytes);
            assert!((bytes..2 * bytes).contains(&lent.capacity()), "{bytes}");
            buffers.give_back(lent);
        }
    }

    /// A pool full of what was asked for before kept nothing of what is asked for now.
    #[test]
    fn what_is_asked_for_now_takes_the_place_of_what_was_asked_for_before() {
        let buffers = Buffers::default();
        (0..4).for_each(|_| buffers.give_back(Vec::with_capacity(BUFFER_BYTES_MAX)));
        buffers.give_back(Vec::with_capacity(2_000));
        assert_eq!(buffers.idle_bytes(), 3 * BUFFER_BYTES_MAX + 2_000);
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
