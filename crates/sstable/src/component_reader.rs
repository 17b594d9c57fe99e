//! The components of an SSTable as it is opened: which must be there, which can be made again, and what was written
//! about them by us.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_vfs::Disk;

use crate::big::block_file::{BlockFile, has_unique_bytes};
use crate::big::summary::Summary;
use crate::block::checksums::{Checksums, PageChecksums};
use crate::block::chunked_file::{ChunkedFile, Form};
use crate::block::compression::{CompressionInfo, CompressionInfoError};
use crate::bti::BtiIndex;
use crate::component::Component;
use crate::component_writer::INDEX_PAGE_BYTES;
use crate::decode::{ByteReader, DecodeError};
use crate::descriptor::Descriptor;
use crate::error::OpenError;
use crate::error::ReadError;
use crate::index::fences::Fences;
use crate::index::reader::{BigIndex, IndexReader};
use crate::meta::bloom::BloomFilter;
use crate::meta::statistics_file::StatisticsFile;
use crate::rows::clustering_codec::ClusteringCodec;
use crate::sidecar::SidecarFault;
use crate::version::IndexForm;

/// The largest component that is read whole: a bloom filter of 2 GiB. Bounds what a damaged disk can ask for.
const COMPONENT_BYTES_MAX: u64 = 2 << 30;

/// Bytes read at once of an uncompressed Data.db without CRC.db: pages of a common file system.
const UNCHECKED_CHUNK_BYTES: u32 = 4096;

/// The components of one SSTable while it is opened.
#[derive(Debug)]
pub(crate) struct ComponentReader<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    descriptor: Descriptor,
    disk_bytes: u64,
    /// Our checksums of the others, if we wrote the SSTable.
    checksums: Option<Checksums>,
    sidecar_faults: Vec<SidecarFault>,
}

impl<'a> ComponentReader<'a> {
    /// Refuses an SSTable without what nothing can be read without.
    pub fn new(disk: &'a dyn Disk, directory: &'a Path, descriptor: Descriptor) -> Result<Self, OpenError> {
        let mut components = Self::unchecked(disk, directory, descriptor);
        for &component in Component::mandatory(descriptor.version.index_form()) {
            if !components.is_there(component)? {
                let file = components.path(component);
                return Err(OpenError::MissingComponent { file });
            }
        }
        let checksums = components.read_checksums();
        components.checksums = components.sidecar(Component::Checksums, checksums);
        Ok(components)
    }

    /// Creates a reader of whatever is there, without our checksums of it.
    pub fn unchecked(disk: &'a dyn Disk, directory: &'a Path, descriptor: Descriptor) -> Self {
        ComponentReader {
            disk,
            directory,
            descriptor,
            disk_bytes: 0,
            checksums: None,
            sidecar_faults: Vec::new(),
        }
    }

    /// Faults of our components that are there and are done without.
    pub fn sidecar_faults(&self) -> &[SidecarFault] {
        &self.sidecar_faults
    }

