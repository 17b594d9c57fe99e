//! Several sources of rows as one: newest wins, deletions hide what is older.

mod partition;
mod scan;

pub use partition::{HIDDEN_ELEMENTS_MAX, MergedCursor};
pub use scan::MergedScanner;
