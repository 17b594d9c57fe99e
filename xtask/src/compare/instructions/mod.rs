//! `cargo xtask compare instructions`: what single operations cost, counted by callgrind, so that the machine does not matter.

mod admission;
mod errors;
mod operations;

use clap::Subcommand;

use crate::TaskError;

#[derive(Subcommand)]
pub enum Page {
    /// Instructions and allocations per operation, in process
    Operations(operations::Arguments),
    /// Cost of each kind of error beside a success
    Errors,
    /// Cost of admission for a request where nothing is overloaded
    Admission(admission::Arguments),
}

pub fn run(page: &Page) -> Result<(), TaskError> {
    match page {
        Page::Operations(arguments) => operations::run(arguments),
        Page::Errors => errors::run(),
        Page::Admission(arguments) => admission::run(arguments),
    }
}
