//! Trie-indexed SSTables, Cassandra's format `bti`: instead of Index.db and Summary.db they have Partitions.db, a trie
//! of partition keys, and Rows.db, a trie of the blocks of each large partition.
//!
//! Tries are made of byte strings whose order is that of the keys ([`byte_comparable`]). Their nodes are packed in
//! pages of 4 KiB, children before parents, so that a lookup reads few pages and a pointer only ever points back.

mod byte_comparable;

mod node;
mod trie_reader;
mod trie_writer;

mod partition_index;
mod row_index;
mod sized_integer;

mod index_reader;
mod index_writer;

#[cfg(test)]
pub(crate) mod testing;

pub(super) use index_reader::{BtiIndex, BtiIndexScan};
pub(super) use index_writer::BtiIndexWriter;
pub(crate) use row_index::TrieBlocks;
pub(super) use trie_reader::{PinnedPage, TrieFile};
