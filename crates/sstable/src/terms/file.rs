//! A file of terms, open for reading.

use std::path::Path;

use helenus_rows::clustering::{ClusteringComparator, Side};
use helenus_vfs::{Disk, File};

use crate::block::chunked_file::{ChunkedFile, Form};
use crate::block::pages::Pages;
use crate::block::ticket::PageRun;
use crate::decode::{ByteReader, DecodeError};
use crate::error::ReadError;

use super::page::PageWalk;
use super::{PAGE_BYTES, VERSION};

/// Length and checksum of the directory.
pub(super) const FOOT_BYTES: usize = 12;
/// The least that an upper page takes in the directory: its first page below, two lengths.
const FENCE_BYTES_MIN: usize = 8;
/// Pages that a walk over many reads at once: as much as a drive gives in the time of a request.
const AHEAD_PAGES_MAX: u64 = 16;

/// The directory in memory, all else through a [`PageCache`](crate::PageCache).
#[derive(Debug)]
pub struct TermFile {
    pages: ChunkedFile,
    comparator: ClusteringComparator,
    leaf_pages: u64,
    upper: Vec<UpperPage>,
    entries: u64,
    flags: TermFlags,
    length: u64,
}

/// Rare content that a file has, so that nobody looks for it in vain in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermFlags {
    /// Rows have the term of those that have no other, which belongs to every query.
    pub has_any: bool,
    /// Entries lead to all partitions of a token.
    pub has_tokens: bool,
}

const FLAG_ANY: u8 = 1;
const FLAG_TOKENS: u8 = 2;

/// A page of the upper level, in the directory.
#[derive(Debug)]
pub(super) struct UpperPage {
    pub first_leaf: u32,
    pub fence: Fence,
}

/// The first entry of a page.
#[derive(Debug)]
pub(super) struct Fence {
    pub head: Box<[u8]>,
    /// `None` where the page begins with a group.
    pub clustering: Option<Box<[u8]>>,
}

/// Where a cursor goes: before all entries of a head, or within them.
#[derive(Clone, Copy)]
struct Target<'t> {
    head: &'t [u8],
    within: Option<(&'t [u8], Side)>,
}

impl TermFile {
    /// Reads the directory. `identity` is that of the SSTable: files of another one are damaged ones here.
    pub fn open(
        disk: &dyn Disk,
        path: &Path,
        identity: u64,
        comparator: &ClusteringComparator,
    ) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io {
            file: path.to_path_buf(),
            source,
        };
        let file = disk.open(path).map_err(io)?;
        let length = file.length().map_err(io)?;
        let (directory_at, bytes) = read_directory(&*file, path, length)?;
        let directory = Directory::decode(&bytes).map_err(|error| error.in_file(path, directory_at))?;
        let wrong = |wanted, found: u64| DecodeError::malformed(0, wanted, found).in_file(path, directory_at);
        if directory.identity != identity {
            return Err(wrong("the terms of this SSTable", directory.identity));
        }
        let page_count = u64::from(directory.leaf_pages) + directory.upper.len() as u64;
        if page_count * PAGE_BYTES as u64 != directory_at {
            return Err(wrong("a directory behind its pages", page_count));
        }
        let form = Form::SelfChecked {
            page_bytes: PAGE_BYTES as u32,
        };
        Ok(TermFile {
            pages: ChunkedFile::sidecar(path.to_path_buf(), file, directory_at, form),
            comparator: comparator.clone(),
            leaf_pages: u64::from(directory.leaf_pages),
            upper: directory.upper,
            entries: directory.entries,
            flags: directory.flags,
            length,
        })
    }

    pub fn path(&self) -> &Path {
        self.pages.path()
    }

    pub fn disk_bytes(&self) -> u64 {
        self.length
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    #[cfg(test)]
    pub(super) fn leaf_pages(&self) -> usize {
        self.leaf_pages as usize
    }

    pub fn flags(&self) -> TermFlags {
        self.flags
    }

    /// Bytes that stay in memory while it is open.
    pub fn memory_bytes(&self) -> usize {
        let fences = self.upper.iter().map(|page| {
            let clustering = page.fence.clustering.as_ref();
            page.fence.head.len() + clustering.map_or(0, |clustering| clustering.len())
        });
        size_of_val(self.upper.as_slice()) + fences.sum::<usize>()
    }

    /// Returns whether a page could not be read: all rows of the SSTable are candidates from then on.
    pub fn has_failed(&self) -> bool {
        self.pages.has_failed()
    }

    /// Notes that a page is not what it should be; true the first time.
    pub fn note_failure(&self) -> bool {
        self.pages.note_failure()
    }

    pub fn cursor<'a>(&'a self, pages: impl Into<Pages<'a>>) -> TermCursor<'a> {
        TermCursor {
            file: self,
            pages: pages.into(),
            walk: PageWalk::default(),
            loaded: None,
            leaf: 0,
            next_head: None,
            prefix: Vec::new(),
            ahead_pages: 1,
        }
    }

    /// Returns whether a page with a first entry can have what lies before the target.
    fn is_at_or_before(&self, head: &[u8], clustering: Option<&[u8]>, target: Target<'_>) -> bool {
        head.cmp(target.head)
            .then_with(|| match (clustering, target.within) {
                (None, _) => std::cmp::Ordering::Less,
                (Some(_), None) => std::cmp::Ordering::Greater,
                (Some(clustering), Some((prefix, side))) => {
                    self.comparator.compare_to_place(clustering, prefix, side)
                }
            })
            .is_lt()
    }
}

