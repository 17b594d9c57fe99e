//! Checksums of a file's pages, taken as its bytes pass.

use crate::block::checksums::PageChecksums;
use crate::component::Component;

/// CRC32s of pages of one length, which doubles where a file has too many of them.
#[derive(Debug)]
pub(crate) struct PageSums {
    page_bytes: u32,
    checksums: Vec<u32>,
    page: crc32fast::Hasher,
    page_length: usize,
}

/// They are in memory while the SSTable is open: 4 MiB for a file of up to 2 GiB in granules of 2 KiB, where they
/// begin to double.
const PAGES_MAX: usize = 1 << 20;
/// Pages do not grow beyond what drives read at once anyway: 4 bytes of memory for each, a thousandth of the data.
const PAGE_BYTES_MAX: u32 = 4096;

impl PageSums {
    pub fn new(page_bytes: u32) -> Self {
        PageSums {
            page_bytes,
            checksums: Vec::new(),
            page: crc32fast::Hasher::new(),
            page_length: 0,
        }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.page_bytes as usize - self.page_length;
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.page.update(now);
            self.page_length += now.len();
            bytes = rest;
            if self.page_length == self.page_bytes as usize {
                self.finish_page();
            }
        }
    }

    fn finish_page(&mut self) {
        self.checksums.push(std::mem::take(&mut self.page).finalize());
        self.page_length = 0;
        if self.checksums.len() >= PAGES_MAX && self.page_bytes < PAGE_BYTES_MAX {
            self.double();
        }
    }

    /// All pages so far are whole, and their number is even.
    fn double(&mut self) {
        let length = u64::from(self.page_bytes);
        let joined = self.checksums.chunks_exact(2).map(|pair| {
            let mut first = crc32fast::Hasher::new_with_initial_len(pair[0], length);
            first.combine(&crc32fast::Hasher::new_with_initial_len(pair[1], length));
            first.finalize()
        });
        self.checksums = joined.collect();
        self.page_bytes *= 2;
    }

    pub fn finish(mut self, component: Component) -> PageChecksums {
        if self.page_length > 0 {
            self.finish_page();
        }
        PageChecksums {
            component,
            page_bytes: self.page_bytes,
            checksums: self.checksums,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_pages_have_the_checksums_of_their_bytes() {
        let bytes: Vec<u8> = (0..5000_u32).map(|index| (index / 3) as u8).collect();
        let mut sums = PageSums::new(512);
        sums.update(&bytes[..2000]);
        sums.update(&bytes[2000..4096]);
        sums.double();
        sums.update(&bytes[4096..]);
        let found = sums.finish(Component::Data);
        let wanted: Vec<u32> = bytes.chunks(1024).map(crc32fast::hash).collect();
        assert_eq!((found.page_bytes, found.checksums), (1024, wanted));
    }
}
