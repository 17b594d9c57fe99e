//! Statistics.db: four components, each with a checksum from version `na` on.
//!
//! | field | bytes |
//! |---|---|
//! | components | 4: their number |
//! | checksum | 4, from `na`: CRC32 of the number |
//! | contents | per component 4 type, 4 offset |
//! | checksum | 4, from `na`: CRC32 of the number and the contents |
//! | components | in the order of their types, each followed by its CRC32 from `na` |

use std::path::Path;

use crate::decode::{ByteReader, DecodeError, push_bytes_after_u16};
use crate::error::OpenError;
use crate::meta::cardinality::Cardinality;
use crate::meta::header::HeaderComponent;
use crate::meta::statistics::SsTableStatistics;
use crate::version::Version;

const TYPE_VALIDATION: u32 = 0;
const TYPE_COMPACTION: u32 = 1;
const TYPE_STATS: u32 = 2;
const TYPE_HEADER: u32 = 3;
const COMPONENTS: [u32; 4] = [TYPE_VALIDATION, TYPE_COMPACTION, TYPE_STATS, TYPE_HEADER];

pub(crate) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The file, decoded.
#[derive(Clone, Debug)]
pub(crate) struct StatisticsFile {
    pub bloom_filter_fp_chance: f64,
    pub stats: SsTableStatistics,
    pub header: HeaderComponent,
    /// The COMPACTION component; `None` where it is missing, or in a form that is not read here.
    pub keys: Option<Cardinality>,
}

impl StatisticsFile {
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let mut parts: [Vec<u8>; 4] = Default::default();
        let [validation, compaction, stats, header] = &mut parts;
        push_bytes_after_u16(validation, PARTITIONER.as_bytes());
        validation.extend_from_slice(&self.bloom_filter_fp_chance.to_be_bytes());
        push_cardinality(compaction, self.keys.as_ref());
        self.stats.encode(version, &self.header.clustering_classes, stats);
        self.header.encode(header);

        let sums = ComponentChecksums::of(version);
        let mut out = (COMPONENTS.len() as u32).to_be_bytes().to_vec();
        let mut checked = out.clone();
        sums.push(&mut out, &checked);
        let mut offset = out.len() + 8 * COMPONENTS.len() + sums.bytes();
        for (component, part) in COMPONENTS.iter().zip(&parts) {
            for number in [*component, offset as u32] {
                out.extend_from_slice(&number.to_be_bytes());
                checked.extend_from_slice(&number.to_be_bytes());
            }
            offset += part.len() + sums.bytes();
        }
        sums.push(&mut out, &checked);
        for part in &parts {
            out.extend_from_slice(part);
            sums.push(&mut out, part);
        }
        out
    }

    pub fn decode(bytes: &[u8], version: Version, file: &Path) -> Result<Self, OpenError> {
        let corrupt = |base: usize| move |error: DecodeError| error.in_file(file, base as u64);
        let contents = decode_contents(bytes, version).map_err(corrupt(0))?;
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
        // An estimate is no reason not to open an SSTable.
        let keys = component(TYPE_COMPACTION)
            .ok()
            .and_then(|keys| decode_cardinality(keys.bytes).ok().flatten());
        let stats = component(TYPE_STATS)?;
        let stats = SsTableStatistics::decode(stats.bytes, version).map_err(corrupt(stats.offset))?;
        let header = component(TYPE_HEADER)?;
        let header = HeaderComponent::decode(header.bytes).map_err(corrupt(header.offset))?;
        Ok(StatisticsFile {
            bloom_filter_fp_chance,
            stats,
            header,
            keys,
        })
    }
}

