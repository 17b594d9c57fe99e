//! Partitions.db and Rows.db of an SSTable that is being written.

use std::path::Path;

use helenus_vfs::Disk;

use super::partition_index::{PartitionIndexWriter, PartitionPlace};
use super::row_index::{PlaceRef, RowIndexWriter};
use crate::component::Component;
use crate::component_writer::PagedFile;
use crate::descriptor::Descriptor;
use crate::error::WriteError;
use crate::index::entry::BlockBounds;
use crate::index::entry::BlockPlace;
use crate::index::entry::FinishedIndex;
use crate::index::entry::WrittenPartition;
use crate::rows::clustering_codec::side_of_kind;
use crate::toc::Toc;
use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::deletion::DeletionTime;

/// Told of places, of the blocks that they end, then of the partition that has them.
#[derive(Debug)]
pub(crate) struct BtiIndexWriter {
    partitions: PartitionIndexWriter,
    rows: RowIndexWriter,
    /// The range deletion in force where the next block of the partition begins.
    open: DeletionTime,
}

impl BtiIndexWriter {
    pub fn create(
        disk: &dyn Disk,
        directory: &Path,
        descriptor: Descriptor,
        comparator: ClusteringComparator,
    ) -> Result<Self, WriteError> {
        let file = |component| PagedFile::create(disk, descriptor.path(directory, component));
        Ok(BtiIndexWriter {
            partitions: PartitionIndexWriter::new(file(Component::Partitions)?),
            rows: RowIndexWriter::new(file(Component::Rows)?, comparator),
            open: DeletionTime::LIVE,
        })
    }

    pub fn push_place(&mut self, prefix: &[u8], kind: u8) {
        let side = side_of_kind(kind);
        self.rows.place(PlaceRef { prefix, side });
    }

    pub fn push_block(&mut self, block: &BlockBounds, open_at_end: DeletionTime) {
        let (first, last) = (place(&block.first), place(&block.last));
        self.rows.add_block(first, last, block.offset, self.open);
        self.open = open_at_end;
    }

    pub fn push_partition(&mut self, partition: WrittenPartition<'_>) -> Result<(), WriteError> {
        self.open = DeletionTime::LIVE;
        let WrittenPartition {
            token,
            key,
            key_hash,
            position,
            deletion,
            length,
            ..
        } = partition;
        // The mark of the end is the last byte.
        let place = match self.rows.end_partition(key, position, deletion, length - 1)? {
            Some(entry) => PartitionPlace::Rows(entry),
            None => PartitionPlace::Data(position),
        };
        self.partitions.add(token, key, key_hash, place)
    }

    pub fn finish(self, toc: &mut Toc<'_>) -> Result<FinishedIndex, WriteError> {
        let (partitions_length, partition_pages) = self.partitions.finish()?;
        let (rows_length, row_pages) = self.rows.finish()?;
        toc.note(Component::Partitions, partitions_length);
        toc.note(Component::Rows, rows_length);
        Ok(FinishedIndex {
            summary_checksum: 0,
            page_checksums: vec![partition_pages, row_pages],
        })
    }
}

fn place(place: &BlockPlace) -> PlaceRef<'_> {
    PlaceRef {
        prefix: &place.prefix,
        side: side_of_kind(place.kind),
    }
}
