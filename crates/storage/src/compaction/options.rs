//! The `compaction` option of a table, as its strategy uses it.

use std::collections::BTreeMap;

use helenus_schema::TableMetadata;

/// Cassandra 5.0's options and defaults. What a statement may set is checked where statements are (`catalog::ddl`);
/// here a value that does not parse counts as absent.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionOptions {
    pub is_enabled: bool,
    /// SSTables that are worth a compaction together.
    pub min_threshold: usize,
    /// SSTables merged at once.
    pub max_threshold: usize,
    pub tombstones: TombstoneOptions,
    pub strategy: Strategy,
}

/// When an SSTable is compacted alone to be rid of its tombstones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TombstoneOptions {
    /// Time windows leave their tombstones to expiry unless one of these options is set.
    pub is_enabled: bool,
    /// The share of droppable tombstones from which it is worth it.
    pub threshold: f64,
    /// Not before an SSTable is as old as this, in seconds.
    pub interval_s: u32,
    /// Also where SSTables overlap, so that little may be droppable in truth.
    pub is_unchecked: bool,
    /// Purges nothing: SSTables of a single node are never marked as repaired.
    pub only_purge_repaired: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    SizeTiered(SizeTieredOptions),
    Leveled(LeveledOptions),
    TimeWindow(TimeWindowOptions),
    Unified(UnifiedOptions),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeTieredOptions {
    /// A file is alike if its size is above this part of a bucket's mean..
    pub bucket_low: f64,
    /// ..and below this multiple of it.
    pub bucket_high: f64,
    /// Files below it are alike whatever their sizes.
    pub min_sstable_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeveledOptions {
    pub sstable_bytes: u64,
    /// How many times larger each level is than the one below.
    pub fanout: u32,
    /// An SSTable that goes up alone gets its new level in its metadata instead of being written anew.
    pub uplevels_single: bool,
    /// For level 0 when it is too far behind.
    pub size_tiered: SizeTieredOptions,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeWindowOptions {
    pub window_s: i64,
    /// Units of the tables' timestamps in a second.
    pub timestamps_per_s: i64,
    pub size_tiered: SizeTieredOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub struct UnifiedOptions {
    /// Parameters of level 0 and up; the last one holds for all levels above. Negative is leveled, positive tiered.
    pub scaling_parameters: Vec<i32>,
    pub base_shard_count: u32,
    pub target_sstable_bytes: f64,
    /// Below this size SSTables are not split.
    pub min_sstable_bytes: f64,
    /// 0 keeps SSTables at the target size, 1 keeps their number.
    pub sstable_growth: f64,
    /// 0 where flushes are measured.
    pub flush_bytes_override: u64,
    pub sstables_at_once_max: usize,
    pub overlap_inclusion: OverlapInclusion,
}

/// Which SSTables besides those of a crowded place take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapInclusion {
    None,
    /// Those that share a section with the crowded one.
    Single,
    /// Those, and what shares a section with them.
    Transitive,
}

const TOMBSTONE_OPTIONS: [&str; 3] = [
    "unchecked_tombstone_compaction",
    "tombstone_compaction_interval",
    "tombstone_threshold",
];

impl CompactionOptions {
    pub fn of(table: &TableMetadata) -> Self {
        Self::parse(&table.params.compaction)
    }

    pub fn parse(options: &BTreeMap<String, String>) -> Self {
        let options = Options(options);
        let strategy = options.strategy();
        let is_time_window = matches!(strategy, Strategy::TimeWindow(_));
        let set = |name: &&str| options.0.get(*name).is_some_and(|value| value != "false");
        CompactionOptions {
            is_enabled: !options.is("enabled", "false"),
            min_threshold: options.parsed("min_threshold", 4).max(2),
            max_threshold: options.parsed("max_threshold", 32).max(2),
            tombstones: TombstoneOptions {
                is_enabled: !is_time_window || TOMBSTONE_OPTIONS.iter().any(set),
                threshold: options.parsed("tombstone_threshold", 0.2),
                interval_s: options.parsed("tombstone_compaction_interval", 86_400),
                is_unchecked: options.is("unchecked_tombstone_compaction", "true"),
                only_purge_repaired: options.is("only_purge_repaired_tombstones", "true"),
            },
            strategy,
        }
    }
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl Options<'_> {
    fn strategy(&self) -> Strategy {
        let class = self.0.get("class").map_or("", String::as_str);
        let name = class.rsplit_once('.').map_or(class, |(_, name)| name);
        match name {
            "LeveledCompactionStrategy" => Strategy::Leveled(self.leveled()),
            "TimeWindowCompactionStrategy" => Strategy::TimeWindow(self.time_window()),
            "UnifiedCompactionStrategy" => Strategy::Unified(self.unified()),
            _ => Strategy::SizeTiered(self.size_tiered()),
        }
    }

    fn size_tiered(&self) -> SizeTieredOptions {
        SizeTieredOptions {
            bucket_low: self.parsed("bucket_low", 0.5),
            bucket_high: self.parsed("bucket_high", 1.5),
            min_sstable_bytes: self.parsed("min_sstable_size", 50 << 20),
        }
    }

    fn leveled(&self) -> LeveledOptions {
        let mib: f64 = self.parsed("sstable_size_in_mb", 160.0);
        LeveledOptions {
            sstable_bytes: ((mib * 1_048_576.0) as u64).max(1),
            fanout: self.parsed("fanout_size", 10).max(1),
            uplevels_single: self.parsed("single_sstable_uplevel", false),
            size_tiered: self.size_tiered(),
        }
    }

    fn time_window(&self) -> TimeWindowOptions {
        let unit_s = match self.0.get("compaction_window_unit").map(String::as_str) {
            Some("MINUTES") => 60,
            Some("HOURS") => 3_600,
            _ => 86_400,
        };
        let size: i64 = self.parsed("compaction_window_size", 1);
        TimeWindowOptions {
            window_s: size.max(1).saturating_mul(unit_s),
            timestamps_per_s: match self.0.get("timestamp_resolution").map(String::as_str) {
                Some("SECONDS") => 1,
                Some("MILLISECONDS") => 1_000,
                Some("NANOSECONDS") => 1_000_000_000,
                _ => 1_000_000,
            },
            size_tiered: self.size_tiered(),
        }
    }

    fn unified(&self) -> UnifiedOptions {
        let parameters = self.0.get("scaling_parameters").map_or("T4", String::as_str);
        let scaling_parameters: Option<Vec<i32>> = parameters
            .split(',')
            .map(|parameter| scaling_parameter(parameter.trim()))
            .collect();
        let at_once: i64 = self.parsed("max_sstables_to_compact", 0);
        UnifiedOptions {
            scaling_parameters: scaling_parameters.unwrap_or_else(|| vec![2]),
            base_shard_count: self.parsed("base_shard_count", 4).max(1),
            target_sstable_bytes: self.bytes("target_sstable_size", 1_073_741_824.0).max(1.0),
            min_sstable_bytes: self.bytes("min_sstable_size", 104_857_600.0),
            sstable_growth: self.growth(),
            flush_bytes_override: self.bytes("flush_size_override", 0.0) as u64,
            sstables_at_once_max: usize::try_from(at_once)
                .ok()
                .filter(|count| *count > 0)
                .unwrap_or(usize::MAX),
            overlap_inclusion: match self.0.get("overlap_inclusion_method") {
                Some(method) if method.eq_ignore_ascii_case("NONE") => OverlapInclusion::None,
                Some(method) if method.eq_ignore_ascii_case("SINGLE") => OverlapInclusion::Single,
                _ => OverlapInclusion::Transitive,
            },
        }
    }

    /// A part of one, or a percentage.
    fn growth(&self) -> f64 {
        let text = self
            .0
            .get("sstable_growth")
            .map_or("0.333", String::as_str)
            .trim();
        let growth = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
            None => text.parse(),
        };
        growth
            .ok()
            .filter(|growth| (0.0..=1.0).contains(growth))
            .unwrap_or(0.333)
    }

    fn is(&self, name: &str, wanted: &str) -> bool {
        self.0
            .get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case(wanted))
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        let value = self.0.get(name).and_then(|value| value.trim().parse().ok());
        value.unwrap_or(default)
    }

    /// `100MiB`, `1GB`, `512 B`.
    fn bytes(&self, name: &str, default: f64) -> f64 {
        self.0
            .get(name)
            .and_then(|text| human_bytes(text))
            .unwrap_or(default)
    }
}

