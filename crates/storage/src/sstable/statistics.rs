//! Statistics.db: four components, each with a checksum.
//!
//! | field | bytes |
//! |---|---|
//! | components | 4: their number |
//! | checksum | 4: CRC32 of the number |
//! | contents | per component 4 type, 4 offset |
//! | checksum | 4: CRC32 of the number and the contents |
//! | components | in the order of their types, each followed by its CRC32 |

use std::path::Path;

use uuid::Uuid;

use super::decode::{ByteReader, DecodeError, push_bytes_after_u16};
use super::deletion_codec::{deletion_time_of_stored, stored_deletion_time};
use super::error::OpenError;
use super::header::HeaderComponent;
use super::histogram::{CELL_COUNT_BUCKETS, EstimatedHistogram, PARTITION_SIZE_BUCKETS, TombstoneHistogram};
use super::version::Version;
use crate::clustering::{Components, push_component};
use crate::deletion::NEVER_S;

const TYPE_VALIDATION: u32 = 0;
const TYPE_COMPACTION: u32 = 1;
const TYPE_STATS: u32 = 2;
const TYPE_HEADER: u32 = 3;
const COMPONENTS: [u32; 4] = [TYPE_VALIDATION, TYPE_COMPACTION, TYPE_STATS, TYPE_HEADER];

pub(super) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// What an SSTable says about its content.
#[derive(Clone, Debug, PartialEq)]
pub struct SsTableStatistics {
    /// One value per partition, in uncompressed bytes.
    pub partition_bytes: EstimatedHistogram,
    /// One value per partition.
    pub partition_cells: EstimatedHistogram,
    /// Microseconds; the extremes of `i64` where nothing is stamped.
    pub timestamp_us_min: i64,
    pub timestamp_us_max: i64,
    /// [`NEVER_S`] as the maximum says that something neither is deleted nor expires.
    pub local_deletion_s_min: u32,
    pub local_deletion_s_max: u32,
    pub ttl_s_min: u32,
    pub ttl_s_max: u32,
    /// Stored by uncompressed bytes; -1 if not compressed.
    pub compression_ratio: f64,
    pub tombstone_drop_times: TombstoneHistogram,
    /// Of leveled compaction.
    pub level: u32,
    /// Packed prefixes at or before and at or after all rows and range deletions; empty for open.
    pub clustering_min: Box<[u8]>,
    pub clustering_max: Box<[u8]>,
    /// Columns set, summed over the rows.
    pub columns: u64,
    /// With static rows.
    pub rows: u64,
    pub originating_host: Option<Uuid>,
}

/// The file, decoded.
#[derive(Clone, Debug)]
pub(super) struct StatisticsFile {
    pub bloom_filter_fp_chance: f64,
    pub stats: SsTableStatistics,
    pub header: HeaderComponent,
}

impl SsTableStatistics {
    pub(super) fn empty() -> Self {
        SsTableStatistics {
            partition_bytes: EstimatedHistogram::new(PARTITION_SIZE_BUCKETS),
            partition_cells: EstimatedHistogram::new(CELL_COUNT_BUCKETS),
            timestamp_us_min: i64::MIN,
            timestamp_us_max: i64::MAX,
            local_deletion_s_min: NEVER_S,
            local_deletion_s_max: NEVER_S,
            ttl_s_min: 0,
            ttl_s_max: 0,
            compression_ratio: -1.0,
            tombstone_drop_times: TombstoneHistogram::default(),
            level: 0,
            clustering_min: Box::default(),
            clustering_max: Box::default(),
            columns: 0,
            rows: 0,
            originating_host: None,
        }
    }

    pub fn partition_count(&self) -> u64 {
        self.partition_bytes.count()
    }

    /// The share of cells and deletions that a compaction could drop, of all cells.
    pub fn droppable_tombstone_ratio(&self, gc_before_s: u32) -> f64 {
        let cells = self.partition_cells.sum_estimate();
        if cells == 0 {
            return 0.0;
        }
        self.tombstone_drop_times.count_before(gc_before_s) as f64 / cells as f64
    }

