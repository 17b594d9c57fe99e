//! Sizes with units, as the unified compaction strategy takes and prints them.

use helenus_engine::CqlError;

/// Reads `100MiB`, `1GB` or `512 B`; the error says what is wrong in Cassandra's words.
pub(super) fn parse_bytes(text: &str) -> Result<f64, String> {
    let number_and_prefix = text
        .strip_suffix('B')
        .ok_or_else(|| format!("{text} does not end in unit B"))?;
    let digits_end = number_and_prefix
        .find(|character: char| !character.is_ascii_digit() && !matches!(character, '.' | '-' | '+'))
        .unwrap_or(number_and_prefix.len());
    let (number, prefix) = number_and_prefix.split_at(digits_end);
    let number: f64 = number.parse().map_err(|_| "null".to_owned())?;
    let prefix = prefix.trim_start();
    let (prefix, is_binary) = match prefix.strip_suffix('i') {
        Some(prefix) => (prefix, true),
        None => (prefix, false),
    };
    let power = match prefix {
        "" if !is_binary => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => {
            return Err(format!(
                "Unexpected characters between pos {digits_end} and {} in {text}",
                text.len() - 1
            ));
        }
    };
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    Ok(number * base.powi(power))
}

/// `1.000MiB`: three digits behind the point, except for bytes.
pub(super) fn format_bytes(bytes: i64) -> String {
    const PREFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    let power = bytes.unsigned_abs().checked_ilog2().unwrap_or(0) / 10;
    match power
        .checked_sub(1)
        .and_then(|index| PREFIXES.get(index as usize))
    {
        None => format!("{bytes}B"),
        Some(prefix) => format!(
            "{:.3}{prefix}iB",
            bytes as f64 / 1024f64.powi(power.cast_signed())
        ),
    }
}

/// A size option with a lower bound.
pub(super) fn bytes_at_least(name: &str, text: &str, minimum: i64) -> Result<f64, CqlError> {
    let bytes = parse_bytes(text).map_err(|reason| {
        CqlError::config(format_args!(
            "{name} {text} is not a valid size in bytes: {reason}"
        ))
    })?;
    if bytes < minimum as f64 {
        return Err(CqlError::config(format_args!(
            "{name} {text} is not acceptable, size must be at least {}",
            format_bytes(minimum)
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed_with_their_units() {
        for (text, bytes) in [
            ("1B", 1.0),
            ("1KiB", 1024.0),
            ("1.5MiB", 1_572_864.0),
            ("2 GB", 2e9),
            ("3KB", 3000.0),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_bytes("x"), Err("x does not end in unit B".to_owned()));
        assert!(parse_bytes("1QB").is_err());
        assert_eq!(format_bytes(1023), "1023B");
        assert_eq!(format_bytes(1 << 20), "1.000MiB");
        assert_eq!(format_bytes(3 << 29), "1.500GiB");
    }
}
