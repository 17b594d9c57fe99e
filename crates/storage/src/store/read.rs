//! Reading: which sources hold what is asked for, and their merge.

use std::sync::Arc;

use helenus_types::Token;

use super::answer::{Answer, ReadScratch};
use super::shard::ShardStore;
use super::table::Table;
use crate::deletion::DeletionTime;
use crate::error::ReadError;
use crate::memtable::{Memtable, MemtableCursor};
use crate::merge::{MergedCursor, MergedScanner};
use crate::read::{PartitionRange, ReadCommand, ReadStatistics, RowSink};
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
        let mut statistics = ReadStatistics::default();
        let Some(table) = self.tables.get(&command.table.id) else {
            return Ok(statistics);
        };
        let read = TableRead {
            table,
            command,
            cache: &self.cache,
        };
        read.run(sink, &mut self.read_scratch, &mut statistics)?;
        Ok(statistics)
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
        statistics: &mut ReadStatistics,
    ) -> Result<(), ReadError> {
        let mut answer = Answer {
            layout: &self.table.layout,
            now_s: self.command.now_s,
            sink,
            scratch,
            statistics,
        };
        let is_in_memory = self.table.sealed.is_empty() && self.table.sstables.is_empty();
        match self.command.partitions {
            PartitionRange::One { token, key } if is_in_memory => self.read_memtable(token, key, &mut answer),
            PartitionRange::Many { .. } if is_in_memory => self.scan_memtable(&mut answer),
            partitions => {
                let before = self.cache.cost();
                match partitions {
                    PartitionRange::One { token, key } => self.read_partition(token, key, &mut answer)?,
                    PartitionRange::Many { .. } => self.scan(&mut answer)?,
                }
                statistics.cost.add(self.cache.cost().since(before));
                Ok(())
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
    ) -> Result<(), ReadError> {
        let Some(partition) = self.table.active.partition(token, key) else {
            return Ok(());
        };
        let comparator = &self.table.layout.comparator;
        if let [slice] = self.command.slices
            && let Some(clustering) = slice.as_key(comparator.component_count())
        {
            let _ = answer.point(token, partition, clustering);
            return Ok(());
        }
        let mut cursor =
            MemtableCursor::new(partition, comparator, self.command.slices, self.command.reversed);
        answer.partition(token, key, &mut cursor).map(drop)
    }

    fn scan_memtable<S: RowSink>(&self, answer: &mut Answer<'_, S>) -> Result<(), ReadError> {
        let ReadCommand { slices, reversed, .. } = *self.command;
        for (token, partition) in self.table.active.partitions(&self.command.partitions) {
            let mut cursor = MemtableCursor::new(partition, &self.table.layout.comparator, slices, reversed);
            if answer.partition(token, partition.key(), &mut cursor)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn memtables(&self) -> impl Iterator<Item = &'a Memtable> {
        std::iter::once(&self.table.active).chain(self.table.sealed.iter().map(|memtable| &**memtable))
    }

    fn read_partition<S: RowSink>(
        &self,
        token: Token,
        key: &[u8],
        answer: &mut Answer<'_, S>,
    ) -> Result<(), ReadError> {
        let ReadCommand { slices, reversed, .. } = *self.command;
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
                answer.statistics.sstables_touched += 1;
                deletion = deletion.max(cursor.deletion());
                let mut cursor = BegunCursor { cursor, first: None };
                if is_point {
                    settled_below_us = settled_below_us.max(cursor.begin(&self.table.layout.shape)?);
                }
                cursors.push(Box::new(cursor));
            }
        }
        match cursors.pop() {
            None => Ok(()),
            Some(mut only) if cursors.is_empty() => answer.partition(token, key, &mut only).map(drop),
            Some(last) => {
                cursors.push(last);
                let mut merged = MergedCursor::new(&self.table.layout, reversed, cursors)?;
                answer.partition(token, key, &mut merged).map(drop)
            }
        }
    }

    fn scan<S: RowSink>(&self, answer: &mut Answer<'_, S>) -> Result<(), ReadError> {
        let ReadCommand {
            slices,
            reversed,
            ref partitions,
            ..
        } = *self.command;
        let mut scanners: Vec<Box<dyn PartitionScanner + '_>> = Vec::new();
        for memtable in self.memtables() {
            scanners.push(Box::new(memtable.scanner(partitions, slices, reversed)));
        }
        let (start, end) = partitions.bounds();
        let overlapping = |sstable: &&Arc<SsTable>| sstable.may_overlap(start.token, end.token);
        for sstable in self.table.sstables.iter().filter(overlapping) {
            answer.statistics.sstables_touched += 1;
            scanners.push(Box::new(sstable.scan(self.cache, start, end, slices, reversed)));
        }
        let mut merged = MergedScanner::new(&self.table.layout, reversed, scanners);
        let mut key = Vec::new();
        while merged.advance()? {
            let (token, position_key) = merged.position();
            key.clear();
            key.extend_from_slice(position_key);
            if answer.partition(token, &key, &mut merged.open()?)?.is_break() {
                break;
            }
        }
        Ok(())
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
