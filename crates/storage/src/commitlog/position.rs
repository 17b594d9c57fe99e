//! Places in a shard's log.

/// A place in the log of one shard. Segments are numbered upwards and never reused, so later is larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    pub segment: u64,
    /// Bytes from the segment's start to the end of the record.
    pub offset: u32,
}
