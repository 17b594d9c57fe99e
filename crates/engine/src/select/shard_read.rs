//! Reading on a shard: one read of a SELECT, and the rows it answers with.

use std::net::IpAddr;

use helenus_protocol::{Consistency, FailureReason};
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Side};
use helenus_rows::partition_range::{PartitionBound, PartitionRange};
use helenus_storage::read::{ReadCommand, ReadStatistics};
use helenus_storage::read_state::{PartitionPlace, ReadPosition, ReadProgress, ReadState};
use helenus_storage::store::FilterGathering;
use helenus_types::token_of;

use super::nearest_reading::NearestReading;
use super::paging::{PagePlace, Position};
use super::plan::{Output, SelectPlan};
use super::read_partitions::ReadPartitions;
use super::rows_sink::RowsSink;
use super::shard_rows::{ShardRead, ShardRows};
use super::tombstones::{self, too_many_tombstones};
use crate::CqlError;
use crate::error::ReplicaFailure;
use crate::execute::{QueryOptions, answer_too_long};
use crate::row_store::{RowStore, read_failure};

/// The bytes of rows after which a shard answers although more are wanted: what one message between shards, and one
/// step of a scan, may hold.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// As [`ANSWER_BYTES_MAX`], where values are computed from the rows: long numbers take a tenth of a millisecond each, and
/// 64 KiB have 15 of them.
const COMPUTED_ANSWER_BYTES_MAX: usize = 64 << 10;

/// As [`COMPUTED_ANSWER_BYTES_MAX`], where values become JSON: a floating-point number of eight bytes takes up to half a microsecond.
const JSON_ANSWER_BYTES_MAX: usize = 4 << 10;

/// Divisor of the bytes that the whole answer may take: it has room for this many answers of a shard.
pub(super) const ANSWER_SHARE: usize = 8;

/// Bytes of rows of plain columns after which a shard answers.
pub(super) fn answer_bytes_of_shard_max(options: &QueryOptions<'_>) -> usize {
    ANSWER_BYTES_MAX.min(options.answer_bytes_max / ANSWER_SHARE)
}

/// A [`ShardRead`] under way on its shard: made in steps, between which the shard serves others.
pub struct ShardReading<'p> {
    pub(super) plan: &'p SelectPlan,
    pub(super) read: ShardRead,
    pub(super) sink: RowsSink<'p>,
    pub(super) stage: Stage,
    pub(super) state: ReadState,
    /// How far it has come with what that search is narrowed to.
    pub(super) gathering: FilterGathering,
    /// Search of its stage for the nearest rows.
    pub(super) nearest: Option<Box<NearestReading>>,
    /// Bytes of the answer's rows at most, where they cannot be left for another read.
    answer_bytes_max: usize,
    /// Statistics of the reads before this one: of the stage before, of rows that were found near.
    pub(super) earlier: ReadStatistics,
    pub(super) now_s: u32,
    is_paged: bool,
    consistency: Consistency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The partition that the read before this one stopped in.
    Begun,
    /// Rows that an index of vectors finds near.
    Nearest,
    /// The partitions behind it, or all of them.
    Rest,
    Done,
}

impl SelectPlan {
    /// Reads on the shard that owns the partitions (or a virtual table's rows).
    pub fn read_on_shard<'p>(&'p self, options: &QueryOptions<'_>, read: ShardRead) -> ShardReading<'p> {
        let is_empty = read.clause.slices.is_empty() && !(self.selects_statics && self.returns_static_rows);
        let stage = match &read.after {
            _ if is_empty => Stage::Done,
            _ if read.clause.nearest.is_some() && matches!(read.partitions, ReadPartitions::Range { .. }) => {
                Stage::Nearest
            }
            Some(Position { place: Some(_), .. }) => Stage::Begun,
            _ => Stage::Rest,
        };
        let bytes_max = match self.output {
            Output::Columns(_) => answer_bytes_of_shard_max(options),
            Output::Expressions { .. } if self.writes_json => JSON_ANSWER_BYTES_MAX,
            Output::Expressions { .. } => COMPUTED_ANSWER_BYTES_MAX,
        };
        let sink = RowsSink::new(self, &read, bytes_max, options.now_s);
        ShardReading {
            plan: self,
            read,
            sink,
            stage,
            state: ReadState::suspending(),
            gathering: FilterGathering::default(),
            nearest: None,
            answer_bytes_max: options.answer_bytes_max,
            earlier: ReadStatistics::default(),
            now_s: options.now_s,
            is_paged: self.is_cut_into_pages(options),
            consistency: options.consistency,
        }
    }

