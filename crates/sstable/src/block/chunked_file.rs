//! Files read in pages, every page checked as it comes from the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use helenus_vfs::File;

use crate::block::compression::CompressionInfo;
use crate::corruption::Corruption;

/// A component that is read at random: Data.db or an index. Offsets are uncompressed ones. Clones are one file.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: Arc<dyn File>,
    /// Tells the files of this process apart in a cache.
    id: u64,
    /// Uncompressed.
    length: u64,
    form: Form,
    kind: FileKind,
    /// Something of it could not be read, or was not what it should be.
    has_failed: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Data,
    Index,
    /// An index that can be done without.
    Sidecar,
}

#[derive(Debug)]
pub(crate) enum Form {
    Compressed {
        info: CompressionInfo,
        file_length: u64,
    },
    /// `checksums` has one CRC32 per page, or is absent where nobody wrote any.
    Plain {
        chunk_bytes: u32,
        checksums: Option<Vec<u32>>,
    },
    /// Each page ends in the CRC32 of its number and of its other bytes.
    SelfChecked {
        page_bytes: u32,
    },
}

/// The CRC32 that a self-checked page ends in.
pub(crate) fn page_checksum(page: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&page.to_be_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// A CRC32 behind each compressed chunk.
const CHECKSUM_BYTES: usize = 4;

static NEXT_FILE_ID: AtomicU64 = AtomicU64::new(0);

impl ChunkedFile {
    /// Data.db.
    pub fn data(path: PathBuf, file: Arc<dyn File>, length: u64, form: Form) -> Self {
        Self::with_kind(path, file, length, form, FileKind::Data)
    }

    /// Anything else that the format needs.
    pub fn new(path: PathBuf, file: Arc<dyn File>, length: u64, form: Form) -> Self {
        Self::with_kind(path, file, length, form, FileKind::Index)
    }

    /// Ours, beside the format's own index.
    pub fn sidecar(path: PathBuf, file: Arc<dyn File>, length: u64, form: Form) -> Self {
        Self::with_kind(path, file, length, form, FileKind::Sidecar)
    }

    fn with_kind(path: PathBuf, file: Arc<dyn File>, length: u64, form: Form, kind: FileKind) -> Self {
        let inner = Inner {
            path,
            file,
            id: NEXT_FILE_ID.fetch_add(1, Ordering::Relaxed),
            length,
            form,
            kind,
            has_failed: AtomicBool::new(false),
        };
        ChunkedFile {
            inner: Arc::new(inner),
        }
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub fn file(&self) -> &Arc<dyn File> {
        &self.inner.file
    }

    pub fn id(&self) -> u64 {
        self.inner.id
    }

    pub fn length(&self) -> u64 {
        self.inner.length
    }

    /// Bytes that stay in memory while the file is open: where its chunks are, or their checksums.
    pub fn memory_bytes(&self) -> usize {
        match &self.inner.form {
            Form::Compressed { info, .. } => size_of_val(info.chunk_offsets.as_slice()),
            Form::Plain { checksums, .. } => checksums.as_deref().map_or(0, size_of_val::<[u32]>),
            Form::SelfChecked { .. } => 0,
        }
    }

    pub fn is_index(&self) -> bool {
        self.inner.kind != FileKind::Data
    }

    pub fn is_sidecar(&self) -> bool {
        self.inner.kind == FileKind::Sidecar
    }

    /// Returns whether it is a sidecar of an index, which alone are made of such pages.
    pub fn is_self_checked(&self) -> bool {
        matches!(self.inner.form, Form::SelfChecked { .. })
    }

    /// Returns whether its pages lie in it as they are read.
    pub fn is_plain(&self) -> bool {
        !matches!(self.inner.form, Form::Compressed { .. })
    }

    /// Returns whether any of it could not be read since it was opened.
    pub fn has_failed(&self) -> bool {
        self.inner.has_failed.load(Ordering::Relaxed)
    }

    /// True the first time.
    pub fn note_failure(&self) -> bool {
        !self.inner.has_failed.swap(true, Ordering::Relaxed)
    }

    pub fn page_bytes(&self) -> u64 {
        match &self.inner.form {
            Form::Compressed { info, .. } => u64::from(info.parameters.chunk_bytes),
            Form::Plain { chunk_bytes, .. } => u64::from(*chunk_bytes),
            Form::SelfChecked { page_bytes } => u64::from(*page_bytes),
        }
    }

    /// Returns whether the file's writer left checksums of it.
    pub fn is_checked(&self) -> bool {
        match &self.inner.form {
            Form::Compressed { .. } | Form::SelfChecked { .. } => true,
            Form::Plain { checksums, .. } => checksums.is_some(),
        }
    }

    /// Where pages, the last included, lie in the file: offset and length.
    pub fn stored_range(&self, first: u64, last: u64) -> (u64, usize) {
        match &self.inner.form {
            Form::Compressed { info, file_length } => {
                // Opening checked that the offsets ascend within the file.
                let at = |index: u64| info.chunk_offsets.get(index as usize).copied();
                let start = at(first).unwrap_or(*file_length);
                let end = at(last + 1).unwrap_or(*file_length);
                (start, (end - start) as usize)
            }
            Form::Plain { .. } | Form::SelfChecked { .. } => {
                let start = first * self.page_bytes();
                let end = ((last + 1) * self.page_bytes()).min(self.inner.length);
                (start, end.saturating_sub(start) as usize)
            }
        }
    }

    /// Uncompressed bytes of pages, the last included.
    pub fn bytes_of(&self, first: u64, last: u64) -> usize {
        let start = first * self.page_bytes();
        let end = ((last + 1) * self.page_bytes()).min(self.inner.length);
        end.saturating_sub(start) as usize
    }

    /// Refuses pages whose last one claims more bytes than the whole file stores and does not hold them, before there is
    /// room for them: no more than a damaged length says is taken from memory.
    pub fn check_length(&self, first: u64, last: u64, stored: &[u8]) -> Result<(), Corruption> {
        let Form::Compressed { info, file_length } = &self.inner.form else {
            return Ok(());
        };
        let claimed = self.bytes_of(last, last);
        if claimed as u64 <= *file_length {
            return Ok(());
        }
        let (base, _) = self.stored_range(first, last);
        let (offset, length) = self.stored_range(last, last);
        let compressed_length = length.saturating_sub(CHECKSUM_BYTES);
        let within = (offset - base) as usize;
        let compressed = stored.get(within..within + compressed_length).unwrap_or_default();
        let parameters = info.parameters;
        let holds = if compressed_length >= parameters.compressed_bytes_max as usize {
            compressed_length >= claimed
        } else {
            parameters.compressor.decompresses_to(compressed, claimed)
        };
        if holds {
            Ok(())
        } else {
            Err(self.not_a_chunk(offset, claimed))
        }
    }

    /// Returns whether it takes less time to unpack the beginning of a page than all of it.
    pub fn unpacks_beginnings(&self) -> bool {
        match &self.inner.form {
            Form::Compressed { info, .. } => info.parameters.compressor.unpacks_beginnings(),
            Form::Plain { .. } | Form::SelfChecked { .. } => false,
        }
    }

    /// Checks pages as they are stored and puts their uncompressed bytes into `out`, which has their length; or less, where only the
    /// beginning of the last one is wanted of a compressed file.
    pub fn unpack_pages(
        &self,
        first: u64,
        last: u64,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), Corruption> {
        match &self.inner.form {
            Form::Compressed { .. } => self.decompress_pages(first, last, stored, out),
            Form::Plain { .. } | Form::SelfChecked { .. } => {
                self.check_plain(first, stored)?;
                let stored = stored.get(..out.len());
                out.copy_from_slice(stored.ok_or_else(|| self.ends_early(first * self.page_bytes()))?);
                Ok(())
            }
        }
    }

    /// As [`Self::unpack_pages`], for one page whose stored bytes were checked when they came from the disk.
    pub fn unpack_checked(&self, page: u64, stored: &[u8], out: &mut [u8]) -> Result<(), Corruption> {
        if let Form::Compressed { info, .. } = &self.inner.form {
            let (offset, _) = self.stored_range(page, page);
            let compressed = stored.get(..stored.len().saturating_sub(CHECKSUM_BYTES));
            let length = self.bytes_of(page, page);
            return self.decompress_checked(info, (offset, length), compressed.unwrap_or_default(), out);
        }
        let stored = stored.get(..out.len());
        out.copy_from_slice(stored.ok_or_else(|| self.ends_early(page * self.page_bytes()))?);
        Ok(())
    }

    /// Checks stored pages of a file that is not compressed.
    fn check_plain(&self, first: u64, stored: &[u8]) -> Result<(), Corruption> {
        for (page, bytes) in (first..).zip(stored.chunks(self.page_bytes() as usize)) {
            let offset = page * self.page_bytes();
            match &self.inner.form {
                Form::Plain {
                    checksums: Some(checksums),
                    ..
                } => {
                    let wanted = checksums.get(page as usize).copied();
                    self.check(offset, wanted.unwrap_or_default(), crc32fast::hash(bytes))?;
                }
                Form::SelfChecked { .. } => {
                    let (bytes, checksum) = bytes
                        .split_last_chunk::<CHECKSUM_BYTES>()
                        .unwrap_or((&[], &[0; CHECKSUM_BYTES]));
                    self.check(offset, u32::from_be_bytes(*checksum), page_checksum(page, bytes))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks pages as they are stored and appends their uncompressed bytes to `out`. What becomes of `stored` is left open.
    pub fn check_pages_into(
        &self,
        first: u64,
        last: u64,
        stored: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Corruption> {
        match &self.inner.form {
            Form::Compressed { .. } => {
                self.check_length(first, last, stored)?;
                let held = out.len();
                let added = self.bytes_of(first, last);
                out.reserve_exact(added);
                out.resize(held + added, 0);
                let pages = out.get_mut(held..).unwrap_or_default();
                return self.decompress_pages(first, last, stored, pages);
            }
            Form::Plain { .. } | Form::SelfChecked { .. } => self.check_plain(first, stored)?,
        }
        if out.is_empty() {
            std::mem::swap(stored, out);
        } else {
            out.reserve_exact(stored.len());
            out.extend_from_slice(stored);
        }
        Ok(())
    }

    fn decompress_pages(
        &self,
        first: u64,
        last: u64,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), Corruption> {
        let page_bytes = self.page_bytes();
        let (base, _) = self.stored_range(first, last);
        for (page, out) in (first..).zip(out.chunks_mut(page_bytes as usize)) {
            let (offset, length) = self.stored_range(page, page);
            let within = (offset - base) as usize;
            let stored = stored.get(within..within + length).unwrap_or_default();
            self.decompress((offset, self.bytes_of(page, page)), stored, out)?;
        }
        Ok(())
    }

    /// `length` is that of the chunk at an offset.
    fn decompress(
        &self,
        (offset, length): (u64, usize),
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), Corruption> {
        let Form::Compressed { info, .. } = &self.inner.form else {
            return Ok(());
        };
        let (compressed, checksum) = stored
            .split_last_chunk::<CHECKSUM_BYTES>()
            .unwrap_or((&[], &[0; CHECKSUM_BYTES]));
        self.check(offset, u32::from_be_bytes(*checksum), crc32fast::hash(compressed))?;
        self.decompress_checked(info, (offset, length), compressed, out)
    }

    fn decompress_checked(
        &self,
        info: &CompressionInfo,
        (offset, length): (u64, usize),
        compressed: &[u8],
        out: &mut [u8],
    ) -> Result<(), Corruption> {
        if compressed.len() >= info.parameters.compressed_bytes_max as usize {
            // Stored as it is; a short last chunk is padded up to the limit.
            let bytes = compressed
                .get(..out.len())
                .ok_or_else(|| self.not_a_chunk(offset, length))?;
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let compressor = info.parameters.compressor;
        let is_unpacked = if out.len() < length {
            compressor.decompress_beginning(compressed, length, out)
        } else {
            compressor.decompress(compressed, out)
        };
        if is_unpacked {
            Ok(())
        } else {
            Err(self.not_a_chunk(offset, length))
        }
    }

    fn check(&self, offset: u64, wanted: u32, found: u32) -> Result<(), Corruption> {
        if found == wanted {
            return Ok(());
        }
        Err(Corruption {
            file: self.inner.path.clone(),
            offset,
            wanted: "a page that matches its checksum",
            found: format!("CRC32 {found:08x} instead of {wanted:08x}"),
        })
    }

    fn not_a_chunk(&self, offset: u64, length: usize) -> Corruption {
        Corruption {
            file: self.inner.path.clone(),
            offset,
            wanted: "a chunk that decompresses to its length",
            found: format!("one that is not {length} bytes"),
        }
    }

    /// The file is shorter than its length said when it was opened.
    pub fn ends_early(&self, offset: u64) -> Corruption {
        Corruption {
            file: self.inner.path.clone(),
            offset,
            wanted: "a whole page",
            found: "the end of the file".to_owned(),
        }
    }
}
