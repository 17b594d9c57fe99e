//! Files read chunk by chunk through the cache, every chunk checked as it comes from the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helenus_vfs::File;

use super::chunk_cache::ChunkCache;
use super::compression::CompressionInfo;
use crate::error::ReadError;

/// A component that is read at random: Data.db or Index.db. Offsets are uncompressed ones.
#[derive(Debug)]
pub(super) struct ChunkedFile {
    pub path: PathBuf,
    file: Arc<dyn File>,
    /// Tells the files of this process apart in a cache.
    id: u64,
    /// Uncompressed.
    length: u64,
    form: Form,
}

#[derive(Debug)]
pub(super) enum Form {
    Compressed {
        info: CompressionInfo,
        file_length: u64,
    },
    /// `checksums` has one CRC32 per chunk, or is absent where nobody wrote any.
    Plain {
        chunk_bytes: u32,
        checksums: Option<Vec<u32>>,
    },
}

static NEXT_FILE_ID: AtomicU64 = AtomicU64::new(0);

impl ChunkedFile {
    pub fn new(path: PathBuf, file: Arc<dyn File>, length: u64, form: Form) -> Self {
        let id = NEXT_FILE_ID.fetch_add(1, Ordering::Relaxed);
        ChunkedFile {
            path,
            file,
            id,
            length,
            form,
        }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    fn chunk_bytes(&self) -> u64 {
        match &self.form {
            Form::Compressed { info, .. } => u64::from(info.parameters.chunk_bytes),
            Form::Plain { chunk_bytes, .. } => u64::from(*chunk_bytes),
        }
    }

    fn chunk(&self, cache: &ChunkCache, index: u64) -> Result<Arc<[u8]>, ReadError> {
        let key = (self.id, index);
        if let Some(chunk) = cache.find(key) {
            return Ok(chunk);
        }
        let start = index * self.chunk_bytes();
        let length = self.chunk_bytes().min(self.length.saturating_sub(start)) as usize;
        let chunk: Arc<[u8]> = match &self.form {
            Form::Compressed { info, file_length } => self
                .read_compressed(cache, info, *file_length, index, length)?
                .into(),
            Form::Plain { checksums, .. } => {
                let bytes = self.read_stored(cache, start, length)?;
                if let Some(checksums) = checksums {
                    let wanted = checksums.get(index as usize).copied();
                    self.check(start, wanted.unwrap_or_default(), &bytes)?;
                }
                bytes.into()
            }
        };
        cache.insert(key, &chunk);
        Ok(chunk)
    }

    fn read_compressed(
        &self,
        cache: &ChunkCache,
        info: &CompressionInfo,
        file_length: u64,
        index: u64,
        length: usize,
    ) -> Result<Vec<u8>, ReadError> {
        // Opening checked that the offsets ascend within the file, by at least 5 bytes each.
        let index = index as usize;
        let start = info.chunk_offsets.get(index).copied().unwrap_or(file_length);
        let end = info.chunk_offsets.get(index + 1).copied().unwrap_or(file_length);
        let mut stored = self.read_stored(cache, start, (end - start) as usize)?;
        let (compressed, checksum) = stored.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
        self.check(start, u32::from_be_bytes(*checksum), compressed)?;
        let compressed_length = compressed.len();
        if compressed_length >= info.parameters.compressed_bytes_max as usize {
            // Stored as it is; a short last chunk is padded up to the limit.
            stored.truncate(length.min(compressed_length));
            return if stored.len() == length {
                Ok(stored)
            } else {
                Err(self.not_a_chunk(start, length))
            };
        }
        let mut chunk = vec![0; length];
        if info.parameters.compressor.decompress(compressed, &mut chunk) {
            Ok(chunk)
        } else {
            Err(self.not_a_chunk(start, length))
        }
    }

    fn read_stored(&self, cache: &ChunkCache, offset: u64, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(offset, &mut bytes)
            .map_err(|source| match source.kind() {
                io::ErrorKind::UnexpectedEof => ReadError::Corrupt {
                    file: self.path.clone(),
                    offset,
                    wanted: "a whole chunk",
                    found: "the end of the file".to_owned(),
                },
                _ => ReadError::Io {
                    file: self.path.clone(),
                    source,
                },
            })?;
        cache.count_read(length);
        Ok(bytes)
    }

    fn check(&self, offset: u64, wanted: u32, bytes: &[u8]) -> Result<(), ReadError> {
        let found = crc32fast::hash(bytes);
        if found == wanted {
            return Ok(());
        }
        Err(ReadError::Corrupt {
            file: self.path.clone(),
            offset,
            wanted: "a chunk that matches its checksum",
            found: format!("CRC32 {found:08x} instead of {wanted:08x}"),
        })
    }

    fn not_a_chunk(&self, offset: u64, length: usize) -> ReadError {
        ReadError::Corrupt {
            file: self.path.clone(),
            offset,
            wanted: "a chunk that decompresses to its length",
            found: format!("one that is not {length} bytes"),
        }
    }
}

/// Bytes of a chunked file from a position on, as far ahead as the reader asks.
///
/// What is available is a view into one chunk; only where an item crosses into the next are bytes copied together.
#[derive(Debug)]
pub(super) struct ChunkStream<'a> {
    file: &'a ChunkedFile,
    cache: &'a ChunkCache,
    window: Window,
    /// The first available byte, within the window.
    start: usize,
    /// The file's offset of the window's first byte.
    window_offset: u64,
}