/// Four bytes of length, and the registers.
fn push_cardinality(out: &mut Vec<u8>, keys: Option<&Cardinality>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    if let Some(keys) = keys {
        keys.encode(out);
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn decode_cardinality(bytes: &[u8]) -> Result<Option<Cardinality>, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let length = reader.u32()? as usize;
    let keys = reader.bytes(length)?;
    reader.finish()?;
    Cardinality::decode(keys)
}

/// The file with another level and nothing else changed, whatever wrote it.
pub(crate) fn with_level(bytes: &[u8], version: Version, level: u32) -> Result<Vec<u8>, DecodeError> {
    let sums = ComponentChecksums::of(version);
    let contents = decode_contents(bytes, version)?;
    let stats = contents
        .iter()
        .find(|component| component.kind == TYPE_STATS)
        .ok_or_else(|| DecodeError::malformed(0, "all four components", "one missing"))?;
    let level_at = SsTableStatistics::level_at(stats.bytes, version)?;
    let mut part = stats.bytes.to_vec();
    if let Some(stored) = part.get_mut(level_at..level_at + 4) {
        stored.copy_from_slice(&level.to_be_bytes());
    }
    let end = stats.offset + part.len() + sums.bytes();
    let mut out = bytes.get(..stats.offset).unwrap_or_default().to_vec();
    out.extend_from_slice(&part);
    sums.push(&mut out, &part);
    out.extend_from_slice(bytes.get(end..).unwrap_or_default());
    Ok(out)
}

/// Presence of a CRC32 behind each part of the file.
#[derive(Clone, Copy, Debug)]
struct ComponentChecksums {
    are_there: bool,
}

impl ComponentChecksums {
    fn of(version: Version) -> Self {
        ComponentChecksums {
            are_there: version.has_metadata_checksum(),
        }
    }

    fn bytes(self) -> usize {
        if self.are_there { 4 } else { 0 }
    }

    fn push(self, out: &mut Vec<u8>, checked: &[u8]) {
        if self.are_there {
            out.extend_from_slice(&crc32fast::hash(checked).to_be_bytes());
        }
    }

    fn check(self, reader: &mut ByteReader<'_>, checked: &[u8]) -> Result<(), DecodeError> {
        if !self.are_there {
            return Ok(());
        }
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
}

/// One of the four parts, its checksum verified.
struct StoredComponent<'a> {
    kind: u32,
    offset: usize,
    bytes: &'a [u8],
}

fn decode_contents(bytes: &[u8], version: Version) -> Result<Vec<StoredComponent<'_>>, DecodeError> {
    let sums = ComponentChecksums::of(version);
    let mut reader = ByteReader::new(bytes);
    let count = reader.count_u32(8)?;
    let mut checked = bytes[..reader.position()].to_vec();
    sums.check(&mut reader, &checked)?;
    let contents_at = reader.position();
    let mut starts = Vec::with_capacity(count);
    for _ in 0..count {
        starts.push((reader.u32()?, reader.u32()? as usize));
    }
    checked.extend_from_slice(&bytes[contents_at..reader.position()]);
    sums.check(&mut reader, &checked)?;
    let ends: Vec<usize> = starts
        .iter()
        .skip(1)
        .map(|(_, start)| *start)
        .chain([bytes.len()])
        .collect();
    let mut contents = Vec::with_capacity(count);
    for ((kind, start), end) in starts.into_iter().zip(ends) {
        if start != reader.position() || end < start + sums.bytes() || end > bytes.len() {
            return Err(DecodeError::malformed(
                contents_at,
                "components that follow one another",
                start,
            ));
        }
        let part = reader.bytes(end - start - sums.bytes())?;
        sums.check(&mut reader, part)?;
        contents.push(StoredComponent {
            kind,
            offset: start,
            bytes: part,
        });
    }
    reader.finish()?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::meta::cardinality::Cardinality;
    use crate::meta::encoding_stats::EncodingStats;
    use crate::meta::statistics::KeyRange;
    use helenus_rows::clustering::{Side, Slice};

    fn file() -> StatisticsFile {
        let mut stats = SsTableStatistics::empty();
        stats.partition_bytes.add(100);
        stats.tombstone_drop_times.add(1_700_000_000);
        stats.covered.start.prefix = Box::from([0, 1, 7]);
        stats.originating_host = Some(Uuid::from_u128(5));
        stats.local_deletion_s_min = 1_700_000_000;
        stats.has_partition_deletions = true;
        let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
        let header = HeaderComponent {
            stats: EncodingStats::default(),
            key_class: class("Int32Type"),
            clustering_classes: vec![class("ReversedType(org.apache.cassandra.db.marshal.UTF8Type)")],
            static_columns: Vec::new(),
            regular_columns: vec![("v".to_owned(), class("Int32Type"))],
        };
        StatisticsFile {
            bloom_filter_fp_chance: 0.01,
            stats,
            header,
            keys: Some(Cardinality::new()),
        }
    }

    #[test]
    fn a_file_reads_back_and_every_flipped_bit_is_found() {
        let mut bytes = file().encode(Version::Nb);
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

    #[test]
    fn every_version_keeps_what_it_has_fields_for() {
        let mut written = file();
        written.stats.key_range = Some(KeyRange {
            first: Box::from([1]),
            last: Box::from([2]),
        });
        written.stats.token_space_coverage = Some(0.25);
        written.stats.covered.end.side = Side::Before;
        written.stats.covered.end.prefix = Box::from([0, 1, 9]);
        for version in Version::ALL {
            let bytes = written.encode(version);
            let path = Path::new("Statistics.db");
            let read = StatisticsFile::decode(&bytes, version, path).unwrap().stats;
            let mut wanted = written.stats.clone();
            if !version.has_key_range() {
                (wanted.key_range, wanted.token_space_coverage) = (None, None);
                wanted.covered.end.side = Side::After;
            }
            if !version.has_accurate_min_max() {
                wanted.covered = Slice::all();
            }
            if !version.has_originating_host_id() {
                wanted.originating_host = None;
            }
            assert_eq!(read, wanted, "{version}");
            assert!(StatisticsFile::decode(&bytes[..bytes.len() - 1], version, path).is_err());
        }
    }
}
