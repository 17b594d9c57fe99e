//! Statistics of an SSTable's content: the STATS component of Statistics.db.

use uuid::Uuid;

use crate::decode::{
    ByteReader, DecodeError, push_bytes_after_u16, push_bytes_after_vint, push_unsigned_vint,
};
use crate::meta::header::clustering_types;
use crate::meta::histogram::{
    CELL_COUNT_BUCKETS, EstimatedHistogram, PARTITION_SIZE_BUCKETS, TombstoneHistogram,
};
use crate::rows::clustering_codec::{
    ClusteringCodec, KIND_EXCLUSIVE_END, KIND_EXCLUSIVE_START, KIND_INCLUSIVE_END, KIND_INCLUSIVE_START,
    Place,
};
use crate::rows::deletion_codec::{deletion_time_of_stored, stored_deletion_time};
use crate::version::Version;
use helenus_rows::clustering::{ClusteringBound, Components, Side, Slice, push_component};
use helenus_rows::deletion::NEVER_S;

/// Statistics of an SSTable's content.
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
    /// Level in leveled compaction.
    pub level: u32,
    /// Time of repair; 0 for never. Milliseconds.
    pub repaired_at_ms: u64,
    /// All rows and range deletions lie in it.
    pub covered: Slice,
    /// A counter has shards that were written before Cassandra 2.1.
    pub has_legacy_counter_shards: bool,
    /// Columns set, summed over the rows.
    pub columns: u64,
    /// With static rows.
    pub rows: u64,
    pub originating_host: Option<Uuid>,
    /// True if partitions may have been deleted whole; what older versions do not say counts as yes.
    pub has_partition_deletions: bool,
    /// Where the version has it.
    pub key_range: Option<KeyRange>,
    /// The share of all tokens that the file's shard owns, where unified compaction wrote it.
    pub token_space_coverage: Option<f64>,
}

/// The first and the last partition key of an SSTable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    pub first: Box<[u8]>,
    pub last: Box<[u8]>,
}

impl SsTableStatistics {
    pub(crate) fn empty() -> Self {
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
            repaired_at_ms: 0,
            covered: Slice::all(),
            has_legacy_counter_shards: false,
            columns: 0,
            rows: 0,
            originating_host: None,
            has_partition_deletions: false,
            key_range: None,
            token_space_coverage: None,
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

    /// `clustering_classes` are those of the header.
    pub(crate) fn encode(&self, version: Version, clustering_classes: &[String], out: &mut Vec<u8>) {
        self.partition_bytes.encode(out);
        self.partition_cells.encode(out);
        push_commit_log_position(out);
        out.extend_from_slice(&self.timestamp_us_min.to_be_bytes());
        out.extend_from_slice(&self.timestamp_us_max.to_be_bytes());
        for local_s in [self.local_deletion_s_min, self.local_deletion_s_max] {
            out.extend_from_slice(&stored_deletion_time(version, local_s).to_be_bytes());
        }
        out.extend_from_slice(&self.ttl_s_min.to_be_bytes());
        out.extend_from_slice(&self.ttl_s_max.to_be_bytes());
        out.extend_from_slice(&self.compression_ratio.to_be_bytes());
        self.tombstone_drop_times.encode(version, out);
        out.extend_from_slice(&self.level.to_be_bytes());
        out.extend_from_slice(&self.repaired_at_ms.to_be_bytes());
        if version.has_legacy_min_max() {
            push_legacy_min_max(out, &self.covered);
        } else {
            push_covered_slice(out, &self.covered, clustering_classes);
        }
        out.push(u8::from(self.has_legacy_counter_shards));
        out.extend_from_slice(&self.columns.to_be_bytes());
        out.extend_from_slice(&self.rows.to_be_bytes());
        if version.has_commit_log_lower_bound() {
            push_commit_log_position(out);
        }
        if version.has_commit_log_intervals() {
            let intervals = 0_u32;
            out.extend_from_slice(&intervals.to_be_bytes());
        }
        if version.has_pending_repair() {
            out.push(u8::from(false));
        }
        if version.has_is_transient() {
            out.push(u8::from(false));
        }
        if version.has_originating_host_id() {
            out.push(u8::from(self.originating_host.is_some()));
            if let Some(host) = &self.originating_host {
                out.extend_from_slice(host.as_bytes());
            }
        }
        if version.has_partition_deletion_marker() {
            out.push(u8::from(self.has_partition_deletions));
        }
        if version.has_key_range() {
            let keys = self.key_range.clone().unwrap_or_default();
            push_bytes_after_vint(out, &keys.first);
            push_bytes_after_vint(out, &keys.last);
        }
        if version.has_token_space_coverage() {
            let coverage = self.token_space_coverage.unwrap_or(f64::NAN);
            out.extend_from_slice(&coverage.to_be_bytes());
        }
    }

    /// Where the level is among the bytes.
    pub(crate) fn level_at(bytes: &[u8], version: Version) -> Result<usize, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let mut stats = SsTableStatistics::empty();
        stats.decode_up_to_level(&mut reader, version)?;
        Ok(reader.position())
    }

