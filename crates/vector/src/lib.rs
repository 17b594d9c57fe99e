//! Nearest neighbours of float vectors, as far as vectors go: how alike two are, and graphs that lead to the likest.
//!
//! A graph knows vectors by number and keeps them in eight bits a component: what it finds is what its owner then looks at
//! with whole vectors. It knows nothing of rows, memory budgets or time; whoever searches says how far.

mod codes;
mod filter;
mod graph;
mod insertion;
mod kernel;
mod links;
mod near;
pub mod options;
pub mod random;
pub mod sample;
mod search;
mod similarity;
mod walk;

#[cfg(test)]
mod tests;

pub use graph::Graph;
pub use insertion::Insertion;
pub use near::{Near, NodeSet};
pub use options::VectorOptions;
pub use search::Search;
pub use similarity::{Similarity, VectorFault};
