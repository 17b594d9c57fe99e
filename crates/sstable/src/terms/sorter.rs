//! Entries as they come from rows, sorted into a file within bounded memory: runs of them first, then their merge.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::ClusteringComparator;
use helenus_vfs::Disk;

use crate::block::page_cache::PageCache;
use crate::error::{ReadError, WriteError};

use super::file::{TermCursor, TermFile, TermFlags};
use super::name::run_path;
use super::writer::TermFileWriter;
use super::{TermPlace, push_partition, push_term};

/// Bytes sorted in memory at once: large enough that the terms of common SSTables need no runs, small next to a memtable. A build
/// has one such buffer.
const BUFFER_BYTES_MAX: usize = 32 << 20;
/// A merge reads each run page after page and comes back to none.
const MERGE_CACHE_BYTES: usize = 0;

/// Takes the entries of one SSTable under one index and writes their file.
#[derive(Debug)]
pub struct TermFileBuilder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    comparator: Arc<ClusteringComparator>,
    bytes: Vec<u8>,
    entries: Vec<BufferedEntry>,
    buffer_bytes_max: usize,
    runs: u32,
    flags: TermFlags,
}

/// Size of a file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermFileInfo {
    pub entries: u64,
    pub disk_bytes: u64,
}

/// Where in the buffer an entry is: its head, and behind that its clustering.
#[derive(Clone, Copy, Debug)]
struct BufferedEntry {
    /// The first bytes of its head behind those that all heads begin with, as a number, and nothing where it ends: almost all
    /// comparisons look at nothing else. Known once it is sorted.
    prefix: [u64; 2],
    at: u32,
    head_length: u16,
    /// [`WHOLE_PARTITION`] for all rows of the partition.
    clustering_length: u16,
}

/// No clustering is as long.
const WHOLE_PARTITION: u16 = u16::MAX;

impl BufferedEntry {
    fn head(self, bytes: &[u8]) -> &[u8] {
        let at = self.at as usize;
        bytes
            .get(at..at + usize::from(self.head_length))
            .unwrap_or_default()
    }

    fn set_prefix(&mut self, bytes: &[u8], shared: usize) {
        let mut prefix = [0; 16];
        let head = self.head(bytes).get(shared..).unwrap_or_default();
        let length = head.len().min(prefix.len());
        prefix[..length].copy_from_slice(&head[..length]);
        let number = u128::from_be_bytes(prefix);
        self.prefix = [(number >> 64) as u64, number as u64];
    }

    fn parts(self, bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
        let rest = bytes.get(self.at as usize..).unwrap_or_default();
        let (head, rest) = rest
            .split_at_checked(usize::from(self.head_length))
            .unwrap_or_default();
        let clustering = match self.clustering_length {
            WHOLE_PARTITION => None,
            length => Some(rest.get(..usize::from(length)).unwrap_or_default()),
        };
        (head, clustering)
    }
}

impl TermFileBuilder {
    /// Begins a file, in the place of one that may be there. Nobody else writes it.
    pub fn new(disk: &Arc<dyn Disk>, path: &Path, comparator: &ClusteringComparator) -> Self {
        TermFileBuilder {
            disk: Arc::clone(disk),
            path: path.to_path_buf(),
            comparator: Arc::new(comparator.clone()),
            bytes: Vec::new(),
            entries: Vec::new(),
            buffer_bytes_max: BUFFER_BYTES_MAX,
            runs: 0,
            flags: TermFlags::default(),
        }
    }

    /// Sorts so much at once, for tests of what is larger.
    #[must_use]
    pub fn with_buffer(mut self, bytes_max: usize) -> Self {
        self.buffer_bytes_max = bytes_max.min(BUFFER_BYTES_MAX);
        self
    }

    /// `is_any` for the term of rows that have no other.
    pub fn push(&mut self, term: &[u8], is_any: bool, place: TermPlace<'_>) -> Result<(), WriteError> {
        let place = place.stored();
        let entry_bytes = size_of::<BufferedEntry>();
        if self.bytes.len() + self.entries.len() * entry_bytes >= self.buffer_bytes_max {
            self.spill()?;
        }
        self.flags.has_any |= is_any;
        self.flags.has_tokens |= place.key.is_empty();
        let at = self.bytes.len();
        push_term(&mut self.bytes, term);
        push_partition(&mut self.bytes, place.token, place.key);
        let head_length = (self.bytes.len() - at) as u16;
        self.bytes.extend_from_slice(place.clustering.unwrap_or_default());
        let clustering_length = |clustering: &[u8]| clustering.len() as u16;
        self.entries.push(BufferedEntry {
            prefix: [0; 2],
            at: at as u32,
            head_length,
            clustering_length: place.clustering.map_or(WHOLE_PARTITION, clustering_length),
        });
        Ok(())
    }

    fn sort(&mut self) {
        let (bytes, comparator) = (&self.bytes, &self.comparator);
        let mut shared = self.entries.first().map_or(&[][..], |first| first.head(bytes));
        for entry in &self.entries {
            let head = entry.head(bytes);
            if !head.starts_with(shared) {
                let alike = shared.iter().zip(head).take_while(|(left, right)| left == right);
                shared = &shared[..alike.count()];
            }
        }
        let shared = shared.len();
        for entry in &mut self.entries {
            entry.set_prefix(bytes, shared);
        }
        self.entries.sort_unstable_by(|left, right| {
            let prefixes = left.prefix.cmp(&right.prefix);
            prefixes.then_with(|| compare(comparator, left.parts(bytes), right.parts(bytes)))
        });
    }

