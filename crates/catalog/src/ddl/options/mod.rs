//! The options of `WITH`: read from the text the parser keeps, checked against Cassandra's bounds.

mod property;
mod table_options;

mod caching;
mod change_log;
mod compaction;
mod compression;
mod rate_limit;
mod retry_policy;
mod size;

pub(crate) use change_log::read as read_change_log;
pub(crate) use compaction::of_change_log as compaction_of_change_log;
pub(crate) use property::PropertyReader;
pub(crate) use table_options::{TABLE_PROPERTIES, TableOptions};
