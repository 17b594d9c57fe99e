//! The indexes of format `big`: Index.db, Summary.db, and Blocks.db, which is ours.

pub(crate) mod block_file;
pub(crate) mod block_file_writer;
pub(crate) mod index;
pub(crate) mod summary;
