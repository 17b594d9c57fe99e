//! One shard's tables: where writes go to, and where reads come from.
//!
//! A [`ShardStore`] belongs to one thread and never blocks on another. Flushes and compactions leave it as
//! [`BackgroundJob`]s over immutable data, run wherever the caller likes, and come back as results.

mod answer;
mod table;

mod shard;

pub use shard::{ShardStore, StoreOptions};