    fn encode(&self, version: Version, out: &mut Vec<u8>) {
        self.partition_bytes.encode(out);
        self.partition_cells.encode(out);
        push_commit_log_position(out);
        out.extend_from_slice(&self.timestamp_us_min.to_be_bytes());
        out.extend_from_slice(&self.timestamp_us_max.to_be_bytes());
        out.extend_from_slice(&stored_deletion_time(version, self.local_deletion_s_min).to_be_bytes());
        out.extend_from_slice(&stored_deletion_time(version, self.local_deletion_s_max).to_be_bytes());
        out.extend_from_slice(&self.ttl_s_min.to_be_bytes());
        out.extend_from_slice(&self.ttl_s_max.to_be_bytes());
        out.extend_from_slice(&self.compression_ratio.to_be_bytes());
        self.tombstone_drop_times.encode(out);
        out.extend_from_slice(&self.level.to_be_bytes());
        let repaired_at_ms = 0_u64;
        out.extend_from_slice(&repaired_at_ms.to_be_bytes());
        for prefix in [&self.clustering_min, &self.clustering_max] {
            out.extend_from_slice(&(Components::new(prefix).count() as u32).to_be_bytes());
            Components::new(prefix).for_each(|component| push_bytes_after_u16(out, component));
        }
        let has_legacy_counter_shards = false;
        out.push(u8::from(has_legacy_counter_shards));
        out.extend_from_slice(&self.columns.to_be_bytes());
        out.extend_from_slice(&self.rows.to_be_bytes());
        push_commit_log_position(out);
        let commit_log_intervals = 0_u32;
        out.extend_from_slice(&commit_log_intervals.to_be_bytes());
        let has_pending_repair = false;
        let is_transient = false;
        out.extend_from_slice(&[u8::from(has_pending_repair), u8::from(is_transient)]);
        out.push(u8::from(self.originating_host.is_some()));
        if let Some(host) = &self.originating_host {
            out.extend_from_slice(host.as_bytes());
        }
    }

    fn decode(bytes: &[u8], version: Version) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let mut stats = SsTableStatistics::empty();
        stats.partition_bytes = EstimatedHistogram::decode(&mut reader)?;
        stats.partition_cells = EstimatedHistogram::decode(&mut reader)?;
        skip_commit_log_position(&mut reader)?;
        stats.timestamp_us_min = reader.i64()?;
        stats.timestamp_us_max = reader.i64()?;
        stats.local_deletion_s_min = deletion_time_of_stored(version, reader.u32()?);
        stats.local_deletion_s_max = deletion_time_of_stored(version, reader.u32()?);
        stats.ttl_s_min = reader.u32()?;
        stats.ttl_s_max = reader.u32()?;
        stats.compression_ratio = reader.f64()?;
        stats.tombstone_drop_times = TombstoneHistogram::decode(&mut reader)?;
        stats.level = reader.u32()?;
        reader.u64()?;
        for prefix in [&mut stats.clustering_min, &mut stats.clustering_max] {
            let mut packed = Vec::new();
            for _ in 0..reader.count_u32(2)? {
                push_component(&mut packed, reader.bytes_after_u16()?);
            }
            *prefix = packed.into();
        }
        reader.boolean()?;
        stats.columns = reader.u64()?;
        stats.rows = reader.u64()?;
        skip_commit_log_position(&mut reader)?;
        for _ in 0..reader.count_u32(24)? {
            skip_commit_log_position(&mut reader)?;
            skip_commit_log_position(&mut reader)?;
        }
        if reader.boolean()? {
            reader.bytes(16)?;
        }
        reader.boolean()?;
        if reader.boolean()? {
            let bytes = reader.bytes(16)?;
            stats.originating_host = Uuid::from_slice(bytes).ok();
        }
        reader.finish()?;
        Ok(stats)
    }
}

/// "None": Helenus's logs are not Cassandra's, so their positions mean nothing to it.
fn push_commit_log_position(out: &mut Vec<u8>) {
    let (segment, position) = (-1_i64, 0_u32);
    out.extend_from_slice(&segment.to_be_bytes());
    out.extend_from_slice(&position.to_be_bytes());
}

fn skip_commit_log_position(reader: &mut ByteReader<'_>) -> Result<(), DecodeError> {
    reader.bytes(12).map(|_| ())
}

impl StatisticsFile {
    /// `cardinality` is the COMPACTION component's estimator, encoded.
    pub fn encode(&self, version: Version, cardinality: &[u8]) -> Vec<u8> {
        let mut parts: [Vec<u8>; 4] = Default::default();
        let [validation, compaction, stats, header] = &mut parts;
        push_bytes_after_u16(validation, PARTITIONER.as_bytes());
        validation.extend_from_slice(&self.bloom_filter_fp_chance.to_be_bytes());
        compaction.extend_from_slice(&(cardinality.len() as u32).to_be_bytes());
        compaction.extend_from_slice(cardinality);
        self.stats.encode(version, stats);
        self.header.encode(header);

        let mut out = (COMPONENTS.len() as u32).to_be_bytes().to_vec();
        let contents_at = out.len();
        push_checksum(&mut out, 0);
        let mut offset = (contents_at + 4 + 8 * COMPONENTS.len() + 4) as u32;
        let mut checked = out[..contents_at].to_vec();
        for (component, part) in COMPONENTS.iter().zip(&parts) {
            checked.extend_from_slice(&component.to_be_bytes());
            checked.extend_from_slice(&offset.to_be_bytes());
            offset += part.len() as u32 + 4;
        }
        out.extend_from_slice(&checked[contents_at..]);
        out.extend_from_slice(&crc32fast::hash(&checked).to_be_bytes());
        for part in &parts {
            let start = out.len();
            out.extend_from_slice(part);
            push_checksum(&mut out, start);
        }
        out
    }

