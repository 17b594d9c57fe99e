//! Reading the nearest rows of a shard by an index of vectors.
//!
//! The index gives rows that may be near, the likest first as far as it knows; each is read, filtered and compared by the vector
//! that it has. That goes on until enough rows were compared that the nearest are among them. Where few rows match, or the
//! index has none to give, all rows that may match are looked at instead.

use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::partition_range::PartitionRange;
use helenus_storage::read::ReadCommand;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_storage::vectors::{NearestRequest, NextNearest};
use helenus_types::Token;

use super::nearest_reading::NearestReading;
use super::read_partitions::ReadPartitions;
use super::rows_sink::Met;
use super::shard_read::{ShardReading, Stage};
use super::targets::is_between;
use crate::CqlError;
use crate::clause::slices::set_single_row;
use crate::row_store::{RowStore, read_failure};

/// Comparisons of vectors in one step: a tenth of a millisecond.
const UNITS_PER_STEP: u32 = 2_048;

/// Rows that are read in one step: they take a microsecond or some each.
const ROWS_PER_STEP: u32 = 64;

impl ShardReading<'_> {
    /// A step by the index of vectors; `None` where the stage is over.
    pub(super) fn step_nearest<R: RowStore>(
        &mut self,
        store: &mut R,
    ) -> Result<Option<ReadProgress>, CqlError> {
        let mut nearest = match self.nearest.take() {
            Some(nearest) => nearest,
            None => {
                let progress = self.gather_filters(store)?;
                if !matches!(progress, ReadProgress::Done) {
                    return Ok(Some(progress));
                }
                let Some(nearest) = self.begin_nearest(store) else {
                    self.end_nearest(Stage::Rest);
                    return Ok(None);
                };
                nearest
            }
        };
        let (mut units_left, mut rows_left) = (UNITS_PER_STEP, ROWS_PER_STEP);
        loop {
            if nearest.row.is_some() {
                let progress = self.read_found(store, &mut nearest)?;
                if !matches!(progress, ReadProgress::Done) {
                    self.nearest = Some(nearest);
                    return Ok(Some(progress));
                }
            }
            if nearest.compared >= nearest.compared_wanted {
                self.end_nearest(Stage::Done);
                return Ok(None);
            }
            let is_narrowed = !self.read.clause.index.is_empty();
            if nearest.is_scan_cheaper(is_narrowed) {
                self.end_nearest(Stage::Rest);
                return Ok(None);
            }
            if rows_left == 0 || units_left == 0 {
                self.nearest = Some(nearest);
                return Ok(Some(ReadProgress::Yield));
            }
            match store.next_nearest(&mut nearest.search, self.now_s, &mut units_left) {
                NextNearest::Row {
                    token,
                    key,
                    clustering,
                } => {
                    rows_left -= 1;
                    nearest.found += 1;
                    if self.asks_for(token, &clustering) {
                        set_single_row(&mut nearest.slices, &clustering);
                        nearest.row = Some((token, key));
                    }
                }
                NextNearest::Paused => units_left = 0,
                NextNearest::End { is_everything } => {
                    // What no path leads to is found by a scan.
                    let has_enough = self.sink.has_all_top() || is_everything;
                    self.end_nearest(if has_enough { Stage::Done } else { Stage::Rest });
                    return Ok(None);
                }
                NextNearest::Lost => {
                    self.end_nearest(Stage::Rest);
                    return Ok(None);
                }
            }
        }
    }

    fn nearest_request(&self) -> Option<NearestRequest<'_>> {
        let bound = self.read.clause.nearest.as_ref()?;
        Some(NearestRequest {
            table: self.plan.table.id,
            index: bound.index,
            vector: &bound.vector,
            count: bound.compared as usize,
            predicates: &self.read.clause.index,
        })
    }

    /// A step of finding out which vectors are of rows that may match.
    fn gather_filters<R: RowStore>(&mut self, store: &mut R) -> Result<ReadProgress, CqlError> {
        let (mut gathering, mut state) = (
            self.gathering,
            std::mem::replace(&mut self.state, ReadState::suspending()),
        );
        let progress = match self.nearest_request() {
            Some(request) => store.gather_nearest_filters(&request, &mut gathering, &mut state),
            None => Ok(ReadProgress::Done),
        };
        self.gathering = gathering;
        self.state = match progress {
            Ok(ReadProgress::Done) => state.continued(),
            _ => state,
        };
        progress.map_err(read_failure)
    }

    fn begin_nearest<R: RowStore>(&self, store: &mut R) -> Option<Box<NearestReading>> {
        let request = self.nearest_request()?;
        Some(Box::new(NearestReading {
            search: store.begin_nearest(&request)?,
            row: None,
            slices: Vec::new(),
            found: 0,
            compared: 0,
            compared_wanted: request.count as u64,
        }))
    }

    fn end_nearest(&mut self, next: Stage) {
        self.nearest = None;
        self.stage = next;
        if next == Stage::Rest {
            self.earlier = self.statistics();
            self.state = ReadState::suspending();
        }
    }

    /// Returns whether a row is among those that the read is for, as far as its place goes.
    fn asks_for(&self, token: Token, clustering: &[u8]) -> bool {
        let is_in_range = match &self.read.partitions {
            ReadPartitions::Range { start, end } => is_between(token, *start, *end),
            ReadPartitions::Key { .. } => true,
        };
        let comparator = ClusteringComparator::of(&self.plan.table);
        let is_in = |slice: &Slice| {
            comparator.compare_to_bound(clustering, &slice.start).is_gt()
                && comparator.compare_to_bound(clustering, &slice.end).is_lt()
        };
        is_in_range && self.read.clause.slices.iter().any(is_in)
    }

    /// Reads the row that was found.
    fn read_found<R: RowStore>(
        &mut self,
        store: &mut R,
        nearest: &mut NearestReading,
    ) -> Result<ReadProgress, CqlError> {
        let Some((token, key)) = &nearest.row else {
            return Ok(ReadProgress::Done);
        };
        if self.state.position().is_none() {
            self.sink.met = Met::Nothing;
        }
        let command = ReadCommand {
            table: &self.plan.table,
            partitions: PartitionRange::One { token: *token, key },
            slices: &nearest.slices,
            reversed: false,
            now_s: self.now_s,
            index: &[],
        };
        let progress = store
            .read_step(&command, &mut self.state, &mut self.sink)
            .map_err(read_failure)?;
        if matches!(progress, ReadProgress::Done) {
            match self.sink.met {
                Met::Offered => nearest.compared += 1,
                Met::Nothing | Met::WithoutVector => store.note_nearest_gone(&nearest.search),
                Met::Row => {}
            }
            nearest.row = None;
            self.earlier = self.statistics();
            self.state = self.state.continued();
        }
        Ok(progress)
    }
}
