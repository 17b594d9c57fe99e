//! Limits that take turns in one run: what is compared meets the same machine, also where its speed changes by the second.

/// How long a turn is, in slices. The first of them still has the requests of the turn before.
const TURN_SLICES: usize = 3;

pub(super) struct Turns {
    beside: Vec<usize>,
    /// Slices that have ended.
    slices: usize,
}

impl Turns {
    pub fn new(beside: &[usize]) -> Turns {
        Turns {
            beside: beside.to_vec(),
            slices: 0,
        }
    }

    /// The limit of the slice under way; `None` for the adaptive one, whose turn is every other one.
    pub fn limit(&self) -> Option<usize> {
        let turn = self.slices / TURN_SLICES;
        let count = self.beside.len().max(1);
        (turn % 2 == 1)
            .then(|| self.beside.get(turn / 2 % count).copied())
            .flatten()
    }

    /// A slice has ended; the limit, if another one has its turn.
    pub fn next(&mut self) -> Option<Option<usize>> {
        let before = self.limit();
        self.slices += 1;
        let after = self.limit();
        (after != before).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adaptive_limit_has_every_other_turn() {
        let mut turns = Turns::new(&[64, 256]);
        let mut limits = Vec::new();
        for _ in 0..5 * TURN_SLICES {
            limits.push(turns.limit());
            turns.next();
        }
        limits.dedup();
        assert_eq!(limits, [None, Some(64), None, Some(256), None]);
    }

    #[test]
    fn alone_it_has_all_of_them() {
        let mut turns = Turns::new(&[]);
        assert!((0..4 * TURN_SLICES).all(|_| turns.limit().is_none() && turns.next().is_none()));
    }
}
