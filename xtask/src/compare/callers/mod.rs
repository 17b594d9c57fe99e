//! `cargo xtask compare callers`: many callers behind one client, ours and the drivers that applications use.

mod client;
mod cost;
mod throttle;
mod workers;

use clap::Subcommand;

use crate::TaskError;

#[derive(Subcommand)]
pub enum Page {
    /// From 1,000 to 500,000 workers, with drivers and with `helenus bench run`
    Workers(workers::Arguments),
    /// Many workers on one client object, each reading one row again and again
    Client(client::Arguments),
    /// Processor time of a request for the client, ours and other drivers
    Cost(cost::Arguments),
    /// The limit that the client finds beside limits chosen by hand
    Throttle(throttle::Arguments),
}

pub fn run(page: &Page) -> Result<(), TaskError> {
    match page {
        Page::Workers(arguments) => workers::run(arguments),
        Page::Client(arguments) => client::run(arguments),
        Page::Cost(arguments) => cost::run(arguments),
        Page::Throttle(arguments) => throttle::run(arguments),
    }
}
