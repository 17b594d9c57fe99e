//! `per_partition_rate_limit = {'max_reads_per_second': count, 'max_writes_per_second': count}`, ScyllaDB's option.

use std::num::NonZeroU32;

use helenus_schema::PerPartitionRateLimit;

use helenus_engine::CqlError;

/// Reads the limits; one not given is no limit, and an empty map takes the option back.
pub(super) fn read(entries: &[(String, String)]) -> Result<Option<PerPartitionRateLimit>, CqlError> {
    let mut limit = PerPartitionRateLimit::default();
    for (name, value) in entries {
        match name.as_str() {
            PerPartitionRateLimit::MAX_READS => limit.max_reads_per_second = Some(number(name, value)?),
            PerPartitionRateLimit::MAX_WRITES => limit.max_writes_per_second = Some(number(name, value)?),
            _ => {
                return Err(CqlError::config(format_args!(
                    "Unknown sub-option '{name}' of per_partition_rate_limit: only '{}' and '{}' are allowed",
                    PerPartitionRateLimit::MAX_READS,
                    PerPartitionRateLimit::MAX_WRITES
                )));
            }
        }
    }
    Ok((limit != PerPartitionRateLimit::default()).then_some(limit))
}

fn number(name: &str, value: &str) -> Result<NonZeroU32, CqlError> {
    let number = value
        .parse::<i32>()
        .ok()
        .and_then(|number| u32::try_from(number).ok());
    number.and_then(NonZeroU32::new).ok_or_else(|| {
        CqlError::config(format_args!(
            "Invalid value '{value}' for per_partition_rate_limit sub-option '{name}': it must be an integer from 1 to {}",
            i32::MAX
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pairs(pairs: &[(&str, &str)]) -> Result<Option<PerPartitionRateLimit>, String> {
        let entries: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        read(&entries).map_err(|error| format!("{:?}: {error}", error.code()))
    }

    #[test]
    fn each_kind_may_be_limited_alone_and_an_empty_map_is_no_limit() {
        let limit = read_pairs(&[("max_reads_per_second", "5")]).unwrap().unwrap();
        assert_eq!(limit.max_reads_per_second, NonZeroU32::new(5));
        assert_eq!(limit.max_writes_per_second, None);
        assert_eq!(read_pairs(&[]), Ok(None));
    }

    #[test]
    fn what_is_no_count_of_requests_is_a_configuration_error() {
        for value in ["0", "-1", "1.5", "many", "", "2147483648"] {
            let error = read_pairs(&[("max_writes_per_second", value)]).unwrap_err();
            assert!(error.starts_with("ConfigError: Invalid value"), "{error}");
        }
        let error = read_pairs(&[("max_scans_per_second", "1")]).unwrap_err();
        assert!(error.starts_with("ConfigError: Unknown sub-option"), "{error}");
    }
}
