//! Choices of a seeded generator.

use helenus_vfs::{Random, SeededRandom};

/// The generator behind one case.
#[derive(Debug)]
pub struct Chance {
    random: SeededRandom,
    /// True if no element of a list is without bytes where its type has another form.
    fills_lists: bool,
}

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance {
            random: SeededRandom::new(seed),
            fills_lists: false,
        }
    }

    /// Says whether elements of lists have bytes wherever their type has a form with some: Cassandra takes the others for null once they
    /// are bound.
    #[must_use]
    pub fn filling_lists(self, fills_lists: bool) -> Self {
        Chance { fills_lists, ..self }
    }

    pub fn fills_lists(&self) -> bool {
        self.fills_lists
    }

    pub fn bits(&self) -> u64 {
        self.random.next_u64()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A number of things, below `bound`.
    pub fn count(&self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    pub fn one_in(&self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    /// One of the choices, of which there is at least one.
    pub fn pick<'a, T>(&self, choices: &'a [T]) -> &'a T {
        &choices[self.count(choices.len())]
    }

    pub fn bytes(&self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.random.fill(&mut bytes);
        bytes
    }
}
