//! A server that is no node, and a client that says exactly what it is told to: for tests of everything between a socket and
//! what answers.

mod canned;
mod client;
mod server;

pub use canned::{BEYOND_RATE, Canned, PUT_BACK};
pub use client::{Client, PATIENCE, Reply, header};
pub use server::{CannedOptions, CannedServer};
