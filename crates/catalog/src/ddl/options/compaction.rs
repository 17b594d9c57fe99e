//! `compaction = {'class': ..., ...}`

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeFrom;
use std::str::FromStr;

use helenus_engine::CqlError;
use helenus_types::value::floating::{format_double, parse_double, parse_float};

use super::size::{bytes_at_least, format_bytes, parse_bytes};

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

/// The size an SSTable aims at by default under the unified strategy, and the least that may be asked for.
const TARGET_SSTABLE_BYTES_DEFAULT: f64 = 1_073_741_824.0;
const TARGET_SSTABLE_BYTES_MIN: i64 = 1 << 20;

/// Options that every strategy takes.
const GENERAL: [&str; 7] = [
    "tombstone_threshold",
    "tombstone_compaction_interval",
    "unchecked_tombstone_compaction",
    "log_all",
    "enabled",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
];
const THRESHOLDS: [&str; 2] = ["min_threshold", "max_threshold"];
const SIZE_TIERED: [&str; 3] = ["min_sstable_size", "bucket_low", "bucket_high"];
const LEVELED: [&str; 3] = ["sstable_size_in_mb", "fanout_size", "single_sstable_uplevel"];
const TIME_WINDOW: [&str; 5] = [
    "compaction_window_size",
    "compaction_window_unit",
    "timestamp_resolution",
    "expired_sstable_check_frequency_seconds",
    "unsafe_aggressive_sstable_expiration",
];
const UNIFIED: [&str; 10] = [
    "scaling_parameters",
    "base_shard_count",
    "target_sstable_size",
    "flush_size_override",
    "max_sstables_to_compact",
    "expired_sstable_check_frequency_seconds",
    "unsafe_aggressive_sstable_expiration",
    "overlap_inclusion_method",
    "min_sstable_size",
    "sstable_growth",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    SizeTiered,
    Leveled,
    TimeWindow,
    Unified,
}

