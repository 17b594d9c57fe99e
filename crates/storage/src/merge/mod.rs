//! Several sources of rows as one: newest wins, deletions hide what is older.

mod partition;
mod scan;

pub(crate) use partition::HIDDEN_ELEMENTS_MAX;
pub use partition::MergedCursor;
pub use scan::MergedScanner;
