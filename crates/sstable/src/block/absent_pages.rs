//! The pages that a read ended for.

use std::path::Path;
use std::sync::Arc;

use helenus_vfs::File;

use crate::block::chunked_file::ChunkedFile;

/// Neighbouring pages that a read needs and memory lacks.
#[derive(Debug)]
pub struct AbsentPages {
    pub(super) file: ChunkedFile,
    pub(super) first: u64,
    /// Included.
    pub(super) last: u64,
    pub(super) offset: u64,
    pub(super) length: usize,
    /// Uncompressed bytes from the first page's beginning on that the read expects to use.
    pub(super) wanted: usize,
    pub(super) is_kept: bool,
}

impl AbsentPages {
    pub(crate) fn new(file: &ChunkedFile, first: u64, last: u64, is_kept: bool) -> Self {
        let (offset, length) = file.stored_range(first, last);
        AbsentPages {
            file: file.clone(),
            first,
            last,
            offset,
            length,
            wanted: file.bytes_of(first, last),
            is_kept,
        }
    }

    /// For a read that expects to use nothing from a position in the last page on.
    pub(crate) fn up_to(mut self, end: u64) -> Self {
        let wanted = end.saturating_sub(self.first * self.file.page_bytes());
        let least = self.wanted - self.file.bytes_of(self.last, self.last);
        if self.file.unpacks_beginnings() && wanted > least as u64 {
            self.wanted = self.wanted.min(usize::try_from(wanted).unwrap_or(usize::MAX));
        }
        self
    }

    pub fn file(&self) -> &Arc<dyn File> {
        self.file.file()
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Where the pages begin in the file as it is stored.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Stored bytes to read.
    pub fn length(&self) -> usize {
        self.length
    }
}
