//! Nearest neighbours of float vectors, as far as vectors go: how alike two are, and graphs that lead to the likest.
//!
//! A graph knows vectors by number and keeps them in eight bits a component: what it finds is what its owner then looks at
//! with whole vectors. It knows nothing of rows, memory budgets or time; whoever searches says how far.

mod kernel;
pub mod options;
mod similarity;

pub use options::VectorOptions;
pub use similarity::{Similarity, VectorFault};
