//! Memory of pages that nobody reads any more.

use std::sync::Arc;

use crate::block::page_bytes::PageBytes;

/// For pages that come: a page is some hundred instructions to decode into memory that is there, and thousands to clear or copy.
#[derive(Debug, Default)]
pub(super) struct SparePages {
    lengths: Vec<SpareLength>,
    bytes: usize,
}

#[derive(Debug)]
struct SpareLength {
    length: usize,
    pages: Vec<Arc<Vec<u8>>>,
}

/// Bytes of spare pages at most: those that some hundred reads bring.
const SPARE_BYTES_MAX: usize = 2 << 20;
/// Most lengths of spare pages: of an index, of data in several sizes of chunks, and of two or three such pages in one request.
const SPARE_LENGTHS_MAX: usize = 8;

impl SparePages {
    /// Takes back the memory of a page that its user is done with.
    pub fn give(&mut self, page: PageBytes) {
        let Some(memory) = page.into_memory() else {
            return;
        };
        let length = memory.len();
        if self.bytes + length > SPARE_BYTES_MAX {
            return;
        }
        if let Some(spare) = self.lengths.iter_mut().find(|spare| spare.length == length) {
            spare.pages.push(memory);
        } else if self.lengths.len() < SPARE_LENGTHS_MAX {
            let pages = vec![memory];
            self.lengths.push(SpareLength { length, pages });
        } else {
            return;
        }
        self.bytes += length;
    }

    /// Returns memory of a length, whatever its content.
    pub fn take(&mut self, length: usize) -> Arc<Vec<u8>> {
        let spare = self.lengths.iter_mut().find(|spare| spare.length == length);
        match spare.and_then(|spare| spare.pages.pop()) {
            Some(memory) => {
                self.bytes -= length;
                memory
            }
            None => Arc::new(vec![0; length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lends_its_memory_to_the_next_of_its_length_unless_it_is_still_read() {
        let mut spare = SparePages::default();
        let first = PageBytes::from(vec![1; 30]);
        let at = first.as_ptr();
        spare.give(first.clone());
        assert!(spare.take(30).as_ptr() != at);
        spare.give(first);
        assert!(spare.take(29).as_ptr() != at);
        assert_eq!(spare.take(30).as_ptr(), at);
        assert_eq!(spare.bytes, 0);
    }
}
