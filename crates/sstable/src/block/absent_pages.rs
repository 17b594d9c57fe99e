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
            is_kept,
        }
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