    pub fn decode(bytes: &[u8], version: Version, file: &Path) -> Result<Self, OpenError> {
        let corrupt = |base: usize| move |error: DecodeError| error.in_file(file, base as u64);
        let contents = decode_contents(bytes).map_err(corrupt(0))?;
        let component = |wanted: u32| {
            contents
                .iter()
                .find(|component| component.kind == wanted)
                .ok_or_else(|| {
                    DecodeError::malformed(0, "all four components", "one missing").in_file(file, 0)
                })
        };
        let validation = component(TYPE_VALIDATION)?;
        let mut reader = ByteReader::new(validation.bytes);
        let partitioner = reader.text_after_u16().map_err(corrupt(validation.offset))?;
        if partitioner != PARTITIONER {
            let partitioner = partitioner.to_owned();
            return Err(OpenError::UnsupportedPartitioner {
                file: file.to_path_buf(),
                partitioner,
            });
        }
        let bloom_filter_fp_chance = reader.f64().map_err(corrupt(validation.offset))?;
        reader.finish().map_err(corrupt(validation.offset))?;
        let stats = component(TYPE_STATS)?;
        let stats = SsTableStatistics::decode(stats.bytes, version).map_err(corrupt(stats.offset))?;
        let header = component(TYPE_HEADER)?;
        let header = HeaderComponent::decode(header.bytes).map_err(corrupt(header.offset))?;
        Ok(StatisticsFile {
            bloom_filter_fp_chance,
            stats,
            header,
        })
    }
}

fn push_checksum(out: &mut Vec<u8>, from: usize) {
    let checksum = crc32fast::hash(&out[from..]);
    out.extend_from_slice(&checksum.to_be_bytes());
}

/// One of the four parts, its checksum verified.
struct StoredComponent<'a> {
    kind: u32,
    offset: usize,
    bytes: &'a [u8],
}

fn decode_contents(bytes: &[u8]) -> Result<Vec<StoredComponent<'_>>, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let count = reader.count_u32(8)?;
    let number = reader.position();
    check_checksum(&mut reader, &bytes[..number])?;
    let contents_at = reader.position();
    let mut starts = Vec::with_capacity(count);
    for _ in 0..count {
        starts.push((reader.u32()?, reader.u32()? as usize));
    }
    let mut checked = bytes[..number].to_vec();
    checked.extend_from_slice(&bytes[contents_at..reader.position()]);
    check_checksum(&mut reader, &checked)?;
    let ends: Vec<usize> = starts
        .iter()
        .skip(1)
        .map(|(_, start)| *start)
        .chain([bytes.len()])
        .collect();
    let mut contents = Vec::with_capacity(count);
    for ((kind, start), end) in starts.into_iter().zip(ends) {
        if start != reader.position() || end < start + 4 || end > bytes.len() {
            return Err(DecodeError::malformed(
                contents_at,
                "components that follow one another",
                start,
            ));
        }
        let part = reader.bytes(end - start - 4)?;
        check_checksum(&mut reader, part)?;
        contents.push(StoredComponent {
            kind,
            offset: start,
            bytes: part,
        });
    }
    reader.finish()?;
    Ok(contents)
}

fn check_checksum(reader: &mut ByteReader<'_>, checked: &[u8]) -> Result<(), DecodeError> {
    let offset = reader.position();
    let wanted = reader.u32()?;
    let found = crc32fast::hash(checked);
    if wanted == found {
        return Ok(());
    }
    let found = format!("CRC32 {found:08x} instead of {wanted:08x}");
    Err(DecodeError::malformed(
        offset,
        "a component that matches its checksum",
        found,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::cardinality::Cardinality;
    use crate::sstable::encoding_stats::EncodingStats;

    fn file() -> StatisticsFile {
        let mut stats = SsTableStatistics::empty();
        stats.partition_bytes.add(100);
        stats.tombstone_drop_times.add(1_700_000_000);
        stats.clustering_min = Box::from([0, 1, 7]);
        stats.originating_host = Some(Uuid::from_u128(5));
        stats.local_deletion_s_min = 1_700_000_000;
        let header = HeaderComponent {
            stats: EncodingStats::default(),
            key_class: "key".to_owned(),
            clustering_classes: vec!["clustering".to_owned()],
            static_columns: Vec::new(),
            regular_columns: vec![("v".to_owned(), "type".to_owned())],
        };
        StatisticsFile {
            bloom_filter_fp_chance: 0.01,
            stats,
            header,
        }
    }

    #[test]
    fn a_file_reads_back_and_every_flipped_bit_is_found() {
        let mut cardinality = Vec::new();
        Cardinality::new().encode(&mut cardinality);
        let mut bytes = file().encode(Version::Nb, &cardinality);
        let path = Path::new("nb-1-big-Statistics.db");
        let read = StatisticsFile::decode(&bytes, Version::Nb, path).unwrap();
        assert_eq!((read.stats, read.header), (file().stats, file().header));
        for bit in (0..bytes.len() * 8).step_by(7) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                StatisticsFile::decode(&bytes, Version::Nb, path).is_err(),
                "bit {bit}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
