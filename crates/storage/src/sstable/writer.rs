//! Writing one SSTable, partition by partition.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::Token;
use helenus_vfs::Disk;
use uuid::Uuid;

use super::bloom::BloomFilter;
use super::checksums::Checksums;
use super::clustering_codec::KIND_CLUSTERING;
use super::collector::StatisticsCollector;
use super::component::{Component, Generation, unfinished_toc_path};
use super::component_writer::{ComponentFile, DataWriter, FinishedData, IndexWriter, write_component};
use super::compression::CompressionParameters;
use super::decode::push_bytes_after_u16;
use super::encoding_stats::EncodingStats;
use super::error::{OpenError, WriteError};
use super::header::{Header, HeaderComponent};
use super::index::{BlockBounds, PromotedIndexBuilder, push_deletion_time};
use super::row_encoder::{END_OF_PARTITION, RowEncoder};
use super::statistics::StatisticsFile;
use super::summary::{Summary, SummaryEntry};
use crate::clustering::ClusteringComparator;
use crate::deletion::DeletionTime;
use crate::row::RowRef;
use crate::update::BoundRef;

#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// How many partitions there will be at most, or nearly so: sizes the bloom filter.
    pub partition_count_estimate: u64,
    pub encoding_stats: EncodingStats,
    pub compression: Option<CompressionParameters>,
    /// A partition larger than this is indexed in blocks of this size.
    pub column_index_bytes: u32,
    /// Of leveled compaction.
    pub level: u32,
    /// The node that writes.
    pub originating_host: Option<Uuid>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsTableInfo {
    pub generation: Generation,
    pub partition_count: u64,
    pub row_count: u64,
    /// Uncompressed bytes of Data.db.
    pub data_bytes: u64,
    /// Of all components.
    pub disk_bytes: u64,
}

/// Writes an SSTable that does not exist until [`SsTableWriter::finish`] returned: all components are made durable
/// before the TOC gets its name. Calls follow the order of the file: partitions by token and key, in each the rows
/// and markers by clustering; anything else is a bug of the caller and asserts.
#[derive(Debug)]
pub struct SsTableWriter {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    generation: Generation,
    options: WriterOptions,
    bloom_filter_fp_chance: f64,
    index_interval: u32,
    header_component: HeaderComponent,
    header: Header,
    has_statics: bool,
    encoder: RowEncoder,
    collector: StatisticsCollector,
    data: DataWriter,
    index: IndexWriter,
    filter: Option<BloomFilter>,
    summary: Summary,
    partition_count: u64,
    last_token: Option<Token>,
    partition: PartitionState,
    buffer: Vec<u8>,
}

/// The partition being written. Offsets count from its start.
#[derive(Debug, Default)]
struct PartitionState {
    is_open: bool,
    key: Vec<u8>,
    deletion: DeletionTimeOrLive,
    position: u64,
    header_length: u64,
    /// Of what was written last.
    last_item_offset: u64,
    /// The range deletion in force.
    open: DeletionTimeOrLive,
    /// The index block being filled, if it has begun.
    block: Option<BlockBounds>,
    promoted: PromotedIndexBuilder,
}

#[derive(Clone, Copy, Debug)]
struct DeletionTimeOrLive(DeletionTime);

impl Default for DeletionTimeOrLive {
    fn default() -> Self {
        DeletionTimeOrLive(DeletionTime::LIVE)
    }
}

/// Cassandra's default.
const COLUMN_INDEX_BYTES_DEFAULT: u32 = 64 * 1024;

impl WriterOptions {
    pub fn of(table: &TableMetadata) -> Self {
        WriterOptions {
            partition_count_estimate: 0,
            encoding_stats: EncodingStats::default(),
            compression: CompressionParameters::of(table),
            column_index_bytes: COLUMN_INDEX_BYTES_DEFAULT,
            level: 0,
            originating_host: None,
        }
    }
}