/// `N` is 0, `T4` is 2, `L4` is -2: the fan factor less two, on the side of its kind.
fn scaling_parameter(text: &str) -> Option<i32> {
    let factor = |digits: &str| digits.parse::<i32>().ok().filter(|factor| *factor >= 2);
    if text == "N" {
        Some(0)
    } else if let Some(digits) = text.strip_prefix('T') {
        Some(factor(digits)? - 2)
    } else if let Some(digits) = text.strip_prefix('L') {
        Some(2 - factor(digits)?)
    } else {
        text.parse().ok()
    }
}

fn human_bytes(text: &str) -> Option<f64> {
    let text = text.trim().strip_suffix('B')?;
    let digits_end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let unit = unit.trim();
    let (unit, base) = match unit.strip_suffix('i') {
        Some(unit) => (unit, 1024.0_f64),
        None => (unit, 1000.0),
    };
    let power = match unit {
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * base.powi(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &[(&str, &str)]) -> CompactionOptions {
        let entries = entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        CompactionOptions::parse(&entries.collect())
    }

    #[test]
    fn defaults_are_cassandras() {
        let options = parse(&[]);
        assert!(options.is_enabled && options.tombstones.is_enabled && !options.tombstones.is_unchecked);
        assert_eq!((options.min_threshold, options.max_threshold), (4, 32));
        let Strategy::Leveled(leveled) = parse(&[("class", "LeveledCompactionStrategy")]).strategy else {
            panic!("another strategy")
        };
        assert_eq!((leveled.sstable_bytes, leveled.fanout), (160 << 20, 10));
        let window = parse(&[("class", "a.b.TimeWindowCompactionStrategy")]);
        assert!(!window.tombstones.is_enabled);
        let Strategy::TimeWindow(window) = window.strategy else {
            panic!("another strategy")
        };
        assert_eq!((window.window_s, window.timestamps_per_s), (86_400, 1_000_000));
        let Strategy::Unified(unified) = parse(&[("class", "UnifiedCompactionStrategy")]).strategy else {
            panic!("another strategy")
        };
        assert_eq!(unified.scaling_parameters, [2]);
        assert_eq!((unified.base_shard_count, unified.sstable_growth), (4, 0.333));
        assert_eq!(unified.overlap_inclusion, OverlapInclusion::Transitive);
    }

    #[test]
    fn scaling_parameters_and_sizes_have_their_own_forms() {
        let options = parse(&[
            ("class", "UnifiedCompactionStrategy"),
            ("scaling_parameters", "T8, N, L10,-3"),
            ("target_sstable_size", "256MiB"),
            ("min_sstable_size", "1.5 GB"),
            ("sstable_growth", "50%"),
        ]);
        let Strategy::Unified(unified) = options.strategy else {
            panic!("another strategy")
        };
        assert_eq!(unified.scaling_parameters, [6, 0, -8, -3]);
        assert_eq!(unified.target_sstable_bytes, 268_435_456.0);
        assert_eq!(unified.min_sstable_bytes, 1_500_000_000.0);
        assert_eq!(unified.sstable_growth, 0.5);
    }
}
