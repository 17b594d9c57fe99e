//! How many distinct partitions there are across SSTables: HyperLogLog++ registers (Heule, Nunkesser, Hall: HyperLogLog
//! in Practice, 2013), in the byte form of the `stream-lib` library that Cassandra stores.

use std::f64::consts::LN_2;

use crate::decode::{ByteReader, DecodeError};

/// Registers are picked by this many bits of the hash; Cassandra's choice, as is the next one.
const PRECISION: u32 = 13;
/// Precision of the sparse form, which is not written here but named in the head.
const SPARSE_PRECISION: u8 = 25;
const REGISTERS: usize = 1 << PRECISION;
/// Six registers of five bits in each 32-bit word.
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
const WORDS: usize = REGISTERS.div_ceil(REGISTERS_PER_WORD);
const VERSION: i32 = -2;
const HEAD_BYTES: usize = 9;
const FORM_NORMAL: u8 = 0;

/// Up to so many registers that are set are kept one by one: an SSTable of few partitions takes little memory.
const FEW_REGISTERS_MAX: usize = REGISTERS / 8;

/// Counts distinct partition keys, with a standard error of 1.15 %.
#[derive(Clone, Debug)]
pub struct Cardinality {
    registers: Vec<u8>,
}

/// The registers of one SSTable, in at most 8 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySketch(Registers);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Registers {
    /// Those that are set, in order.
    Few(Box<[(u16, u8)]>),
    All(Box<[u8]>),
}

impl Default for Cardinality {
    fn default() -> Self {
        Cardinality::new()
    }
}

impl Cardinality {
    pub fn new() -> Self {
        Cardinality {
            registers: vec![0; REGISTERS],
        }
    }

    pub fn add(&mut self, partition_key: &[u8]) {
        let hash = murmur2_64(partition_key);
        let register = (hash >> (64 - PRECISION)) as usize;
        // The guard bit keeps the count of leading zeros below what the remaining bits can show.
        let rest = (hash << PRECISION) | (1 << (PRECISION - 1));
        let rank = (rest.leading_zeros() as u8 + 1).min(REGISTER_MAX);
        self.registers[register] = self.registers[register].max(rank);
    }

    /// Adds the keys of an SSTable.
    pub fn merge(&mut self, keys: &KeySketch) {
        match &keys.0 {
            Registers::Few(few) => {
                for &(index, rank) in few {
                    let register = &mut self.registers[usize::from(index)];
                    *register = (*register).max(rank);
                }
            }
            Registers::All(all) => {
                for (register, rank) in self.registers.iter_mut().zip(all) {
                    *register = (*register).max(*rank);
                }
            }
        }
    }

    /// Estimates how many distinct keys were added. Without the tables of the paper: Ertl, New Cardinality Estimation
    /// Algorithms for HyperLogLog Sketches, 2017, algorithm 6.
    pub fn estimate(&self) -> f64 {
        let mut counts = [0_u32; REGISTER_MAX as usize + 1];
        for register in &self.registers {
            counts[usize::from(*register)] += 1;
        }
        let all = REGISTERS as f64;
        let share = |rank: usize| f64::from(counts[rank]) / all;
        let highest = usize::from(REGISTER_MAX);
        let mut sum = tau(1.0 - share(highest));
        for rank in (1..highest).rev() {
            sum = 0.5 * (sum + share(rank));
        }
        all / (2.0 * LN_2 * (sum + sigma(share(0))))
    }

    pub fn sketch(&self) -> KeySketch {
        let set = || self.registers.iter().enumerate().filter(|(_, rank)| **rank != 0);
        if set().count() > FEW_REGISTERS_MAX {
            return KeySketch(Registers::All(self.registers.as_slice().into()));
        }
        let few = set().map(|(index, rank)| (index as u16, *rank));
        KeySketch(Registers::Few(few.collect()))
    }

