//! How slow things are in one seed: syncs, flushes and compactions, and messages between shards.

use std::sync::Arc;
use std::time::Duration;

use helenus_vfs::{Random, SeededRandom};

/// The delays of one seed. Most seeds have a calm sea in most respects, so that each trouble is also seen alone.
#[derive(Debug)]
pub struct Weather {
    random: Arc<SeededRandom>,
    log: Delays,
    background: Delays,
    messages: Delays,
}

/// One delay is short, or with a chance long, or with a smaller one a hang.
#[derive(Clone, Copy, Debug)]
struct Delays {
    short_us: u64,
    long_us: u64,
    long_of_1000: u64,
    hang_us: u64,
    hang_of_1000: u64,
}

impl Delays {
    fn of_seed(random: &SeededRandom, hang_us: u64) -> Delays {
        let rough = random.below(3);
        Delays {
            short_us: [0, 50, 500, 2_000][random.below(4) as usize],
            long_us: [5_000, 50_000][random.below(2) as usize],
            long_of_1000: [0, 20, 200][rough as usize],
            hang_us,
            hang_of_1000: if random.below(4) == 0 { 3 } else { 0 },
        }
    }

    fn next(&self, random: &SeededRandom) -> Duration {
        let chance = random.below(1_000);
        let most_us = if chance < self.hang_of_1000 {
            self.hang_us
        } else if chance < self.hang_of_1000 + self.long_of_1000 {
            self.long_us
        } else {
            self.short_us
        };
        Duration::from_micros(random.below(most_us + 1))
    }
}

impl Weather {
    pub fn of_seed(random: Arc<SeededRandom>) -> Weather {
        Weather {
            // Longer than any statement waits.
            log: Delays::of_seed(&random, 10_000_000),
            background: Delays::of_seed(&random, 10_000_000),
            messages: Delays::of_seed(&random, 1_000_000),
            random,
        }
    }

    /// Until a batch of the log is written and synced.
    pub fn log(&self) -> Duration {
        self.log.next(&self.random)
    }

    /// Until a flush or a compaction has been done.
    pub fn background(&self) -> Duration {
        self.background.next(&self.random)
    }

    /// Returns whether no message hangs or takes long.
    pub fn messages_are_calm(&self) -> bool {
        self.messages.hang_of_1000 == 0 && self.messages.long_of_1000 == 0
    }

    /// Until a shard looks at messages that have come.
    pub fn message(&self) -> Duration {
        self.messages.next(&self.random)
    }
}