/// Windows of an hour, as ScyllaDB has them for logs of changes: their rows all expire after the same time.
pub(crate) fn of_change_log() -> BTreeMap<String, String> {
    let class = format!("{PACKAGE}{}", Strategy::TimeWindow.name());
    [
        ("class", class.as_str()),
        ("compaction_window_size", "60"),
        ("compaction_window_unit", "MINUTES"),
        ("expired_sstable_check_frequency_seconds", "1800"),
        ("max_threshold", "32"),
        ("min_threshold", "4"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// Completes the options: the strategy's full name, and thresholds where it has them. Their values are checked by
/// [`validate`].
pub(super) fn read(entries: &[(String, String)]) -> Result<BTreeMap<String, String>, CqlError> {
    let mut options: BTreeMap<String, String> = entries.iter().cloned().collect();
    let Some(class) = options.get("class") else {
        return Err(CqlError::config(format_args!(
            "Missing sub-option 'class' for the 'compaction' option"
        )));
    };
    let class = if class.contains('.') {
        class.clone()
    } else {
        format!("{PACKAGE}{class}")
    };
    let strategy = Strategy::of_class(&class).ok_or_else(|| {
        CqlError::config(format_args!("Unable to find compaction strategy class '{class}'"))
    })?;
    options.insert("class".to_owned(), class);
    if let Some(text) = options.get("provide_overlapping_tombstones") {
        let upper = text.to_uppercase();
        if !matches!(upper.as_str(), "NONE" | "ROW" | "CELL") {
            return Err(CqlError::config(format_args!(
                "Invalid value {upper} for 'provide_overlapping_tombstones' compaction sub-option - must be one of \
                 the following [NONE, ROW, CELL]."
            )));
        }
    }
    if strategy != Strategy::Unified {
        options
            .entry("min_threshold".to_owned())
            .or_insert_with(|| "4".to_owned());
        options
            .entry("max_threshold".to_owned())
            .or_insert_with(|| "32".to_owned());
    }
    Ok(options)
}

/// The bloom filter's false positive chance of a table that gives none.
pub(super) fn default_fp_chance(options: &BTreeMap<String, String>) -> f64 {
    match strategy_of(options) {
        Some(Strategy::Leveled) => 0.1,
        _ => 0.01,
    }
}

pub(super) fn validate(map: &BTreeMap<String, String>) -> Result<(), CqlError> {
    // `read` let only known strategies in.
    let Some(strategy) = strategy_of(map) else {
        return Ok(());
    };
    let options = Options(map);
    check_general(options)?;
    match strategy {
        Strategy::SizeTiered => check_size_tiered(options)?,
        Strategy::Leveled => check_leveled(options)?,
        Strategy::TimeWindow => check_time_window(options)?,
        Strategy::Unified => check_unified(options)?,
    }
    let unknown: Vec<&str> = map
        .keys()
        .map(String::as_str)
        .filter(|name| *name != "class" && !strategy.takes(name))
        .collect();
    if !unknown.is_empty() {
        return Err(CqlError::config(format_args!(
            "Properties specified [{}] are not understood by {}",
            unknown.join(", "),
            strategy.name()
        )));
    }
    check_thresholds(options)
}

impl Strategy {
    const ALL: [Strategy; 4] = [Self::SizeTiered, Self::Leveled, Self::TimeWindow, Self::Unified];

    fn of_class(class: &str) -> Option<Strategy> {
        let name = class.strip_prefix(PACKAGE)?;
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Strategy::SizeTiered => "SizeTieredCompactionStrategy",
            Strategy::Leveled => "LeveledCompactionStrategy",
            Strategy::TimeWindow => "TimeWindowCompactionStrategy",
            Strategy::Unified => "UnifiedCompactionStrategy",
        }
    }

    fn takes(self, option: &str) -> bool {
        let own: &[&[&str]] = match self {
            Strategy::SizeTiered => &[&THRESHOLDS, &SIZE_TIERED],
            Strategy::Leveled => &[&THRESHOLDS, &SIZE_TIERED, &LEVELED],
            Strategy::TimeWindow => &[&THRESHOLDS, &SIZE_TIERED, &TIME_WINDOW],
            Strategy::Unified => &[&UNIFIED],
        };
        GENERAL.contains(&option) || own.iter().any(|names| names.contains(&option))
    }
}

fn strategy_of(options: &BTreeMap<String, String>) -> Option<Strategy> {
    Strategy::of_class(options.get("class")?)
}

#[derive(Clone, Copy)]
struct Options<'a>(&'a BTreeMap<String, String>);

impl<'a> Options<'a> {
    fn get(self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(String::as_str)
    }

    fn integer<T: FromStr>(self, name: &str) -> Result<Option<T>, CqlError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(not_an_integer(text, name)),
        }
    }

    fn double(self, name: &str, default: f64) -> Result<f64, CqlError> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => parse_double(text)
                .ok_or_else(|| CqlError::config(format_args!("{text} is not a parsable float for {name}"))),
        }
    }

    fn is_boolean(self, name: &str) -> Result<(), &'a str> {
        match self.get(name) {
            Some(text) if !text.eq_ignore_ascii_case("true") && !text.eq_ignore_ascii_case("false") => {
                Err(text)
            }
            _ => Ok(()),
        }
    }
}

fn not_an_integer(text: &str, name: &str) -> CqlError {
    CqlError::config(format_args!("{text} is not a parsable int (base10) for {name}"))
}

fn check_general(options: Options<'_>) -> Result<(), CqlError> {
    if let Some(text) = options.get("tombstone_threshold") {
        let threshold = parse_float(text).ok_or_else(|| not_an_integer(text, "tombstone_threshold"))?;
        if threshold < 0.0 {
            return Err(CqlError::config(format_args!(
                "tombstone_threshold must be greater than 0, but was {threshold:.6}"
            )));
        }
    }
    if let Some(interval) = options.integer::<i64>("tombstone_compaction_interval")?
        && interval < 0
    {
        return Err(CqlError::config(format_args!(
            "tombstone_compaction_interval must be greater than 0, but was {interval}"
        )));
    }
    options
        .is_boolean("unchecked_tombstone_compaction")
        .map_err(|text| {
            CqlError::config(format_args!(
                "'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{text}'"
            ))
        })?;
    options.is_boolean("log_all").map_err(|text| {
        CqlError::config(format_args!(
            "'log_all' should either be 'true' or 'false', not {text}"
        ))
    })?;
    options.is_boolean("enabled").map_err(|text| {
        CqlError::config(format_args!(
            "enabled should either be 'true' or 'false', not {text}"
        ))
    })
}

