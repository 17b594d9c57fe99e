//! Paging states: where a result goes on, opaque to clients and checked when it comes back.
//!
//! | part | bytes |
//! |---|---|
//! | form | 1: `FORM`, plus `HAS_CLUSTERING`, plus `IS_AFTER` and `HAS_ROWS` of a clustering |
//! | rows left of LIMIT | 4 |
//! | rows left of PER PARTITION LIMIT in this partition | 4 |
//! | partition key | u32 length, bytes |
//! | clustering | u32 length, bytes, with `HAS_CLUSTERING` |
//! | checksum | 8: half of the Murmur3 hash of what is before it |

use helenus_rows::clustering::{ClusteringBound, Side};
use helenus_types::token::murmur3_x64_128;

use crate::CqlError;

const FORM: u8 = 0x48;
const HAS_CLUSTERING: u8 = 0x80;
const IS_AFTER: u8 = 0x01;
const HAS_ROWS: u8 = 0x02;
const CHECKSUM_BYTES: usize = 8;

/// Behind the last row that was returned, or the last deletion that was passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub key: Vec<u8>,
    /// None if the partition is done with.
    pub place: Option<PagePlace>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePlace {
    pub bound: ClusteringBound,
    /// True if rows of the partition came before; else its static row may still be due.
    pub has_rows: bool,
}

impl PagePlace {
    pub fn behind_row(clustering: &[u8], side: Side) -> Self {
        PagePlace {
            bound: ClusteringBound {
                prefix: clustering.into(),
                side,
            },
            has_rows: true,
        }
    }
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
        let place = self.position.place.as_ref();
        let clustering = place.map(|place| &*place.bound.prefix);
        let form = place.map_or(FORM, |place| {
            let is_after = if place.bound.side == Side::After {
                IS_AFTER
            } else {
                0
            };
            let has_rows = if place.has_rows { HAS_ROWS } else { 0 };
            FORM | HAS_CLUSTERING | is_after | has_rows
        });
        let mut out = vec![form];
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
        if form & !(HAS_CLUSTERING | IS_AFTER | HAS_ROWS) != FORM {
            return None;
        }
        let rows_left = read_u32(&mut rest)?;
        let rows_left_in_partition = read_u32(&mut rest)?;
        let key = read_sized(&mut rest)?;
        let place = if form & HAS_CLUSTERING != 0 {
            let side = if form & IS_AFTER != 0 {
                Side::After
            } else {
                Side::Before
            };
            Some(PagePlace {
                bound: ClusteringBound {
                    prefix: read_sized(&mut rest)?.into(),
                    side,
                },
                has_rows: form & HAS_ROWS != 0,
            })
        } else {
            None
        };
        rest.is_empty().then_some(PagingState {
            position: Position { key, place },
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
        let mut cut = PagePlace::behind_row(b"", Side::Before);
        cut.has_rows = false;
        for place in [None, Some(PagePlace::behind_row(b"ck", Side::After)), Some(cut)] {
            let position = Position {
                key: b"key".to_vec(),
                place,
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
