//! Whole nodes on a disk that loses what was not synced, crashed at random changes of the disk and started again.
//!
//! After each crash the rows are compared with a model: every acknowledged statement is there, every other one is
//! there entirely or not at all (an UNLOGGED batch: per partition), and so are schema changes. The seed chooses statements,
//! crash points and what the disk loses; the threads of a node are real, so a seed repeats its workload but not every
//! interleaving. A failure prints its seed.
//!
//! `HELENUS_SIMULATION_SEEDS=1000` runs that many seeds, `HELENUS_SIMULATION_SEEDS=17..18` only seed 17.

mod simulation;

use std::ops::Range;

/// A few seconds in the dev profile; long runs set the variable.
const SEEDS: Range<u64> = 0..30;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("HELENUS_SIMULATION_SEEDS") else {
        return SEEDS;
    };
    let parsed = match text.split_once("..") {
        Some((start, end)) => start.parse().and_then(|start| Ok(start..end.parse()?)),
        None => text.parse().map(|end| 0..end),
    };
    parsed.unwrap_or_else(|_| panic!("HELENUS_SIMULATION_SEEDS is a number or a range, not {text:?}"))
}

#[test]
fn nothing_acknowledged_is_lost_in_a_crash() {
    let mut flushes = 0;
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| simulation::run(seed));
        match outcome {
            Ok(sstables_seen) => flushes += sstables_seen,
            Err(panic) => {
                eprintln!(
                    "seed {seed}: run it alone with HELENUS_SIMULATION_SEEDS={seed}..{}",
                    seed + 1
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(flushes > 0, "the memory is so small that memtables are flushed");
}
