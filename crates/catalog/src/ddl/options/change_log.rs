//! `cdc = {'enabled': 'true', ...}`, ScyllaDB's option.

use helenus_engine::CqlError;
use helenus_schema::{ChangeLogOptions, Delta, Preimage};

/// Twenty years of 365 days, in seconds, as of any other time to live.
const TTL_MAX_S: u32 = 20 * 365 * 24 * 60 * 60;

/// Reads the option; what is not given has its default, and one that is not enabled is none.
pub(crate) fn read(entries: &[(String, String)]) -> Result<Option<ChangeLogOptions>, CqlError> {
    let mut options = ChangeLogOptions::default();
    let mut is_enabled = false;
    for (name, value) in entries {
        match name.as_str() {
            ChangeLogOptions::ENABLED => is_enabled = boolean(name, value)?,
            ChangeLogOptions::PREIMAGE => {
                options.preimage = match value.to_ascii_lowercase().as_str() {
                    "full" => Preimage::Full,
                    _ if boolean(name, value)? => Preimage::Changed,
                    _ => Preimage::None,
                };
            }
            ChangeLogOptions::POSTIMAGE => options.postimage = boolean(name, value)?,
            ChangeLogOptions::DELTA => {
                options.delta = match value.to_ascii_lowercase().as_str() {
                    "full" => Delta::Full,
                    "keys" => Delta::Keys,
                    _ => return Err(invalid_value(name, value, "'full' or 'keys'")),
                };
            }
            ChangeLogOptions::TTL => {
                let ttl_s = value.parse().ok().filter(|ttl_s| *ttl_s <= TTL_MAX_S);
                options.ttl_s = ttl_s.ok_or_else(|| {
                    invalid_value(
                        name,
                        value,
                        format_args!("a number of seconds from 0 to {TTL_MAX_S}"),
                    )
                })?;
            }
            _ => {
                return Err(CqlError::config(format_args!(
                    "Unknown sub-option '{name}' of cdc: there are '{}', '{}', '{}', '{}' and '{}'",
                    ChangeLogOptions::ENABLED,
                    ChangeLogOptions::PREIMAGE,
                    ChangeLogOptions::POSTIMAGE,
                    ChangeLogOptions::DELTA,
                    ChangeLogOptions::TTL
                )));
            }
        }
    }
    Ok(is_enabled.then_some(options))
}

fn boolean(name: &str, value: &str) -> Result<bool, CqlError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ if name == ChangeLogOptions::PREIMAGE => Err(invalid_value(name, value, "true, false or 'full'")),
        _ => Err(invalid_value(name, value, "true or false")),
    }
}

fn invalid_value(name: &str, value: &str, allowed: impl std::fmt::Display) -> CqlError {
    CqlError::config(format_args!(
        "Invalid value '{value}' for cdc sub-option '{name}': it must be {allowed}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pairs(pairs: &[(&str, &str)]) -> Result<Option<ChangeLogOptions>, String> {
        let entries: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        read(&entries).map_err(|error| format!("{:?}: {error}", error.code()))
    }

    #[test]
    fn what_is_written_comes_back_from_its_text() {
        let all = [
            ("enabled", "true"),
            ("preimage", "full"),
            ("postimage", "true"),
            ("delta", "keys"),
            ("ttl", "0"),
        ];
        let options = read_pairs(&all).unwrap().unwrap();
        let expected = ChangeLogOptions {
            preimage: Preimage::Full,
            postimage: true,
            delta: Delta::Keys,
            ttl_s: 0,
        };
        assert_eq!(options, expected);
        for options in [
            expected,
            ChangeLogOptions::default(),
            ChangeLogOptions {
                preimage: Preimage::Changed,
                ..ChangeLogOptions::default()
            },
        ] {
            let written: Vec<(String, String)> = options.options().into_iter().collect();
            assert_eq!(read(&written).unwrap(), Some(options));
        }
        assert_eq!(
            read_pairs(&[("enabled", "false"), ("preimage", "true")]),
            Ok(None)
        );
        assert_eq!(read_pairs(&[("preimage", "true")]), Ok(None));
    }

    #[test]
    fn what_is_no_option_is_a_configuration_error() {
        for (name, value) in [
            ("enabled", "maybe"),
            ("preimage", "half"),
            ("postimage", "full"),
            ("delta", "none"),
            ("ttl", "-1"),
            ("ttl", "630720001"),
            ("ttl", "a day"),
        ] {
            let error = read_pairs(&[("enabled", "true"), (name, value)]).unwrap_err();
            assert!(error.starts_with("ConfigError: Invalid value"), "{error}");
        }
        let error = read_pairs(&[("retention", "1")]).unwrap_err();
        assert!(error.starts_with("ConfigError: Unknown sub-option"), "{error}");
    }
}
