//! Random numbers that a seed repeats.

/// SplitMix64 (Steele, Lea, Flood 2014): 8 bytes of state, so that a million workers can have one each.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    #[inline]
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `0..bound`; 0 for a bound of 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `0.0..1.0`.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn fill(&mut self, out: &mut Vec<u8>, bytes: usize) {
        let end = out.len() + bytes;
        while out.len() < end {
            out.extend_from_slice(&self.number().to_le_bytes());
        }
        out.truncate(end);
    }
}

/// A well-mixed function of a number: the same key gives the same value.
#[inline]
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
