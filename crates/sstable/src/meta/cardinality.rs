//! How many distinct partitions there are across SSTables: HyperLogLog++ registers (Heule, Nunkesser, Hall: HyperLogLog
//! in Practice, 2013), in the byte form of the `stream-lib` library that Cassandra stores.

/// Registers are picked by this many bits of the hash; Cassandra's choice, as is the next one.
const PRECISION: u32 = 13;
/// Precision of the sparse form, which is not written here but named in the head.
const SPARSE_PRECISION: u8 = 25;
const REGISTERS: usize = 1 << PRECISION;
/// Six registers of five bits in each 32-bit word.
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
const VERSION: i32 = -2;
const FORM_NORMAL: u8 = 0;

#[derive(Clone, Debug)]
pub(crate) struct Cardinality {
    registers: Vec<u8>,
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

    pub fn encode(&self, out: &mut Vec<u8>) {
        let words = REGISTERS.div_ceil(REGISTERS_PER_WORD);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[PRECISION as u8, SPARSE_PRECISION, FORM_NORMAL]);
        push_low_first_varint(out, (words * 4) as u32);
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

/// Seven bits a byte, lowest first, the top bit set on all but the last.
fn push_low_first_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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
}