    fn sidecar<T>(&mut self, component: Component, read: Result<Option<T>, ReadError>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.sidecar_faults.push(SidecarFault::new(component, error));
            None
        })
    }

    fn read_checksums(&mut self) -> Result<Option<Checksums>, ReadError> {
        match self.read_if_there(Component::Checksums)? {
            None => Ok(None),
            Some(bytes) => self
                .decode(Component::Checksums, Checksums::decode(&bytes))
                .map(Some),
        }
    }

    /// Returns whether there is a Checksums.db that could be read.
    pub fn has_checksums(&self) -> bool {
        self.checksums.is_some()
    }

    /// Bytes of all components that were opened.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    pub fn read_statistics(&mut self) -> Result<StatisticsFile, OpenError> {
        let bytes = self.read(Component::Statistics)?;
        if let Some(pages) = self.take_pages(Component::Statistics, bytes.len() as u64)? {
            for (page, wanted) in bytes.chunks(pages.page_bytes as usize).zip(pages.checksums) {
                self.check(Component::Statistics, page, Some(wanted))?;
            }
        }
        StatisticsFile::decode(&bytes, self.descriptor.version, &self.path(Component::Statistics))
    }

    /// `index_interval`: keys per entry of a summary that must be made again.
    pub fn open_index(&mut self, index_interval: u32) -> Result<IndexReader, ReadError> {
        let version = self.descriptor.version;
        match version.index_form() {
            IndexForm::Big => {
                let file = self.open_paged(Component::Index)?;
                let summary = match self.read_if_there(Component::Summary)? {
                    Some(bytes) => {
                        let wanted = self.checksums.as_ref().map(|sums| sums.summary);
                        self.check(Component::Summary, &bytes, wanted)?;
                        let summary =
                            self.decode(Component::Summary, Summary::decode(&bytes, file.length()))?;
                        if !file.is_checked() {
                            summary.check_end(&file, version)?;
                        }
                        summary
                    }
                    None => Summary::of_index(&file, version, index_interval)?,
                };
                Ok(IndexReader::Big(BigIndex {
                    version,
                    summary,
                    file,
                }))
            }
            IndexForm::Bti => {
                let partitions = self.open_paged(Component::Partitions)?;
                let rows = self.open_paged(Component::Rows)?;
                BtiIndex::open(partitions, rows).map(IndexReader::Bti)
            }
        }
    }

    /// `None` where there is no filter: every key may be there.
    pub fn read_filter(&mut self) -> Result<Option<BloomFilter>, ReadError> {
        let Some(bytes) = self.read_if_there(Component::Filter)? else {
            return Ok(None);
        };
        let wanted = self.checksums.as_ref().map(|sums| sums.filter);
        self.check(Component::Filter, &bytes, wanted)?;
        let filter = BloomFilter::decode(&bytes, self.descriptor.version);
        self.decode(Component::Filter, filter).map(Some)
    }

    /// `None` also where it is of no use.
    pub fn open_blocks(&mut self, clustering: &ClusteringCodec, table: &TableMetadata) -> Option<BlockFile> {
        let blocks = self.try_open_blocks(clustering, table);
        self.sidecar(Component::Blocks, blocks)
    }

    fn try_open_blocks(
        &mut self,
        clustering: &ClusteringCodec,
        table: &TableMetadata,
    ) -> Result<Option<BlockFile>, ReadError> {
        if !self.is_there(Component::Blocks)? {
            return Ok(None);
        }
        let (file, length) = self.open(Component::Blocks)?;
        BlockFile::open(
            &self.path(Component::Blocks),
            file,
            length,
            clustering,
            has_unique_bytes(table),
        )
        .map(Some)
    }

    /// `None` also where they are of no use.
    pub fn read_fences(&mut self, data_length: u64) -> Option<Fences> {
        let fences = self.try_read_fences(data_length);
        self.sidecar(Component::Fences, fences)
    }

    fn try_read_fences(&mut self, data_length: u64) -> Result<Option<Fences>, ReadError> {
        let Some(bytes) = self.read_if_there(Component::Fences)? else {
            return Ok(None);
        };
        self.decode(Component::Fences, Fences::decode(&bytes, data_length))
            .map(Some)
    }

    fn path(&self, component: Component) -> PathBuf {
        self.descriptor.path(self.directory, component)
    }

    fn io(&self, component: Component) -> impl Fn(io::Error) -> ReadError + use<> {
        let file = self.path(component);
        move |source| ReadError::Io {
            file: file.clone(),
            source,
        }
    }

    fn open(&mut self, component: Component) -> Result<(Arc<dyn helenus_vfs::File>, u64), ReadError> {
        let io = self.io(component);
        let file = self.disk.open(&self.path(component)).map_err(&io)?;
        let length = file.length().map_err(&io)?;
        self.disk_bytes += length;
        Ok((file, length))
    }

    pub fn read(&mut self, component: Component) -> Result<Vec<u8>, ReadError> {
        let (file, length) = self.open(component)?;
        if length > COMPONENT_BYTES_MAX {
            let error = DecodeError::malformed(0, "at most 2 GiB", length);
            return Err(error.in_file(&self.path(component), 0));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(0, &mut bytes).map_err(self.io(component))?;
        Ok(bytes)
    }

    fn is_there(&self, component: Component) -> Result<bool, ReadError> {
        self.disk
            .exists(&self.path(component))
            .map_err(self.io(component))
    }

    pub fn read_if_there(&mut self, component: Component) -> Result<Option<Vec<u8>>, ReadError> {
        if self.is_there(component)? {
            self.read(component).map(Some)
        } else {
            Ok(None)
        }
    }

    fn decode<T>(&self, component: Component, result: Result<T, DecodeError>) -> Result<T, ReadError> {
        result.map_err(|error| error.in_file(&self.path(component), 0))
    }

    /// Against the checksum that we wrote beside it, if we did.
    fn check(&self, component: Component, bytes: &[u8], wanted: Option<u32>) -> Result<(), ReadError> {
        let found = crc32fast::hash(bytes);
        match wanted {
            Some(wanted) if wanted != found => {
                let found = format!("CRC32 {found:08x} instead of {wanted:08x}");
                let error = DecodeError::malformed(0, "a component that matches its checksum", found);
                Err(error.in_file(&self.path(component), 0))
            }
            _ => Ok(()),
        }
    }

    /// The pages that we wrote checksums of, if we did.
    fn take_pages(&mut self, component: Component, length: u64) -> Result<Option<PageChecksums>, ReadError> {
        let Some(checksums) = &mut self.checksums else {
            return Ok(None);
        };
        let list = checksums.take(component, length);
        self.decode(Component::Checksums, list)
    }

    fn pages_of(&mut self, component: Component, length: u64) -> Result<Option<Form>, ReadError> {
        let list = self.take_pages(component, length)?;
        Ok(list.map(|list| Form::Plain {
            chunk_bytes: list.page_bytes,
            checksums: Some(list.checksums),
        }))
    }

    /// A component that is read in pages, checked where we wrote checksums of them.
    pub fn open_paged(&mut self, component: Component) -> Result<ChunkedFile, ReadError> {
        let (file, length) = self.open(component)?;
        let pages = self.pages_of(component, length)?;
        let form = pages.unwrap_or(Form::Plain {
            chunk_bytes: INDEX_PAGE_BYTES,
            checksums: None,
        });
        Ok(ChunkedFile::new(self.path(component), file, length, form))
    }

    pub fn open_data(&mut self) -> Result<ChunkedFile, OpenError> {
        let chunks_checksum = self.checksums.as_ref().map(|sums| sums.chunks);
        let (file, file_length) = self.open(Component::Data)?;
        let path = self.path(Component::Data);
        if let Some(bytes) = self.read_if_there(Component::CompressionInfo)? {
            self.check(Component::CompressionInfo, &bytes, chunks_checksum)?;
            let info_path = self.path(Component::CompressionInfo);
            let info =
                CompressionInfo::decode(&bytes, self.descriptor.version, file_length).map_err(|error| {
                    match error {
                        CompressionInfoError::Decode(error) => error.in_file(&info_path, 0).into(),
                        CompressionInfoError::UnsupportedCompressor(compressor) => {
                            OpenError::UnsupportedCompressor {
                                file: info_path.clone(),
                                compressor,
                            }
                        }
                    }
                })?;
            let length = info.data_length;
            return Ok(ChunkedFile::data(
                path,
                file,
                length,
                Form::Compressed { info, file_length },
            ));
        }
        // Compressed data that lost it would be read as rows.
        let toc = self.read_if_there(Component::Toc)?.unwrap_or_default();
        let lost = Component::CompressionInfo;
        if String::from_utf8_lossy(&toc)
            .lines()
            .any(|line| line == lost.file_suffix())
        {
            let error = DecodeError::malformed(0, "the file that TOC.txt names", "none");
            return Err(error.in_file(&self.path(lost), 0).into());
        }
        // Cassandra reads a file without it too, only unchecked.
        let chunks = match self.read_if_there(Component::Crc)? {
            None => Form::Plain {
                chunk_bytes: UNCHECKED_CHUNK_BYTES,
                checksums: None,
            },
            Some(bytes) => {
                self.check(Component::Crc, &bytes, chunks_checksum)?;
                self.decode(Component::Crc, decode_crc(&bytes, file_length))?
            }
        };
        let form = self.pages_of(Component::Data, file_length)?.unwrap_or(chunks);
        Ok(ChunkedFile::data(path, file, file_length, form))
    }
}

