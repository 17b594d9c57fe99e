//! Bytes of pages, shared by the cache and by those who read them.

use std::ops::Deref;
use std::sync::Arc;

use crate::block::segment_memory::SegmentMemory;

/// A file of this process and a page's index in it.
pub(crate) type PageKey = (u64, u64);

/// A page, or a run of pages, that nothing changes any more.
#[derive(Clone, Debug)]
pub(crate) enum PageBytes {
    Own(Arc<Vec<u8>>),
    /// A part of a segment of the cache.
    Within {
        segment: Arc<SegmentMemory>,
        start: usize,
        length: usize,
    },
}

impl PageBytes {
    /// Its memory, if it is its own and nobody else's.
    pub fn into_memory(self) -> Option<Arc<Vec<u8>>> {
        match self {
            PageBytes::Own(mut memory) => Arc::get_mut(&mut memory).is_some().then_some(memory),
            PageBytes::Within { .. } => None,
        }
    }
}

impl From<Arc<Vec<u8>>> for PageBytes {
    fn from(memory: Arc<Vec<u8>>) -> Self {
        PageBytes::Own(memory)
    }
}

impl From<Vec<u8>> for PageBytes {
    fn from(bytes: Vec<u8>) -> Self {
        PageBytes::Own(Arc::new(bytes))
    }
}

impl Deref for PageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            PageBytes::Own(memory) => memory,
            PageBytes::Within {
                segment,
                start,
                length,
            } => segment.part(*start, *length),
        }
    }
}
