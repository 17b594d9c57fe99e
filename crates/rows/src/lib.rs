//! Packed rows: the one form of a row in updates, logs, memtables, SSTables and merges.
//!
//! Everything that holds rows speaks it ([`row`]): a memtable stores it, an SSTable reader produces it, compaction merges it,
//! and a query's sink reads its values in place. A write arrives as a packed [`update`].

pub mod clustering;
pub mod data_size;
pub mod deletion;
pub mod guardrails;
pub mod layout;
pub mod partition_range;
pub mod row;
pub mod update;
