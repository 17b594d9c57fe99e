//! The bloom filter over partition keys (Filter.db).
//!
//! | field | bytes |
//! |---|---|
//! | hash count | 4 |
//! | words | 4: number of 8-byte words |
//! | bits | bit `i` is bit `i % 8` of byte `i / 8`; before version `na` each word's bytes are the other way round |

use helenus_types::token::murmur3_x64_128;

use crate::decode::{ByteReader, DecodeError};
use crate::version::Version;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BloomFilter {
    hash_count: u32,
    bits: Vec<u8>,
    modulus: Modulus,
}

/// Remainders without a division, which would take longer than everything else that a bit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modulus {
    divisor: u64,
    /// 2^64 over the divisor, rounded down.
    reciprocal: u64,
}

/// Bits beyond those per key; Cassandra's choice.
const EXCESS_BITS: u64 = 20;
/// Far more hashes than the lowest false positive chance needs; bounds the work for a damaged count.
const HASH_COUNT_MAX: u32 = 64;
const BITS_PER_KEY_MAX: u32 = 20;
/// 2 GiB of filter; keys beyond only raise the false positive chance.
const BITS_MAX: u64 = 1 << 34;

impl BloomFilter {
    /// Sized for a number of keys and a chance of false positives below 1.
    pub fn for_keys(key_count: u64, false_positive_chance: f64) -> Self {
        let (bits_per_key, hash_count) = dimensions(false_positive_chance);
        let bit_count = key_count
            .saturating_mul(u64::from(bits_per_key))
            .saturating_add(EXCESS_BITS)
            .min(BITS_MAX);
        let word_count = bit_count.div_ceil(64);
        BloomFilter::of_bits(hash_count, vec![0; (word_count * 8) as usize])
    }

    /// Creates a filter of at least one word.
    fn of_bits(hash_count: u32, bits: Vec<u8>) -> Self {
        BloomFilter {
            hash_count,
            modulus: Modulus::new(bits.len() as u64 * 8),
            bits,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.bits.len()
    }

    /// Adds a key by its [hash](murmur3_x64_128).
    pub fn add(&mut self, hash: [u64; 2]) {
        for bit in self.bit_indexes(hash) {
            self.bits[(bit >> 3) as usize] |= 1 << (bit & 7);
        }
    }

    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.bit_indexes(murmur3_x64_128(key)).all(|bit| {
            self.bits
                .get((bit >> 3) as usize)
                .is_some_and(|byte| byte & (1 << (bit & 7)) != 0)
        })
    }

    /// The second half of the hash plus multiples of the first, signed, modulo the number of bits.
    fn bit_indexes(&self, [increment, base]: [u64; 2]) -> impl Iterator<Item = u64> + use<> {
        let modulus = self.modulus;
        let mut position = base.cast_signed();
        (0..self.hash_count).map(move |_| {
            // A signed remainder without its sign is that of the number without its sign.
            let bit = modulus.remainder_of(position.unsigned_abs());
            position = position.wrapping_add(increment.cast_signed());
            bit
        })
    }

    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash_count.to_be_bytes());
        out.extend_from_slice(&((self.bits.len() / 8) as u32).to_be_bytes());
        let bits_at = out.len();
        out.extend_from_slice(&self.bits);
        if version.has_big_endian_filter_words() {
            out[bits_at..].chunks_exact_mut(8).for_each(<[u8]>::reverse);
        }
    }

    pub fn decode(bytes: &[u8], version: Version) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let hash_count = reader.u32()?;
        if hash_count == 0 || hash_count > HASH_COUNT_MAX {
            return Err(DecodeError::malformed(0, "1 to 64 hashes", hash_count));
        }
        let word_count = reader.count_u32(8)?;
        if word_count == 0 {
            return Err(DecodeError::malformed(4, "at least one word", word_count));
        }
        let mut bits = reader.bytes(word_count * 8)?.to_vec();
        reader.finish()?;
        if version.has_big_endian_filter_words() {
            bits.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        }
        Ok(BloomFilter::of_bits(hash_count, bits))
    }
}

impl Modulus {
    /// Creates the modulus of a divisor from 2 on.
    fn new(divisor: u64) -> Self {
        Modulus {
            divisor,
            reciprocal: u64::MAX / divisor,
        }
    }

    /// The product's upper half is the quotient or one less, as what the reciprocal was rounded by is less than one for any
    /// 64-bit number.
    #[inline]
    fn remainder_of(self, number: u64) -> u64 {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = number - quotient * self.divisor;
        if remainder >= self.divisor {
            remainder - self.divisor
        } else {
            remainder
        }
    }
}

/// The fewest bits per key, and for them the fewest hashes, that stay below a false positive chance.
///
/// With `b` bits per key and `k` hashes the chance is `(1 - e^(-k / b))^k` (Bloom, 1970). Any pair is a valid file.
fn dimensions(false_positive_chance: f64) -> (u32, u32) {
    let chance =
        |bits: u32, hashes: u32| (1.0 - (-f64::from(hashes) / f64::from(bits)).exp()).powi(hashes as i32);
    for bits in 2..BITS_PER_KEY_MAX {
        if let Some(hashes) = (1..=bits).find(|&hashes| chance(bits, hashes) <= false_positive_chance) {
            return (bits, hashes);
        }
    }
    (BITS_PER_KEY_MAX, 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_takes_ten_bits_and_few_hashes() {
        assert_eq!(dimensions(0.01), (10, 5));
        assert_eq!(dimensions(0.1), (5, 3));
        assert_eq!(dimensions(0.000_000_1), (20, 14));
    }

    #[test]
    fn added_keys_are_found_and_most_others_are_not() {
        let mut filter = BloomFilter::for_keys(1000, 0.01);
        (0..1000_u32).for_each(|key| filter.add(murmur3_x64_128(&key.to_be_bytes())));
        assert!((0..1000_u32).all(|key| filter.may_contain(&key.to_be_bytes())));
        let false_positives = (1000..11_000_u32)
            .filter(|key| filter.may_contain(&key.to_be_bytes()))
            .count();
        assert!(false_positives < 200, "{false_positives} of 10,000");
        for version in [Version::Me, Version::Nb] {
            let mut out = Vec::new();
            filter.encode(version, &mut out);
            assert_eq!(BloomFilter::decode(&out, version), Ok(filter.clone()));
            assert!(BloomFilter::decode(&out[..out.len() - 1], version).is_err());
        }
    }

    #[test]
    fn remainders_are_those_of_a_division() {
        let divisors = [64, 128, 192, 1 << 20, (1 << 34) - 64, 1 << 34];
        let near = |number: u64| [number.wrapping_sub(1), number, number.wrapping_add(1)];
        for divisor in divisors {
            let modulus = Modulus::new(divisor);
            let numbers = [
                0,
                divisor,
                7 * divisor,
                1 << 63,
                u64::MAX / divisor * divisor,
                u64::MAX,
            ];
            let random = (0..1_000_u64).map(|number| murmur3_x64_128(&number.to_be_bytes())[0]);
            for number in numbers.into_iter().flat_map(near).chain(random) {
                assert_eq!(
                    modulus.remainder_of(number),
                    number % divisor,
                    "{number} % {divisor}"
                );
            }
        }
    }

    #[test]
    fn words_turned_round_in_na() {
        let filter = BloomFilter::of_bits(1, (1..=8).collect());
        let stored = |version| {
            let mut out = Vec::new();
            filter.encode(version, &mut out);
            out.split_off(8)
        };
        assert_eq!(stored(Version::Na), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(stored(Version::Ma), [8, 7, 6, 5, 4, 3, 2, 1]);
    }
}