fn check_size_tiered(options: Options<'_>) -> Result<(), CqlError> {
    if let Some(size) = options.integer::<i64>("min_sstable_size")?
        && size < 0
    {
        return Err(CqlError::config(format_args!(
            "min_sstable_size must be non negative: {size}"
        )));
    }
    let low = options.double("bucket_low", 0.5)?;
    let high = options.double("bucket_high", 1.5)?;
    if high <= low {
        return Err(CqlError::config(format_args!(
            "bucket_high value ({}) is less than or equal to the bucket_low value ({})",
            format_double(high),
            format_double(low)
        )));
    }
    Ok(())
}

fn check_leveled(options: Options<'_>) -> Result<(), CqlError> {
    let positive = |name: &str, size: Option<i32>| match size {
        Some(size) if size < 1 => Err(CqlError::config(format_args!(
            "{name} must be larger than 0, but was {size}"
        ))),
        _ => Ok(()),
    };
    positive("sstable_size_in_mb", options.integer("sstable_size_in_mb")?)?;
    // Cassandra names the wrong value here: the size, or the 1 that stands for none.
    let fanout = options
        .integer("fanout_size")
        .map_err(|_| not_an_integer(options.get("sstable_size_in_mb").unwrap_or("1"), "fanout_size"))?;
    positive("fanout_size", fanout)?;
    check_size_tiered(options)
}

fn check_time_window(options: Options<'_>) -> Result<(), CqlError> {
    let one_of = |name: &str, units: &[&str]| match options.get(name) {
        Some(unit) if !units.contains(&unit) => {
            Err(CqlError::config(format_args!("{unit} is not valid for {name}")))
        }
        _ => Ok(()),
    };
    one_of(
        "timestamp_resolution",
        &["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"],
    )?;
    one_of("compaction_window_unit", &["MINUTES", "HOURS", "DAYS"])?;
    if let Some(size) = options.integer::<i32>("compaction_window_size")?
        && size < 1
    {
        return Err(CqlError::config(format_args!(
            "{size} must be greater than 1 for compaction_window_size"
        )));
    }
    if let Some(seconds) = options.integer::<i64>("expired_sstable_check_frequency_seconds")?
        && seconds < 0
    {
        return Err(CqlError::config(format_args!(
            "expired_sstable_check_frequency_seconds must not be negative, but was {seconds}"
        )));
    }
    const UNSAFE: &str = "unsafe_aggressive_sstable_expiration";
    options
        .is_boolean(UNSAFE)
        .map_err(|text| CqlError::config(format_args!("{UNSAFE} is not 'true' or 'false' ({text})")))?;
    if options
        .get(UNSAFE)
        .is_some_and(|text| text.eq_ignore_ascii_case("true"))
    {
        return Err(CqlError::config(format_args!(
            "{UNSAFE} is requested but not allowed, restart cassandra with \
             -Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it"
        )));
    }
    check_size_tiered(options)
}

fn check_unified(options: Options<'_>) -> Result<(), CqlError> {
    if let Some(parameters) = options.get("scaling_parameters") {
        parameters
            .split(',')
            .try_for_each(|parameter| check_scaling_parameter(parameter.trim()))?;
    }
    check_positive(
        options.integer::<i32>("base_shard_count")?,
        1..,
        "base_shard_count",
    )?;
    let target = match options.get("target_sstable_size") {
        None => TARGET_SSTABLE_BYTES_DEFAULT,
        Some(text) => bytes_at_least("target_sstable_size", text, TARGET_SSTABLE_BYTES_MIN)?,
    };
    if let Some(text) = options.get("flush_size_override") {
        bytes_at_least("flush_size_override", text, TARGET_SSTABLE_BYTES_MIN)?;
    }
    options.integer::<i32>("max_sstables_to_compact")?;
    const FREQUENCY: &str = "expired_sstable_check_frequency_seconds";
    let frequency = options.integer::<i64>(FREQUENCY).map_err(|_| {
        let text = options.get(FREQUENCY).unwrap_or_default();
        CqlError::config(format_args!(
            "{text} is not a parsable long (base10) for {FREQUENCY}"
        ))
    })?;
    check_positive(frequency, 1.., FREQUENCY)?;
    const UNSAFE: &str = "unsafe_aggressive_sstable_expiration";
    options.is_boolean(UNSAFE).map_err(|text| {
        CqlError::config(format_args!(
            "{UNSAFE} should either be 'true' or 'false', not {text}"
        ))
    })?;
    if let Some(method) = options.get("overlap_inclusion_method")
        && !matches!(method.to_uppercase().as_str(), "NONE" | "SINGLE" | "TRANSITIVE")
    {
        return Err(CqlError::config(format_args!(
            "Invalid overlap inclusion method {method}. The valid options are [NONE, SINGLE, TRANSITIVE]."
        )));
    }
    check_unified_sizes(options, target)
}

