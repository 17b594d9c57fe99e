//! Data.db read for itself, for an SSTable whose index may lead nowhere.
//!
//! The header in Statistics.db is needed to read rows, and CompressionInfo.db to read compressed bytes. The index is only
//! asked where partitions begin, and not believed: what it points to must look like the head of a partition.

use std::path::Path;

use helenus_schema::TableMetadata;
use helenus_types::partition_key::{is_well_formed_partition_key, partition_key_components};
use helenus_types::{CqlType, Token, token_of};
use helenus_vfs::Disk;

use crate::big::index::read_entry_into;
use crate::block::chunk_stream::ChunkStream;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_cache::PageCache;
use crate::block::pages::Pages;
use crate::bti::BtiIndex;
use crate::component::Component;
use crate::component_reader::ComponentReader;
use crate::decode::ByteReader;
use crate::descriptor::Descriptor;
use crate::error::OpenError;
use crate::error::ReadError;
use crate::index::entry::IndexEntry;
use crate::meta::encoding_stats::EncodingStats;
use crate::meta::header::Header;
use crate::meta::statistics::SsTableStatistics;
use crate::rows::cursor::SsTableCursor;
use crate::rows::deletion_codec::read_deletion_time;
use crate::rows::partition_reader::{PartitionPlace, PartitionReader};
use crate::source::PartitionCursor;
use crate::version::IndexForm;
use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::deletion::DeletionTime;

/// Readable remains of an SSTable.
#[derive(Debug)]
pub struct Salvage {
    comparator: ClusteringComparator,
    header: Header,
    statistics: SsTableStatistics,
    key_types: Vec<CqlType>,
    data: ChunkedFile,
    starts: Vec<u64>,
    index_damage: Option<String>,
}

/// Reads partitions from any position.
#[derive(Debug)]
pub struct SalvageReader<'a> {
    salvage: &'a Salvage,
    cursor: SsTableCursor<'a>,
    /// Looks at heads; the cursor's own stream goes on where it was.
    probe: ChunkStream<'a>,
}

/// The least that a partition takes: the length of its key, a byte of it, a deletion of one byte, the mark of its end.
const PARTITION_BYTES_MIN: u64 = 5;

impl Salvage {
    pub fn open(
        disk: &dyn Disk,
        directory: &Path,
        descriptor: Descriptor,
        table: &TableMetadata,
    ) -> Result<Salvage, OpenError> {
        let mut components = ComponentReader::unchecked(disk, directory, descriptor);
        let file = components.read_statistics()?;
        let statistics_path = descriptor.path(directory, Component::Statistics);
        let header = file.header.bind(table, descriptor.version, &statistics_path)?;
        let data = components.open_data()?;
        let mut salvage = Salvage {
            comparator: ClusteringComparator::of(table),
            header,
            statistics: file.stats,
            key_types: table
                .partition_key()
                .iter()
                .map(|column| column.cql_type.clone())
                .collect(),
            data,
            starts: Vec::new(),
            index_damage: None,
        };
        let damage = salvage.survey(&mut components, descriptor).err();
        salvage.index_damage = damage
            .map(|error| error.to_string())
            .or_else(|| salvage.index_disagreement());
        salvage.starts.sort_unstable();
        salvage.starts.dedup();
        Ok(salvage)
    }

    pub fn statistics(&self) -> &SsTableStatistics {
        &self.statistics
    }

    pub fn encoding_stats(&self) -> EncodingStats {
        self.header.stats
    }

    /// Uncompressed bytes of Data.db.
    pub fn data_bytes(&self) -> u64 {
        self.data.length()
    }

    /// Where the index says that partitions begin, ascending; 8 bytes of memory for each.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Damage of the index; without any, it knows of all partitions.
    pub fn index_damage(&self) -> Option<&str> {
        self.index_damage.as_deref()
    }

