//! The memory of one shard's requests and answers: what its connections hold, and what is on its way to them.
//!
//! Other shards make answers for its clients. They charge them here from the moment at which they are made, and make none
//! while there is no memory: a client that asks and takes nothing would fill the process otherwise.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helenus_engine::CqlError;

use crate::options::NodeOptions;

/// Of a shard's memory, the part that requests, queues and answers may take: 64 MiB of 1 GiB, four of the largest
/// requests.
pub(crate) const REQUEST_SHARE: u64 = 16;

/// What one answer may take however small the node is: what one message between shards may hold.
const ANSWER_BYTES_MIN: usize = 8 << 20;

/// Charged by any thread.
#[derive(Debug)]
pub struct RequestMemory {
    /// `usize::MAX` where nothing is refused.
    bytes_max: usize,
    charged_bytes: AtomicUsize,
}

impl RequestMemory {
    pub(crate) fn of(options: &NodeOptions) -> Arc<Self> {
        let shard_bytes = options.memory_bytes / u64::from(options.shard_count.max(1));
        let bytes_max = usize::try_from(shard_bytes / REQUEST_SHARE).unwrap_or(usize::MAX);
        Self::with_limit(if options.admission { bytes_max } else { usize::MAX })
    }

    pub(crate) fn with_limit(bytes_max: usize) -> Arc<Self> {
        Arc::new(RequestMemory {
            bytes_max,
            charged_bytes: AtomicUsize::new(0),
        })
    }

    /// What is held has changed from `before` to `now` bytes.
    pub fn charge(&self, before: usize, now: usize) {
        if now >= before {
            self.charged_bytes.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.charged_bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    pub fn charged_bytes(&self) -> usize {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    pub fn free_bytes(&self) -> usize {
        self.bytes_max.saturating_sub(self.charged_bytes())
    }

    pub fn is_full(&self) -> bool {
        self.is_full_beside(0)
    }

    /// Whether all others hold the memory already, beside someone who holds `own_bytes`.
    pub fn is_full_beside(&self, own_bytes: usize) -> bool {
        self.charged_bytes().saturating_sub(own_bytes) > self.bytes_max
    }

    /// What one answer may take: all of it, as nothing else is begun then.
    pub(crate) fn answer_bytes_max(&self) -> usize {
        self.bytes_max.max(ANSWER_BYTES_MIN)
    }
}

/// Something that is charged for as long as it lives.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Arc<RequestMemory>,
    bytes: Cell<usize>,
}

impl Held {
    pub fn nothing_of(memory: &Arc<RequestMemory>) -> Self {
        Held {
            memory: memory.clone(),
            bytes: Cell::new(0),
        }
    }

    pub fn set(&self, bytes: usize) {
        let before = self.bytes.replace(bytes);
        if before != bytes {
            self.memory.charge(before, bytes);
        }
    }

    /// As [`Held::set`], unless others hold all the memory.
    pub fn try_set(&self, bytes: usize) -> Result<(), CqlError> {
        self.set(bytes);
        if self.memory.is_full_beside(bytes) {
            return Err(no_memory());
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

pub(crate) fn no_memory() -> CqlError {
    CqlError::overloaded(format_args!(
        "There is no memory for the answer; ask again later, or for smaller pages"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_charged_until_it_is_gone() {
        let memory = RequestMemory::with_limit(1_000);
        let (one, other) = (Held::nothing_of(&memory), Held::nothing_of(&memory));
        assert!(one.try_set(1_500).is_ok(), "it is alone");
        assert!(memory.is_full() && other.try_set(1).is_err());
        assert_eq!((memory.charged_bytes(), memory.free_bytes()), (1_501, 0));
        drop(one);
        assert!(other.try_set(900).is_ok() && !memory.is_full());
        drop(other);
        assert_eq!(memory.charged_bytes(), 0);
    }
}
