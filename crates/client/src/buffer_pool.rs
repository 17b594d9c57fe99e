//! Buffers of answers and of bound values, used again.
//!
//! A body below `POOLED_BYTES_MIN` costs less to allocate than to look up; larger ones come from and return to the
//! pool of their session when the last reader of the answer is done with them.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Bodies from this size on are pooled.
pub(crate) const POOLED_BYTES_MIN: usize = 1024;

/// The largest buffer that is kept: a page of 5,000 rows of 200 bytes.
const KEPT_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Bytes that an idle pool may hold.
const POOL_BYTES_MAX: usize = 32 << 20;

/// Buffers that wait for their next use; shared by the connections of a session.
#[derive(Debug)]
pub struct BufferPool {
    idle: Mutex<Idle>,
    is_on: bool,
}

#[derive(Debug, Default)]
struct Idle {
    /// By size class: capacities of at least `POOLED_BYTES_MIN << class`.
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
    /// Buffers of values that were bound for one execution; of any capacity.
    scratch: Vec<Vec<u8>>,
}

/// Scratch buffers that are kept, and the largest of them: a few more than a thread's callers bind before the first
/// of them is answered, and 4 MiB in all.
const SCRATCH_BUFFERS_MAX: usize = 64;
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// 1 KiB, 2 KiB, ... 1 MiB.
const CLASSES: usize = 11;

impl BufferPool {
    /// Makes an empty pool. On, it keeps idle buffers of 1 KiB to 1 MiB, 32 MiB in all, and 4 MiB for bound
    /// values; off, none: every buffer is allocated and freed.
    pub fn new(is_on: bool) -> Arc<Self> {
        Arc::new(BufferPool {
            idle: Mutex::default(),
            is_on,
        })
    }

    /// A copy of `bytes` in a buffer that returns when it is dropped.
    pub fn copy_of(self: &Arc<Self>, bytes: &[u8]) -> PooledBytes {
        let Some(class) = class_to_hold(bytes.len()).filter(|_| self.is_on) else {
            return PooledBytes {
                bytes: bytes.to_vec(),
                home: None,
            };
        };
        let found = {
            let idle = &mut *lock(&self.idle);
            let found = idle.classes[class].pop();
            idle.bytes -= found.as_ref().map_or(0, Vec::capacity);
            found
        };
        let mut buffer = found.unwrap_or_else(|| Vec::with_capacity(POOLED_BYTES_MIN << class));
        buffer.extend_from_slice(bytes);
        PooledBytes {
            bytes: buffer,
            home: Some(self.clone()),
        }
    }

    /// An empty buffer for the values of one execution; its owner gives it back.
    pub(crate) fn scratch(&self) -> Vec<u8> {
        lock(&self.idle).scratch.pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        if !self.is_on || buffer.capacity() > SCRATCH_BYTES_MAX {
            return;
        }
        buffer.clear();
        let scratch = &mut lock(&self.idle).scratch;
        if scratch.len() < SCRATCH_BUFFERS_MAX {
            scratch.push(buffer);
        }
    }

    /// Bytes of the buffers that wait for their next use.
    pub fn idle_bytes(&self) -> usize {
        lock(&self.idle).bytes
    }

    fn take_back(&self, mut buffer: Vec<u8>) {
        let Some(class) = class_of_capacity(buffer.capacity()) else {
            return;
        };
        buffer.clear();
        let idle = &mut *lock(&self.idle);
        if idle.bytes + buffer.capacity() <= POOL_BYTES_MAX {
            idle.bytes += buffer.capacity();
            idle.classes[class].push(buffer);
        }
    }
}

/// The smallest class whose buffers all hold `length` bytes; none for what is not pooled.
fn class_to_hold(length: usize) -> Option<usize> {
    if !(POOLED_BYTES_MIN..=KEPT_BUFFER_BYTES_MAX).contains(&length) {
        return None;
    }
    Some((length.next_power_of_two() / POOLED_BYTES_MIN).trailing_zeros() as usize)
}

/// The largest class whose buffers are no larger than `capacity`.
fn class_of_capacity(capacity: usize) -> Option<usize> {
    if !(POOLED_BYTES_MIN..=2 * KEPT_BUFFER_BYTES_MAX).contains(&capacity) {
        return None;
    }
    let class = (capacity / POOLED_BYTES_MIN).ilog2() as usize;
    Some(class.min(CLASSES - 1))
}

/// Bytes that return to their pool when the last owner drops them.
#[derive(Debug, Default)]
pub struct PooledBytes {
    bytes: Vec<u8>,
    home: Option<Arc<BufferPool>>,
}

impl Deref for PooledBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledBytes {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.take_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_returns_and_is_used_again() {
        let pool = BufferPool::new(true);
        let body = vec![7; 8 << 10];
        let first = pool.copy_of(&body);
        let address = first.as_ptr();
        assert_eq!(pool.idle_bytes(), 0);
        drop(first);
        assert_eq!(pool.idle_bytes(), 8 << 10);
        let second = pool.copy_of(&body[..5000]);
        assert_eq!((second.as_ptr(), &*second), (address, &body[..5000]));
    }

    #[test]
    fn small_bodies_and_huge_ones_are_not_kept() {
        let pool = BufferPool::new(true);
        drop(pool.copy_of(&[1; POOLED_BYTES_MIN - 1]));
        drop(pool.copy_of(&vec![1; KEPT_BUFFER_BYTES_MAX + 1]));
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn an_idle_pool_is_bounded() {
        let pool = BufferPool::new(true);
        let body = vec![1; KEPT_BUFFER_BYTES_MAX];
        let held: Vec<_> = (0..40).map(|_| pool.copy_of(&body)).collect();
        drop(held);
        assert_eq!(pool.idle_bytes(), POOL_BYTES_MAX);
    }
}
