//! Rows that were read from SSTables, in memory.
//!
//! The cache holds the merged state of all SSTables of a table, for the places that were read and no others:
//! memtables are merged on top by each read, so a write never touches it. What it knows is kept as a step function
//! over clustering order: every place of a cached partition is either unknown, or known together with the range
//! deletion in force there. A slice that lies in known places is answered without an SSTable; of another one only
//! the gaps are read, and filled in.
//!
//! Partitions are cut in packed `block`s of about 4 KiB, which are also what is evicted. When a memtable has become
//! an SSTable, [`absorb`](RowCache::absorb) takes it over; compaction changes nothing that a read could see.

mod block;
mod builder;
mod item;

mod partition;
mod walk;

mod cursor;
mod fill;

mod admission;
mod cache;
mod index;

mod absorb;

pub use absorb::AbsorbedTo;
pub use cache::{RowCache, RowCacheCounts};
pub(crate) use cursor::GAPS_MAX;
pub use cursor::{CachedCursor, Gap, Step};
pub use fill::{Recorder, RecordingCursor};
pub use partition::{CachedPartition, CachedRow};
