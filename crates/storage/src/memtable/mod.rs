//! A table's newest writes, in memory and in order, until they are flushed.
//!
//! One memtable takes writes; when it is sealed it becomes an `Arc` that is read and flushed but never changed.
//! Everything in it is counted in bytes, allocations' overhead included, against the shard's budget.

mod partition;
mod range_tombstones;
mod rewrite;
mod rows;

mod cursor;
mod scanner;
mod table;

pub use cursor::MemtableCursor;
pub use partition::Partition;
pub use range_tombstones::{RangePosition, RangeTombstone, RangeTombstones};
pub use rows::{PackedRow, RowPosition, Rows};
pub use scanner::{MemtableScanner, Partitions};
pub use table::Memtable;

/// Overhead of the allocator for each allocation, in bytes, rounded up: mimalloc's size classes waste an eighth of a typical
/// 100-byte row, plus the pointer's own 16 bytes in the holder.
const ALLOCATION_OVERHEAD_BYTES: usize = 16;
