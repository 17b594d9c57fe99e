//! Indexes of vectors: the rows of one shard by how near a column of theirs is to a vector.
//!
//! An index is of the shard's rows and not of its files: flushes and compactions change nothing in it. It is in memory only,
//! fed where writes are applied, and made again from the rows after a start. Like other indexes it narrows a read and never
//! decides: what it finds are rows that may be near, of which reads take the vector. So rows that are deleted
//! or have expired do no harm, and nothing is read before it is written. Until it has all rows it says nothing.

mod filters;
mod index;
mod own_graph;
mod rows;
mod search;

pub(crate) use filters::{Gathered, OwnGraphLimits, PLACES_PER_QUERY};
pub(crate) use index::{Content, Filled, VectorIndex};
pub use search::{NearestRequest, NearestSearch, NextNearest};