fn read_directory(file: &dyn File, path: &Path, length: u64) -> Result<(u64, Vec<u8>), ReadError> {
    let read = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(offset, &mut bytes)
            .map(|()| bytes)
            .map_err(|source| ReadError::Io {
                file: path.to_path_buf(),
                source,
            })
    };
    let wrong =
        |offset, wanted, found: String| DecodeError::malformed(0, wanted, found).in_file(path, offset);
    let foot_at = length
        .checked_sub(FOOT_BYTES as u64)
        .ok_or_else(|| wrong(0, "a directory", format!("{length} bytes")))?;
    let foot = read(foot_at, FOOT_BYTES)?;
    let in_foot = |error: DecodeError| error.in_file(path, foot_at);
    let mut reader = ByteReader::new(&foot);
    let directory_length = reader.u64().map_err(in_foot)?;
    let checksum = reader.u32().map_err(in_foot)?;
    // Compared with the file before there is memory for it.
    let directory_at = foot_at
        .checked_sub(directory_length)
        .ok_or_else(|| wrong(foot_at, "a directory in the file", directory_length.to_string()))?;
    let directory = read(directory_at, directory_length as usize)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&directory);
    hasher.update(foot.get(..8).unwrap_or_default());
    let found = hasher.finalize();
    if found != checksum {
        let found = format!("CRC32 {found:08x} instead of {checksum:08x}");
        return Err(wrong(
            directory_at,
            "a directory that matches its checksum",
            found,
        ));
    }
    Ok((directory_at, directory))
}

/// Directory behind the pages.
///
/// | field | bytes |
/// |---|---|
/// | version | 4: 1 |
/// | identity | 8: of the SSTable |
/// | pages | 4: those with entries |
/// | entries | 8 |
/// | flags | 1: 1 if rows have the term of those that have no other, 2 if entries lead to all of a token |
/// | upper pages | 4: their number |
/// | upper page | 4: the first page below, 2-byte length and head, 2-byte length + 1 and clustering, or 0 for none |
#[derive(Debug)]
pub(super) struct Directory {
    pub identity: u64,
    pub leaf_pages: u32,
    pub entries: u64,
    pub flags: TermFlags,
    pub upper: Vec<UpperPage>,
}

