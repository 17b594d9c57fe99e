//! The index of an SSTable that is being written, in the form of its version.

use crate::index::entry::FinishedIndex;
use crate::index::entry::WrittenPartition;
use std::path::Path;

use helenus_schema::TableMetadata;
use helenus_vfs::Disk;

use crate::big::index::PromotedIndexBuilder;
use crate::big::summary::{Summary, SummaryEntry};
use crate::bti::BtiIndexWriter;
use crate::component::Component;
use crate::component_writer::PagedFile;
use crate::descriptor::Descriptor;
use crate::error::WriteError;
use crate::index::entry::BlockBounds;
use crate::rows::clustering_codec::ClusteringCodec;
use crate::toc::Toc;
use crate::version::IndexForm;
use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::deletion::DeletionTime;

/// Told of places, of the blocks that they end, then of the partition that they belong to; partitions come in the order of tokens and keys.
#[derive(Debug)]
pub(crate) enum IndexWriter {
    Big(Box<BigIndexWriter>),
    Bti(Box<BtiIndexWriter>),
}

impl IndexWriter {
    pub fn create(
        disk: &dyn Disk,
        directory: &Path,
        descriptor: Descriptor,
        table: &TableMetadata,
    ) -> Result<Self, WriteError> {
        match descriptor.version.index_form() {
            IndexForm::Big => {
                let index_interval = table.params.min_index_interval.max(1);
                BigIndexWriter::create(disk, directory, descriptor, index_interval)
                    .map(|big| IndexWriter::Big(Box::new(big)))
            }
            IndexForm::Bti => {
                let comparator = ClusteringComparator::of(table);
                BtiIndexWriter::create(disk, directory, descriptor, comparator)
                    .map(|bti| IndexWriter::Bti(Box::new(bti)))
            }
        }
    }

    /// A row or marker was written.
    #[inline]
    pub fn push_place(&mut self, prefix: &[u8], kind: u8) {
        match self {
            IndexWriter::Big(_) => {}
            IndexWriter::Bti(bti) => bti.push_place(prefix, kind),
        }
    }

    /// A block of the partition being written ends.
    pub fn push_block(&mut self, codec: &ClusteringCodec, block: &BlockBounds, open_at_end: DeletionTime) {
        match self {
            IndexWriter::Big(big) => big.promoted.push(codec, block, open_at_end),
            IndexWriter::Bti(bti) => bti.push_block(block, open_at_end),
        }
    }

    /// The last block of the partition being written ends with it.
    pub fn push_last_block(&mut self, codec: &ClusteringCodec, block: &BlockBounds) {
        match self {
            IndexWriter::Big(big) if big.promoted.is_empty() => {
                // One block alone is not described.
            }
            index => index.push_block(codec, block, DeletionTime::LIVE),
        }
    }

    pub fn push_partition(&mut self, partition: WrittenPartition<'_>) -> Result<(), WriteError> {
        match self {
            IndexWriter::Big(big) => big.push_partition(partition),
            IndexWriter::Bti(bti) => bti.push_partition(partition),
        }
    }

    /// Makes the components durable. There was at least one partition.
    pub fn finish(self, toc: &mut Toc<'_>) -> Result<FinishedIndex, WriteError> {
        match self {
            IndexWriter::Big(big) => big.finish(toc),
            IndexWriter::Bti(bti) => bti.finish(toc),
        }
    }
}

/// Index.db, and Summary.db at the end.
#[derive(Debug)]
pub(crate) struct BigIndexWriter {
    file: PagedFile,
    promoted: PromotedIndexBuilder,
    summary: Summary,
    index_interval: u32,
    partition_count: u64,
    last_key: Vec<u8>,
    buffer: Vec<u8>,
}

impl BigIndexWriter {
    fn create(
        disk: &dyn Disk,
        directory: &Path,
        descriptor: Descriptor,
        index_interval: u32,
    ) -> Result<Self, WriteError> {
        let file = PagedFile::create(disk, descriptor.path(directory, Component::Index))?;
        Ok(BigIndexWriter {
            file,
            promoted: PromotedIndexBuilder::new(descriptor.version),
            summary: Summary::default(),
            index_interval,
            partition_count: 0,
            last_key: Vec::new(),
            buffer: Vec::new(),
        })
    }

    fn push_partition(&mut self, partition: WrittenPartition<'_>) -> Result<(), WriteError> {
        self.buffer.clear();
        self.promoted.finish(&mut self.buffer, partition);
        self.promoted.clear();
        let is_sampled = self
            .partition_count
            .is_multiple_of(u64::from(self.index_interval));
        if is_sampled {
            self.summary.entries.push(SummaryEntry {
                token: partition.token,
                key: partition.key.into(),
                index_offset: self.file.position(),
            });
        }
        self.partition_count += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(partition.key);
        self.file.append(&self.buffer)
    }

    fn finish(mut self, toc: &mut Toc<'_>) -> Result<FinishedIndex, WriteError> {
        if let Some(first) = self.summary.entries.first() {
            self.summary.first_key = first.key.clone();
        }
        self.summary.last_key = self.last_key.into();
        let (length, pages) = self.file.finish(Component::Index)?;
        toc.note(Component::Index, length);
        let summary = self.summary.encode(self.index_interval, self.partition_count);
        toc.write(Component::Summary, &summary)?;
        Ok(FinishedIndex {
            summary_checksum: crc32fast::hash(&summary),
            page_checksums: vec![pages],
        })
    }
}
