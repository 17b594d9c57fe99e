//! Between the model and files.

use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::{Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::partition_range::PartitionBound;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;
use helenus_schema::TableMetadata;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, PartitionScanner, Unfiltered};
use helenus_sstable::{
    EncodingStats, EncodingStatsCollector, PageCache, SsTable, SsTableId, SsTableInfo, SsTableWriter,
    WriteError, WriterOptions,
};
use helenus_types::Token;
use helenus_vfs::Disk;

use crate::partition::{Item, Partition, Partitions};

/// Room for some partitions; what a test reads once is not worth more.
const CACHE_BYTES: usize = 1 << 20;

/// Collects the statistics that a writer encodes the partitions relative to.
pub fn encoding_stats(partitions: &Partitions) -> EncodingStats {
    let mut stats = EncodingStatsCollector::default();
    for partition in partitions.values() {
        stats.deletion(partition.deletion);
        stats.row(RowRef::new(&partition.static_row));
        for item in &partition.items {
            match item {
                Item::Row { row, .. } => stats.row(RowRef::new(row)),
                Item::Marker { deletion, .. } => stats.deletion(*deletion),
            }
        }
    }
    stats.finish()
}

/// Writes all partitions as one SSTable into a folder, which is made.
pub fn write(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    id: SsTableId,
    table: &TableMetadata,
    partitions: &Partitions,
    mut options: WriterOptions,
) -> Result<SsTableInfo, WriteError> {
    disk.create_dir_all(folder).map_err(|source| WriteError::Io {
        file: folder.to_path_buf(),
        source,
    })?;
    options.partition_count_estimate = partitions.len() as u64;
    options.encoding_stats = encoding_stats(partitions);
    let mut writer = SsTableWriter::new(Arc::clone(disk), folder, id, table, options)?;
    for ((token, partition_key), partition) in partitions {
        let static_row = RowRef::new(&partition.static_row);
        writer.begin_partition(*token, partition_key, partition.deletion, static_row)?;
        write_items(&mut writer, &partition.items)?;
        writer.end_partition()?;
    }
    writer.finish()
}

fn write_items(writer: &mut SsTableWriter, items: &[Item]) -> Result<(), WriteError> {
    let mut in_force = DeletionTime::LIVE;
    for item in items {
        match item {
            Item::Row { clustering, row } => writer.row(clustering, RowRef::new(row))?,
            Item::Marker {
                prefix,
                side,
                deletion,
            } => {
                let bound = BoundRef { prefix, side: *side };
                writer.marker(bound, in_force, *deletion)?;
                in_force = *deletion;
            }
        }
    }
    Ok(())
}

/// All that a cursor returns.
pub fn drain(cursor: &mut dyn PartitionCursor) -> Result<Partition, ReadError> {
    let mut partition = Partition {
        deletion: cursor.deletion(),
        static_row: cursor.static_row().as_bytes().to_vec(),
        items: Vec::new(),
    };
    while cursor.advance()? {
        match cursor.current() {
            Unfiltered::Row { clustering, row } => {
                partition.row(clustering.to_vec(), row.as_bytes().to_vec());
            }
            Unfiltered::Marker { bound, deletion } => {
                partition.marker(bound.prefix.to_vec(), bound.side, deletion);
            }
        }
    }
    Ok(partition)
}

/// A whole SSTable by scan, each partition whole, its rows in either direction.
pub fn scan(sstable: &SsTable, reversed: bool) -> Result<Partitions, ReadError> {
    let cache = PageCache::new(CACHE_BYTES);
    let start = PartitionBound {
        token: Token::MINIMUM,
        key: None,
        side: Side::Before,
    };
    let end = PartitionBound {
        token: Token::MAXIMUM,
        key: None,
        side: Side::After,
    };
    let slices = [Slice::all()];
    let mut scanner = sstable.scan(&cache, start, end, &slices, reversed);
    let mut partitions = Partitions::new();
    while scanner.advance()? {
        let (token, partition_key) = scanner.position();
        let place = (token, partition_key.to_vec());
        let partition = drain(&mut scanner.open()?)?;
        partitions.insert(place, partition);
    }
    Ok(partitions)
}

/// One partition by its key.
pub fn point_read(
    sstable: &SsTable,
    token: Token,
    partition_key: &[u8],
    slices: &[Slice],
    reversed: bool,
) -> Result<Option<Partition>, ReadError> {
    let cache = PageCache::new(CACHE_BYTES);
    match sstable.partition(&cache, token, partition_key, slices, reversed)? {
        Some(mut cursor) => drain(&mut cursor).map(Some),
        None => Ok(None),
    }
}
