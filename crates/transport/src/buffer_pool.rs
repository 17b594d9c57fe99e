//! Buffers of requests and answers: a connection has one while there is something to read or to send, and none at rest.

use std::cell::{Cell, RefCell};

/// Largest buffer that is kept, in bytes: one turn's reading of a connection. Larger buffers belonged to one large message.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Memory of all idle buffers of a shard: 16 of the largest, or 256 of those that a read is offered (16 KiB). In one turn
/// of the event loop no more are in use at once, unless clients do not take their answers.
const POOL_BYTES_MAX: usize = 4 << 20;

/// The idle buffers of one shard; the last one that was given back is the next to be lent, its bytes are in the cache.
///
/// A buffer is given back by its only owner: what still reads it (a trace, a suspended request) owns its own copy.
pub struct BufferPool {
    bytes_max: usize,
    idle: RefCell<Vec<Vec<u8>>>,
    idle_bytes: Cell<usize>,
}

impl Default for BufferPool {
    fn default() -> Self {
        BufferPool {
            bytes_max: POOL_BYTES_MAX,
            idle: RefCell::default(),
            idle_bytes: Cell::new(0),
        }
    }
}

impl BufferPool {
    /// Smaller buffers are not worth keeping: the allocator has them at hand.
    pub(crate) const BUFFER_BYTES_MIN: usize = 1024;

    /// A pool that keeps nothing: what pooling is compared with.
    pub(crate) fn keeping_nothing() -> Self {
        BufferPool {
            bytes_max: 0,
            ..BufferPool::default()
        }
    }

    /// An empty buffer, with memory if there is any.
    #[inline]
    pub fn take(&self) -> Vec<u8> {
        let taken = self.idle.borrow_mut().pop().unwrap_or_default();
        self.idle_bytes
            .set(self.idle_bytes.get().saturating_sub(taken.capacity()));
        taken
    }

    /// Takes back a buffer that its user needs no more.
    #[inline]
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        let idle_bytes = self.idle_bytes.get() + bytes;
        if (Self::BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&bytes) && idle_bytes <= self.bytes_max {
            buffer.clear();
            self.idle.borrow_mut().push(buffer);
            self.idle_bytes.set(idle_bytes);
        }
    }

    /// Memory of the buffers that nobody uses.
    pub fn idle_bytes(&self) -> usize {
        self.idle_bytes.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_lent_again_empty_and_small_or_huge_ones_are_not_kept() {
        let pool = BufferPool::default();
        assert_eq!(pool.take().capacity(), 0);
        let mut buffer = Vec::with_capacity(16 * 1024);
        buffer.push(1);
        pool.give_back(buffer);
        for unwanted in [0, BufferPool::BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MAX + 1] {
            pool.give_back(Vec::with_capacity(unwanted));
        }
        assert_eq!(pool.idle_bytes(), 16 * 1024);
        let lent = pool.take();
        assert!(lent.is_empty() && lent.capacity() == 16 * 1024);
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn the_pool_has_a_bound() {
        let pool = BufferPool::default();
        (0..1_000).for_each(|_| pool.give_back(Vec::with_capacity(64 * 1024)));
        assert_eq!(pool.idle_bytes(), POOL_BYTES_MAX);
    }
}
