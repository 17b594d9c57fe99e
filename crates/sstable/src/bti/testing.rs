//! Helpers for the tests of this folder: numbers from a fixed seed.

/// xorshift64*: good enough to make keys, the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }

    /// Returns a number of any magnitude: small ones are as likely as large ones.
    pub fn integer(&mut self) -> i64 {
        let shift = self.below(64);
        self.next().cast_signed() >> shift
    }

    /// Up to a length, of an alphabet.
    pub fn bytes(&mut self, length_max: usize, alphabet: &[u8]) -> Vec<u8> {
        let length = self.below(length_max + 1);
        self.bytes_exact(length, alphabet)
    }

    pub fn bytes_exact(&mut self, length: usize, alphabet: &[u8]) -> Vec<u8> {
        (0..length)
            .map(|_| alphabet[self.below(alphabet.len())])
            .collect()
    }
}
