//! A read made in steps: what it has behind it, and why a step ended.
//!
//! A step is a bounded amount of work on the shard's thread. Nothing of the store is held between two steps: the next
//! one opens its cursors anew behind the last place that was passed, and range deletions that reach over it are
//! announced again there, as they are at the start of every slice.

use helenus_types::Token;

use crate::index::RangePlaces;
use crate::read::ReadStatistics;
use helenus_rows::clustering::{ClusteringBound, Side};
use helenus_sstable::{AbsentPages, ReadTicket};

/// Work that one step may do, in units: one for each row, marker or hidden row that is passed, and one more for every
/// `BYTES_PER_UNIT` of a row. A row costs 0.2 to 1 microsecond, so a step stays well below a millisecond, and opening
/// the cursors again stays below a tenth of it.
pub const STEP_UNITS_MAX: u32 = 512;

/// Copying so many bytes of a row to the answer costs about as much as passing one small row.
pub(crate) const BYTES_PER_UNIT: usize = 512;

/// Units for opening one partition of a scan in one source: finding its data and reading its head.
pub(crate) const PARTITION_UNITS: u32 = 4;

/// One read: where it stands, and what it has cost so far.
#[derive(Debug)]
pub struct ReadState {
    pub statistics: ReadStatistics,
    pub(crate) units_left: u32,
    pub(crate) position: Option<Box<ReadPosition>>,
    /// Pins the pages that were brought for the read.
    pub(crate) ticket: ReadTicket,
    /// How the predicates of the read are asked of their indexes; found out once a read.
    pub(crate) predicates: Vec<PredicateState>,
    /// True if none is left out for what it costs.
    pub(crate) asks_all_indexes: bool,
    /// Nothing that a search by indexes has passed before this token is left to be found, nor was any of it handed out.
    pub(crate) searched_to: Option<Token>,
    /// True if a step ends where a page is not in memory, instead of waiting for the disk.
    pub(crate) suspends: bool,
    /// True if the read takes nothing from the row cache, and leaves all caches as they are.
    pub(crate) bypasses_cache: bool,
}

/// One predicate of a read by indexes.
#[derive(Debug)]
pub(crate) enum PredicateState {
    /// Nothing to gather, or not gathered yet.
    Open {
        /// Places of a range that are worth gathering.
        places_max: usize,
    },
    Gathered(Box<RangePlaces>),
    TooMany,
    /// Gathering the range costs more than looking at the rows that others lead to.
    LeftOut,
}

/// How a step ended.
#[derive(Debug)]
#[must_use]
pub enum ReadProgress {
    /// The sink has all there is, or wants no more.
    Done,
    /// As much was done as one step may; others come first.
    Yield,
    /// The next step needs these pages: they are to be read and handed to [`ShardStore::deliver`].
    ///
    /// [`ShardStore::deliver`]: crate::ShardStore::deliver
    Absent(Box<AbsentPages>),
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
        /// True if the sink knows of the partition.
        is_announced: bool,
    },
    End,
}

impl ReadState {
    /// For a read that waits for the disk on the caller's thread.
    pub fn blocking() -> Self {
        ReadState {
            suspends: false,
            ..Self::suspending()
        }
    }

    /// For a read that ends its step where a page is not in memory.
    #[inline]
    pub fn suspending() -> Self {
        ReadState {
            statistics: ReadStatistics::default(),
            units_left: 0,
            position: None,
            predicates: Vec::new(),
            asks_all_indexes: false,
            searched_to: None,
            ticket: ReadTicket::default(),
            suspends: true,
            bypasses_cache: false,
        }
    }

    /// Nobody is expected to ask for the same again soon: caches are left to those who do.
    pub fn bypass_cache(&mut self) {
        self.bypasses_cache = true;
    }

    /// No index is left out for what it costs to ask it.
    pub fn ask_all_indexes(&mut self) {
        self.asks_all_indexes = true;
    }

    /// Returns whether the predicate of this number is looked at in rows alone, to which other indexes lead.
    pub fn leaves_out(&self, predicate: usize) -> bool {
        matches!(self.predicates.get(predicate), Some(PredicateState::LeftOut))
    }

    /// For several reads that end their steps where a page is not in memory, and are made again from the first until none of them
    /// does: begun with [`Self::begin_attempt`], and each with [`Self::begin_again`]. The pages of all of them stay until then.
    pub fn of_several() -> Self {
        ReadState {
            ticket: ReadTicket::of_several(),
            ..Self::suspending()
        }
    }

    /// Before the first of several reads.
    pub fn begin_attempt(&mut self) {
        self.ticket.begin_attempt();
    }

    /// Bytes of pages that stay for the read.
    pub fn pinned_bytes(&self) -> usize {
        self.ticket.pinned_bytes()
    }

    /// Goes back to the read's beginning, with the pages that were brought for it.
    pub fn begin_again(&mut self) {
        self.position = None;
        self.predicates.clear();
        self.searched_to = None;
        self.statistics = ReadStatistics::default();
    }

    /// For another read on behalf of the same query, which is counted by itself.
    #[must_use]
    pub fn continued(&self) -> Self {
        ReadState {
            bypasses_cache: self.bypasses_cache,
            asks_all_indexes: self.asks_all_indexes,
            ..ReadState::suspending()
        }
    }

    /// Where the next step goes on; none before the first one ended.
    pub fn position(&self) -> Option<&ReadPosition> {
        self.position.as_deref()
    }

    /// Where the read has come to; a step that leaves it there has passed nothing.
    pub(crate) fn place(&self) -> (Option<Box<ReadPosition>>, Option<Token>) {
        (self.position.clone(), self.searched_to)
    }

    /// Returns whether a place in the partition is where this step began.
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
