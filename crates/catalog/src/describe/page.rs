//! Paging through a description: a page is a range of rows, valid for one version of the schema.

use uuid::Uuid;

use helenus_engine::CqlError;

/// The first bytes of a paging state; another number means another layout.
const PAGE_STATE_VERSION: u16 = 1;

/// The state from which the page behind the first `offset` rows can be asked for.
pub fn page_state(offset: u64, schema_version: Uuid) -> Vec<u8> {
    let mut state = PAGE_STATE_VERSION.to_be_bytes().to_vec();
    state.extend_from_slice(schema_version.as_bytes());
    state.extend_from_slice(&offset.to_be_bytes());
    state
}

/// How many rows a client has already seen.
pub fn page_offset(state: &[u8], schema_version: Uuid) -> Result<u64, CqlError> {
    let invalid = || CqlError::invalid(format_args!("Invalid paging state."));
    let (version, rest) = state.split_first_chunk().ok_or_else(invalid)?;
    if u16::from_be_bytes(*version) != PAGE_STATE_VERSION {
        return Err(CqlError::invalid(format_args!("Incompatible paging state")));
    }
    let (seen_version, rest) = rest.split_first_chunk::<16>().ok_or_else(invalid)?;
    if seen_version != schema_version.as_bytes() {
        return Err(CqlError::invalid(format_args!(
            "The schema has changed since the previous page of the DESCRIBE statement result. Please retry the DESCRIBE \
             statement."
        )));
    }
    let offset: [u8; 8] = rest.try_into().map_err(|_| invalid())?;
    Ok(u64::from_be_bytes(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_for_one_version_of_the_schema() {
        let version = Uuid::from_u128(7);
        let state = page_state(5000, version);
        assert_eq!(page_offset(&state, version).unwrap(), 5000);
        for (state, schema_version, message) in [
            (
                state.as_slice(),
                Uuid::from_u128(8),
                "The schema has changed since the previous page",
            ),
            (&state[..20], version, "Invalid paging state."),
            (&[], version, "Invalid paging state."),
            (&[0, 9], version, "Incompatible paging state"),
        ] {
            let error = page_offset(state, schema_version).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
