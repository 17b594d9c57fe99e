//! Writing one SSTable, partition by partition.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::{SsTableFormat, TableMetadata};
use helenus_types::Token;
use helenus_types::token::murmur3_x64_128;
use helenus_vfs::Disk;
use uuid::Uuid;

use crate::big::block_file::has_unique_bytes;
use crate::big::block_file_writer::{BlockFileWriter, WrittenItem};
use crate::block::checksums::{Checksums, PageChecksums};
use crate::block::compression::CompressionParameters;
use crate::block::page_sums::PageSums;
use crate::component::Component;
use crate::component_writer::{DataWriter, FinishedData};
use crate::decode::push_bytes_after_u16;
use crate::descriptor::{Descriptor, SsTableId};
use crate::directory::{publish_sstable, remove_sstable};
use crate::error::{OpenError, WriteError};
use crate::index::entry::BlockBounds;
use crate::index::entry::WrittenPartition;
use crate::index::fences::FenceWriter;
use crate::index::writer::IndexWriter;
use crate::meta::bloom::BloomFilter;
use crate::meta::collector::StatisticsCollector;
use crate::meta::encoding_stats::EncodingStats;
use crate::meta::header::{Header, HeaderComponent};
use crate::meta::statistics_file::StatisticsFile;
use crate::rows::clustering_codec::KIND_CLUSTERING;
use crate::rows::deletion_codec::push_deletion_time;
use crate::rows::row_encoder::{END_OF_PARTITION, RowEncoder, push_marker};
use crate::sidecar::SidecarFault;
use crate::toc::Toc;
use crate::version::Version;
use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::guardrails::PartitionExtent;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;

#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// How many partitions there will be at most, or nearly so: sizes the bloom filter.
    pub partition_count_estimate: u64,
    pub encoding_stats: EncodingStats,
    pub format: SsTableFormat,
    pub compression: Option<CompressionParameters>,
    /// A partition larger than this is indexed in blocks of this size.
    pub column_index_bytes: u32,
    /// True if the rows of large partitions are described in Blocks.db, which Cassandra ignores.
    pub describes_rows: bool,
    /// Level in leveled compaction.
    pub level: u32,
    /// The node that writes.
    pub originating_host: Option<Uuid>,
}

/// Sizes and faults of an SSTable that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsTableInfo {
    pub descriptor: Descriptor,
    pub partition_count: u64,
    pub row_count: u64,
    /// Uncompressed bytes of Data.db.
    pub data_bytes: u64,
    /// Bytes of all components.
    pub disk_bytes: u64,
    /// Faults of our components that were left out.
    pub sidecar_faults: Vec<SidecarFault>,
}

/// Writes an SSTable that does not exist until [`SsTableWriter::finish`] returned: all components are made durable
/// before the TOC gets its name. Calls follow the order of the file: partitions by token and key, in each the rows
/// and markers by clustering; anything else is a bug of the caller and asserts.
#[derive(Debug)]
pub struct SsTableWriter {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    descriptor: Descriptor,
    options: WriterOptions,
    bloom_filter_fp_chance: f64,
    header_component: HeaderComponent,
    header: Header,
    has_statics: bool,
    encoder: RowEncoder,
    collector: StatisticsCollector,
    data: DataWriter,
    index: IndexWriter,
    /// `None` also where it could not be written.
    blocks: Option<BlockFileWriter>,
    fences: FenceWriter,
    sidecar_faults: Vec<SidecarFault>,
    filter: Option<BloomFilter>,
    partition_count: u64,
    last_token: Option<Token>,
    partition: PartitionState,
}

/// The partition being written. Offsets count from its start.
#[derive(Debug, Default)]
struct PartitionState {
    is_open: bool,
    key: Vec<u8>,
    deletion: DeletionTimeOrLive,
    position: u64,
    header_length: u64,
    /// Offset of the item that was written last.
    last_item_offset: u64,
    /// The range deletion in force.
    open: DeletionTimeOrLive,
    /// The index block being filled, if it has begun.
    block: BlockBounds,
    has_block: bool,
}

#[derive(Clone, Copy, Debug)]
struct DeletionTimeOrLive(DeletionTime);

impl Default for DeletionTimeOrLive {
    fn default() -> Self {
        DeletionTimeOrLive(DeletionTime::LIVE)
    }
}

/// As common file systems have.
pub(crate) const STATISTICS_PAGE_BYTES: u32 = 4096;
/// Cassandra's default.
pub(crate) const COLUMN_INDEX_BYTES_DEFAULT: u32 = 64 * 1024;

