//! From merged rows to a query's sink.

use std::ops::ControlFlow;

use helenus_types::Token;

use crate::memtable::{PackedRow, Partition};
use crate::merge::HIDDEN_ELEMENTS_MAX;
use crate::read::{ReadCommand, ReadSink};
use crate::read_state::{BYTES_PER_UNIT, PartitionPlace, ReadPosition, ReadState, side_behind};
use helenus_rows::clustering::{ClusteringBound, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::layout::TableLayout;
use helenus_rows::row::RowRef;
use helenus_rows::row::live::{self, ReadTime};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};

use super::table::Table;

/// Buffers of one shard that reads share, one read at a time.
#[derive(Debug, Default)]
pub(super) struct ReadScratch {
    row: Vec<u8>,
    static_row: Vec<u8>,
    /// Beginning of the entries of an index that are looked for.
    pub(super) head: Vec<u8>,
    /// The last place that was passed in the partition being read, where it has to be known after an error.
    place: Vec<u8>,
}

/// Hands the live part of partitions to a sink.
pub(super) struct Answer<'a, S> {
    pub layout: &'a TableLayout,
    pub time: ReadTime,
    pub reversed: bool,
    pub sink: &'a mut S,
    pub scratch: &'a mut ReadScratch,
    pub state: &'a mut ReadState,
}

/// How far a partition was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// To its end; the sink wants more.
    Over,
    /// As far as the sink wanted.
    Enough,
    /// As far as one step may go; the state has the position.
    Paused,
}

impl<'a, S: ReadSink> Answer<'a, S> {
    #[inline]
    pub fn new(
        table: &'a Table,
        command: &ReadCommand<'_>,
        sink: &'a mut S,
        scratch: &'a mut ReadScratch,
        state: &'a mut ReadState,
    ) -> Self {
        Answer {
            layout: &table.layout,
            time: ReadTime {
                now_s: command.now_s,
                gc_before_s: command
                    .now_s
                    .saturating_sub(table.layout.metadata.params.gc_grace_seconds),
            },
            reversed: command.reversed,
            sink,
            scratch,
            state,
        }
    }

    /// One row of a partition in a memtable, which no other source knows.
    #[inline]
    pub fn point(&mut self, token: Token, partition: &Partition, clustering: &[u8]) -> ControlFlow<()> {
        self.packed_point(token, partition, partition.row(self.layout, clustering))
    }

    /// As [`point`](Self::point), of a row that was looked for already.
    #[inline]
    pub fn packed_point(
        &mut self,
        token: Token,
        partition: &Partition,
        row: Option<(&PackedRow, DeletionTime)>,
    ) -> ControlFlow<()> {
        // Equal clusterings may differ in their bytes (1.0 and 1.00), and the row's own are answered.
        let row = row.map(|(packed, shadow)| (packed.clustering(), packed.row(), shadow));
        let head = (partition.deletion(), partition.static_row());
        self.one_row(token, partition.key(), head, row)
    }