/// CRC.db: the length of a chunk, then a CRC32 for each.
fn decode_crc(bytes: &[u8], data_length: u64) -> Result<Form, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let chunk_bytes = reader.u32()?;
    // Cassandra uses 64 KiB; anything that keeps one chunk small will do.
    if chunk_bytes == 0 || chunk_bytes > 16 << 20 {
        return Err(DecodeError::malformed(
            0,
            "a chunk length up to 16 MiB",
            chunk_bytes,
        ));
    }
    let count = reader.remaining() / 4;
    let needed = data_length.div_ceil(u64::from(chunk_bytes));
    if !(needed..=needed + 1).contains(&(count as u64)) {
        return Err(DecodeError::malformed(4, "a checksum for each chunk", count));
    }
    let checksums = (0..needed).map(|_| reader.u32()).collect::<Result<_, _>>()?;
    // Cassandra's compactions flush once more at the end, which adds the checksum of nothing.
    if count as u64 > needed {
        let offset = reader.position();
        let checksum = reader.u32()?;
        if checksum != crc32fast::hash(&[]) {
            return Err(DecodeError::malformed(
                offset,
                "the checksum of no bytes",
                checksum,
            ));
        }
    }
    reader.finish()?;
    Ok(Form::Plain {
        chunk_bytes,
        checksums: Some(checksums),
    })
}
