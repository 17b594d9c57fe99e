//! Rewriting SSTables: which to merge, what of them to keep, and how the new take the place of the old.

mod options;

mod candidate;
mod strategy;

mod leveled;
mod redundancy;
mod size_tiered;
mod time_window;
mod tombstones;
mod unified;

mod overlaps;
mod parts;
mod split;

mod compactors;
mod pace;

mod removal;
mod rewrite;

pub use candidate::{Candidate, IdleLevels, MergeYield, Moment, OutputShape, Split, Task};
pub use compactors::CompactionLimits;
pub(crate) use compactors::CompactorPermit;
pub use options::{
    CompactionOptions, LeveledOptions, OverlapInclusion, SizeTieredOptions, Strategy, TimeWindowOptions,
    TombstoneOptions, UnifiedOptions,
};
pub use pace::{Pace, PaceController, ThroughputLimit, WINDOW_NS, Window};
pub(crate) use redundancy::distinct_partitions_of;
pub use removal::{Removal, RemovalError};
pub(crate) use removal::{decode_sstables, encode_sstables};
pub(crate) use rewrite::RowGuard;
pub use rewrite::{
    PurgeRule, RewriteError, RewriteTarget, Rewritten, Stopped, Watch, WrittenRows, rewrite_partition,
};
pub(crate) use split::Splitter;