    /// One row of a partition in the cache, which no memtable knows.
    #[inline]
    pub fn cached_point(
        &mut self,
        (token, key): (Token, &[u8]),
        head: (DeletionTime, RowRef<'_>),
        found: Option<(&[u8], RowRef<'_>)>,
        range_deletion: DeletionTime,
    ) -> ControlFlow<()> {
        let shadow = head.0.max(range_deletion);
        let row = found.map(|(clustering, row)| (clustering, row, shadow));
        self.one_row(token, key, head, row)
    }

    #[inline]
    fn one_row(
        &mut self,
        token: Token,
        key: &[u8],
        (deletion, static_row): (DeletionTime, RowRef<'_>),
        row: Option<(&[u8], RowRef<'_>, DeletionTime)>,
    ) -> ControlFlow<()> {
        let ReadScratch {
            row: row_scratch,
            static_row: static_scratch,
            ..
        } = &mut *self.scratch;
        let (shape, time) = (&self.layout.shape, self.time);
        let tombstones = &mut self.state.statistics.tombstones;
        let static_row = live::live_view(shape, static_row, deletion, time, static_scratch, tombstones);
        let row = row.and_then(|(clustering, row, shadow)| {
            let live = live::live_view(shape, row, shadow, time, row_scratch, tombstones);
            live.map(|row| (clustering, row))
        });
        if row.is_none() && static_row.is_none() {
            return ControlFlow::Continue(());
        }
        self.sink
            .partition(token, key, static_row.unwrap_or(RowRef::EMPTY))?;
        if let Some((clustering, row)) = row {
            self.state.statistics.rows_live += 1;
            self.sink.row(clustering, row)?;
        }
        self.state.spend(self.sink.take_units());
        self.sink.partition_end()
    }

    /// All that a cursor walks over.
    pub fn partition(
        &mut self,
        token: Token,
        key: &[u8],
        cursor: &mut impl PartitionCursor,
        mut passed: Passed,
    ) -> Result<Walk, ReadError> {
        let walk = match S::TAKES_STORED {
            true => self.walk_raw(token, key, cursor, &mut passed),
            false => self.walk(token, key, cursor, &mut passed),
        };
        // A step that passed nothing goes on where it began.
        if let (Ok(Walk::Paused) | Err(_), Some(side)) = (&walk, passed.side) {
            self.state.position = Some(Box::new(ReadPosition {
                token,
                key: key.to_vec(),
                place: PartitionPlace::Within {
                    bound: ClusteringBound {
                        prefix: self.scratch.place.as_slice().into(),
                        side,
                    },
                    is_announced: passed.is_announced,
                },
            }));
        }
        walk
    }

    /// No source has anything of the slices that are left: the files that are there now may know it better than those
    /// of an earlier step, which found a partition that is still to be ended.
    pub fn nothing_left(&mut self, passed: &Passed) -> Walk {
        if passed.is_announced && self.sink.partition_end().is_break() {
            Walk::Enough
        } else {
            Walk::Over
        }
    }

    fn walk_raw(
        &mut self,
        token: Token,
        key: &[u8],
        cursor: &mut impl PartitionCursor,
        passed: &mut Passed,
    ) -> Result<Walk, ReadError> {
        let behind_row = side_behind(self.reversed);
        if self
            .sink
            .stored_partition(token, key, cursor.deletion())
            .is_break()
        {
            return Ok(Walk::Enough);
        }
        passed.is_announced = true;
        while cursor.advance()? {
            let element = cursor.current();
            let (place, side) = place_behind(element, behind_row);
            self.state.spend(match element {
                // What is announced again where the step begins was paid for by an earlier one.
                Unfiltered::Marker { bound, .. }
                    if passed.is_resumed && self.state.stands_at(bound.prefix, bound.side) =>
                {
                    0
                }
                Unfiltered::Marker { .. } => 1,
                Unfiltered::Row { row, .. } => row_units(row),
            });
            let taken = self.sink.stored_element(element);
            self.state.spend(self.sink.take_units());
            passed.side = Some(side);
            self.scratch.place.clear();
            self.scratch.place.extend_from_slice(place);
            if taken.is_break() {
                return Ok(Walk::Enough);
            }
            if self.state.units_left == 0 {
                return Ok(Walk::Paused);
            }
        }
        Ok(self.end_partition())
    }

    fn walk(
        &mut self,
        token: Token,
        key: &[u8],
        cursor: &mut impl PartitionCursor,
        passed: &mut Passed,
    ) -> Result<Walk, ReadError> {
        let deletion = cursor.deletion();
        self.state.statistics.tombstones += u64::from(self.time.counts(deletion) && !passed.is_resumed);
        let has_static_row = self.keep_static_row(cursor.static_row(), deletion);
        let scratch = &mut *self.scratch;
        let static_row = match has_static_row {
            true => RowRef::new(&scratch.static_row),
            false => RowRef::EMPTY,
        };
        let behind_row = side_behind(self.reversed);

        let mut in_force = DeletionTime::LIVE;
        while cursor.advance()? {
            let element = cursor.current();
            let (passed_place, passed_side) = place_behind(element, behind_row);
            match element {
                Unfiltered::Marker { deletion, .. } if deletion == in_force => {
                    self.state.spend(HIDDEN_ELEMENTS_MAX);
                }
                Unfiltered::Marker { bound, deletion } => {
                    let counts = self.time.counts(in_force) || self.time.counts(deletion);
                    in_force = deletion;
                    // What is announced again where the step begins was passed by an earlier one.
                    if passed.is_resumed && self.state.stands_at(bound.prefix, bound.side) {
                        continue;
                    }
                    self.state.spend(1);
                    self.state.statistics.tombstones += u64::from(counts);
                }
                Unfiltered::Row { clustering, row } => {
                    self.state.spend(row_units(row));
                    let shadow = deletion.max(in_force);
                    let tombstones = &mut self.state.statistics.tombstones;
                    let shape = &self.layout.shape;
                    let live = live::live_view(shape, row, shadow, self.time, &mut scratch.row, tombstones);
                    if let Some(row) = live {
                        if !passed.is_announced && self.sink.partition(token, key, static_row).is_break() {
                            return Ok(Walk::Enough);
                        }
                        passed.is_announced = true;
                        self.state.statistics.rows_live += 1;
                        if self.sink.row(clustering, row).is_break() {
                            return Ok(Walk::Enough);
                        }
                        self.state.spend(self.sink.take_units());
                    }
                }
            }
            passed.side = Some(passed_side);
            scratch.place.clear();
            scratch.place.extend_from_slice(passed_place);
            if self.state.units_left == 0 {
                return Ok(Walk::Paused);
            }
        }
        if !passed.is_announced && !has_static_row {
            return Ok(Walk::Over);
        }
        if !passed.is_announced && self.sink.partition(token, key, static_row).is_break() {
            return Ok(Walk::Enough);
        }
        Ok(self.end_partition())
    }

    #[inline]
    fn end_partition(&mut self) -> Walk {
        match self.sink.partition_end() {
            ControlFlow::Continue(()) => Walk::Over,
            ControlFlow::Break(()) => Walk::Enough,
        }
    }

    /// Copies the live part of a static row to the scratch, since the cursor that holds it is about to move on;
    /// whether there is any.
    fn keep_static_row(&mut self, static_row: RowRef<'_>, deletion: DeletionTime) -> bool {
        if static_row.is_empty() {
            return false;
        }
        let ReadScratch {
            row: row_scratch,
            static_row: kept,
            ..
        } = &mut *self.scratch;
        let tombstones = &mut self.state.statistics.tombstones;
        let shape = &self.layout.shape;
        match live::live_view(shape, static_row, deletion, self.time, row_scratch, tombstones) {
            None => false,
            Some(live) => {
                kept.clear();
                kept.extend_from_slice(live.as_bytes());
                true
            }
        }
    }
}

/// Where a read stands that has passed the element.
#[inline]
fn place_behind<'e>(element: Unfiltered<'e>, behind_row: Side) -> (&'e [u8], Side) {
    match element {
        Unfiltered::Marker { bound, .. } => (bound.prefix, bound.side),
        Unfiltered::Row { clustering, .. } => (clustering, behind_row),
    }
}

/// Returns the units of a step that passing a row takes.
#[inline]
pub(super) fn row_units(row: RowRef<'_>) -> u32 {
    1 + (row.as_bytes().len() / BYTES_PER_UNIT) as u32
}

/// Progress of a read within a partition.
pub(super) struct Passed {
    /// By an earlier step: the cursor begins at the state's place in the partition.
    is_resumed: bool,
    /// The sink knows of the partition.
    is_announced: bool,
    /// On which side of the scratch's place; `None` before the first element.
    side: Option<Side>,
}

impl Passed {
    pub fn nothing() -> Self {
        Passed {
            is_resumed: false,
            is_announced: false,
            side: None,
        }
    }

    pub fn resumed(is_announced: bool) -> Self {
        Passed {
            is_resumed: true,
            is_announced,
            side: None,
        }
    }
}
