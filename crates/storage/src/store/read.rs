//! Reading: which sources hold what is asked for, and their merge.

use std::borrow::Cow;
use std::sync::Arc;

use helenus_types::Token;

use super::answer::{Answer, Passed, ReadScratch, Walk};
use super::shard::ShardStore;
use super::table::Table;
use crate::clustering::{Side, Slice};
use crate::deletion::DeletionTime;
use crate::error::ReadError;
use crate::memtable::{Memtable, MemtableCursor};
use crate::merge::{MergedCursor, MergedScanner};
use crate::read::{PartitionBound, PartitionRange, ReadCommand, ReadStatistics, RowSink};
use crate::read_state::{PARTITION_UNITS, PartitionPlace, ReadPosition, ReadProgress, ReadState};
use crate::row::{RowRef, RowShape};
use crate::source::{PartitionCursor, PartitionScanner, Unfiltered};
use crate::sstable::{PageCache, SsTable};

impl ShardStore {
    /// Hands the rows that the command asks for to the sink, in order, until it has enough.
    pub fn read<S: RowSink>(
        &mut self,
        command: &ReadCommand<'_>,
        sink: &mut S,
    ) -> Result<ReadStatistics, ReadError> {
        let units = self.options.read_step_units_max;
        let mut state = ReadState::with_units(units);
        while self.read_step(command, &mut state, sink)? == ReadProgress::Yield {
            state.refill(units);
        }
        Ok(state.statistics)
    }

    /// One step of [`ShardStore::read`]. The same command, state and sink belong to all steps of a read; what is
    /// written between two of them is seen where the read has not been yet.
    #[inline]
    pub fn read_step<S: RowSink>(
        &mut self,
        command: &ReadCommand<'_>,
        state: &mut ReadState,
        sink: &mut S,
    ) -> Result<ReadProgress, ReadError> {
        let Some(table) = self.tables.get(&command.table.id) else {
            return Ok(ReadProgress::Done);
        };
        let read = TableRead {
            table,
            command,
            cache: &self.cache,
        };
        let walk = read.run(sink, &mut self.read_scratch, state)?;
        Ok(match walk {
            Walk::Over | Walk::Enough => ReadProgress::Done,
            Walk::Paused => {
                state.pauses += 1;
                ReadProgress::Yield
            }
        })
    }
}

struct TableRead<'a> {
    table: &'a Table,
    command: &'a ReadCommand<'a>,
    cache: &'a PageCache,
}

impl<'a> TableRead<'a> {
    #[inline]
    fn run<S: RowSink>(
        &self,
        sink: &mut S,
        scratch: &mut ReadScratch,
        state: &mut ReadState,
    ) -> Result<Walk, ReadError> {
        let mut answer = Answer {
            layout: &self.table.layout,
            now_s: self.command.now_s,
            reversed: self.command.reversed,
            sink,
            scratch,
            state,
        };
        let is_in_memory = self.table.sealed.is_empty() && self.table.sstables.is_empty();
        match self.command.partitions {
            PartitionRange::One { token, key } if is_in_memory => self.read_memtable(token, key, &mut answer),
            partitions => {
                let before = self.cache.cost();
                let walk = match partitions {
                    PartitionRange::One { token, key } => self.read_one(token, key, &mut answer),
                    PartitionRange::Many { start, end } => self.read_many(start, end, &mut answer),
                };
                state.statistics.cost.add(self.cache.cost().since(before));
                walk
            }
        }
    }

    /// The shortest way there is: a point read of one row allocates nothing and compares keys only to find it.
    #[inline]
    fn read_memtable<S: RowSink>(
        &self,
        token: Token,
        key: &[u8],
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let Some(partition) = self.table.active.partition(token, key) else {
            return Ok(Walk::Over);
        };
        let comparator = &self.table.layout.comparator;
        if let [slice] = self.command.slices
            && let Some(clustering) = slice.as_key(comparator.component_count())
        {
            let _ = answer.point(token, partition, clustering);
            return Ok(Walk::Over);
        }
        let (slices, passed) = self.slices_left(answer.state);
        let mut cursor = MemtableCursor::new(partition, comparator, &slices, self.command.reversed);
        answer.partition(token, key, &mut cursor, passed)
    }

