//! Cost of a refusal beside what it saves, by callgrind: instructions are the same on every run.

use super::Context;
use crate::TaskError;
use crate::compare::callgrind;
use crate::process::run_quietly;
use crate::program::Tally;

/// Most instructions of a refusal, in percent of a served write's.
const SHARE_MAX: u64 = 15;

const INSTRUCTIONS_MAX: u64 = 5_000;

/// Operations of the two runs whose difference is counted.
const FEW: u64 = 2_000;
const MANY: u64 = 12_000;

pub fn run(_: &Context) -> Result<Tally, TaskError> {
    let mut tally = Tally::default();
    if run_quietly(std::process::Command::new("valgrind").arg("--version")).is_err() {
        println!("  skip: valgrind is not installed");
        tally.skipped += 1;
        return Ok(tally);
    }
    let served = instructions(&["--write"])?;
    let refused = instructions(&["--write", "--asked", "refused"])?;
    println!("  a write takes {served} instructions, its refusal {refused}");
    let is_cheap = refused <= INSTRUCTIONS_MAX && refused * 100 <= served * SHARE_MAX;
    tally.check(
        "a refusal is cheap",
        is_cheap
            .then_some(())
            .ok_or_else(|| format!("{refused} instructions, {served} for a served write")),
    );
    Ok(tally)
}

fn instructions(flags: &[&str]) -> Result<u64, TaskError> {
    callgrind::instructions_per_operation(FEW, MANY, |operations| {
        callgrind::simple_query(&[flags, &["--partitions", "1000"]].concat(), operations)
    })
}
