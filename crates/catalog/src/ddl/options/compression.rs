//! `compression = {'class': ..., ...}`

use std::collections::BTreeMap;

use helenus_types::value::floating::{format_double, parse_double};

use helenus_engine::CqlError;

const PACKAGE: &str = "org.apache.cassandra.io.compress.";

/// The default chunk length, in KiB.
const CHUNK_LENGTH_KB_DEFAULT: i32 = 16;

const LZ4_LEVELS: std::ops::RangeInclusive<i32> = 1..=17;

/// From the fastest to the best level that zstd has (`Zstd.minCompressionLevel` to `maxCompressionLevel`).
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -(1 << 17)..=22;

/// Checks and normalizes the options; `{'enabled': 'false'}` is what no compression is called.
pub(super) fn read(entries: &[(String, String)]) -> Result<BTreeMap<String, String>, CqlError> {
    let mut options: BTreeMap<String, String> = entries.iter().cloned().collect();
    let is_enabled = options
        .remove("enabled")
        .is_none_or(|value| value.eq_ignore_ascii_case("true"));
    if is_enabled && !entries.is_empty() && !options.contains_key("class") {
        return Err(CqlError::config(format_args!(
            "Missing sub-option 'class' for the 'compression' option."
        )));
    }
    if !is_enabled && !options.is_empty() {
        return Err(CqlError::config(format_args!(
            "If the 'enabled' option is set to false no other options must be specified"
        )));
    }
    let Some(class) = options.remove("class") else {
        return Ok(BTreeMap::from([("enabled".to_owned(), "false".to_owned())]));
    };
    if class.is_empty() {
        return Err(CqlError::config(format_args!(
            "The 'class' option must not be empty. To disable compression use 'enabled' : false"
        )));
    }
    let chunk_length = chunk_length_bytes(options.remove("chunk_length_in_kb").as_deref())?;
    let ratio = min_compress_ratio(options.remove("min_compress_ratio").as_deref())?;
    let class = if class.contains('.') {
        class
    } else {
        format!("{PACKAGE}{class}")
    };
    check_compressor(&class, &options)?;
    check_bounds(chunk_length, ratio)?;
    options.insert("class".to_owned(), class);
    options.insert("chunk_length_in_kb".to_owned(), (chunk_length / 1024).to_string());
    if ratio != 0.0 {
        options.insert("min_compress_ratio".to_owned(), format_double(ratio));
    }
    Ok(options)
}

fn chunk_length_bytes(text: Option<&str>) -> Result<i32, CqlError> {
    let kilobytes = match text {
        None => CHUNK_LENGTH_KB_DEFAULT,
        Some(text) => text
            .parse()
            .map_err(|_| CqlError::config(format_args!("Invalid value for chunk_length_in_kb")))?,
    };
    if kilobytes > i32::MAX / 1024 {
        return Err(CqlError::config(format_args!(
            "Value of chunk_length_in_kb is too large ({kilobytes})"
        )));
    }
    Ok(kilobytes.saturating_mul(1024))
}

fn min_compress_ratio(text: Option<&str>) -> Result<f64, CqlError> {
    let Some(text) = text else { return Ok(0.0) };
    // Cassandra does not expect this error and answers with the exception itself.
    parse_double(text).ok_or_else(|| {
        CqlError::server(format_args!(
            "java.lang.NumberFormatException: For input string: \"{text}\""
        ))
    })
}

fn check_bounds(chunk_length: i32, ratio: f64) -> Result<(), CqlError> {
    if chunk_length <= 0 {
        return Err(CqlError::config(format_args!(
            "Invalid negative or null chunk_length_in_kb"
        )));
    }
    if chunk_length & (chunk_length - 1) != 0 {
        return Err(CqlError::config(format_args!(
            "chunk_length_in_kb must be a power of 2"
        )));
    }
    // A chunk that does not become this small is stored as it is; a ratio of 0 puts no bound.
    let compressed_length_max = (f64::from(chunk_length) / ratio).min(f64::from(i32::MAX)).ceil() as i32;
    if compressed_length_max < 0 {
        return Err(CqlError::config(format_args!(
            "Invalid negative min_compress_ratio"
        )));
    }
    if compressed_length_max > chunk_length && compressed_length_max < i32::MAX {
        return Err(CqlError::config(format_args!(
            "min_compress_ratio can either be 0 or greater than or equal to 1"
        )));
    }
    Ok(())
}

/// `options` are those that the compressor itself is to understand.
fn check_compressor(class: &str, options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    let supported: &[&str] = match class.strip_prefix(PACKAGE) {
        Some("LZ4Compressor") => {
            check_lz4(options)?;
            &["lz4_compressor_type", "lz4_high_compressor_level"]
        }
        Some("ZstdCompressor") => {
            check_zstd(options)?;
            &["compression_level"]
        }
        Some("DeflateCompressor" | "NoopCompressor" | "SnappyCompressor") => &[],
        _ => {
            return Err(CqlError::config(format_args!(
                "Could not create Compression for type {class}"
            )));
        }
    };
    match options.keys().find(|name| !supported.contains(&name.as_str())) {
        Some(unknown) => Err(CqlError::config(format_args!(
            "Unknown compression options {unknown}"
        ))),
        None => Ok(()),
    }
}

fn check_lz4(options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    if let Some(kind) = options.get("lz4_compressor_type")
        && !matches!(kind.as_str(), "fast" | "high")
    {
        return Err(CqlError::config(format_args!(
            "Invalid compressor type '{kind}' specified for LZ4 parameter 'lz4_compressor_type'. Valid options are \
             [high, fast]."
        )));
    }
    if let Some(level) = options.get("lz4_high_compressor_level")
        && !level.parse().is_ok_and(|level| LZ4_LEVELS.contains(&level))
    {
        return Err(CqlError::config(format_args!(
            "Invalid value [{level}] for parameter 'lz4_high_compressor_level'. Value must be between 1 and 17."
        )));
    }
    Ok(())
}

fn check_zstd(options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    let Some(text) = options.get("compression_level") else {
        return Ok(());
    };
    match text.parse() {
        Ok(level) if ZSTD_LEVELS.contains(&level) => Ok(()),
        Ok(level) => Err(CqlError::config(format_args!(
            "ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException compression_level={level} is \
             invalid"
        ))),
        Err(_) => Err(CqlError::config(format_args!(
            "ZstdCompressor.create() threw an error: java.lang.NumberFormatException For input string: \"{text}\""
        ))),
    }
}
