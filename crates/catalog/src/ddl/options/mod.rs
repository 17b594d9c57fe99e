//! The options of `WITH`: read from the text the parser keeps, checked against Cassandra's bounds.

mod property;
mod table_options;

mod caching;
mod compaction;
mod compression;
mod rate_limit;
mod retry_policy;
mod size;

pub(crate) use property::PropertyReader;
pub(crate) use table_options::{TABLE_PROPERTIES, TableOptions};
