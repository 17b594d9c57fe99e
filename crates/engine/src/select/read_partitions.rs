//! Partitions that one read of a shard is for.

use helenus_rows::clustering::Side;
use helenus_types::Token;

/// One partition, or all between two places.
#[derive(Clone, Debug)]
pub enum ReadPartitions {
    Key {
        token: Token,
        key: Vec<u8>,
    },
    Range {
        start: OwnedPartitionBound,
        end: OwnedPartitionBound,
    },
}

/// A place before or after all partitions of a token.
#[derive(Clone, Copy, Debug)]
pub struct OwnedPartitionBound {
    pub token: Token,
    pub side: Side,
}
