//! Rewriting SSTables: which to merge, what of them to keep, and how the new take the place of the old.

mod options;
mod size_tiered;

mod removal;
mod rewrite;

pub use options::CompactionOptions;
pub use removal::{Removal, RemovalError};
pub(crate) use removal::{decode_sstables, encode_sstables};
pub use rewrite::{PurgeRule, RewriteError, Rewritten, rewrite_partition};
pub use size_tiered::{Candidate, choose};
