//! Paging states: where a result goes on, opaque to clients and checked when it comes back.
//!
//! | part | bytes |
//! |---|---|
//! | form | 1: `FORM`, plus `HAS_CLUSTERING` |
//! | rows left of LIMIT | 4 |
//! | rows left of PER PARTITION LIMIT in this partition | 4 |
//! | partition key | u32 length, bytes |
//! | clustering | u32 length, bytes, with `HAS_CLUSTERING` |
//! | checksum | 8: half of the Murmur3 hash of what is before it |

use helenus_types::token::murmur3_x64_128;

use crate::CqlError;

const FORM: u8 = 0x48;
const HAS_CLUSTERING: u8 = 0x80;
const CHECKSUM_BYTES: usize = 8;

/// The last row that was returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub key: Vec<u8>,
    /// None if the partition is done with.
    pub clustering: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState {
    pub position: Position,
    /// Rows that LIMIT still allows; `u32::MAX` without one.
    pub rows_left: u32,
    pub rows_left_in_partition: u32,
}

impl PagingState {
    pub fn encode(&self) -> Vec<u8> {
        let clustering = self.position.clustering.as_deref();
        let mut out = vec![if clustering.is_some() {
            FORM | HAS_CLUSTERING
        } else {
            FORM
        }];
        out.extend_from_slice(&self.rows_left.to_be_bytes());
        out.extend_from_slice(&self.rows_left_in_partition.to_be_bytes());
        for part in std::iter::once(self.position.key.as_slice()).chain(clustering) {
            // Keys are at most 64 KiB, clusterings at most that for each column.
            out.extend_from_slice(&(part.len() as u32).to_be_bytes());
            out.extend_from_slice(part);
        }
        let checksum = checksum(&out);
        out.extend_from_slice(&checksum);
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<PagingState, CqlError> {
        Self::decode_checked(bytes)
            .ok_or_else(|| CqlError::protocol(format_args!("Invalid value for the paging state")))
    }

    fn decode_checked(bytes: &[u8]) -> Option<PagingState> {
        let (content, found) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if checksum(content) != *found {
            return None;
        }
        let (form, mut rest) = content.split_first()?;
        if form & !HAS_CLUSTERING != FORM {
            return None;
        }
        let rows_left = read_u32(&mut rest)?;
        let rows_left_in_partition = read_u32(&mut rest)?;
        let key = read_sized(&mut rest)?;
        let clustering = if form & HAS_CLUSTERING != 0 {
            Some(read_sized(&mut rest)?)
        } else {
            None
        };
        rest.is_empty().then_some(PagingState {
            position: Position { key, clustering },
            rows_left,
            rows_left_in_partition,
        })
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    murmur3_x64_128(bytes)[1].to_be_bytes()
}

fn read_u32(rest: &mut &[u8]) -> Option<u32> {
    let (number, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(u32::from_be_bytes(*number))
}

fn read_sized(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = read_u32(rest)? as usize;
    let (bytes, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_round_trip_and_any_other_bytes_are_refused() {
        for clustering in [None, Some(b"ck".to_vec())] {
            let position = Position {
                key: b"key".to_vec(),
                clustering,
            };
            let state = PagingState {
                position,
                rows_left: 7,
                rows_left_in_partition: u32::MAX,
            };
            let bytes = state.encode();
            assert_eq!(PagingState::decode(&bytes).unwrap(), state);
            for index in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[index] ^= 1;
                let error = PagingState::decode(&damaged).unwrap_err();
                assert_eq!(error.to_string(), "Invalid value for the paging state");
                assert!(PagingState::decode(&bytes[..index]).is_err());
            }
        }
    }
}
