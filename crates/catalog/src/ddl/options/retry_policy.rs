//! `speculative_retry` and `additional_write_policy`: `ALWAYS`, `NEVER`, a percentile, a time, or the smaller or larger
//! of two. One node never speculates; the policies are kept for those who read the schema.

use std::fmt;

use helenus_engine::CqlError;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Simple {
    /// Between 0 and 100, both excluded.
    Percentile(f64),
    /// Milliseconds.
    Fixed(i32),
}

/// The policy as Cassandra prints it: `'99.90percentile'` becomes `99.9p`.
pub(super) fn normalized(text: &str) -> Result<String, CqlError> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "ALWAYS" => return Ok(upper),
        "NEVER" | "NONE" => return Ok("NEVER".to_owned()),
        _ => {}
    }
    if let Some(simple) = simple(text)? {
        return Ok(simple.to_string());
    }
    let Some((function, first, second)) = hybrid_parts(&upper) else {
        return Err(invalid(text));
    };
    // A part that is no policy makes the whole invalid, whatever is wrong with it.
    let part = |part: &str| simple(part).ok().flatten().ok_or_else(|| invalid(text));
    match (part(first)?, part(second)?) {
        (percentile @ Simple::Percentile(_), fixed @ Simple::Fixed(_))
        | (fixed @ Simple::Fixed(_), percentile @ Simple::Percentile(_)) => {
            Ok(format!("{function}({percentile},{fixed})"))
        }
        (first, _) => Err(CqlError::config(format_args!(
            "Invalid value {text} for option 'speculative_retry': MIN()/MAX() arguments should be of different types, \
             but both are of type {}",
            first.kind()
        ))),
    }
}

/// Cassandra names this option whichever of the two is wrong.
fn invalid(text: &str) -> CqlError {
    CqlError::config(format_args!(
        "Invalid value {text} for option 'speculative_retry'"
    ))
}

/// None if the text has the form of neither policy.
fn simple(text: &str) -> Result<Option<Simple>, CqlError> {
    let upper = text.to_ascii_uppercase();
    let digits = |suffix: &str| {
        let number = upper.strip_suffix(suffix)?;
        let is_number =
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_number.then_some(number)
    };
    if let Some(number) = digits("PERCENTILE").or_else(|| digits("P")) {
        let percentile: f64 = number.parse().map_err(|_| invalid(text))?;
        if percentile <= 0.0 || percentile >= 100.0 {
            return Err(CqlError::config(format_args!(
                "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
            )));
        }
        return Ok(Some(Simple::Percentile(percentile)));
    }
    if let Some(number) = digits("MS") {
        let milliseconds: f64 = number.parse().map_err(|_| invalid(text))?;
        // Fractions are cut off and what is too large is clamped, as Java's conversion does.
        return Ok(Some(Simple::Fixed(milliseconds as i32)));
    }
    Ok(None)
}

/// `MIN(a, b)` or `MAX(a, b)`, in upper case.
fn hybrid_parts(upper: &str) -> Option<(&'static str, &str, &str)> {
    let (function, rest) = match (upper.strip_prefix("MIN("), upper.strip_prefix("MAX(")) {
        (Some(rest), _) => ("MIN", rest),
        (_, Some(rest)) => ("MAX", rest),
        _ => return None,
    };
    let (first, second) = rest.strip_suffix(')')?.split_once(',')?;
    Some((function, first.trim_end(), second.trim_start()))
}

impl Simple {
    fn kind(self) -> &'static str {
        match self {
            Simple::Percentile(_) => "PERCENTILE",
            Simple::Fixed(_) => "FIXED",
        }
    }
}

impl fmt::Display for Simple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Simple::Percentile(percentile) => {
                let text = format!("{percentile:.4}");
                write!(f, "{}p", text.trim_end_matches('0').trim_end_matches('.'))
            }
            Simple::Fixed(milliseconds) => write!(f, "{milliseconds}ms"),
        }
    }
}
