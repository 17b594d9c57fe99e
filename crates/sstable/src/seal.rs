//! Checksums.db for SSTables that others wrote, so that what was read once and found good stays checked, and Fences.db, so that it is
//! read as what we write.
//!
//! Made before the full read that decides whether the SSTable is taken: that read goes through these checksums then, so
//! no bit can turn between the two.

use std::path::Path;

use helenus_vfs::Disk;

use crate::block::checksums::{Checksums, PageChecksums};
use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_cache::PageCache;
use crate::block::page_sums::PageSums;
use crate::component::Component;
use crate::component_reader::ComponentReader;
use crate::component_writer::{INDEX_PAGE_BYTES, write_component};
use crate::descriptor::Descriptor;
use crate::error::ReadError;
use crate::error::{OpenError, WriteError};
use crate::index::entry::IndexEntry;
use crate::index::fences::FenceWriter;
use crate::version::IndexForm;
use crate::writer::{COLUMN_INDEX_BYTES_DEFAULT, GRANULE_BYTES_MAX, STATISTICS_PAGE_BYTES};
use helenus_rows::partition_range::PartitionRange;

/// Keys of a summary that is made for one pass.
const MIN_INDEX_INTERVAL: u32 = 128;
/// A pass that keeps nothing.
const CACHE_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// Failed check of the files against what they say of themselves.
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes Checksums.db beside an SSTable that has none; whether it did. Durable once the folder is synced. The data is
/// read only if it is not compressed, and what its own checksums say is compared first.
pub fn seal_sstable(disk: &dyn Disk, directory: &Path, descriptor: Descriptor) -> Result<bool, SealError> {
    let mut components = ComponentReader::new(disk, directory, descriptor)?;
    // Also a damaged one stays: it says that something happened to the files.
    if components.has_checksums() || !components.sidecar_faults().is_empty() {
        return Ok(false);
    }
    let checksums = checksums_of(&mut components, descriptor)?;
    write_component(
        disk,
        directory,
        descriptor,
        Component::Checksums,
        &checksums.encode(),
    )?;
    // The read that decides tells what is wrong with an index that has no fences for that.
    if let Ok(Some(fences)) = fences_of(&mut components) {
        write_component(disk, directory, descriptor, Component::Fences, &fences)?;
    }
    Ok(true)
}

/// `None` where they are of no use, or the index is not in order.
fn fences_of(components: &mut ComponentReader<'_>) -> Result<Option<Vec<u8>>, OpenError> {
    let index = components.open_index(MIN_INDEX_INTERVAL)?;
    let data = components.open_data()?;
    let page_bytes = match data.is_plain() {
        true => GRANULE_BYTES_MAX,
        false => data.page_bytes() as u32,
    };
    let mut fences = FenceWriter::new(page_bytes, COLUMN_INDEX_BYTES_DEFAULT);
    let cache = PageCache::new(CACHE_BYTES);
    let mut keys = ChunkStream::sequential(&data, &cache);
    let (start, _) = PartitionRange::everything().bounds();
    let mut scan = index.scan((&cache).into(), start, |_, _| false);
    let mut entry = IndexEntry::default();
    let mut last = None;
    while scan.next(&mut keys, &mut entry)? {
        let place = Some((entry.token, entry.position));
        if last.is_some_and(|(token, position)| token > entry.token || position >= entry.position) {
            return Ok(None);
        }
        last = place;
        match entry.blocks {
            None => fences.push(entry.token, entry.position),
            Some(_) => fences.push_with_blocks(entry.token, entry.position),
        }
    }
    Ok(fences.finish(data.length()))
}

fn checksums_of(
    components: &mut ComponentReader<'_>,
    descriptor: Descriptor,
) -> Result<Checksums, OpenError> {
    let version = descriptor.version;
    let data = components.open_data()?;
    let compression = components.read_if_there(Component::CompressionInfo)?;
    let is_compressed = compression.is_some();
    let chunks = match compression {
        Some(bytes) => Some(bytes),
        None => components.read_if_there(Component::Crc)?,
    };
    let mut whole = |component| -> Result<u32, ReadError> {
        let bytes = components.read_if_there(component)?;
        Ok(bytes.map_or(0, |bytes| crc32fast::hash(&bytes)))
    };
    let (filter, summary) = (whole(Component::Filter)?, whole(Component::Summary)?);
    let mut lists = Vec::new();
    if !is_compressed {
        lists.push(page_checksums(&data, Component::Data, GRANULE_BYTES_MAX)?);
    }
    let index: &[Component] = match version.index_form() {
        IndexForm::Big => &[Component::Index],
        IndexForm::Bti => &[Component::Partitions, Component::Rows],
    };
    for &component in index {
        let file = components.open_paged(component)?;
        lists.push(page_checksums(&file, component, INDEX_PAGE_BYTES)?);
    }
    if !version.has_metadata_checksum() {
        let mut sums = PageSums::new(STATISTICS_PAGE_BYTES);
        sums.update(&components.read(Component::Statistics)?);
        lists.push(sums.finish(Component::Statistics));
    }
    Ok(Checksums {
        filter,
        summary,
        chunks: chunks.map_or(0, |bytes| crc32fast::hash(&bytes)),
        lists,
    })
}

fn page_checksums(
    file: &ChunkedFile,
    component: Component,
    page_bytes: u32,
) -> Result<PageChecksums, ReadError> {
    let cache = PageCache::new(CACHE_BYTES);
    let mut stream = ChunkStream::sequential(file, &cache);
    let mut sums = PageSums::new(page_bytes);
    while !stream.is_at_end() {
        stream.ensure(1)?;
        let available = stream.available();
        let count = available.len();
        sums.update(available);
        stream.consume(count);
    }
    Ok(sums.finish(component))
}