impl WriterOptions {
    pub fn of(table: &TableMetadata) -> Self {
        WriterOptions {
            partition_count_estimate: 0,
            encoding_stats: EncodingStats::default(),
            format: table.params.sstable_format.unwrap_or(SsTableFormat::DEFAULT),
            compression: CompressionParameters::of(table),
            column_index_bytes: COLUMN_INDEX_BYTES_DEFAULT,
            describes_rows: true,
            level: 0,
            originating_host: None,
        }
    }
}

/// The largest granule of uncompressed data that has a checksum.
pub(crate) const GRANULE_BYTES_MAX: u32 = 2048;

/// Half of an index block, so that little more than one is read for a row of it; at least what drives read at once,
/// and at most what keeps the checksums a small part (0.2 %) of the data.
fn granule_bytes(column_index_bytes: u32) -> u32 {
    (column_index_bytes / 2)
        .next_power_of_two()
        .clamp(512, GRANULE_BYTES_MAX)
}

impl SsTableWriter {
    /// Begins an SSTable in an existing folder; nobody else uses the id.
    pub fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        id: SsTableId,
        table: &TableMetadata,
        options: WriterOptions,
    ) -> Result<Self, WriteError> {
        let version = Version::from(options.format);
        let descriptor = Descriptor { id, version };
        let header_component = HeaderComponent::of(table, options.encoding_stats);
        let header = header_component
            .bind(table, version, directory)
            .map_err(|error| match error {
                OpenError::IncompatibleColumn { column, stored, .. } => {
                    WriteError::ColumnType { column, stored }
                }
                error => WriteError::ColumnType {
                    column: table.name.to_string(),
                    stored: error.to_string(),
                },
            })?;
        let fp_chance = table.params.bloom_filter_fp_chance;
        let filter =
            (fp_chance < 1.0).then(|| BloomFilter::for_keys(options.partition_count_estimate, fp_chance));
        let mut collector = StatisticsCollector::new(ClusteringComparator::of(table), table.is_counter());
        collector.stats.level = options.level;
        collector.stats.originating_host = options.originating_host;
        let granule_bytes = granule_bytes(options.column_index_bytes);
        let data = DataWriter::create(&*disk, directory, descriptor, options.compression, granule_bytes)?;
        let page_bytes = options
            .compression
            .map_or(granule_bytes, |compression| compression.chunk_bytes);
        let fences = FenceWriter::new(page_bytes, options.column_index_bytes);
        let blocks_path = descriptor.path(directory, Component::Blocks);
        // Without clustering columns a partition has one row at most.
        let blocks = (options.describes_rows && table.clustering_count > 0).then(|| {
            BlockFileWriter::new(
                Arc::clone(&disk),
                blocks_path,
                options.column_index_bytes,
                has_unique_bytes(table),
            )
        });
        let index = IndexWriter::create(&*disk, directory, descriptor, table)?;
        Ok(SsTableWriter {
            disk,
            directory: directory.to_path_buf(),
            descriptor,
            options,
            bloom_filter_fp_chance: fp_chance,
            header_component,
            header,
            has_statics: !table.statics().is_empty(),
            encoder: RowEncoder::default(),
            collector,
            data,
            index,
            blocks,
            fences,
            sidecar_faults: Vec::new(),
            filter,
            partition_count: 0,
            last_token: None,
            partition: PartitionState::default(),
        })
    }

    /// Uncompressed bytes of data so far, by which a compaction splits its output.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Bytes of Data.db on the disk so far, nearly.
    pub fn disk_bytes(&self) -> u64 {
        self.data.file_length_estimate()
    }

    pub fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// Extent of the partition that was ended last.
    pub fn last_extent(&self) -> PartitionExtent {
        self.collector.last_extent
    }

    pub fn partition_count(&self) -> u64 {
        self.partition_count
    }

    /// `static_row` is [`RowRef::EMPTY`] where there is none.
    pub fn begin_partition(
        &mut self,
        token: Token,
        key: &[u8],
        deletion: DeletionTime,
        static_row: RowRef<'_>,
    ) -> Result<(), WriteError> {
        let partition = &mut self.partition;
        assert!(!partition.is_open, "the partition before was ended");
        let follows = self
            .last_token
            .is_none_or(|last| (last, &*partition.key) < (token, key));
        assert!(follows, "partitions are written in the order of tokens and keys");
        self.last_token = Some(token);
        partition.is_open = true;
        partition.key.clear();
        partition.key.extend_from_slice(key);
        partition.deletion = DeletionTimeOrLive(deletion);
        partition.position = self.data.position();
        partition.open = DeletionTimeOrLive::default();
        partition.has_block = false;
        if let Some(blocks) = &mut self.blocks {
            blocks.begin_partition();
        }

        let out = self.data.tail();
        push_bytes_after_u16(out, key);
        push_deletion_time(out, self.descriptor.version, deletion);
        self.collector.partition_deletion(deletion);
        if self.has_statics {
            // The first row's "previous length" is that of the partition's head.
            let counts = self.encoder.row(out, &self.header, None, static_row, 0)?;
            if let Some(counts) = counts {
                self.collector.row(None, static_row, counts);
            }
        }
        self.partition.header_length = self.data.position() - self.partition.position;
        self.partition.last_item_offset = 0;
        self.data.settle()
    }

    pub fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> Result<(), WriteError> {
        let (offset, previous_length) = self.next_item();
        let out = self.data.tail();
        let counts = self
            .encoder
            .row(out, &self.header, Some(clustering), row, previous_length)?;
        let Some(counts) = counts else { return Ok(()) };
        self.collector.row(Some(clustering), row, counts);
        let open = self.partition.open.0;
        self.item_written(offset, clustering, KIND_CLUSTERING, open)
    }

    /// From `bound` on, `after` is in force instead of `before`; [`DeletionTime::LIVE`] for none.
    pub fn marker(
        &mut self,
        bound: BoundRef<'_>,
        before: DeletionTime,
        after: DeletionTime,
    ) -> Result<(), WriteError> {
        assert!(
            before == self.partition.open.0,
            "a marker continues from the deletion in force"
        );
        if before == after {
            return Ok(());
        }
        let (offset, previous_length) = self.next_item();
        let out = self.data.tail();
        let kind = push_marker(out, &self.header, bound, before, after, previous_length);
        self.collector.marker(bound.prefix, bound.side, before, after);
        self.partition.open = DeletionTimeOrLive(after);
        self.item_written(offset, bound.prefix, kind, before)
    }

    /// The offset of what is written next, and its distance from what was written last.
    fn next_item(&self) -> (u64, u64) {
        assert!(self.partition.is_open, "a partition was begun");
        let offset = self.data.position() - self.partition.position;
        (offset, offset - self.partition.last_item_offset)
    }

    /// Writes what is full of the data, and keeps the indexes of blocks.
    fn item_written(
        &mut self,
        offset: u64,
        prefix: &[u8],
        kind: u8,
        open_before: DeletionTime,
    ) -> Result<(), WriteError> {
        self.data.settle()?;
        if let Some(blocks) = &mut self.blocks {
            let item = WrittenItem {
                prefix,
                kind,
                offset,
                open_before,
            };
            let described = blocks.item(&self.header.clustering, item);
            described.unwrap_or_else(|error| self.give_up_blocks(&error));
        }
        self.index.push_place(prefix, kind);
        let partition = &mut self.partition;
        partition.last_item_offset = offset;
        let codec = &self.header.clustering;
        let block = &mut partition.block;
        if !partition.has_block {
            partition.has_block = true;
            block.offset = offset;
            block.first.set(prefix, kind);
        }
        block.last.set(prefix, kind);
        block.width = self.data.position() - partition.position - block.offset;
        if block.width >= u64::from(self.options.column_index_bytes) {
            self.index.push_block(codec, block, partition.open.0);
            partition.has_block = false;
        }
        Ok(())
    }

    pub fn end_partition(&mut self) -> Result<(), WriteError> {
        self.data.tail().push(END_OF_PARTITION);
        self.data.settle()?;
        let partition = &mut self.partition;
        assert!(
            partition.is_open && partition.open.0.is_live(),
            "range deletions are closed"
        );
        partition.is_open = false;
        if std::mem::take(&mut partition.has_block) {
            let block = &mut partition.block;
            // The last block includes the mark of the partition's end.
            block.width = self.data.position() - partition.position - block.offset;
            self.index.push_last_block(&self.header.clustering, block);
        }
        let key = &partition.key;
        let key_hash = murmur3_x64_128(key);
        if let Some(filter) = &mut self.filter {
            filter.add(key_hash);
        }
        self.collector
            .partition_end(key, self.data.position() - partition.position);
        self.partition_count += 1;
        let written = WrittenPartition {
            token: self.last_token.unwrap_or(Token::MINIMUM),
            key,
            key_hash,
            position: partition.position,
            header_length: partition.header_length,
            deletion: partition.deletion.0,
            length: self.data.position() - partition.position,
        };
        self.fences.push(written.token, written.position);
        if let Some(blocks) = &mut self.blocks {
            let described = blocks.end_partition(written);
            self.index.push_partition(written)?;
            described.unwrap_or_else(|error| self.give_up_blocks(&error));
            return Ok(());
        }
        self.index.push_partition(written)
    }

    /// The SSTable is whole without.
    fn give_up_blocks(&mut self, error: &WriteError) {
        self.blocks = None;
        self.leave_out(Component::Blocks, error);
    }

    fn leave_out(&mut self, component: Component, error: &WriteError) {
        // What cannot be removed is not named by the TOC, and is refused when it is opened.
        let _left = self
            .disk
            .remove(&self.descriptor.path(&self.directory, component));
        self.sidecar_faults.push(SidecarFault::new(component, error));
    }

    /// Makes the SSTable exist. There must be at least one partition.
    pub fn finish(self) -> Result<SsTableInfo, WriteError> {
        let (disk, directory) = (Arc::clone(&self.disk), self.directory.clone());
        let info = self.seal()?;
        publish_sstable(&*disk, &directory, info.descriptor)
            .and_then(|()| disk.sync_directory(&directory))
            .map_err(|source| WriteError::Io {
                file: directory,
                source,
            })?;
        Ok(info)
    }

    /// Makes all of the SSTable durable except for the name of its TOC: it can be opened, and after a crash it is
    /// garbage until [`publish_sstable`] has made it exist. There must be at least one partition.
    pub fn seal(mut self) -> Result<SsTableInfo, WriteError> {
        assert!(
            !self.partition.is_open && self.partition_count > 0,
            "an SSTable has partitions, all ended"
        );
        let blocks_length = self.finish_blocks();
        let SsTableWriter {
            disk,
            directory,
            descriptor,
            mut collector,
            mut sidecar_faults,
            ..
        } = self;
        let disk = &*disk;
        let version = descriptor.version;
        let mut toc = Toc::new(disk, &directory, descriptor);
        let data = self.data.finish()?;
        toc.note(Component::Data, data.file_length);
        let index = self.index.finish(&mut toc)?;
        if let Some(blocks_length) = blocks_length {
            toc.note(Component::Blocks, blocks_length);
        }
        toc.write(Component::Digest, data.digest.to_string().as_bytes())?;
        toc.write(data.chunks_component, &data.chunks)?;
        let mut filter_bytes = Vec::new();
        if let Some(filter) = &self.filter {
            filter.encode(descriptor.version, &mut filter_bytes);
            toc.write(Component::Filter, &filter_bytes)?;
        }
        collector.stats.compression_ratio = compression_ratio(&data);
        let (stats, cardinality) = collector.finish();
        let row_count = stats.rows;
        let statistics = StatisticsFile {
            bloom_filter_fp_chance: self.bloom_filter_fp_chance,
            stats,
            header: self.header_component,
            keys: Some(cardinality),
        };
        let statistics_bytes = statistics.encode(version);
        toc.write(Component::Statistics, &statistics_bytes)?;
        let statistics_pages = (!version.has_metadata_checksum()).then(|| statistics_sums(&statistics_bytes));
        let checksums = Checksums {
            filter: crc32fast::hash(&filter_bytes),
            summary: index.summary_checksum,
            chunks: crc32fast::hash(&data.chunks),
            lists: Vec::from_iter(
                data.granules
                    .iter()
                    .cloned()
                    .chain(index.page_checksums)
                    .chain(statistics_pages),
            ),
        };
        let fences = self.fences.finish(data.data_length);
        sidecar_faults.extend(toc.write_sidecar(Component::Checksums, &checksums.encode()));
        sidecar_faults.extend(fences.and_then(|fences| toc.write_sidecar(Component::Fences, &fences)));
        let disk_bytes = toc.seal()?;
        Ok(SsTableInfo {
            descriptor,
            partition_count: self.partition_count,
            row_count,
            data_bytes: data.data_length,
            disk_bytes,
            sidecar_faults,
        })
    }

    /// The length of the blocks' file, if there is one: the SSTable is whole without.
    fn finish_blocks(&mut self) -> Option<u64> {
        match self.blocks.take().map(BlockFileWriter::finish)? {
            Ok(length) => length,
            Err(error) => {
                self.leave_out(Component::Blocks, &error);
                None
            }
        }
    }

    /// Removes what was written. A crash before leaves files without a TOC, which the next open removes.
    pub fn abandon(self) -> Result<(), WriteError> {
        let io = |source| WriteError::Io {
            file: self.directory.clone(),
            source,
        };
        remove_sstable(&*self.disk, &self.directory, self.descriptor).map_err(io)
    }
}

/// Computes the page checksums of a Statistics.db whose version has none in the file itself.
fn statistics_sums(bytes: &[u8]) -> PageChecksums {
    let mut sums = PageSums::new(STATISTICS_PAGE_BYTES);
    sums.update(bytes);
    sums.finish(Component::Statistics)
}

fn compression_ratio(data: &FinishedData) -> f64 {
    if data.chunks_component == Component::CompressionInfo && data.data_length > 0 {
        data.file_length as f64 / data.data_length as f64
    } else {
        -1.0
    }
}
