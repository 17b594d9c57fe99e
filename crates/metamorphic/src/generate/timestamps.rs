//! The timestamps of a history's statements: mostly later ones for later statements, some equal, some the other way round.

use helenus_storage_model::Chance;

/// Where a history is.
#[derive(Debug, Default)]
pub struct Timestamps {
    steps: u64,
}

/// Timestamp of the first statement, in microseconds: 2020-09-13T12:26:40Z, before the clock of every history.
const BASE_US: i64 = 1_600_000_000_000_000;
/// Between two timestamps that may be equal; the places in between are for what must not tie.
const STEP_US: i64 = 1_000_000;
/// By how many statements a timestamp may be ahead: these tie, and come in another order than they were made in.
const REACH: u64 = 8;

impl Timestamps {
    pub fn advance(&mut self) {
        self.steps += 1;
    }

    pub fn any(&self, chance: &Chance) -> i64 {
        self.at(self.steps + chance.below(REACH))
    }

    /// One that no other statement has.
    pub fn alone(&self, chance: &Chance) -> i64 {
        self.any(chance) + 1 + self.steps as i64 % (STEP_US - 1)
    }

    /// Not before anything that was written, and before everything that will be.
    pub fn boundary(&mut self) -> i64 {
        self.steps += REACH;
        let boundary = self.at(self.steps);
        self.steps += 1;
        boundary
    }

    fn at(&self, steps: u64) -> i64 {
        BASE_US + steps as i64 * STEP_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_parts_what_was_written_from_what_will_be() {
        let chance = Chance::new(1);
        let mut timestamps = Timestamps::default();
        for _ in 0..100 {
            timestamps.advance();
            let before = timestamps.alone(&chance).max(timestamps.any(&chance));
            let boundary = timestamps.boundary();
            assert!(before <= boundary);
            assert!(timestamps.any(&chance).min(timestamps.alone(&chance)) > boundary);
        }
    }
}
