//! The index of an SSTable, in the form of its version: where its partitions lie, and the blocks of large ones.

pub(crate) mod blocks;
pub(crate) mod entry;
pub(crate) mod fences;
pub(crate) mod found_entries;
pub(crate) mod reader;
pub(crate) mod writer;
