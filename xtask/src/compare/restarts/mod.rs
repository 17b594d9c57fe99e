//! `cargo xtask compare restarts`: what clients see of a node that is restarted or replaced under them.

mod drivers;
pub mod replacements;
mod rolling;

use clap::Subcommand;

use crate::TaskError;

#[derive(Subcommand)]
pub enum Page {
    /// Reports of unmodified drivers when their node is restarted under them
    Drivers(drivers::Arguments),
    /// A node replaced by other processes, or restarted, under unmodified clients: errors seen, requests executed twice
    Replacements(replacements::Arguments),
    /// Two nodes restarted in turns under load: errors seen, requests executed twice
    Rolling(rolling::Arguments),
}

pub fn run(page: &Page) -> Result<(), TaskError> {
    match page {
        Page::Drivers(arguments) => drivers::run(arguments),
        Page::Replacements(arguments) => replacements::run(arguments),
        Page::Rolling(arguments) => rolling::run(arguments),
    }
}