    /// Reads [`Cardinality::encode`]'s form. `None` for the sparse one, which Cassandra writes for up to some thousand keys.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let head = reader.bytes(HEAD_BYTES)?;
        if head != normal_head() {
            return Ok(None);
        }
        let mut registers = Vec::with_capacity(WORDS * REGISTERS_PER_WORD);
        for _ in 0..WORDS {
            let word = reader.u32()?;
            let of_word =
                (0..REGISTERS_PER_WORD).map(|index| (word >> (REGISTER_BITS * index)) as u8 & REGISTER_MAX);
            registers.extend(of_word);
        }
        reader.finish()?;
        registers.truncate(REGISTERS);
        Ok(Some(Cardinality { registers }))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&normal_head());
        for registers in self.registers.chunks(REGISTERS_PER_WORD) {
            let word = registers
                .iter()
                .enumerate()
                .fold(0_u32, |word, (index, register)| {
                    word | u32::from(*register) << (REGISTER_BITS * index)
                });
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
}

impl KeySketch {
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.0 {
            Registers::Few(few) => size_of_val(few.as_ref()),
            Registers::All(all) => size_of_val(all.as_ref()),
        }
    }
}

/// The head of the form with all registers.
fn normal_head() -> [u8; HEAD_BYTES] {
    let [v0, v1, v2, v3] = VERSION.to_be_bytes();
    // Seven bits a byte, lowest first, the top bit set on all but the last.
    let length = WORDS * size_of::<u32>();
    let length = [length as u8 | 0x80, (length >> 7) as u8];
    [
        v0,
        v1,
        v2,
        v3,
        PRECISION as u8,
        SPARSE_PRECISION,
        FORM_NORMAL,
        length[0],
        length[1],
    ]
}

/// The addend of registers that are not set: x + Σ 2^(k-1) x^(2^k), infinite at 1.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut factor) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// The addend of registers at their highest: (1 - x - Σ (1 - x^(2^-k))² 2^-k) / 3.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut sum, mut factor) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// MurmurHash2 in its 64-bit form with seed 0 (Appleby, 2008), as Cassandra hashes keys for this estimate.
fn murmur2_64(data: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = (data.len() as u64).wrapping_mul(M);
    let (blocks, tail) = data.as_chunks::<8>();
    for block in blocks {
        let mut k = u64::from_le_bytes(*block).wrapping_mul(M);
        k = (k ^ (k >> R)).wrapping_mul(M);
        hash = (hash ^ k).wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u64::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> R)).wrapping_mul(M);
    hash ^ (hash >> R)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_that_of_the_normal_form() {
        let mut out = Vec::new();
        Cardinality::new().encode(&mut out);
        assert_eq!(out[..9], [0xff, 0xff, 0xff, 0xfe, 13, 25, 0, 0xd8, 0x2a]);
        assert_eq!(out.len(), 9 + 5464);
    }

    fn of_keys(keys: std::ops::Range<u64>) -> Cardinality {
        let mut cardinality = Cardinality::new();
        keys.for_each(|key| cardinality.add(&key.to_be_bytes()));
        cardinality
    }

    /// Four standard errors.
    fn assert_about(found: f64, wanted: f64) {
        assert!(
            (found - wanted).abs() <= 0.046 * wanted + 0.5,
            "{found} instead of {wanted}"
        );
    }

    #[test]
    fn as_many_keys_are_estimated_as_there_are() {
        for count in [0, 1, 10, 1_000, 8_192, 20_000, 40_000, 100_000, 1_000_000] {
            assert_about(of_keys(0..count).estimate(), count as f64);
        }
    }

    #[test]
    fn keys_of_several_count_once() {
        for (few, many) in [(100, 1_000), (100, 50_000), (30_000, 50_000)] {
            let mut merged = Cardinality::new();
            merged.merge(&of_keys(0..many).sketch());
            merged.merge(&of_keys(many - few / 2..many + few / 2).sketch());
            assert_about(merged.estimate(), (many + few / 2) as f64);
        }
    }

    #[test]
    fn what_is_stored_reads_back_and_the_sparse_form_is_not_known() {
        for count in [0, 1, 500, 100_000] {
            let keys = of_keys(0..count);
            let mut stored = Vec::new();
            keys.encode(&mut stored);
            let read = Cardinality::decode(&stored).unwrap().unwrap();
            assert_eq!(read.registers, keys.registers);
            assert!(Cardinality::decode(&stored[..stored.len() - 1]).is_err());
            stored[6] = 1;
            assert!(Cardinality::decode(&stored).unwrap().is_none());
        }
    }
}