#[derive(Debug)]
enum Window {
    Chunk(Arc<[u8]>),
    Joined(Vec<u8>),
}

impl Window {
    fn bytes(&self) -> &[u8] {
        match self {
            Window::Chunk(chunk) => chunk,
            Window::Joined(bytes) => bytes,
        }
    }
}

impl<'a> ChunkStream<'a> {
    pub fn new(file: &'a ChunkedFile, cache: &'a ChunkCache) -> Self {
        ChunkStream {
            file,
            cache,
            window: Window::Joined(Vec::new()),
            start: 0,
            window_offset: 0,
        }
    }

    pub fn path(&self) -> &'a Path {
        &self.file.path
    }

    /// The file's offset of the first available byte.
    pub fn position(&self) -> u64 {
        self.window_offset + self.start as u64
    }

    pub fn is_at_end(&self) -> bool {
        self.position() >= self.file.length
    }

    pub fn seek(&mut self, position: u64) {
        let within = position
            .checked_sub(self.window_offset)
            .filter(|at| *at <= self.window.bytes().len() as u64);
        if let Some(at) = within {
            self.start = at as usize;
        } else {
            self.window = Window::Joined(Vec::new());
            self.window_offset = position;
            self.start = 0;
        }
    }

    pub fn available(&self) -> &[u8] {
        &self.window.bytes()[self.start..]
    }

    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.available().len());
        self.start = (self.start + count).min(self.window.bytes().len());
    }

    /// Makes at least `count` bytes available; false if the file ends before.
    pub fn ensure(&mut self, count: usize) -> Result<bool, ReadError> {
        if self.position().saturating_add(count as u64) > self.file.length {
            return Ok(false);
        }
        while self.available().len() < count {
            self.extend()?;
        }
        Ok(true)
    }

    /// Adds the rest of the chunk after the window. There is one, as the caller has checked.
    fn extend(&mut self) -> Result<(), ReadError> {
        let end = self.window_offset + self.window.bytes().len() as u64;
        let chunk_bytes = self.file.chunk_bytes();
        let index = end / chunk_bytes;
        let chunk = self.file.chunk(self.cache, index)?;
        let skipped = (end - index * chunk_bytes) as usize;
        if self.available().is_empty() {
            self.window_offset = index * chunk_bytes;
            self.start = skipped;
            self.window = Window::Chunk(chunk);
            return Ok(());
        }
        let added = chunk.get(skipped..).unwrap_or_default();
        let window_start = self.start;
        match &mut self.window {
            Window::Joined(bytes) => {
                bytes.drain(..window_start);
                bytes.extend_from_slice(added);
            }
            Window::Chunk(current) => {
                let rest = &current[window_start..];
                let mut bytes = Vec::with_capacity(rest.len() + added.len());
                bytes.extend_from_slice(rest);
                bytes.extend_from_slice(added);
                self.window = Window::Joined(bytes);
            }
        }
        self.window_offset += window_start as u64;
        self.start = 0;
        Ok(())
    }
}
