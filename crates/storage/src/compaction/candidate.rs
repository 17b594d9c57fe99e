//! Input and output of strategies: metadata of SSTables, the moment at which they choose, and the task they choose.

use std::sync::Arc;

use helenus_sstable::KeySketch;
use helenus_types::Token;

/// Levels that leveled compaction can have, level 0 included; Cassandra's bound.
pub const LEVELS: usize = 9;

/// An SSTable as a strategy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The caller's name for it; larger is newer.
    pub generation: u64,
    /// On the disk.
    pub bytes: u64,
    pub level: u32,
    pub timestamp_min: i64,
    pub timestamp_max: i64,
    /// Seconds since the Unix epoch: when the last of its content expires or was deleted; never for what stays.
    pub local_deletion_s_max: u32,
    pub first: Token,
    pub last: Token,
    pub partitions: u64,
    /// Where it is known which partitions these are.
    pub keys: Option<Arc<KeySketch>>,
    /// The share of its cells that are tombstones which gc_grace has passed by.
    pub droppable_tombstones: f64,
    /// Seconds since the Unix epoch; 0 where the file is older than the process.
    pub created_at_s: u32,
    /// A compaction works on it; nobody else may.
    pub is_busy: bool,
}

/// Circumstances of a choice, beside the candidates.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Seconds since the Unix epoch.
    pub now_s: u32,
    /// `now_s` less gc_grace.
    pub gc_before_s: u32,
    /// The smallest timestamp of any unflushed write; `i64::MAX` where there is none.
    pub memtable_timestamp_min: i64,
    /// Bytes that a flush of this shard makes, on average; 0 before the first.
    pub flush_bytes: u64,
    /// Into how many parts the ring is cut, of which this shard has one.
    pub ring_parts: u16,
    pub idle_levels: IdleLevels,
    pub merge_yield: MergeYield,
}

/// How often leveled compaction has sent something up since it sent something to each level, in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleLevels(pub [u32; LEVELS]);

/// The part that merges of a table's SSTables save of what they would if each partition were kept once. Little where
/// partitions grow by new rows; learned from merges of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MergeYield {
    /// From 0 to 1.
    pub part: f64,
    pub is_measured: bool,
}

/// A compaction to do: its inputs, and the shape of its output.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// By generation, ascending. Merged..
    pub inputs: Vec<u64>,
    /// ..or removed unread, since all they hold has expired and hides nothing.
    pub expired: Vec<u64>,
    pub output: OutputShape,
    /// The one input stays as it is, but for its level.
    pub is_relabelling: bool,
}

/// How the output of a compaction is cut into SSTables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputShape {
    pub level: u32,
    pub split: Split,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Split {
    /// One SSTable.
    Whole,
    /// A new SSTable at the first partition after so many bytes on the disk.
    BySize { sstable_bytes: u64 },
    /// A new SSTable at each boundary of this many equal parts of the whole ring.
    ByShard { shards: u32 },
    /// Halves: the first SSTable takes half of the input's bytes, the next half of what is left, down to the minimum.
    Halving {
        bytes_total: u64,
        sstable_bytes_min: u64,
    },
}

impl OutputShape {
    pub(crate) const WHOLE: OutputShape = OutputShape {
        level: 0,
        split: Split::Whole,
    };
}

impl Task {
    /// Returns the size of the SSTables to merge, in bytes on the disk.
    pub fn bytes(&self, candidates: &[Candidate]) -> u64 {
        bytes_of(
            candidates
                .iter()
                .filter(|candidate| self.inputs.contains(&candidate.generation)),
        )
    }

    pub(super) fn merge<'a>(inputs: impl IntoIterator<Item = &'a Candidate>, output: OutputShape) -> Self {
        let mut inputs: Vec<u64> = inputs.into_iter().map(|input| input.generation).collect();
        inputs.sort_unstable();
        inputs.dedup();
        Task {
            inputs,
            expired: Vec::new(),
            output,
            is_relabelling: false,
        }
    }
}

impl IdleLevels {
    /// Leveled compaction sends something up to a level.
    pub(crate) fn sent_up_to(&mut self, level: u32) {
        self.0
            .iter_mut()
            .for_each(|count| *count = count.saturating_add(1));
        if let Some(count) = self.0.get_mut(level as usize) {
            *count = 0;
        }
    }
}

impl Candidate {
    pub fn overlaps(&self, other: &Candidate) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The bytes of several.
pub(super) fn bytes_of<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> u64 {
    candidates.into_iter().map(|candidate| candidate.bytes).sum()
}
