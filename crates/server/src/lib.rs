//! The doors of a node: the CQL native transport and the metrics page, and the configuration that opens them.
//!
//! A door accepts bytes and hands whole messages to the shard it lives on; it knows nothing of CQL.

pub mod config;
mod connection;
mod door;
mod listener;
mod metrics_page;
mod serve;

pub use serve::{ServeError, ServeOptions, Server};