    pub(crate) fn decode(bytes: &[u8], version: Version) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let mut stats = SsTableStatistics::empty();
        stats.decode_up_to_level(&mut reader, version)?;
        stats.level = reader.u32()?;
        stats.repaired_at_ms = reader.u64()?;
        if version.has_legacy_min_max() {
            let covered = read_legacy_min_max(&mut reader)?;
            if version.has_accurate_min_max() {
                stats.covered = covered;
            }
        } else {
            stats.covered = read_covered_slice(&mut reader)?;
        }
        stats.has_legacy_counter_shards = reader.boolean()?;
        stats.columns = reader.u64()?;
        stats.rows = reader.u64()?;
        stats.decode_of_later_versions(&mut reader, version)?;
        // Cassandra 5.0 overestimates the covered slice and writes zeros up to the size that it announced.
        let rest = reader.bytes(reader.remaining())?;
        if version.has_covered_slice() && rest.iter().all(|byte| *byte == 0) {
            return Ok(stats);
        }
        ByteReader::new(rest)
            .finish()
            .map_err(|error| error.within_part(bytes.len() - rest.len()))?;
        Ok(stats)
    }

    fn decode_up_to_level(
        &mut self,
        reader: &mut ByteReader<'_>,
        version: Version,
    ) -> Result<(), DecodeError> {
        self.partition_bytes = EstimatedHistogram::decode(reader)?;
        self.partition_cells = EstimatedHistogram::decode(reader)?;
        skip_commit_log_position(reader)?;
        self.timestamp_us_min = reader.i64()?;
        self.timestamp_us_max = reader.i64()?;
        self.local_deletion_s_min = deletion_time_of_stored(version, reader.u32()?);
        self.local_deletion_s_max = deletion_time_of_stored(version, reader.u32()?);
        self.ttl_s_min = reader.u32()?;
        self.ttl_s_max = reader.u32()?;
        self.compression_ratio = reader.f64()?;
        self.tombstone_drop_times = TombstoneHistogram::decode(reader, version)?;
        Ok(())
    }

    fn decode_of_later_versions(
        &mut self,
        reader: &mut ByteReader<'_>,
        version: Version,
    ) -> Result<(), DecodeError> {
        if version.has_commit_log_lower_bound() {
            skip_commit_log_position(reader)?;
        }
        if version.has_commit_log_intervals() {
            for _ in 0..reader.count_u32(2 * COMMIT_LOG_POSITION_BYTES)? {
                skip_commit_log_position(reader)?;
                skip_commit_log_position(reader)?;
            }
        }
        if version.has_pending_repair() && reader.boolean()? {
            reader.bytes(16)?;
        }
        if version.has_is_transient() {
            reader.boolean()?;
        }
        if version.has_originating_host_id() && reader.boolean()? {
            self.originating_host = Uuid::from_slice(reader.bytes(16)?).ok();
        }
        self.has_partition_deletions = if version.has_partition_deletion_marker() {
            reader.boolean()?
        } else {
            self.local_deletion_s_min != NEVER_S
        };
        if version.has_key_range() {
            let first = reader.bytes_after_vint()?.into();
            let last = reader.bytes_after_vint()?.into();
            self.key_range = Some(KeyRange { first, last });
        }
        if version.has_token_space_coverage() {
            self.token_space_coverage = Some(reader.f64()?).filter(|coverage| !coverage.is_nan());
        }
        Ok(())
    }
}