    /// Runs all steps of a read on a store that needs no disk.
    pub fn read_at_once<R: RowStore>(
        &self,
        store: &mut R,
        options: &QueryOptions<'_>,
        read: ShardRead,
    ) -> Result<ShardRows, CqlError> {
        let mut reading = self.read_on_shard(options, read);
        loop {
            match reading.step(store)? {
                ReadProgress::Done => return Ok(reading.finish()),
                ReadProgress::Yield => {}
                ReadProgress::Absent(pages) => {
                    return Err(CqlError::server(format_args!(
                        "{} is read without a disk",
                        pages.path().display()
                    )));
                }
            }
        }
    }

    /// Returns whether a page of the result may end before it is full.
    pub(super) fn is_cut_into_pages(&self, options: &QueryOptions<'_>) -> bool {
        let sums_up = self.grouping.is_some() || self.has_aggregates();
        options.page_rows().is_some() && !sums_up && !self.is_sorted_later()
    }

    /// Where a read goes on behind a row.
    pub(super) fn side_behind(&self) -> Side {
        if self.is_reversed {
            Side::Before
        } else {
            Side::After
        }
    }
}

/// The read of one copy by an index that is still being made, in Cassandra's words.
fn index_not_available(consistency: Consistency, address: IpAddr) -> CqlError {
    CqlError::ReadFailure(Box::new(ReplicaFailure {
        consistency,
        received: 0,
        block_for: 1,
        failures: vec![(address, FailureReason::IndexNotAvailable)],
        detail: false,
    }))
}

