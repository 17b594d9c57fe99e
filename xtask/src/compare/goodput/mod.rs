//! `cargo xtask compare goodput`: what is answered in time, whatever is offered.

mod curve;
mod disturbed;
mod generators;
mod memory;
mod server;
mod statements;
mod storm;

use clap::Subcommand;

use crate::TaskError;

#[derive(Subcommand)]
pub enum Page {
    /// From a quarter to ten times of what a core can do, with admission and without
    Curve(curve::Arguments),
    /// The same of Cassandra, on the same axes
    Cassandra(curve::LoadArguments),
    /// The statements that applications send: in memory, on two shards, from a disk
    Statements(statements::Arguments),
    /// When something happens to the server, and beside loads that ask for more than there is
    Disturbed(disturbed::Arguments),
    /// By our own generator and by another one, in turns
    Generators(generators::Arguments),
    /// A node's memory while ten times what it can do is offered
    Memory(memory::Arguments),
    /// Connections that can only be refused, beside the floor; and what a steady load notices of them
    Storm(storm::Arguments),
}

pub fn run(page: &Page) -> Result<(), TaskError> {
    match page {
        Page::Curve(arguments) => curve::run(arguments),
        Page::Cassandra(arguments) => curve::run_cassandra(arguments),
        Page::Statements(arguments) => statements::run(arguments),
        Page::Disturbed(arguments) => disturbed::run(arguments),
        Page::Generators(arguments) => generators::run(arguments),
        Page::Memory(arguments) => memory::run(arguments),
        Page::Storm(arguments) => storm::run(arguments),
    }
}
