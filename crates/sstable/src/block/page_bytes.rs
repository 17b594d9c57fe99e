//! Bytes of pages, shared by the cache and by those who read them.

use std::ops::Deref;
use std::sync::Arc;

use crate::block::segment_memory::SegmentMemory;

/// A file of this process and a page's index in it.
pub(crate) type PageKey = (u64, u64);

/// A page, or a run of pages, that nothing changes any more.
#[derive(Clone, Debug)]
pub(crate) enum PageBytes {
    /// The beginning of memory that is its own.
    Own { memory: Arc<Vec<u8>>, length: usize },
    /// A part of a segment of the cache.
    Within {
        segment: Arc<SegmentMemory>,
        start: usize,
        length: usize,
    },
}

impl PageBytes {
    pub fn memory_bytes(&self) -> usize {
        match self {
            PageBytes::Own { memory, .. } => memory.len(),
            PageBytes::Within { length, .. } => *length,
        }
    }

    /// Its memory, if it is its own and nobody else's.
    pub fn into_memory(self) -> Option<Arc<Vec<u8>>> {
        match self {
            PageBytes::Own { mut memory, .. } => Arc::get_mut(&mut memory).is_some().then_some(memory),
            PageBytes::Within { .. } => None,
        }
    }
}

impl From<Arc<Vec<u8>>> for PageBytes {
    fn from(memory: Arc<Vec<u8>>) -> Self {
        let length = memory.len();
        PageBytes::Own { memory, length }
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
        match self {
            PageBytes::Own { memory, length } => memory.get(..*length).unwrap_or_default(),
            PageBytes::Within {
                segment,
                start,
                length,
            } => segment.part(*start, *length),
        }
    }
}
