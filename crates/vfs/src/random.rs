//! Randomness for identifiers, jitter and sampling; not for secrets.

use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

pub trait Random: Send + Sync + Debug {
    fn next_u64(&self) -> u64;

    /// A number below `bound`, which is not 0. The bias of the multiplication is below 2^-64 * bound.
    fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): the same seed gives the
/// same numbers on every machine.
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// The golden ratio as a 64-bit fraction, SplitMix64's increment.
    const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

    pub fn new(seed: u64) -> Self {
        SeededRandom {
            state: AtomicU64::new(seed),
        }
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let before = self.state.fetch_add(Self::INCREMENT, Ordering::Relaxed);
        let mut mixed = before.wrapping_add(Self::INCREMENT);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Seeded once from the operating system's entropy (which the standard library's hasher keys come from).
#[derive(Debug)]
pub struct SystemRandom {
    generator: SeededRandom,
}

impl SystemRandom {
    pub fn new() -> Self {
        SystemRandom {
            generator: SeededRandom::new(RandomState::new().hash_one(0_u64)),
        }
    }
}

impl Default for SystemRandom {
    fn default() -> Self {
        Self::new()
    }
}

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        self.generator.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_of_seed_zero_are_the_published_ones() {
        let random = SeededRandom::new(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn below_stays_below_and_fill_fills() {
        let random = SeededRandom::new(7);
        assert!((0..1000).all(|_| random.below(10) < 10));
        let mut bytes = [0_u8; 13];
        random.fill(&mut bytes);
        assert!(bytes.iter().any(|&byte| byte != 0));
    }
}