impl SsTableWriter {
    /// Begins an SSTable in an existing folder; nobody else uses the generation.
    pub fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        generation: Generation,
        table: &TableMetadata,
        options: WriterOptions,
    ) -> Result<Self, WriteError> {
        let header_component = HeaderComponent::of(table, options.encoding_stats);
        let header = header_component
            .bind(table, directory)
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
        let mut collector = StatisticsCollector::new(ClusteringComparator::of(table));
        collector.stats.level = options.level;
        collector.stats.originating_host = options.originating_host;
        let data_path = Component::Data.path(directory, generation);
        let data = DataWriter::create(&*disk, data_path, options.compression)?;
        let index = IndexWriter::create(&*disk, Component::Index.path(directory, generation))?;
        Ok(SsTableWriter {
            disk,
            directory: directory.to_path_buf(),
            generation,
            options,
            bloom_filter_fp_chance: fp_chance,
            index_interval: table.params.min_index_interval.max(1),
            header_component,
            header,
            has_statics: !table.statics().is_empty(),
            encoder: RowEncoder::default(),
            collector,
            data,
            index,
            filter,
            summary: Summary::default(),
            partition_count: 0,
            last_token: None,
            partition: PartitionState::default(),
            buffer: Vec::new(),
        })
    }

    /// Uncompressed bytes of data so far, by which a compaction splits its output.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
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
        partition.block = None;
        partition.promoted.clear();

        self.buffer.clear();
        push_bytes_after_u16(&mut self.buffer, key);
        push_deletion_time(&mut self.buffer, deletion);
        self.collector.deletion(deletion);
        if self.has_statics {
            let counts = self
                .encoder
                .row(&mut self.buffer, &self.header, None, static_row, 0)?;
            if !static_row.is_empty() {
                self.collector.row(None, static_row, counts.unwrap_or_default());
            }
        }
        self.partition.header_length = self.buffer.len() as u64;
        // The first row's "previous length" is that of the partition's head.
        self.partition.last_item_offset = 0;
        self.data.append(&self.buffer)
    }

    pub fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> Result<(), WriteError> {
        let (offset, previous_length) = self.next_item();
        self.buffer.clear();
        let encoder = &mut self.encoder;
        let counts = encoder.row(
            &mut self.buffer,
            &self.header,
            Some(clustering),
            row,
            previous_length,
        )?;
        let Some(counts) = counts else { return Ok(()) };
        self.collector.row(Some(clustering), row, counts);
        self.item_written(offset, clustering, KIND_CLUSTERING)
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
        self.buffer.clear();
        let kind = self.encoder.marker(
            &mut self.buffer,
            &self.header,
            bound,
            before,
            after,
            previous_length,
        );
        self.collector.marker(bound.prefix, bound.side, before, after);
        self.partition.open = DeletionTimeOrLive(after);
        self.item_written(offset, bound.prefix, kind)
    }

    /// The offset of what is written next, and its distance from what was written last.
    fn next_item(&self) -> (u64, u64) {
        assert!(self.partition.is_open, "a partition was begun");
        let offset = self.data.position() - self.partition.position;
        (offset, offset - self.partition.last_item_offset)
    }

    /// Writes the buffer and keeps the index of blocks.
    fn item_written(&mut self, offset: u64, prefix: &[u8], kind: u8) -> Result<(), WriteError> {
        self.data.append(&self.buffer)?;
        let partition = &mut self.partition;
        partition.last_item_offset = offset;
        let codec = &self.header.clustering;
        let block = partition.block.get_or_insert_with(|| {
            let mut block = BlockBounds {
                offset,
                ..BlockBounds::default()
            };
            codec.write_place(&mut block.first, prefix, kind);
            block
        });
        block.last.clear();
        codec.write_place(&mut block.last, prefix, kind);
        block.width = self.data.position() - partition.position - block.offset;
        if block.width >= u64::from(self.options.column_index_bytes) {
            partition.promoted.push(block, partition.open.0);
            partition.block = None;
        }
        Ok(())
    }

    pub fn end_partition(&mut self) -> Result<(), WriteError> {
        self.data.append(&[END_OF_PARTITION])?;
        let partition = &mut self.partition;
        assert!(
            partition.is_open && partition.open.0.is_live(),
            "range deletions are closed"
        );
        partition.is_open = false;
        if let Some(mut block) = partition.block.take() {
            // The last block includes the mark of the partition's end.
            block.width = self.data.position() - partition.position - block.offset;
            partition.promoted.push(&block, DeletionTime::LIVE);
        }
        let key = &partition.key;
        self.buffer.clear();
        let header_length = partition.header_length;
        partition.promoted.finish(
            &mut self.buffer,
            key,
            partition.position,
            header_length,
            partition.deletion.0,
        );
        if self
            .partition_count
            .is_multiple_of(u64::from(self.index_interval))
        {
            let token = self.last_token.unwrap_or(Token(i64::MIN));
            let index_offset = self.index.position();
            self.summary.entries.push(SummaryEntry {
                token,
                key: key.as_slice().into(),
                index_offset,
            });
        }
        if let Some(filter) = &mut self.filter {
            filter.add(key);
        }
        self.collector
            .partition_end(key, self.data.position() - partition.position);
        self.partition_count += 1;
        self.index.append(&self.buffer)
    }

    /// Makes the SSTable exist. There must be at least one partition.
    pub fn finish(self) -> Result<SsTableInfo, WriteError> {
        assert!(
            !self.partition.is_open && self.partition_count > 0,
            "an SSTable has partitions, all ended"
        );
        let SsTableWriter {
            disk,
            directory,
            generation,
            mut summary,
            mut collector,
            ..
        } = self;
        let disk = &*disk;
        let mut toc = Toc {
            disk,
            directory: &directory,
            generation,
            components: Vec::new(),
            disk_bytes: 0,
        };
        summary.first_key = summary.entries[0].key.clone();
        summary.last_key = self.partition.key.into();

        let data = self.data.finish()?;
        let (index_length, index_pages) = self.index.finish()?;
        toc.note(Component::Data, data.file_length);
        toc.note(Component::Index, index_length);
        toc.write(Component::Digest, data.digest.to_string().as_bytes())?;
        toc.write(data.chunks_component, &data.chunks)?;
        let mut filter_bytes = Vec::new();
        if let Some(filter) = &self.filter {
            filter.encode(&mut filter_bytes);
            toc.write(Component::Filter, &filter_bytes)?;
        }
        let summary_bytes = summary.encode(self.index_interval, self.partition_count);
        toc.write(Component::Summary, &summary_bytes)?;
        let checksums = Checksums {
            filter: crc32fast::hash(&filter_bytes),
            summary: crc32fast::hash(&summary_bytes),
            chunks: crc32fast::hash(&data.chunks),
            index_pages,
        };
        toc.write(Component::Checksums, &checksums.encode())?;

        collector.stats.compression_ratio = compression_ratio(&data);
        let (stats, cardinality) = collector.finish();
        let row_count = stats.rows;
        let mut cardinality_bytes = Vec::new();
        cardinality.encode(&mut cardinality_bytes);
        let bloom_filter_fp_chance = self.bloom_filter_fp_chance;
        let statistics = StatisticsFile {
            bloom_filter_fp_chance,
            stats,
            header: self.header_component,
        };
        toc.write(Component::Statistics, &statistics.encode(&cardinality_bytes))?;
        let disk_bytes = toc.publish()?;
        Ok(SsTableInfo {
            generation,
            partition_count: self.partition_count,
            row_count,
            data_bytes: data.data_length,
            disk_bytes,
        })
    }

    /// Removes what was written. A crash before leaves files without a TOC, which the next open removes.
    pub fn abandon(self) -> Result<(), WriteError> {
        let io = |source| WriteError::Io {
            file: self.directory.clone(),
            source,
        };
        super::component::remove_sstable(&*self.disk, &self.directory, self.generation).map_err(io)
    }
}