    /// The slices of the partition that the read stands in, behind its place there, and what is passed of it.
    fn slices_left(&self, state: &ReadState) -> (Cow<'a, [Slice]>, Passed) {
        let ReadCommand { slices, reversed, .. } = *self.command;
        match state.position().map(|position| &position.place) {
            Some(PartitionPlace::Within { bound, is_announced }) => {
                let left = self
                    .table
                    .layout
                    .comparator
                    .slices_behind(slices, bound, reversed);
                (Cow::Owned(left), Passed::resumed(*is_announced))
            }
            _ => (Cow::Borrowed(slices), Passed::nothing()),
        }
    }

    fn memtables(&self) -> impl Iterator<Item = &'a Memtable> {
        std::iter::once(&self.table.active).chain(self.table.sealed.iter().map(|memtable| &**memtable))
    }

    fn read_one<S: RowSink>(
        &self,
        token: Token,
        key: &[u8],
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let (slices, passed) = self.slices_left(answer.state);
        self.read_partition(token, key, &slices, passed, answer)
    }

    fn read_partition<S: RowSink>(
        &self,
        token: Token,
        key: &[u8],
        slices: &[Slice],
        passed: Passed,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let reversed = self.command.reversed;
        let mut cursors: Vec<Box<dyn PartitionCursor + '_>> = Vec::new();
        let mut deletion = DeletionTime::LIVE;
        // What is older cannot show in the one row that is asked for.
        let mut settled_below_us = i64::MIN;
        let is_point = matches!(slices, [slice] if slice.as_key(self.table.layout.comparator.component_count()).is_some());
        for memtable in self.memtables() {
            if let Some(cursor) = memtable.cursor(token, key, slices, reversed) {
                deletion = deletion.max(cursor.deletion());
                let mut cursor = BegunCursor { cursor, first: None };
                if is_point {
                    settled_below_us = settled_below_us.max(cursor.begin(&self.table.layout.shape)?);
                }
                cursors.push(Box::new(cursor));
            }
        }
        for sstable in &self.table.sstables {
            // The files after this one are older still.
            let timestamp_us_max = sstable.statistics().timestamp_us_max;
            if deletion.hides(timestamp_us_max) || timestamp_us_max < settled_below_us {
                break;
            }
            if let Some(cursor) = sstable.partition(self.cache, token, key, slices, reversed)? {
                answer.state.statistics.sstables_touched += 1;
                deletion = deletion.max(cursor.deletion());
                let mut cursor = BegunCursor { cursor, first: None };
                if is_point {
                    settled_below_us = settled_below_us.max(cursor.begin(&self.table.layout.shape)?);
                }
                cursors.push(Box::new(cursor));
            }
        }
        match cursors.pop() {
            None => Ok(Walk::Over),
            Some(mut only) if cursors.is_empty() => answer.partition(token, key, &mut only, passed),
            Some(last) => {
                cursors.push(last);
                let merged = MergedCursor::new(&self.table.layout, reversed, cursors)?;
                answer.partition(token, key, &mut merged.showing_progress(), passed)
            }
        }
    }

    /// The rest of the partition that the read stands in, then those behind it.
    fn read_many<'k, S: RowSink>(
        &self,
        start: PartitionBound<'k>,
        end: PartitionBound<'k>,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let stood_at = answer.state.position().cloned();
        let mut start = start;
        let mut current = CurrentPartition::default();
        if let Some(ReadPosition { token, key, place }) = &stood_at {
            if matches!(place, PartitionPlace::Within { .. }) {
                let walk = self.read_one(*token, key, answer)?;
                if walk != Walk::Over {
                    return Ok(walk);
                }
                current.enter(*token, key);
                current.is_over = true;
            }
            start = PartitionBound {
                token: *token,
                key: Some(key),
                side: match place {
                    PartitionPlace::Start => Side::Before,
                    PartitionPlace::Within { .. } | PartitionPlace::End => Side::After,
                },
            };
        }
        let is_in_memory = self.table.sealed.is_empty() && self.table.sstables.is_empty();
        let range = PartitionRange::Many { start, end };
        let walk = match is_in_memory {
            true => self.scan_memtable(&range, &mut current, answer),
            false => self.scan(&range, &mut current, answer),
        };
        // Within a partition the walk over it has noted the place.
        if matches!(walk, Ok(Walk::Paused) | Err(_)) {
            current.note(answer.state);
        }
        walk
    }

    fn scan_memtable<S: RowSink>(
        &self,
        range: &PartitionRange<'_>,
        current: &mut CurrentPartition,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let ReadCommand { slices, reversed, .. } = *self.command;
        for (token, partition) in self.table.active.partitions(range) {
            current.enter(token, partition.key());
            let mut cursor = MemtableCursor::new(partition, &self.table.layout.comparator, slices, reversed);
            let walk = answer.partition(token, partition.key(), &mut cursor, Passed::nothing())?;
            if walk != Walk::Over {
                return Ok(walk);
            }
            current.is_over = true;
            answer.state.spend(PARTITION_UNITS);
            if answer.state.units_left == 0 {
                return Ok(Walk::Paused);
            }
        }
        Ok(Walk::Over)
    }

    fn scan<S: RowSink>(
        &self,
        range: &PartitionRange<'_>,
        current: &mut CurrentPartition,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let ReadCommand { slices, reversed, .. } = *self.command;
        let mut scanners: Vec<Box<dyn PartitionScanner + '_>> = Vec::new();
        for memtable in self.memtables() {
            scanners.push(Box::new(memtable.scanner(range, slices, reversed)));
        }
        let (start, end) = range.bounds();
        let overlapping = |sstable: &&Arc<SsTable>| sstable.may_overlap(start.token, end.token);
        for sstable in self.table.sstables.iter().filter(overlapping) {
            answer.state.statistics.sstables_touched += 1;
            scanners.push(Box::new(sstable.scan(self.cache, start, end, slices, reversed)));
        }
        let mut merged = MergedScanner::new(&self.table.layout, reversed, scanners).showing_progress();
        while merged.advance()? {
            let (token, key) = merged.position();
            current.enter(token, key);
            answer.state.spend(PARTITION_UNITS * merged.sources_taken());
            let walk = answer.partition(token, &current.key, &mut merged.open()?, Passed::nothing())?;
            if walk != Walk::Over {
                return Ok(walk);
            }
            current.is_over = true;
            if answer.state.units_left == 0 {
                return Ok(Walk::Paused);
            }
        }
        Ok(Walk::Over)
    }
}

