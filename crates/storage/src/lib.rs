//! One shard's storage: commit log, memtables, SSTables, compaction.
//!
//! Rows are packed as [`helenus_rows`] says, files are read and written by [`helenus_sstable`]. A write arrives as a packed
//! [`update`](helenus_rows::update), which the commit log stores verbatim and the memtable merges in.

pub mod read;
pub mod read_state;

pub mod index;
pub mod memtable;
pub mod merge;

pub mod commitlog;

pub mod row_cache;

pub mod compaction;

pub mod vectors;

pub mod store;

pub mod error;

pub use store::ShardStore;
