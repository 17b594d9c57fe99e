//! Writes entries that come in order.

use std::path::PathBuf;

use helenus_vfs::Disk;

use crate::component_writer::ComponentFile;
use crate::error::WriteError;

use super::file::{Directory, FOOT_BYTES, Fence, TermFlags, UpperPage};
use super::page::PageBuilder;

/// Pages with entries go to the file as they are full, those above them are kept until its end: a hundredth of it.
#[derive(Debug)]
pub(super) struct TermFileWriter {
    file: ComponentFile,
    leaf: PageBuilder,
    leaf_pages: u32,
    entries: u64,
    fences: Vec<Fence>,
    /// The entry before.
    head: Vec<u8>,
    clustering: Option<Vec<u8>>,
}

impl TermFileWriter {
    pub fn create(disk: &dyn Disk, path: PathBuf) -> Result<Self, WriteError> {
        Ok(TermFileWriter {
            file: ComponentFile::create(disk, path)?,
            leaf: PageBuilder::default(),
            leaf_pages: 0,
            entries: 0,
            fences: Vec::new(),
            head: Vec::new(),
            clustering: None,
        })
    }

    /// Entries ascend; one that the one before it covers is left out.
    pub fn push(&mut self, head: &[u8], clustering: Option<&[u8]>) -> Result<(), WriteError> {
        let is_same_head = self.entries > 0 && self.head == head;
        if is_same_head && (self.clustering.is_none() || self.clustering.as_deref() == clustering) {
            return Ok(());
        }
        if self.leaf.is_empty() {
            self.note_fence(head, clustering, is_same_head);
        }
        if !self.leaf.push(head, clustering) {
            self.end_page()?;
            self.note_fence(head, clustering, is_same_head);
            let has_room = self.leaf.push(head, clustering);
            debug_assert!(
                has_room,
                "bounds of terms and places leave a page room for two entries"
            );
        }
        self.entries += 1;
        self.head.clear();
        self.head.extend_from_slice(head);
        match (&mut self.clustering, clustering) {
            (Some(kept), Some(clustering)) => {
                kept.clear();
                kept.extend_from_slice(clustering);
            }
            (kept, clustering) => *kept = clustering.map(<[u8]>::to_vec),
        }
        Ok(())
    }

    fn note_fence(&mut self, head: &[u8], clustering: Option<&[u8]>, is_same_head: bool) {
        self.fences.push(Fence {
            head: head.into(),
            clustering: clustering.filter(|_| is_same_head).map(Into::into),
        });
    }

    fn end_page(&mut self) -> Result<(), WriteError> {
        let number = u64::from(self.leaf_pages);
        self.leaf_pages += 1;
        self.file.append(self.leaf.finish(number))
    }

    /// Writes what is above the entries. Returns the length of the file and how many entries it has.
    pub fn finish(mut self, identity: u64, flags: TermFlags) -> Result<(u64, u64), WriteError> {
        if !self.leaf.is_empty() {
            self.end_page()?;
        }
        let mut upper = Vec::new();
        let mut page = PageBuilder::default();
        for (leaf, fence) in (0..).zip(std::mem::take(&mut self.fences)) {
            let clustering = fence.clustering.as_deref();
            if !page.is_empty() && !page.push(&fence.head, clustering) {
                self.file
                    .append(page.finish(u64::from(self.leaf_pages) + upper.len() as u64 - 1))?;
            }
            if page.is_empty() {
                let _has_room = page.push(&fence.head, clustering);
                upper.push(UpperPage {
                    first_leaf: leaf,
                    fence,
                });
            }
        }
        if !page.is_empty() {
            self.file
                .append(page.finish(u64::from(self.leaf_pages) + upper.len() as u64 - 1))?;
        }
        let directory = Directory {
            identity,
            leaf_pages: self.leaf_pages,
            entries: self.entries,
            flags,
            upper,
        };
        let mut bytes = Vec::new();
        directory.encode(&mut bytes);
        let length = (bytes.len() as u64).to_be_bytes();
        bytes.extend_from_slice(&length);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        debug_assert_eq!(FOOT_BYTES, length.len() + size_of_val(&checksum));
        self.file.append(&bytes)?;
        Ok((self.file.finish()?, self.entries))
    }
}