    pub fn reader<'a>(&'a self, cache: &'a PageCache, slices: &'a [Slice]) -> SalvageReader<'a> {
        let stream = ChunkStream::page_by_page(&self.data, cache);
        let reader = PartitionReader::new(&self.header, stream);
        SalvageReader {
            salvage: self,
            cursor: SsTableCursor::new(reader, &self.comparator, slices, false),
            probe: ChunkStream::page_by_page(&self.data, cache),
        }
    }

    /// Gathers the starts, up to where the index cannot be read.
    fn survey(
        &mut self,
        components: &mut ComponentReader<'_>,
        descriptor: Descriptor,
    ) -> Result<(), ReadError> {
        let count_max = self.data.length() / PARTITION_BYTES_MIN;
        let cache = PageCache::new(0);
        let mut push = |position: u64| {
            self.starts.push(position);
            (self.starts.len() as u64) < count_max
        };
        match descriptor.version.index_form() {
            IndexForm::Big => {
                let index = components.open_paged(Component::Index)?;
                let mut stream = ChunkStream::sequential(&index, &cache);
                let mut entry = IndexEntry::default();
                while read_entry_into(&mut stream, descriptor.version, &mut entry)? {
                    if !push(entry.position) {
                        break;
                    }
                }
                Ok(())
            }
            IndexForm::Bti => {
                let partitions = components.open_paged(Component::Partitions)?;
                let rows = components.open_paged(Component::Rows)?;
                BtiIndex::open(partitions, rows)?.positions(Pages::from(&cache), push)
            }
        }
    }

    /// Returns the inconsistency of the starts as they were found, if any.
    fn index_disagreement(&self) -> Option<String> {
        let (found, wanted) = (self.starts.len() as u64, self.statistics.partition_count());
        if found != wanted {
            return Some(format!(
                "the index has {found} partitions, Statistics.db speaks of {wanted}"
            ));
        }
        let ascends = self.starts.is_sorted_by(|left, right| left < right);
        let is_within = self.starts.last().is_none_or(|last| *last < self.data.length());
        (self.starts.first() != Some(&0) || !ascends || !is_within)
            .then(|| "the index has partitions that cannot lie where it says".to_owned())
    }

    /// Returns whether a deletion may have been written to this file.
    fn is_plausible(&self, deletion: DeletionTime) -> bool {
        let stats = &self.statistics;
        deletion.is_live()
            || ((stats.timestamp_us_min..=stats.timestamp_us_max).contains(&deletion.timestamp_us)
                && (stats.local_deletion_s_min..=stats.local_deletion_s_max).contains(&deletion.local_s))
    }

    fn is_key(&self, key: &[u8]) -> bool {
        let count = self.key_types.len();
        !key.is_empty()
            && is_well_formed_partition_key(key, count)
            && partition_key_components(key, count)
                .zip(&self.key_types)
                .all(|(component, cql_type)| cql_type.validate(component).is_ok())
    }
}

impl<'a> SalvageReader<'a> {
    /// The key of the partition that begins at a position, if what is there can be one behind another.
    pub fn head_at(
        &mut self,
        position: u64,
        after: Option<(Token, &[u8])>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        self.head(position, after, |_| true)
    }

    fn head(
        &mut self,
        position: u64,
        after: Option<(Token, &[u8])>,
        is_plausible: impl Fn(DeletionTime) -> bool,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let salvage = self.salvage;
        self.probe.seek(position);
        let head = self.probe.decode(|bytes| {
            let mut head = ByteReader::new(bytes);
            let key = head.bytes_after_u16()?;
            if !salvage.is_key(key) {
                return Ok(None);
            }
            let deletion = read_deletion_time(&mut head, salvage.header.version)?;
            Ok(is_plausible(deletion).then(|| key.to_vec()))
        })?;
        Ok(head.filter(|key| after.is_none_or(|after| after < (token_of(key), key.as_slice()))))
    }

    /// A partition whose key [`Self::head_at`] has found.
    pub fn open(&mut self, position: u64, key: &[u8]) -> Result<&mut SsTableCursor<'a>, ReadError> {
        let place = PartitionPlace {
            key,
            position,
            end: None,
            unpack_end: u64::MAX,
            is_candidate: false,
            head: None,
        };
        self.cursor.open(&place, None)?;
        Ok(&mut self.cursor)
    }

    /// The first position of a stretch at which a whole partition lies: one whose rows can be read, before the end of the
    /// data, another partition's head or what cannot be read. For where nobody knows where partitions begin. The content of
    /// a blob may look so too; what is known to begin a partition must lie outside of the stretch.
    pub fn find(&mut self, from: u64, until: u64, after: Option<(Token, &[u8])>) -> Option<u64> {
        let page_bytes = self.salvage.data.page_bytes();
        let mut position = from;
        while position < until {
            self.probe.seek(position);
            if self.probe.ensure(1).is_err() {
                // None of the page's bytes are good.
                position = (position / page_bytes + 1) * page_bytes;
                continue;
            }
            let salvage = self.salvage;
            if let Ok(Some(key)) = self.head(position, after, |deletion| salvage.is_plausible(deletion))
                && self.is_whole(position, &key, until)
            {
                return Some(position);
            }
            position += 1;
        }
        None
    }

    fn is_whole(&mut self, position: u64, key: &[u8], until: u64) -> bool {
        let Ok(cursor) = self.open(position, key) else {
            return false;
        };
        loop {
            match cursor.advance() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return false,
            }
        }
        let Ok(end) = cursor.pass_rest() else {
            return false;
        };
        if end == until || end >= self.salvage.data.length() {
            return end <= until;
        }
        self.probe.seek(end);
        end < until
            && (self.probe.ensure(1).is_err()
                || matches!(
                    self.head_at(end, Some((token_of(key), key))),
                    Ok(Some(_)) | Err(_)
                ))
    }
}