/// A count and the components of the smallest, then of the largest prefix.
fn push_legacy_min_max(out: &mut Vec<u8>, covered: &Slice) {
    for bound in [&covered.start, &covered.end] {
        out.extend_from_slice(&(Components::new(&bound.prefix).count() as u32).to_be_bytes());
        Components::new(&bound.prefix).for_each(|component| push_bytes_after_u16(out, component));
    }
}

fn read_legacy_min_max(reader: &mut ByteReader<'_>) -> Result<Slice, DecodeError> {
    let mut slice = Slice::all();
    for bound in [&mut slice.start, &mut slice.end] {
        let mut packed = Vec::new();
        for _ in 0..reader.count_u32(2)? {
            push_component(&mut packed, reader.bytes_after_u16()?);
        }
        bound.prefix = packed.into();
    }
    Ok(slice)
}

/// The types of the clustering columns, then the two bounds with their kinds.
fn push_covered_slice(out: &mut Vec<u8>, covered: &Slice, clustering_classes: &[String]) {
    push_unsigned_vint(out, clustering_classes.len() as u64);
    for class in clustering_classes {
        push_bytes_after_vint(out, class.as_bytes());
    }
    let types = clustering_types(clustering_classes);
    debug_assert!(types.is_some(), "the writer made the names of the types");
    let codec = ClusteringCodec::new(types.iter().flatten());
    let start_kind = match covered.start.side {
        Side::Before => KIND_INCLUSIVE_START,
        Side::After => KIND_EXCLUSIVE_START,
    };
    let end_kind = match covered.end.side {
        Side::Before => KIND_EXCLUSIVE_END,
        Side::After => KIND_INCLUSIVE_END,
    };
    codec.write_place(out, &covered.start.prefix, start_kind);
    codec.write_place(out, &covered.end.prefix, end_kind);
}

fn read_covered_slice(reader: &mut ByteReader<'_>) -> Result<Slice, DecodeError> {
    let types_at = reader.position();
    let classes: Vec<String> = (0..reader.count_vint(1)?)
        .map(|_| reader.text_after_vint().map(str::to_owned))
        .collect::<Result<_, _>>()?;
    let types = clustering_types(&classes)
        .ok_or_else(|| DecodeError::malformed(types_at, "types of clustering columns", classes.join(", ")))?;
    let codec = ClusteringCodec::new(types.iter());
    let mut bound = || {
        let offset = reader.position();
        match codec.read_place(reader)? {
            Place {
                prefix,
                side: Some(side),
            } => Ok(ClusteringBound { prefix, side }),
            Place { side: None, .. } => Err(DecodeError::malformed(offset, "a bound", "a row")),
        }
    };
    let start = bound()?;
    let end = bound()?;
    Ok(Slice { start, end })
}

/// "None": Helenus's logs are not Cassandra's, so their positions mean nothing to it.
fn push_commit_log_position(out: &mut Vec<u8>) {
    let (segment, position) = (-1_i64, 0_u32);
    out.extend_from_slice(&segment.to_be_bytes());
    out.extend_from_slice(&position.to_be_bytes());
}

const COMMIT_LOG_POSITION_BYTES: usize = 12;

fn skip_commit_log_position(reader: &mut ByteReader<'_>) -> Result<(), DecodeError> {
    reader.bytes(COMMIT_LOG_POSITION_BYTES).map(|_| ())
}