impl Directory {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.identity.to_be_bytes());
        out.extend_from_slice(&self.leaf_pages.to_be_bytes());
        out.extend_from_slice(&self.entries.to_be_bytes());
        let any = if self.flags.has_any { FLAG_ANY } else { 0 };
        let tokens = if self.flags.has_tokens { FLAG_TOKENS } else { 0 };
        out.push(any | tokens);
        out.extend_from_slice(&(self.upper.len() as u32).to_be_bytes());
        for page in &self.upper {
            out.extend_from_slice(&page.first_leaf.to_be_bytes());
            out.extend_from_slice(&(page.fence.head.len() as u16).to_be_bytes());
            out.extend_from_slice(&page.fence.head);
            match &page.fence.clustering {
                None => out.extend_from_slice(&[0; 2]),
                Some(clustering) => {
                    out.extend_from_slice(&(clustering.len() as u16 + 1).to_be_bytes());
                    out.extend_from_slice(clustering);
                }
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let version = reader.u32()?;
        if version != VERSION {
            return Err(DecodeError::malformed(0, "version 1", version));
        }
        let identity = reader.u64()?;
        let leaf_pages = reader.u32()?;
        let entries = reader.u64()?;
        let flags_at = reader.position();
        let flags = reader.u8()?;
        if flags & !(FLAG_ANY | FLAG_TOKENS) != 0 {
            return Err(DecodeError::malformed(flags_at, "known flags", flags));
        }
        let count = reader.count_u32(FENCE_BYTES_MIN)?;
        let mut upper: Vec<UpperPage> = Vec::with_capacity(count);
        for _ in 0..count {
            let at = reader.position();
            let first_leaf = reader.u32()?;
            let follows = upper
                .last()
                .map_or(first_leaf == 0, |last| last.first_leaf < first_leaf);
            if !follows || first_leaf >= leaf_pages {
                return Err(DecodeError::malformed(
                    at,
                    "a page behind the one before",
                    first_leaf,
                ));
            }
            let head = reader.bytes_after_u16()?.into();
            let clustering = match reader.u16()?.checked_sub(1) {
                None => None,
                Some(length) => Some(reader.bytes(usize::from(length))?.into()),
            };
            upper.push(UpperPage {
                first_leaf,
                fence: Fence { head, clustering },
            });
        }
        reader.finish()?;
        Ok(Directory {
            identity,
            leaf_pages,
            entries,
            flags: TermFlags {
                has_any: flags & FLAG_ANY != 0,
                has_tokens: flags & FLAG_TOKENS != 0,
            },
            upper,
        })
    }
}

/// Goes through entries in their order.
#[derive(Debug)]
pub struct TermCursor<'a> {
    file: &'a TermFile,
    pages: Pages<'a>,
    walk: PageWalk,
    /// With where the page is in it.
    loaded: Option<(PageRun, u64)>,
    leaf: u64,
    /// First head of the page behind the one that the cursor stands in, where a search has seen it.
    next_head: Option<Vec<u8>>,
    /// Heads without it are of no interest.
    prefix: Vec<u8>,
    ahead_pages: u64,
}

impl<'a> TermCursor<'a> {
    /// For a walk over many pages: reads some at once.
    #[must_use]
    pub fn reading_ahead(mut self) -> Self {
        self.ahead_pages = AHEAD_PAGES_MAX;
        self
    }

    /// Only for heads with a prefix: the end comes at the latest where a page is known to begin with none of them.
    #[must_use]
    pub fn within(mut self, prefix: &[u8]) -> Self {
        self.prefix = prefix.to_vec();
        self
    }

    /// Moves to the first entry that is not before a head.
    pub fn seek(&mut self, head: &[u8]) -> Result<bool, ReadError> {
        self.seek_target(Target { head, within: None })
    }

    /// Moves to the first entry that has a head and leads to rows behind a place of the partition, or that lies behind.
    pub fn seek_within(&mut self, head: &[u8], prefix: &[u8], side: Side) -> Result<bool, ReadError> {
        self.seek_target(Target {
            head,
            within: Some((prefix, side)),
        })
    }

