//! Metadata on an SSTable's content: Statistics.db, Filter.db, and what gathers them.

pub(crate) mod bloom;
pub(crate) mod cardinality;
pub(crate) mod collector;
pub(crate) mod encoding_stats;
pub(crate) mod header;
pub(crate) mod histogram;
pub(crate) mod statistics;
pub(crate) mod statistics_file;
pub(crate) mod stored_metadata;