fn check_unified_sizes(options: Options<'_>, target: f64) -> Result<(), CqlError> {
    if let Some(text) = options.get("min_sstable_size") {
        let size = parse_bytes(text).map_err(|_| {
            CqlError::config(format_args!(
                "{text} is not a valid size in bytes for min_sstable_size"
            ))
        })?;
        if size < 0.0 {
            return Err(CqlError::config(format_args!(
                "Invalid configuration, min_sstable_size should be greater than or equal to 0 (zero)"
            )));
        }
        if size.trunc() >= (target * std::f64::consts::FRAC_1_SQRT_2).ceil() {
            return Err(CqlError::config(format_args!(
                "Invalid configuration, min_sstable_size ({}) should be less than 70% of the targetSSTableSize ({})",
                format_bytes(size as i64),
                format_bytes(target.ceil() as i64)
            )));
        }
    }
    let Some(text) = options.get("sstable_growth") else {
        return Ok(());
    };
    let trimmed = text.trim();
    let growth = match trimmed.strip_suffix('%') {
        Some(percent) => parse_double(percent).map(|percent| percent / 100.0),
        None => parse_double(trimmed),
    };
    match growth {
        Some(growth) if (0.0..=1.0).contains(&growth) || growth.is_nan() => Ok(()),
        Some(_) => Err(CqlError::config(format_args!(
            "sstable_growth {text} must be between 0 and 1"
        ))),
        None => Err(CqlError::config(format_args!(
            "sstable_growth is not a valid number between 0 and 1: For input string: \"{trimmed}\""
        ))),
    }
}

fn check_positive<T: PartialOrd + Display>(
    value: Option<T>,
    valid: RangeFrom<T>,
    name: &str,
) -> Result<(), CqlError> {
    match value {
        Some(value) if !valid.contains(&value) => Err(CqlError::config(format_args!(
            "Invalid configuration, {name} should be positive: {value}"
        ))),
        _ => Ok(()),
    }
}

/// `N`, `L` or `T` with a fan factor, or a number.
fn check_scaling_parameter(parameter: &str) -> Result<(), CqlError> {
    let fan_factor = parameter.strip_prefix(['L', 'T']);
    let digits = fan_factor.unwrap_or_else(|| parameter.strip_prefix(['+', '-']).unwrap_or(parameter));
    let number = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse::<i32>().ok())
        .flatten();
    match number {
        _ if parameter == "N" => Ok(()),
        None => Err(CqlError::config(format_args!(
            "Scaling parameter {parameter} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"
        ))),
        Some(number) if fan_factor.is_some() && number < 2 => Err(CqlError::config(format_args!(
            "Fan factor cannot be lower than 2 in {parameter}"
        ))),
        Some(_) => Ok(()),
    }
}

fn check_thresholds(options: Options<'_>) -> Result<(), CqlError> {
    let threshold = |name: &str, default: i32| match options.get(name) {
        None => Ok(default),
        Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            // What does not fit is larger than any number of SSTables.
            Ok(text.parse().unwrap_or(i32::MAX))
        }
        Some(text) => Err(CqlError::config(format_args!(
            "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
        ))),
    };
    let minimum = threshold("min_threshold", 4)?;
    let maximum = threshold("max_threshold", 32)?;
    if minimum <= 0 || maximum <= 0 {
        return Err(CqlError::config(format_args!(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option \
             'enabled' to false instead."
        )));
    }
    if minimum <= 1 {
        return Err(CqlError::config(format_args!(
            "Min compaction threshold cannot be less than 2 (got {minimum})"
        )));
    }
    if minimum > maximum {
        return Err(CqlError::config(format_args!(
            "Min compaction threshold (got {minimum}) cannot be greater than max compaction threshold (got {maximum})"
        )));
    }
    Ok(())
}