fn compression_ratio(data: &FinishedData) -> f64 {
    if data.chunks_component == Component::CompressionInfo && data.data_length > 0 {
        data.file_length as f64 / data.data_length as f64
    } else {
        -1.0
    }
}

/// The list of an SSTable's components, whose appearance makes it one.
struct Toc<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    generation: Generation,
    components: Vec<Component>,
    disk_bytes: u64,
}

impl Toc<'_> {
    fn note(&mut self, component: Component, length: u64) {
        self.components.push(component);
        self.disk_bytes += length;
    }

    fn write(&mut self, component: Component, bytes: &[u8]) -> Result<(), WriteError> {
        write_component(self.disk, self.directory, self.generation, component, bytes)?;
        self.note(component, bytes.len() as u64);
        Ok(())
    }

    /// Returns the size of all components. The names of the others are durable before the TOC has its own.
    fn publish(mut self) -> Result<u64, WriteError> {
        let io = |file: &Path| {
            let file = file.to_path_buf();
            move |source| WriteError::Io { file, source }
        };
        self.components.push(Component::Toc);
        let text: String = self
            .components
            .iter()
            .map(|component| format!("{}\n", component.file_suffix()))
            .collect();
        let unfinished = unfinished_toc_path(self.directory, self.generation);
        let mut file = ComponentFile::create(self.disk, unfinished.clone())?;
        file.append(text.as_bytes())?;
        let length = file.finish()?;
        self.disk
            .sync_directory(self.directory)
            .map_err(io(self.directory))?;
        let toc = Component::Toc.path(self.directory, self.generation);
        self.disk.rename(&unfinished, &toc).map_err(io(&toc))?;
        self.disk
            .sync_directory(self.directory)
            .map_err(io(self.directory))?;
        Ok(self.disk_bytes + length)
    }
}
