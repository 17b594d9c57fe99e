//! Components as they are written: Data.db in checked chunks, the others in one piece or page by page.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_vfs::{Disk, File};

use crate::block::checksums::PageChecksums;
use crate::block::compression::{CompressionInfo, CompressionParameters};
use crate::block::page_sums::PageSums;
use crate::component::Component;
use crate::descriptor::Descriptor;
use crate::error::WriteError;
use crate::version::Version;

/// Bytes gathered before a write to the file: the largest that drives take in one piece, small next to a memtable.
const WRITE_BUFFER_BYTES: usize = 1 << 20;
/// Memory kept for what is not in a full chunk yet: a chunk, and the last row of a common size.
const TAIL_CHUNKS_MAX: usize = 4;
/// Bytes of an uncompressed Data.db under one checksum; Cassandra's choice.
const UNCOMPRESSED_CHUNK_BYTES: u32 = 64 * 1024;

/// Creates a component, writes it whole and syncs it.
pub(crate) fn write_component(
    disk: &dyn Disk,
    directory: &Path,
    descriptor: Descriptor,
    component: Component,
    bytes: &[u8],
) -> Result<(), WriteError> {
    let mut file = ComponentFile::create(disk, descriptor.path(directory, component))?;
    file.append(bytes)?;
    file.finish().map(|_| ())
}

/// A file that grows at its end.
#[derive(Debug)]
pub(crate) struct ComponentFile {
    path: PathBuf,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    length: u64,
}

impl ComponentFile {
    pub fn create(disk: &dyn Disk, path: PathBuf) -> Result<Self, WriteError> {
        match disk.create(&path) {
            Ok(file) => Ok(ComponentFile {
                path,
                file,
                buffer: Vec::new(),
                length: 0,
            }),
            Err(source) => Err(WriteError::Io { file: path, source }),
        }
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.length += bytes.len() as u64;
        if self.buffer.len() + bytes.len() > WRITE_BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WRITE_BUFFER_BYTES {
            return self.file.append(bytes).map_err(|source| self.error(source));
        }
        self.reserve(self.buffer.len() + bytes.len());
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// As a vector grows by itself, but not beyond what is gathered.
    fn reserve(&mut self, needed: usize) {
        let capacity = self.buffer.capacity();
        if needed > capacity {
            let capacity = needed.max((2 * capacity).min(WRITE_BUFFER_BYTES));
            self.buffer.reserve_exact(capacity - self.buffer.len());
        }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let result = self.file.append(&self.buffer);
        self.buffer.clear();
        result.map_err(|source| self.error(source))
    }

    /// Writes what is left and makes the file durable; returns its length.
    pub fn finish(mut self) -> Result<u64, WriteError> {
        self.flush()?;
        self.file.sync_data().map_err(|source| self.error(source))?;
        Ok(self.length)
    }

    fn error(&self, source: io::Error) -> WriteError {
        WriteError::Io {
            file: self.path.clone(),
            source,
        }
    }
}

/// Data.db, compressed or not, with the checksums of its chunks.
#[derive(Debug)]
pub(crate) struct DataWriter {
    version: Version,
    file: ComponentFile,
    compression: Option<CompressionParameters>,
    /// Bytes that are not in a full chunk yet.
    tail: Vec<u8>,
    stored: Vec<u8>,
    /// Uncompressed bytes in full chunks.
    position: u64,
    chunk_offsets: Vec<u64>,
    checksums: Vec<u32>,
    /// Checksums of the granules of an uncompressed file.
    granules: PageSums,
    digest: crc32fast::Hasher,
}

/// A Data.db that was written, and the content of the components beside it.
#[derive(Debug)]
pub(crate) struct FinishedData {
    /// Uncompressed.
    pub data_length: u64,
    pub file_length: u64,
    pub digest: u32,
    /// CompressionInfo.db or CRC.db.
    pub chunks_component: Component,
    pub chunks: Vec<u8>,
    /// Checksums of the granules of an uncompressed file.
    pub granules: Option<PageChecksums>,
}

impl DataWriter {
    pub fn create(
        disk: &dyn Disk,
        directory: &Path,
        descriptor: Descriptor,
        compression: Option<CompressionParameters>,
        granule_bytes: u32,
    ) -> Result<Self, WriteError> {
        let version = descriptor.version;
        Ok(DataWriter {
            version,
            file: ComponentFile::create(disk, descriptor.path(directory, Component::Data))?,
            compression: compression.map(|compression| compression.for_version(version)),
            tail: Vec::new(),
            stored: Vec::new(),
            position: 0,
            chunk_offsets: Vec::new(),
            checksums: Vec::new(),
            granules: PageSums::new(granule_bytes),
            digest: crc32fast::Hasher::new(),
        })
    }

    /// Uncompressed bytes so far.
    pub fn position(&self) -> u64 {
        self.position + self.tail.len() as u64
    }

    /// With the chunk being filled as if it did not compress.
    pub fn file_length_estimate(&self) -> u64 {
        self.file.length() + self.tail.len() as u64
    }

    fn chunk_bytes(&self) -> usize {
        self.compression
            .map_or(UNCOMPRESSED_CHUNK_BYTES, |compression| compression.chunk_bytes) as usize
    }

