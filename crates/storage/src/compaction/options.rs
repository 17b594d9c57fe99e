//! The `compaction` option of a table.

use helenus_schema::TableMetadata;

/// The options of Cassandra's `SizeTieredCompactionStrategy`, with its defaults. Tables that ask for another strategy
/// get this one too: all strategies answer reads alike and differ in how much they rewrite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactionOptions {
    pub is_enabled: bool,
    /// SSTables of like size before they are merged.
    pub min_threshold: usize,
    /// SSTables merged at once.
    pub max_threshold: usize,
    /// A file is alike if its size is above this part of a bucket's mean..
    pub bucket_low: f64,
    /// ..and below this multiple of it.
    pub bucket_high: f64,
    /// Files below it are alike whatever their sizes.
    pub min_sstable_bytes: u64,
    /// The share of droppable tombstones from which a file is compacted alone.
    pub tombstone_threshold: f64,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        CompactionOptions {
            is_enabled: true,
            min_threshold: 4,
            max_threshold: 32,
            bucket_low: 0.5,
            bucket_high: 1.5,
            min_sstable_bytes: 50 << 20,
            tombstone_threshold: 0.2,
        }
    }
}

impl CompactionOptions {
    /// Values that do not parse count as absent: the statement that set them should have refused them.
    pub fn of(table: &TableMetadata) -> Self {
        let options = &table.params.compaction;
        let default = Self::default();
        CompactionOptions {
            is_enabled: options
                .get("enabled")
                .is_none_or(|value| !value.eq_ignore_ascii_case("false")),
            min_threshold: parse(options.get("min_threshold"), default.min_threshold).max(2),
            max_threshold: parse(options.get("max_threshold"), default.max_threshold).max(2),
            bucket_low: parse(options.get("bucket_low"), default.bucket_low),
            bucket_high: parse(options.get("bucket_high"), default.bucket_high),
            min_sstable_bytes: parse(options.get("min_sstable_size"), default.min_sstable_bytes),
            tombstone_threshold: parse(options.get("tombstone_threshold"), default.tombstone_threshold),
        }
    }
}

fn parse<T: std::str::FromStr>(value: Option<&String>, default: T) -> T {
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(default)
}