impl ShardReading<'_> {
    /// Before the first step: with the pages that were brought for another try of the same read.
    pub fn begin_with(&mut self, state: ReadState) {
        self.state = state;
    }

    /// Names of the indexes that tell which rows may match, and whether each was asked: one was not where that would have cost more
    /// than looking at the rows that others led to.
    pub fn index_names(&self) -> impl Iterator<Item = (&str, bool)> {
        let clause = &self.read.clause;
        let asked = clause.index.iter().enumerate();
        let asked = asked.map(|(number, predicate)| (predicate.index, !self.state.leaves_out(number)));
        let nearest = clause.nearest.iter().map(|nearest| (nearest.index, true));
        let named = |(id, is_asked)| {
            let index = self.plan.table.indexes.iter().find(|index| index.id == id)?;
            Some((&*index.name, is_asked))
        };
        asked.chain(nearest).filter_map(named)
    }

    pub fn step<R: RowStore>(&mut self, store: &mut R) -> Result<ReadProgress, CqlError> {
        let mut needed = self.plan.needed_indexes.iter();
        if needed.any(|index| !store.is_index_ready(self.plan.table.id, *index)) {
            return Err(index_not_available(self.consistency, store.address()));
        }
        while self.stage != Stage::Done {
            if self.plan.bypasses_cache {
                self.state.bypass_cache();
            }
            if self.plan.asks_all_indexes() {
                self.state.ask_all_indexes();
            }
            let progress = match self.stage {
                Stage::Nearest => match self.step_nearest(store)? {
                    Some(progress) => progress,
                    None => continue,
                },
                Stage::Begun => self.step_in_begun_partition(store)?,
                _ => self.step_in_rest(store)?,
            };
            let is_done = matches!(progress, ReadProgress::Done);
            if self.sink.top_bytes() > self.answer_bytes_max {
                return Err(answer_too_long(self.answer_bytes_max));
            }
            if self.tombstones() > store.tombstone_limits().fail {
                if !self.is_paged {
                    return Err(too_many_tombstones(self.consistency, store.address()));
                }
                if !is_done {
                    self.cut_page();
                }
            }
            if !is_done && self.stage != Stage::Done {
                return Ok(progress);
            }
            if self.stage == Stage::Begun && self.sink.rows.stopped_at.is_none() {
                self.stage = Stage::Rest;
                self.earlier = self.statistics();
                self.state = ReadState::suspending();
            } else {
                self.stage = Stage::Done;
            }
        }
        if self.tombstones() > store.tombstone_limits().warn {
            let warning = tombstones::warning(self.plan, &self.read, &self.statistics(), &self.sink.key);
            self.sink.rows.warnings.push(warning);
        }
        Ok(ReadProgress::Done)
    }

    fn tombstones(&self) -> u64 {
        self.earlier.tombstones + self.state.statistics.tombstones
    }

    /// Returns the statistics of both stages.
    pub(super) fn statistics(&self) -> ReadStatistics {
        ReadStatistics {
            rows_live: self.earlier.rows_live + self.state.statistics.rows_live,
            tombstones: self.tombstones(),
            by_index: self.earlier.by_index || self.state.statistics.by_index,
            ..self.state.statistics
        }
    }

    /// Ends the page where the read stands.
    fn cut_page(&mut self) {
        let Some(ReadPosition { key, place, .. }) = self.state.position() else {
            return;
        };
        let begun = match (&self.read.after, self.stage) {
            (
                Some(Position {
                    place: Some(place), ..
                }),
                Stage::Begun,
            ) => Some(place.has_rows),
            _ => None,
        };
        let is_announced = matches!(
            place,
            PartitionPlace::Within {
                is_announced: true,
                ..
            }
        );
        let has_rows = match is_announced {
            true => self.sink.has_rows,
            false => begun.unwrap_or(false),
        };
        let bound = match place {
            PartitionPlace::End => None,
            PartitionPlace::Within { bound, .. } => Some(bound.clone()),
            PartitionPlace::Start if self.plan.is_reversed => Some(ClusteringBound::top()),
            PartitionPlace::Start => Some(ClusteringBound::bottom()),
        };
        if !is_announced && begun.is_none() {
            self.sink.rows_left_in_partition = self.read.rows_per_partition_max;
        }
        self.sink.rows.stopped_at = Some(Position {
            key: key.clone(),
            place: bound.map(|bound| PagePlace { bound, has_rows }),
        });
        self.sink.rows.is_cut = true;
        self.stage = Stage::Done;
    }

    fn step_in_begun_partition<R: RowStore>(&mut self, store: &mut R) -> Result<ReadProgress, CqlError> {
        let Some(Position {
            key,
            place: Some(place),
        }) = &self.read.after
        else {
            return Ok(ReadProgress::Done);
        };
        let comparator = ClusteringComparator::of(&self.plan.table);
        let rest = comparator.slices_behind(&self.read.clause.slices, &place.bound, self.plan.is_reversed);
        if rest.is_empty() && place.has_rows {
            return Ok(ReadProgress::Done);
        }
        self.sink.resumed = Some(place.has_rows);
        let command = ReadCommand {
            table: &self.plan.table,
            partitions: PartitionRange::One {
                token: token_of(key),
                key,
            },
            slices: &rest,
            reversed: self.plan.is_reversed,
            now_s: self.now_s,
            index: &self.read.clause.index,
        };
        let progress = store.read_step(&command, &mut self.state, &mut self.sink);
        self.sink.resumed = None;
        progress.map_err(read_failure)
    }

    fn step_in_rest<R: RowStore>(&mut self, store: &mut R) -> Result<ReadProgress, CqlError> {
        let partitions = match (&self.read.partitions, &self.read.after) {
            (ReadPartitions::Key { .. }, Some(_)) => return Ok(ReadProgress::Done),
            (ReadPartitions::Key { token, key }, None) => PartitionRange::One { token: *token, key },
            (ReadPartitions::Range { start, end }, after) => {
                let start = match after {
                    Some(position) => PartitionBound {
                        token: token_of(&position.key),
                        key: Some(&position.key),
                        side: Side::After,
                    },
                    None => PartitionBound {
                        token: start.token,
                        key: None,
                        side: start.side,
                    },
                };
                let end = PartitionBound {
                    token: end.token,
                    key: None,
                    side: end.side,
                };
                PartitionRange::Many { start, end }
            }
        };
        let command = ReadCommand {
            table: &self.plan.table,
            partitions,
            slices: &self.read.clause.slices,
            reversed: self.plan.is_reversed,
            now_s: self.now_s,
            index: &self.read.clause.index,
        };
        store
            .read_step(&command, &mut self.state, &mut self.sink)
            .map_err(read_failure)
    }

    /// The read that pages are brought for.
    pub fn state(&self) -> &ReadState {
        &self.state
    }

    /// Returns the bytes that its rows take so far.
    pub fn bytes(&self) -> usize {
        let nearest_bytes = self.nearest.as_ref().map_or(0, |nearest| nearest.memory_bytes());
        self.sink.rows.bytes.capacity() + self.sink.top_bytes() + nearest_bytes
    }

    pub fn finish(mut self) -> ShardRows {
        self.sink.take_top();
        self.sink.rows.rows_left_in_partition = self.sink.rows_left_in_partition;
        self.sink.rows
    }
}
