//! Bytes of pages, shared by the cache and by those who read them.

use std::ops::Deref;
use std::sync::Arc;

/// A file of this process and a page's index in it.
pub(crate) type PageKey = (u64, u64);

/// A page, or a run of pages, that nothing changes any more: memory of its own, or a part of a segment of the cache.
#[derive(Clone, Debug)]
pub(crate) struct PageBytes {
    memory: Arc<Vec<u8>>,
    start: usize,
    length: usize,
}

impl PageBytes {
    /// A part of a segment; `None` if it has no such part.
    pub fn within(memory: &Arc<Vec<u8>>, start: usize, length: usize) -> Option<Self> {
        memory.get(start..start.checked_add(length)?)?;
        Some(PageBytes {
            memory: Arc::clone(memory),
            start,
            length,
        })
    }

    /// Its memory, if it is its own and nobody else's.
    pub fn into_memory(mut self) -> Option<Arc<Vec<u8>>> {
        let is_whole = self.start == 0 && self.length == self.memory.len();
        (is_whole && Arc::get_mut(&mut self.memory).is_some()).then_some(self.memory)
    }
}

impl From<Arc<Vec<u8>>> for PageBytes {
    fn from(memory: Arc<Vec<u8>>) -> Self {
        let length = memory.len();
        PageBytes {
            memory,
            start: 0,
            length,
        }
    }
}

impl From<Vec<u8>> for PageBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Arc::new(bytes).into()
    }
}

impl Deref for PageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory
            .get(self.start..self.start + self.length)
            .unwrap_or_default()
    }
}
