//! Tokens: where a partition lives on the ring, and which shard owns it.
//!
//! The hash is Cassandra's `Murmur3Partitioner`: MurmurHash3 x64 128 with seed 0, except that the bytes of the tail
//! are sign-extended before they are mixed in. Bloom filters use both halves of the same hash.

use std::fmt;

/// A position on the ring. Partitions are stored and scanned in token order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub i64);

/// A shard of this node, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

impl Token {
    /// Below the token of every partition; range scans start after it.
    pub const MINIMUM: Token = Token(i64::MIN);
    pub const MAXIMUM: Token = Token(i64::MAX);
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The token of a serialized partition key.
#[inline]
pub fn token_of(partition_key: &[u8]) -> Token {
    if partition_key.is_empty() {
        return Token::MINIMUM;
    }
    token_of_hash(murmur3_x64_128(partition_key))
}

/// The token that goes with a hash already computed for a bloom filter; the key must not be empty.
#[inline]
pub(crate) fn token_of_hash(hash: [u64; 2]) -> Token {
    let token = hash[0].cast_signed();
    // i64::MIN stands before all partitions, so no partition may have it.
    Token(if token == i64::MIN { i64::MAX } else { token })
}

/// The shard that owns `token`: the ring cut in `shard_count` equal, contiguous ranges.
#[inline]
pub fn shard_of(token: Token, shard_count: u16) -> ShardId {
    debug_assert!(shard_count > 0, "a node has at least one shard");
    let position = token.0.cast_unsigned() ^ (1 << 63);
    let shard = (u128::from(position) * u128::from(shard_count)) >> 64;
    // position < 2^64, so shard < shard_count, a u16.
    ShardId(shard as u16)
}

/// The tokens `shard` owns, both bounds included.
pub fn shard_range(shard: ShardId, shard_count: u16) -> (Token, Token) {
    debug_assert!(shard.0 < shard_count, "no such shard");
    // The first position p with floor(p * n / 2^64) == i is ceil(i * 2^64 / n).
    let first = |index: u32| (u128::from(index) << 64).div_ceil(u128::from(shard_count));
    let token = |position: u128| Token((position as u64 ^ (1 << 63)).cast_signed());
    (
        token(first(u32::from(shard.0))),
        token(first(u32::from(shard.0) + 1) - 1),
    )
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// MurmurHash3 x64 128 with seed 0 and sign-extended tail bytes, as Cassandra computes it.
pub fn murmur3_x64_128(data: &[u8]) -> [u64; 2] {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mix_k1(block as u64);
        h1 = h1
            .rotate_left(27)
            .wrapping_add(h2)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        h2 ^= mix_k2((block >> 64) as u64);
        h2 = h2
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }
    if !tail.is_empty() {
        let (low, high) = tail.split_at(tail.len().min(8));
        h1 ^= mix_k1(signed_tail(low));
        h2 ^= mix_k2(signed_tail(high));
    }
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = final_mix(h1);
    h2 = final_mix(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    [h1, h2]
}

#[inline]
fn mix_k1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline]
fn mix_k2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline]
fn signed_tail(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |word, (index, &byte)| {
        word ^ (i64::from(byte.cast_signed()) << (8 * index)).cast_unsigned()
    })
}

#[inline]
fn final_mix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cut_the_ring_without_gap_or_overlap() {
        for shard_count in [1, 2, 3, 7, 16, 255, u16::MAX] {
            let mut next = i128::from(i64::MIN);
            for shard in (0..shard_count).map(ShardId) {
                let (first, last) = shard_range(shard, shard_count);
                assert_eq!(i128::from(first.0), next);
                next = i128::from(last.0) + 1;
                assert_eq!(shard_of(first, shard_count), shard);
                assert_eq!(shard_of(last, shard_count), shard);
            }
            assert_eq!(next, i128::from(i64::MAX) + 1);
        }
    }

    #[test]
    fn the_reserved_token_is_never_a_partition_s() {
        assert_eq!(token_of_hash([1 << 63, 0]), Token::MAXIMUM);
    }
}
