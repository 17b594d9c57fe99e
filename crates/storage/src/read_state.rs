//! A read made in steps: what it has behind it, and why a step ended.
//!
//! A step is a bounded amount of work on the shard's thread. Nothing of the store is held between two steps: the next
//! one opens its cursors anew behind the last place that was passed, and range deletions that reach over it are
//! announced again there, as they are at the start of every slice.

use helenus_types::Token;

use crate::clustering::{ClusteringBound, Side};
use crate::read::ReadStatistics;

/// Work that one step may do, in units: one for each row, marker or hidden row that is passed, and one more for every
/// [`BYTES_PER_UNIT`] of a row. A row costs 0.2 to 1 microsecond, so a step stays well below a millisecond, and opening
/// the cursors again stays below a tenth of it.
pub const STEP_UNITS_MAX: u32 = 512;

/// Copying so many bytes of a row to the answer costs about as much as passing one small row.
pub(crate) const BYTES_PER_UNIT: usize = 512;

/// Units for opening one partition of a scan in one source: finding its data and reading its head.
pub(crate) const PARTITION_UNITS: u32 = 4;

/// One read: where it stands, and what it has cost so far. Starts anew with [`Default`].
#[derive(Debug)]
pub struct ReadState {
    pub statistics: ReadStatistics,
    /// Steps that were ended before the read was.
    pub pauses: u32,
    pub(crate) units_left: u32,
    pub(crate) position: Option<Box<ReadPosition>>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReadProgress {
    /// The sink has all there is, or wants no more.
    Done,
    /// As much was done as one step may; others come first.
    Yield,
}

/// A place in a read's range; what comes before it in the direction of the read is done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    pub token: Token,
    pub key: Vec<u8>,
    pub place: PartitionPlace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionPlace {
    /// Before everything in the partition.
    Start,
    /// Behind rows and markers of it.
    Within {
        bound: ClusteringBound,
        /// Whether the sink knows of the partition.
        is_announced: bool,
    },
    End,
}

impl Default for ReadState {
    #[inline]
    fn default() -> Self {
        Self::with_units(STEP_UNITS_MAX)
    }
}

impl ReadState {
    /// With another bound on steps than the usual one.
    #[inline]
    pub fn with_units(units: u32) -> Self {
        ReadState {
            statistics: ReadStatistics::default(),
            pauses: 0,
            units_left: units,
            position: None,
        }
    }

    /// Where the next step goes on; none before the first one ended.
    pub fn position(&self) -> Option<&ReadPosition> {
        self.position.as_deref()
    }

    /// Lets the next step do so much work.
    pub fn refill(&mut self, units: u32) {
        self.units_left = units;
    }

    /// Whether a place in the partition is where this step began.
    pub(crate) fn stands_at(&self, prefix: &[u8], side: Side) -> bool {
        match self.position().map(|position| &position.place) {
            Some(PartitionPlace::Within { bound, .. }) => *bound.prefix == *prefix && bound.side == side,
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn spend(&mut self, units: u32) {
        self.units_left = self.units_left.saturating_sub(units);
    }
}

/// Where a read in this direction goes on behind a row.
pub(crate) fn side_behind(reversed: bool) -> Side {
    if reversed { Side::Before } else { Side::After }
}
