//! Counting: where a statement says what counters grow by, the log and the memtable get what they are then.
//!
//! A statement's update of a counter table has increments, an i64 (big-endian) in place of a context
//! ([`helenus_rows::row::counter`]). The shard that owns the partition reads the counters' own shards and writes the new totals
//! under the next clocks, which do not change by being replayed. As in Cassandra (`CounterMutation`) a counter that is deleted
//! or hidden counts as none; what other nodes have counted is not written again.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_schema::ColumnId;
use helenus_types::Token;

use super::shard::ShardStore;
use super::table::Table;
use crate::read::{ReadCommand, RowSink};
use crate::read_state::{ReadProgress, ReadState};
use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{CellRef, Entry, RowRef, counter};
use helenus_rows::update::{Update, UpdateBuilder, UpdateItem};
use helenus_sstable::error::ReadError;

/// Identity and time of a count.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Id of the node; all its shards count under it, whichever of them owns the partition after a restart.
    pub node_id: [u8; 16],
    /// The clock of a counter is at least this, in microseconds since the Unix epoch.
    pub now_us: i64,
    /// Time of the read before the write; what has expired by then is not there.
    pub now_s: u32,
}

/// Read of the counters of one update before they are written. Nothing may be written to them between its first step
/// and the writing of what it comes to.
#[derive(Debug)]
pub struct CounterReading {
    state: ReadState,
    /// `None` before the first step.
    layout: Option<Arc<TableLayout>>,
    /// The rows with increments, ascending, each once.
    rows: Vec<Slice>,
    has_static_row: bool,
    /// How many of `rows` the read has passed.
    passed: usize,
    /// By row and column.
    counters: Vec<Counter>,
}

/// This node's shard of a counter.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// Which of the rows with increments; none for the static row.
    row: Option<usize>,
    column: ColumnId,
    clock: i64,
    count: i64,
}

impl Default for CounterReading {
    fn default() -> Self {
        CounterReading {
            state: ReadState::suspending(),
            layout: None,
            rows: Vec::new(),
            has_static_row: false,
            passed: 0,
            counters: Vec::new(),
        }
    }
}

impl ShardStore {
    /// One step of reading the counters that an update increments. Once it is done, `out` is the update to be written.
    pub fn count_step(
        &mut self,
        token: Token,
        update: &Update<'_>,
        counting: &Counting,
        reading: &mut CounterReading,
        out: &mut Vec<u8>,
    ) -> Result<ReadProgress, ReadError> {
        if reading.layout.is_none() {
            // A table that is gone has no counters, and takes no update.
            let Some(table) = self.tables.get(&update.table) else {
                out.extend_from_slice(update.as_bytes());
                return Ok(ReadProgress::Done);
            };
            reading.begin(&table.layout, update);
            if reading.find_in_memtable(table, token, update, counting) {
                reading.write(update, counting, out);
                return Ok(ReadProgress::Done);
            }
        }
        let CounterReading {
            state,
            layout: Some(layout),
            rows,
            has_static_row,
            passed,
            counters,
        } = reading
        else {
            return Ok(ReadProgress::Done);
        };
        if !rows.is_empty() || *has_static_row {
            let command = ReadCommand {
                table: &layout.metadata,
                partitions: PartitionRange::One {
                    token,
                    key: update.partition_key,
                },
                slices: rows,
                reversed: false,
                now_s: counting.now_s,
                index: &[],
            };
            let mut sink = CounterSink {
                node_id: &counting.node_id,
                comparator: &layout.comparator,
                rows,
                passed,
                counters,
            };
            let progress = self.read_step(&command, state, &mut sink)?;
            if !matches!(progress, ReadProgress::Done) {
                return Ok(progress);
            }
        }
        reading.write(update, counting, out);
        Ok(ReadProgress::Done)
    }
}

impl CounterReading {
    /// For the pages that a step ended for.
    pub fn state(&self) -> &ReadState {
        &self.state
    }

    /// For another update, or the same one from its start; keeps its buffers.
    pub fn begin_again(&mut self) {
        self.state.begin_again();
        self.layout = None;
    }

    fn begin(&mut self, layout: &Arc<TableLayout>, update: &Update<'_>) {
        self.passed = 0;
        self.has_static_row = false;
        self.counters.clear();
        let mut row_count = 0;
        for item in update.items() {
            match item {
                UpdateItem::StaticRow(row) => self.has_static_row |= has_increments(row),
                UpdateItem::Row { clustering, row } if has_increments(row) => {
                    set_row(&mut self.rows, row_count, clustering);
                    row_count += 1;
                }
                UpdateItem::Row { .. } | UpdateItem::RangeTombstone { .. } => {}
            }
        }
        self.rows.truncate(row_count);
        if row_count > 1 {
            let compare = |left: &Slice, right: &Slice| {
                layout.comparator.compare(&left.start.prefix, &right.start.prefix)
            };
            self.rows.sort_by(compare);
            self.rows
                .dedup_by(|left, right| compare(left, right) == Ordering::Equal);
        }
        self.layout = Some(layout.clone());
    }