    /// Writes what is in the buffer to a run of its own.
    fn spill(&mut self) -> Result<(), WriteError> {
        self.sort();
        let path = run_path(&self.path, self.runs);
        // An earlier build may have left one.
        let _absent = self.disk.remove(&path);
        let mut writer = TermFileWriter::create(&*self.disk, path)?;
        self.runs += 1;
        for entry in &self.entries {
            let (head, clustering) = entry.parts(&self.bytes);
            writer.push(head, clustering)?;
        }
        writer.finish(0, TermFlags::default())?;
        self.entries.clear();
        self.bytes.clear();
        Ok(())
    }

    /// Writes the file, durable but for its name, which it gets last: one that a power cut has torn is nobody's. `identity` is that of the
    /// SSTable.
    pub fn finish(mut self, identity: u64) -> Result<TermFileInfo, TermFileError> {
        let _absent = self.disk.remove(&self.path);
        if self.runs > 0 {
            self.spill()?;
        }
        let unnamed = run_path(&self.path, self.runs);
        let written = self.write(&unnamed, identity);
        let named = named(&*self.disk, &unnamed, &self.path, written);
        self.remove_runs();
        named
    }

    fn write(&mut self, path: &Path, identity: u64) -> Result<TermFileInfo, TermFileError> {
        let mut writer = TermFileWriter::create(&*self.disk, path.to_path_buf())?;
        if self.runs > 0 {
            self.merge(&mut writer)?;
        } else {
            self.sort();
            for entry in &self.entries {
                let (head, clustering) = entry.parts(&self.bytes);
                writer.push(head, clustering)?;
            }
        }
        let (disk_bytes, entries) = writer.finish(identity, self.flags)?;
        Ok(TermFileInfo { entries, disk_bytes })
    }

    fn merge(&self, writer: &mut TermFileWriter) -> Result<(), TermFileError> {
        let cache = PageCache::new(MERGE_CACHE_BYTES);
        let open = |number| TermFile::open(&*self.disk, &run_path(&self.path, number), 0, &self.comparator);
        let runs = (0..self.runs).map(open).collect::<Result<Vec<_>, _>>()?;
        let mut heads = BinaryHeap::new();
        for run in &runs {
            let mut cursor = run.cursor(&cache).reading_ahead();
            if cursor.seek(&[])? {
                heads.push(Reverse(RunHead {
                    cursor,
                    comparator: &self.comparator,
                }));
            }
        }
        while let Some(Reverse(mut first)) = heads.pop() {
            writer.push(first.cursor.head(), first.cursor.clustering())?;
            if first.cursor.advance()? {
                heads.push(Reverse(first));
            }
        }
        Ok(())
    }

    /// Removes what was written.
    pub fn abandon(self) {
        self.remove_runs();
        let _absent = self.disk.remove(&self.path);
    }

    /// Removes the runs; what stays is removed by the next start.
    fn remove_runs(&self) {
        for number in 0..self.runs {
            let _left = self.disk.remove(&run_path(&self.path, number));
        }
    }
}

/// Writes a file from entries that come in its order, as [`TermFileBuilder::finish`] does. None is under the term of rows that have no other.
pub fn write_sorted_terms<'e>(
    disk: &dyn Disk,
    path: &Path,
    (identity, flags): (u64, TermFlags),
    entries: impl Iterator<Item = (&'e [u8], Option<&'e [u8]>)>,
) -> Result<TermFileInfo, TermFileError> {
    let _absent = disk.remove(path);
    let unnamed = run_path(path, 0);
    let write = || {
        let mut writer = TermFileWriter::create(disk, unnamed.clone())?;
        for (head, clustering) in entries {
            writer.push(head, clustering)?;
        }
        let (disk_bytes, entries) = writer.finish(identity, flags)?;
        Ok(TermFileInfo { entries, disk_bytes })
    };
    named(disk, &unnamed, path, write())
}

/// Gives a file that was written its name, or removes what was written of it.
fn named(
    disk: &dyn Disk,
    unnamed: &Path,
    path: &Path,
    written: Result<TermFileInfo, TermFileError>,
) -> Result<TermFileInfo, TermFileError> {
    let named = written.and_then(|info| match disk.rename(unnamed, path) {
        Ok(()) => Ok(info),
        Err(source) => Err(WriteError::Io {
            file: unnamed.to_path_buf(),
            source,
        }
        .into()),
    });
    if named.is_err() {
        let _left_to_the_next_start = disk.remove(unnamed);
    }
    named
}

/// A run could not be written, or not be read again.
#[derive(Debug, thiserror::Error)]
pub enum TermFileError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A run by the entry that it stands on.
struct RunHead<'a> {
    cursor: TermCursor<'a>,
    comparator: &'a ClusteringComparator,
}

impl Ord for RunHead<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(
            self.comparator,
            (self.cursor.head(), self.cursor.clustering()),
            (other.cursor.head(), other.cursor.clustering()),
        )
    }
}

impl PartialOrd for RunHead<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunHead<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RunHead<'_> {}

/// Compares heads and clusterings; all of a partition comes before its rows.
fn compare(
    comparator: &ClusteringComparator,
    left: (&[u8], Option<&[u8]>),
    right: (&[u8], Option<&[u8]>),
) -> Ordering {
    left.0.cmp(right.0).then_with(|| match (left.1, right.1) {
        (Some(left), Some(right)) => comparator.compare(left, right),
        (left, right) => left.is_some().cmp(&right.is_some()),
    })
}