/// The partition that a scan has reached.
#[derive(Default)]
struct CurrentPartition {
    token: Option<Token>,
    key: Vec<u8>,
    is_over: bool,
}

impl CurrentPartition {
    fn enter(&mut self, token: Token, key: &[u8]) {
        self.token = Some(token);
        self.key.clear();
        self.key.extend_from_slice(key);
        self.is_over = false;
    }

    /// Makes the read go on here, unless it stands within this partition or has reached none in this step.
    fn note(self: &CurrentPartition, state: &mut ReadState) {
        let Some(token) = self.token else { return };
        let stands_within = state.position().is_some_and(|position| {
            position.key == self.key && matches!(position.place, PartitionPlace::Within { .. })
        });
        if stands_within && !self.is_over {
            return;
        }
        let place = if self.is_over {
            PartitionPlace::End
        } else {
            PartitionPlace::Start
        };
        state.position = Some(Box::new(ReadPosition {
            token,
            key: self.key.clone(),
            place,
        }));
    }
}

/// A cursor whose first element may have been looked at before it is merged.
struct BegunCursor<C> {
    cursor: C,
    /// What the first `advance` said, until it is asked for.
    first: Option<bool>,
}

impl<C: PartitionCursor> BegunCursor<C> {
    /// Moves to the first element; the timestamp below which it lets nothing else show.
    fn begin(&mut self, shape: &RowShape) -> Result<i64, ReadError> {
        let has_first = self.cursor.advance()?;
        self.first = Some(has_first);
        Ok(match has_first.then(|| self.cursor.current()) {
            Some(Unfiltered::Row { row, .. }) => shape.settled_below_us(row),
            _ => i64::MIN,
        })
    }
}

impl<C: PartitionCursor> PartitionCursor for BegunCursor<C> {
    fn deletion(&self) -> DeletionTime {
        self.cursor.deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        self.cursor.static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        match self.first.take() {
            Some(has_first) => Ok(has_first),
            None => self.cursor.advance(),
        }
    }

    fn current(&self) -> Unfiltered<'_> {
        self.cursor.current()
    }
}
