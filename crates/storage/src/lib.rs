//! One shard's storage: commit log, memtables, SSTables, compaction.
//!
//! Everything that holds rows speaks one packed form ([`row`]): a memtable stores it, an SSTable reader produces it,
//! compaction merges it, and a query's sink reads its values in place. A write arrives as a packed
//! [`update`] which the commit log stores verbatim and the memtable merges in.

pub mod clustering;
pub mod deletion;
pub mod layout;
pub mod row;
pub mod update;

pub mod read;
pub mod read_state;
pub mod source;

pub mod memtable;
pub mod merge;

pub mod commitlog;

pub mod sstable;

pub mod row_cache;

pub mod compaction;
pub mod guardrails;

pub mod store;

pub mod error;

pub use store::ShardStore;
