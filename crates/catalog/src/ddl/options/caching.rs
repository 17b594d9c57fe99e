//! `caching = {'keys': 'ALL' | 'NONE', 'rows_per_partition': 'ALL' | 'NONE' | count}`

use std::collections::BTreeMap;

use helenus_engine::CqlError;

/// Reads the sub-options; those not given are off.
pub(super) fn read(entries: &[(String, String)]) -> Result<BTreeMap<String, String>, CqlError> {
    let mut caching = BTreeMap::from([
        ("keys".to_owned(), "NONE".to_owned()),
        ("rows_per_partition".to_owned(), "NONE".to_owned()),
    ]);
    let mut unknown = Vec::new();
    for (name, value) in entries {
        let normalized = match name.as_str() {
            "keys" => keys(value)?,
            "rows_per_partition" => rows(value)?,
            _ => {
                unknown.push(name.as_str());
                continue;
            }
        };
        caching.insert(name.clone(), normalized);
    }
    if unknown.is_empty() {
        return Ok(caching);
    }
    unknown.sort_unstable();
    Err(CqlError::config(format_args!(
        "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
        unknown.join(", ")
    )))
}

fn keys(value: &str) -> Result<String, CqlError> {
    let upper = value.to_ascii_uppercase();
    match upper.as_str() {
        "ALL" | "NONE" => Ok(upper),
        _ => Err(CqlError::config(format_args!(
            "Invalid value '{value}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
        ))),
    }
}

fn rows(value: &str) -> Result<String, CqlError> {
    let upper = value.to_ascii_uppercase();
    if matches!(upper.as_str(), "ALL" | "NONE") {
        return Ok(upper);
    }
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse::<i32>() {
        Ok(0) if is_number => Ok("NONE".to_owned()),
        Ok(i32::MAX) if is_number => Ok("ALL".to_owned()),
        Ok(count) if is_number => Ok(count.to_string()),
        _ => Err(CqlError::config(format_args!(
            "Invalid value '{value}' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and integer \
             values are allowed"
        ))),
    }
}
