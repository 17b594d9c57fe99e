//! Numbers that look random and are the same from the same seed: of splitmix64.

/// For levels of nodes, and for tests.
#[derive(Clone, Debug)]
pub struct Random(u64);

pub fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(mixed(seed))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// At least 0 and less than 1.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of a normal distribution, by Box and Muller.
    pub fn normal(&mut self) -> f32 {
        let (radius, angle) = (1.0 - self.unit(), self.unit());
        ((-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()) as f32
    }
}