    fn seek_target(&mut self, target: Target<'_>) -> Result<bool, ReadError> {
        let file = self.file;
        let upper = file.upper.partition_point(|page| {
            file.is_at_or_before(&page.fence.head, page.fence.clustering.as_deref(), target)
        });
        // Before the first entry of all there is none.
        let Some((place, page)) = upper
            .checked_sub(1)
            .or_else(|| (!file.upper.is_empty()).then_some(0))
            .and_then(|place| Some((place, file.upper.get(place)?)))
        else {
            return Ok(false);
        };
        let first_leaf = u64::from(page.first_leaf);
        let below = file
            .upper
            .get(place + 1)
            .map_or(file.leaf_pages, |next| u64::from(next.first_leaf));
        self.load(file.leaf_pages + place as u64, 1)?;
        self.next_head = file.upper.get(place + 1).map(|next| next.fence.head.to_vec());
        let mut leaf = first_leaf;
        let mut entry = 0;
        while self.step()? {
            if !file.is_at_or_before(&self.walk.head, self.walk.clustering(), target) {
                self.next_head = Some(self.walk.head.clone());
                break;
            }
            leaf = first_leaf + entry;
            entry += 1;
        }
        self.leaf = leaf.min(below.saturating_sub(1));
        self.load(self.leaf, 1)?;
        while self.advance()? {
            if !self.is_before(target) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_before(&self, target: Target<'_>) -> bool {
        match (*self.walk.head).cmp(target.head) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => match (self.walk.clustering(), target.within) {
                (Some(clustering), Some((prefix, side))) => self
                    .file
                    .comparator
                    .compare_to_place(clustering, prefix, side)
                    .is_lt(),
                _ => false,
            },
        }
    }

    /// Moves to the next entry; false at the end.
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        while !self.step()? {
            let is_of_no_interest = |next: Vec<u8>| !next.starts_with(&self.prefix);
            if self.leaf + 1 >= self.file.leaf_pages || self.next_head.take().is_some_and(is_of_no_interest) {
                return Ok(false);
            }
            self.leaf += 1;
            self.load(self.leaf, self.ahead_pages)?;
        }
        Ok(true)
    }

    /// Moves to the next entry of the page.
    fn step(&mut self) -> Result<bool, ReadError> {
        let Some((run, at)) = &self.loaded else {
            return Ok(false);
        };
        let page = run.bytes.get(*at as usize..).unwrap_or_default();
        let page = page.get(..PAGE_BYTES).unwrap_or_default();
        let offset = run.offset + at;
        self.walk
            .advance(page)
            .map_err(|error| error.in_file(self.file.path(), offset))
    }

    fn load(&mut self, page: u64, ahead_pages: u64) -> Result<(), ReadError> {
        let file = &self.file.pages;
        let offset = page * PAGE_BYTES as u64;
        let run = match self.pages.find(file, page) {
            Some(run) => run,
            None => {
                let last = (page + ahead_pages - 1)
                    .min(self.file.leaf_pages.saturating_sub(1))
                    .max(page);
                // What is there already is read again: it is next to what is not.
                let absent = self.pages.absent(file, page, last, true);
                match self.pages.find_resident(&absent) {
                    Some(run) => run,
                    None => PageRun {
                        offset,
                        bytes: self.pages.fetch(absent)?.into(),
                    },
                }
            }
        };
        let at = offset - run.offset;
        let bytes = run.bytes.get(at as usize..).unwrap_or_default();
        self.walk
            .begin(bytes)
            .map_err(|error| error.in_file(self.file.path(), offset))?;
        self.loaded = Some((run, at));
        Ok(())
    }

    /// Head of the entry that the cursor stands on.
    pub fn head(&self) -> &[u8] {
        &self.walk.head
    }

    /// Clustering of the entry that the cursor stands on; `None` for all rows of the partition.
    pub fn clustering(&self) -> Option<&[u8]> {
        self.walk.clustering()
    }
}
