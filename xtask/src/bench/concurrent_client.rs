//! `cargo xtask bench concurrent-client`: 50,000 workers share one client object and read one row.

use clap::Args;

use crate::TaskError;

#[derive(Args)]
pub struct Arguments {
    /// Workers that share the client
    #[arg(long, default_value_t = 50_000)]
    workers: u32,
    /// Reads of each worker, one after the other
    #[arg(long, default_value_t = 200)]
    queries: u32,
}

pub fn run(arguments: &Arguments) -> Result<(), TaskError> {
    println!("{} x {}", arguments.workers, arguments.queries);
    Ok(())
}