    /// Takes the counters of the one row that grows from the memtable, where that has all of them, later than anything else was
    /// written; returns whether it has. So a counter that is hot is not looked for in files. What they have of it is older, and
    /// no deletion in them hides it. A tombstone may, and then it does so whatever is counted.
    fn find_in_memtable(
        &mut self,
        table: &Table,
        token: Token,
        update: &Update<'_>,
        counting: &Counting,
    ) -> bool {
        let ([slice], false) = (self.rows.as_slice(), self.has_static_row) else {
            return false;
        };
        let found = table
            .active
            .partition(token, update.partition_key)
            .filter(|partition| partition.has_whole_rows() && table.memtables().count() == 1)
            .and_then(|partition| partition.row(&table.layout, &slice.start.prefix));
        let Some((row, shadow)) = found else {
            return false;
        };
        let files_us_max = table
            .sstables
            .iter()
            .map(|sstable| sstable.statistics().timestamp_us_max)
            .fold(shadow.timestamp_us, i64::max);
        for entry in row.row().entries() {
            if let Entry::Cell(cell) = entry
                && cell.timestamp_us > files_us_max
                && !table.layout.shape.hides(cell.column, cell.timestamp_us)
                && let Some((clock, count)) = counter::shard_of(cell.value, &counting.node_id)
            {
                self.counters.push(Counter {
                    row: Some(0),
                    column: cell.column,
                    clock,
                    count,
                });
            }
        }
        let is_found = |column| self.counters.iter().any(|counter| counter.column == column);
        let has_all = update.items().all(|item| match item {
            UpdateItem::Row { row, .. } => row
                .entries()
                .all(|entry| increment_of(&entry).is_none_or(|(cell, _)| is_found(cell.column))),
            UpdateItem::StaticRow(_) | UpdateItem::RangeTombstone { .. } => true,
        });
        if !has_all {
            self.counters.clear();
        }
        has_all
    }

    /// Which of the rows with increments it is.
    fn row_index(&self, clustering: &[u8]) -> Option<usize> {
        if self.rows.len() == 1 {
            return Some(0);
        }
        let comparator = &self.layout.as_ref()?.comparator;
        let compare = |row: &Slice| comparator.compare(&row.start.prefix, clustering);
        self.rows.binary_search_by(compare).ok()
    }

    fn write(&mut self, update: &Update<'_>, counting: &Counting, out: &mut Vec<u8>) {
        let mut builder = UpdateBuilder::new(out, update.table, update.partition_key, update.deletion);
        for item in update.items() {
            let (clustering, row) = match item {
                UpdateItem::StaticRow(row) => (None, row),
                UpdateItem::Row { clustering, row } => (Some(clustering), row),
                UpdateItem::RangeTombstone { start, end, deletion } => {
                    builder.range_tombstone(start, end, deletion);
                    continue;
                }
            };
            if !has_increments(row) {
                builder.packed(clustering, row);
                continue;
            }
            let index = clustering.and_then(|clustering| self.row_index(clustering));
            let (liveness, deletion, entries) = row.open();
            builder.any_row(clustering, liveness, deletion, |builder| {
                for entry in entries {
                    match increment_of(&entry) {
                        Some((cell, increment)) => {
                            let (clock, count) = self.count(index, cell.column, increment, counting);
                            let value = &counter::global(&counting.node_id, clock, count);
                            builder.cell(CellRef { value, ..cell });
                        }
                        None => builder.push(entry),
                    }
                }
            });
        }
    }

    /// Clock and count of a counter with one more increment. The next one of the same counter counts on from there.
    fn count(
        &mut self,
        row: Option<usize>,
        column: ColumnId,
        increment: i64,
        counting: &Counting,
    ) -> (i64, i64) {
        let place = self
            .counters
            .binary_search_by(|counter| (counter.row, counter.column).cmp(&(row, column)));
        let (clock, count) = match place {
            Ok(index) => (self.counters[index].clock, self.counters[index].count),
            Err(_) => (i64::MIN, 0),
        };
        let counter = Counter {
            row,
            column,
            clock: clock.saturating_add(1).max(counting.now_us),
            count: count.wrapping_add(increment),
        };
        match place {
            Ok(index) => self.counters[index] = counter,
            Err(index) => self.counters.insert(index, counter),
        }
        (counter.clock, counter.count)
    }
}

/// The increment that a cell of an update stands for: no context is as long as one.
fn increment_of<'a>(entry: &Entry<'a>) -> Option<(CellRef<'a>, i64)> {
    match entry {
        Entry::Cell(cell) if !cell.is_tombstone() => {
            let increment = <[u8; 8]>::try_from(cell.value).ok()?;
            Some((*cell, i64::from_be_bytes(increment)))
        }
        _ => None,
    }
}

fn has_increments(row: RowRef<'_>) -> bool {
    row.entries().any(|entry| increment_of(&entry).is_some())
}

/// Makes a slice be one row, reusing what is there.
fn set_row(rows: &mut Vec<Slice>, index: usize, clustering: &[u8]) {
    match rows.get_mut(index) {
        Some(row) => row.cover(clustering),
        None => rows.push(Slice::covering(clustering)),
    }
}

struct CounterSink<'c> {
    node_id: &'c [u8; 16],
    comparator: &'c ClusteringComparator,
    rows: &'c [Slice],
    passed: &'c mut usize,
    counters: &'c mut Vec<Counter>,
}

impl CounterSink<'_> {
    fn take(&mut self, index: Option<usize>, row: RowRef<'_>) {
        for entry in row.entries() {
            if let Entry::Cell(cell) = entry
                && let Some((clock, count)) = counter::shard_of(cell.value, self.node_id)
            {
                self.counters.push(Counter {
                    row: index,
                    column: cell.column,
                    clock,
                    count,
                });
            }
        }
    }
}

impl RowSink for CounterSink<'_> {
    fn partition(&mut self, _: Token, _: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        self.take(None, static_row);
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        let is_row =
            |wanted: &Slice| self.comparator.compare(&wanted.start.prefix, clustering) == Ordering::Equal;
        let ahead = self.rows.get(*self.passed..).unwrap_or_default();
        *self.passed += ahead.iter().position(is_row).unwrap_or_default();
        self.take(Some(*self.passed), row);
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
