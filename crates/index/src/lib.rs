//! Secondary indexes as far as values go: which terms a row has under an index, and which terms a query looks for.
//!
//! A term is a byte string whose plain order is the order of the values. An index narrows a scan and never decides: it may
//! give rows that do not match, since terms are cut and rows are overwritten, and never leaves one out that does.

pub mod text;

mod collation;
mod column;
mod query;
mod term;

#[cfg(test)]
mod tests;

pub use collation::Collation;
pub use column::{IndexedColumn, Place};
pub use query::{IndexPredicate, TermQuery};
pub use term::{ANY_TERM, TERM_BYTES_MAX};