    /// Returns the end of the file, to be appended to; [`Self::settle`] is to be called after each element.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Writes the chunks that are full.
    #[inline]
    pub fn settle(&mut self) -> Result<(), WriteError> {
        if self.tail.len() < self.chunk_bytes() {
            return Ok(());
        }
        self.write_full_chunks()
    }

    #[cold]
    fn write_full_chunks(&mut self) -> Result<(), WriteError> {
        let chunk_bytes = self.chunk_bytes();
        let mut tail = std::mem::take(&mut self.tail);
        for chunk in tail.chunks_exact(chunk_bytes) {
            self.write_chunk(chunk)?;
        }
        tail.drain(..tail.len() / chunk_bytes * chunk_bytes);
        // A huge row leaves no memory behind.
        tail.shrink_to(TAIL_CHUNKS_MAX * chunk_bytes);
        self.tail = tail;
        Ok(())
    }

    fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), WriteError> {
        self.position += chunk.len() as u64;
        let Some(compression) = self.compression else {
            self.checksums.push(crc32fast::hash(chunk));
            self.granules.update(chunk);
            self.digest.update(chunk);
            return self.file.append(chunk);
        };
        self.chunk_offsets.push(self.file.length());
        compression.compressor.compress(chunk, &mut self.stored);
        if self.stored.len() >= compression.compressed_bytes_max as usize {
            self.stored.clear();
            self.stored.extend_from_slice(chunk);
            let padded = self.stored.len().max(compression.compressed_bytes_max as usize);
            self.stored.resize(padded, 0);
        }
        let checksum = crc32fast::hash(&self.stored);
        self.stored.extend_from_slice(&checksum.to_be_bytes());
        self.digest.update(&self.stored);
        self.file.append(&self.stored)
    }

    pub fn finish(mut self) -> Result<FinishedData, WriteError> {
        let tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            self.write_chunk(&tail)?;
        }
        let data_length = self.position;
        let granules = self
            .compression
            .is_none()
            .then(|| self.granules.finish(Component::Data));
        let mut chunks = Vec::new();
        let chunks_component = match self.compression {
            Some(parameters) => {
                let info = CompressionInfo {
                    parameters,
                    data_length,
                    chunk_offsets: self.chunk_offsets,
                };
                info.encode(self.version, &mut chunks);
                Component::CompressionInfo
            }
            None => {
                encode_checksums(&mut chunks, UNCOMPRESSED_CHUNK_BYTES, &self.checksums);
                Component::Crc
            }
        };
        let digest = self.digest.finalize();
        let file_length = self.file.finish()?;
        Ok(FinishedData {
            data_length,
            file_length,
            digest,
            chunks_component,
            chunks,
            granules,
        })
    }
}

/// The form of CRC.db: the length of a chunk, then a CRC32 for each.
pub(crate) fn encode_checksums(out: &mut Vec<u8>, chunk_bytes: u32, checksums: &[u32]) {
    out.extend_from_slice(&chunk_bytes.to_be_bytes());
    for checksum in checksums {
        out.extend_from_slice(&checksum.to_be_bytes());
    }
}

/// An index component, with a checksum for each of its pages.
#[derive(Debug)]
pub(crate) struct PagedFile {
    file: ComponentFile,
    pages: PageSums,
}

/// Bytes of an index that are read at once and have one of our checksums: the page of common file systems and drives.
pub(crate) const INDEX_PAGE_BYTES: u32 = 4096;

impl PagedFile {
    pub fn create(disk: &dyn Disk, path: PathBuf) -> Result<Self, WriteError> {
        Ok(PagedFile {
            file: ComponentFile::create(disk, path)?,
            pages: PageSums::new(INDEX_PAGE_BYTES),
        })
    }

    pub fn position(&self) -> u64 {
        self.file.length()
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.pages.update(bytes);
        self.file.append(bytes)
    }

    /// Makes the file durable; returns its length and the checksums of its pages.
    pub fn finish(self, component: Component) -> Result<(u64, PageChecksums), WriteError> {
        Ok((self.file.finish()?, self.pages.finish(component)))
    }
}

#[cfg(test)]
mod tests {
    use helenus_vfs::MemoryDisk;

    use super::*;

    /// A compaction held 2 MiB for each of two files where one gathers 1 MiB at most.
    #[test]
    fn a_file_gathers_what_it_says_and_holds_no_more() {
        for piece_bytes in [
            1,
            4_099,
            16_380,
            65_536,
            WRITE_BUFFER_BYTES - 1,
            WRITE_BUFFER_BYTES,
            3 << 20,
        ] {
            let disk = MemoryDisk::new();
            let path = PathBuf::from("/Data.db");
            let mut file = ComponentFile::create(&disk, path.clone()).unwrap();
            let mut written = Vec::new();
            for number in 0..(5_usize << 20).div_ceil(piece_bytes).min(2_000) {
                let piece = vec![number as u8; piece_bytes];
                file.append(&piece).unwrap();
                written.extend_from_slice(&piece);
                assert!(file.buffer.capacity() <= WRITE_BUFFER_BYTES, "{piece_bytes}");
                assert_eq!(file.length(), written.len() as u64);
            }
            assert_eq!(file.finish().unwrap(), written.len() as u64);
            let stored = disk.open(&path).unwrap();
            let mut read = vec![0; written.len()];
            stored.read_exact_at(0, &mut read).unwrap();
            assert!(read == written, "{piece_bytes}");
        }
    }
}
