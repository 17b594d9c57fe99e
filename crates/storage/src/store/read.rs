//! Reading: which sources hold what is asked for, and their merge.

use std::borrow::Cow;
use std::sync::Arc;

use helenus_events::Event;
use helenus_schema::TableId;
use helenus_types::Token;

use super::answer::{Answer, Passed, ReadScratch, Walk};
use super::partition_read::{BegunCursor, CachedSource, Fills, PartitionRead, Settled, Sources};
use super::shard::ShardStore;
use super::table::Table;
use crate::memtable::MemtableCursor;
use crate::merge::{MergedCursor, MergedScanner};
use crate::read::{ReadCommand, ReadSink, ReadStatistics, StoredRow};
use crate::read_state::{PARTITION_UNITS, PartitionPlace, ReadPosition, ReadProgress, ReadState};
use crate::row_cache::{CachedPartition, CachedRow, RowCache};
use helenus_rows::clustering::{Side, Slice};
use helenus_rows::partition_range::{PartitionBound, PartitionRange, PartitionSpan};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::PartitionScanner;
use helenus_sstable::{AbsentPages, PageCache, Pages, ReadTicket, SidecarFault, SsTable};

impl ShardStore {
    /// Hands the rows that the command asks for to the sink, in order, until it has enough.
    pub fn read<S: ReadSink>(
        &mut self,
        command: &ReadCommand<'_>,
        sink: &mut S,
    ) -> Result<ReadStatistics, ReadError> {
        let mut state = ReadState::blocking();
        while !matches!(self.read_step(command, &mut state, sink)?, ReadProgress::Done) {}
        Ok(state.statistics)
    }

    /// One step of [`ShardStore::read`]. The same command, state and sink belong to all steps of a read; what is
    /// written between two of them is seen where the read has not been yet.
    #[inline]
    pub fn read_step<S: ReadSink>(
        &mut self,
        command: &ReadCommand<'_>,
        state: &mut ReadState,
        sink: &mut S,
    ) -> Result<ReadProgress, ReadError> {
        state.units_left = self.options.read_step_units_max;
        if !S::TAKES_STORED
            && !command.index.is_empty()
            && let Some(progress) = self.read_few_rows(command, state, sink)
        {
            return Ok(progress);
        }
        let Some(table) = self.tables.get(&command.table.id) else {
            return Ok(ReadProgress::Done);
        };
        if !S::TAKES_STORED
            && let PartitionRange::One { token, key } = command.partitions
            && let [slice] = command.slices
            && table.is_in_active()
            && let Some(clustering) = slice.as_key(table.layout.comparator.component_count())
        {
            // The shortest way there is: it allocates nothing and compares keys only to find the row.
            let Some(partition) = table.active.partition(token, key) else {
                return Ok(ReadProgress::Done);
            };
            if partition.has_whole_rows() {
                let mut answer = Answer::new(table, command, sink, &mut self.read_scratch, state);
                let _ = answer.point(token, partition, clustering);
                return Ok(ReadProgress::Done);
            }
        }
        // The walk changes the state while its cursors borrow the ticket.
        let ticket = self.cache.ready_ticket(std::mem::take(&mut state.ticket));
        let fills = Fills::default();
        let read = TableRead::new(
            table,
            command,
            (&self.cache, &self.row_cache),
            (&ticket, &fills),
            state,
        );
        let walk = read.run(sink, &mut self.read_scratch, state);
        state.ticket = ticket;
        if let PartitionRange::One { token, key } = command.partitions {
            let is_over = matches!(walk, Ok(Walk::Over | Walk::Enough));
            record(fills, is_over, table, (token, key), &mut self.row_cache);
        }
        self.count_read_for_memory();
        match walk {
            Ok(Walk::Over | Walk::Enough) => {
                // Pages that were brought may serve another read of the same statement.
                if state.ticket.has_no_pages() {
                    self.cache.give_ticket(&mut state.ticket);
                }
                Ok(ReadProgress::Done)
            }
            Ok(Walk::Paused) => {
                state.ticket.release_resident();
                Ok(ReadProgress::Yield)
            }
            Err(ReadError::Absent(pages)) => Ok(ReadProgress::Absent(pages)),
            Err(error) => Err(error),
        }
    }

    /// A row as it is stored, with what hides it from outside, where the memtable that takes the writes has all of it that
    /// counts, in one piece: nothing else is stored of the table, or nothing that could show in this row. An empty row where
    /// there is none. `None` where other places would have to be looked at.
    pub fn row_in_memory(
        &self,
        table: TableId,
        (token, key): (Token, &[u8]),
        clustering: &[u8],
    ) -> Option<StoredRow<'_>> {
        let table = self.tables.get(&table)?;
        let is_all_in_active = table.is_in_active();
        let Some(partition) = table.active.partition(token, key) else {
            return is_all_in_active.then_some(StoredRow::NONE);
        };
        if !partition.has_whole_rows() {
            return None;
        }
        let Some((packed, shadow)) = partition.row(&table.layout, clustering) else {
            let shadow = partition.deletion_at(&table.layout, clustering);
            return is_all_in_active.then_some(StoredRow {
                shadow,
                ..StoredRow::NONE
            });
        };
        let row = packed.row();
        let is_settled = || {
            let settled_below_us = table.layout.shape.settled_below_us(row);
            let mut sstables = table.sstables.iter();
            table.memtables().count() == 1
                && sstables.all(|sstable| sstable.statistics().timestamp_us_max < settled_below_us)
        };
        (is_all_in_active || is_settled()).then_some(StoredRow {
            clustering: Some(packed.clustering()),
            row,
            shadow,
        })
    }

    /// No other read goes on with the pages that were brought for this one.
    pub fn end_read(&self, state: &mut ReadState) {
        self.cache.give_ticket(&mut state.ticket);
    }

    /// Takes the bytes that a step ended for; the next step finds them whatever the size of the cache.
    pub fn deliver(&self, state: &ReadState, absent: &AbsentPages, stored: &[u8]) -> Result<(), ReadError> {
        let fault = self.cache.deliver(&state.ticket, absent, stored)?;
        self.note_sidecar_fault(fault);
        Ok(())
    }

    /// The bytes that a step ended for cannot be had. Whether the read ends with that, or its next step goes another way.
    pub fn not_delivered(&self, absent: &AbsentPages, source: std::io::Error) -> Result<(), ReadError> {
        let fault = absent.or_without(absent.failed(source))?;
        self.note_sidecar_fault(fault);
        Ok(())
    }

    fn note_sidecar_fault(&self, fault: Option<SidecarFault>) {
        if let (Some(fault), Some(folder)) = (fault, self.data_folder()) {
            // Counted as a table that reads without it.
            folder.events().event(&Event::SidecarFault { fault: &fault });
        }
    }
}

/// Brings what a step of a read has found into the row cache: it is right even where the read could not go on.
fn record(fills: Fills, is_over: bool, table: &Table, (token, key): (Token, &[u8]), rows: &mut RowCache) {
    if is_over && fills.was_refused() {
        rows.note_refused(table.layout.metadata.id, token);
    }
    if !fills.is_empty() {
        fills.apply(table, (token, key), rows);
    }
}

pub(super) struct TableRead<'a> {
    pub table: &'a Table,
    pub command: &'a ReadCommand<'a>,
    cache: &'a PageCache,
    ticket: &'a ReadTicket,
    pub pages: Pages<'a>,
    rows: &'a RowCache,
    bypasses_cache: bool,
    fills: &'a Fills,
}

impl<'a> TableRead<'a> {
    #[inline]
    pub fn new(
        table: &'a Table,
        command: &'a ReadCommand<'a>,
        (cache, rows): (&'a PageCache, &'a RowCache),
        (ticket, fills): (&'a ReadTicket, &'a Fills),
        state: &ReadState,
    ) -> Self {
        TableRead {
            table,
            command,
            cache,
            ticket,
            pages: match state.suspends {
                true => cache.suspending(ticket),
                false => Pages::from(cache),
            }
            .passing_by(state.bypasses_cache),
            bypasses_cache: state.bypasses_cache,
            rows,
            fills,
        }
    }

    #[inline]
    fn run<S: ReadSink>(
        &self,
        sink: &mut S,
        scratch: &mut ReadScratch,
        state: &mut ReadState,
    ) -> Result<Walk, ReadError> {
        let mut answer = Answer::new(self.table, self.command, sink, scratch, state);
        let state_resumes = answer.state.position.is_some();
        let begun_at = state_resumes.then(|| answer.state.place());
        let is_in_memory = self.table.is_in_active();
        let is_scan = self.command.index.is_empty();
        match self.command.partitions {
            PartitionRange::One { token, key } if is_in_memory && is_scan => {
                self.read_memtable(token, key, &mut answer)
            }
            PartitionRange::One { token, key }
                if let Some(walk) = self.read_cached_row(token, key, &mut answer) =>
            {
                Ok(walk)
            }
            partitions => {
                match state_resumes {
                    true => self.ticket.resume_run(),
                    false => self.ticket.begin_run(),
                }
                let before = self.cache.cost();
                let indexed = match is_scan {
                    true => Ok(None),
                    false => self.walk_indexed(&mut answer),
                };
                let is_by_index = matches!(indexed, Ok(Some(_)));
                let walk = match (indexed, partitions) {
                    (Ok(Some(walk)), _) => Ok(walk),
                    (Err(error), _) => Err(error),
                    (Ok(None), PartitionRange::One { token, key }) => self.read_one(token, key, &mut answer),
                    (Ok(None), PartitionRange::Many { start, end }) => {
                        self.read_many(&[PartitionSpan { start, end }], &mut answer)
                    }
                    (Ok(None), PartitionRange::Parts(parts)) => self.read_many(parts, &mut answer),
                };
                if matches!(walk, Err(ReadError::Absent(_)))
                    && begun_at.is_some_and(|begun_at| begun_at == state.place())
                {
                    self.ticket.keep_pages();
                }
                match state.suspends {
                    true => state.statistics.cost = self.ticket.cost(),
                    false => state.statistics.cost.add(self.cache.cost().since(before)),
                }
                state.statistics.sstables_touched += self.fills.sstables_touched();
                state.statistics.by_index |= is_by_index;
                walk
            }
        }
    }

    fn read_memtable<S: ReadSink>(
        &self,
        token: Token,
        key: &[u8],
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let Some(partition) = self.table.active.partition(token, key) else {
            return Ok(Walk::Over);
        };
        let comparator = &self.table.layout.comparator;
        let (slices, passed) = self.slices_left(answer.state);
        let mut cursor = MemtableCursor::new(partition, comparator, &slices, self.command.reversed);
        answer.partition(token, key, &mut cursor, passed)
    }

    /// The slices of the partition that the read stands in, behind its place there, and what is passed of it.
    pub(super) fn slices_left(&self, state: &ReadState) -> (Cow<'a, [Slice]>, Passed) {
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

    /// Returns whether the row cache has a part in the read. What a scan passes would displace what others come back to.
    fn is_cached(&self) -> bool {
        let is_of_one = matches!(self.command.partitions, PartitionRange::One { .. });
        self.rows.is_enabled() && is_of_one && !self.bypasses_cache
    }

    #[inline]
    fn cached_partition(&self, token: Token, key: &[u8]) -> Option<&'a CachedPartition> {
        self.is_cached()
            .then(|| self.rows.partition(self.command.table.id, token, key))?
    }

    /// As short as a point read of the active memtable, for a row that is cached and in no memtable; `None` where it is not.
    #[inline]
    fn read_cached_row<S: ReadSink>(
        &self,
        token: Token,
        key: &[u8],
        answer: &mut Answer<'_, S>,
    ) -> Option<Walk> {
        if S::TAKES_STORED {
            return None;
        }
        // An earlier step may have come as far as the row.
        let ([slice], None) = (self.command.slices, answer.state.position()) else {
            return None;
        };
        let comparator = &self.table.layout.comparator;
        let clustering = slice.as_key(comparator.component_count())?;
        let cached = self.cached_partition(token, key)?;
        if self
            .table
            .memtables()
            .any(|memtable| memtable.partition(token, key).is_some())
        {
            return None;
        }
        let (head, row) = cached.point(comparator, clustering);
        match row {
            CachedRow::Unknown => None,
            CachedRow::Known { found, deletion } => {
                self.rows.count_read(true);
                let _ = answer.cached_point((token, key), head, found, deletion);
                Some(Walk::Over)
            }
        }
    }

    fn read_one<S: ReadSink>(
        &self,
        token: Token,
        key: &[u8],
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let (slices, passed) = self.slices_left(answer.state);
        self.read_partition(token, key, &slices, passed, answer)
    }

    pub(super) fn read_partition<S: ReadSink>(
        &self,
        token: Token,
        key: &[u8],
        slices: &[Slice],
        passed: Passed,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let reversed = self.command.reversed;
        if self.table.is_in_active() {
            let Some(partition) = self.table.active.partition(token, key) else {
                return Ok(answer.nothing_left(&passed));
            };
            let comparator = &self.table.layout.comparator;
            let mut cursor = MemtableCursor::new(partition, comparator, slices, reversed);
            return answer.partition(token, key, &mut cursor, passed);
        }
        let read = PartitionRead {
            table: self.table,
            pages: self.pages,
            token,
            key,
            reversed,
            fills: self.fills,
        };
        let is_point = read.is_point(slices);
        let mut sources = Sources::new();
        // What is older cannot show in the one row that is asked for.
        let mut settled = Settled::NOTHING;
        for memtable in self.table.memtables() {
            if let Some(cursor) = memtable.cursor(token, key, slices, reversed) {
                let mut cursor = BegunCursor::new(cursor);
                settled.add(&mut cursor, &self.table.layout.shape, is_point)?;
                sources.push(cursor);
            }
        }
        let cached = self.cached_partition(token, key);
        match cached {
            Some(cached) => sources.push(CachedSource::new(read, cached, slices)),
            None if !self.is_cached() => read.open_sstables(slices, settled, &mut sources)?,
            None if self.rows.admits(self.command.table.id, token) => {
                read.open_recorded(slices, settled, &mut sources)?
            }
            None => read.open_refused(slices, settled, &mut sources)?,
        }
        let walk = self.answer_merged(sources, (token, key), passed, answer);
        // A step that ended before the read did is not counted.
        if self.is_cached() && matches!(walk, Ok(Walk::Over | Walk::Enough)) {
            self.rows.count_read(cached.is_some() && self.fills.is_empty());
        }
        walk
    }

    fn answer_merged<S: ReadSink>(
        &self,
        sources: Sources<'_>,
        (token, key): (Token, &[u8]),
        passed: Passed,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let mut cursors = match sources.into_parts() {
            Ok(mut only) => return answer.partition(token, key, &mut only, passed),
            Err(cursors) => cursors,
        };
        match cursors.pop() {
            None => Ok(answer.nothing_left(&passed)),
            Some(mut only) if cursors.is_empty() => answer.partition(token, key, &mut only, passed),
            Some(last) => {
                cursors.push(last);
                let merged = MergedCursor::new(&self.table.layout, self.command.reversed, cursors)?;
                answer.partition(token, key, &mut merged.showing_progress(), passed)
            }
        }
    }

    /// The rest of the partition that the read stands in, then those behind it.
    fn read_many<'k, S: ReadSink>(
        &self,
        parts: &[PartitionSpan<'k>],
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let stood_at = answer.state.position().cloned();
        let mut parts = Cow::Borrowed(parts);
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
            let behind = PartitionBound {
                token: *token,
                key: Some(key),
                side: match place {
                    PartitionPlace::Start => Side::Before,
                    PartitionPlace::Within { .. } | PartitionPlace::End => Side::After,
                },
            };
            parts = Cow::Owned(parts_left(&parts, behind, (*token, key)));
        }
        let walk = match self.table.is_in_active() {
            true => self.scan_memtable(&parts, &mut current, answer),
            false => self.scan(&parts, &mut current, answer),
        };
        // Within a partition the walk over it has noted the place.
        if matches!(walk, Ok(Walk::Paused) | Err(_)) {
            current.note(answer.state);
        }
        walk
    }

    pub(super) fn scan_memtable<S: ReadSink>(
        &self,
        parts: &[PartitionSpan<'_>],
        current: &mut CurrentPartition,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let ReadCommand { slices, reversed, .. } = *self.command;
        let ranges = parts
            .iter()
            .map(|&PartitionSpan { start, end }| PartitionRange::Many { start, end });
        for (token, partition) in ranges.flat_map(|range| self.table.active.partitions(&range)) {
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

    pub(super) fn scan<S: ReadSink>(
        &self,
        parts: &[PartitionSpan<'_>],
        current: &mut CurrentPartition,
        answer: &mut Answer<'_, S>,
    ) -> Result<Walk, ReadError> {
        let ReadCommand { slices, reversed, .. } = *self.command;
        let range = PartitionRange::Parts(parts);
        let mut scanners: Vec<Box<dyn PartitionScanner + '_>> = Vec::new();
        for memtable in self.table.memtables() {
            scanners.push(Box::new(memtable.scanner(&range, slices, reversed)));
        }
        let (start, end) = range.bounds();
        let overlapping = |sstable: &&Arc<SsTable>| sstable.may_overlap(start.token, end.token);
        for sstable in self.table.sstables.iter().filter(overlapping) {
            answer.state.statistics.sstables_touched += 1;
            scanners.push(Box::new(sstable.scan(self.pages, start, end, slices, reversed)));
        }
        let mut merged = MergedScanner::new(&self.table.layout, reversed, scanners).showing_progress();
        for part in parts {
            let mut is_there = merged.advance_to(&part.start)?;
            while is_there {
                let (token, key) = merged.position();
                if !part.end.is_behind(token, key) {
                    break;
                }
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
                is_there = merged.advance()?;
            }
        }
        Ok(Walk::Over)
    }
}

/// Returns the rest of a scan's parts that is not before the place of a partition.
fn parts_left<'k>(
    parts: &[PartitionSpan<'k>],
    place: PartitionBound<'k>,
    (token, key): (Token, &[u8]),
) -> Vec<PartitionSpan<'k>> {
    let ended = parts.partition_point(|part| !part.end.is_behind(token, key));
    let mut left = parts.get(ended..).unwrap_or_default().to_vec();
    if let Some(first) = left.first_mut()
        && !first.start.is_behind(token, key)
    {
        first.start = place;
    }
    left
}

/// The partition that a scan has reached.
#[derive(Default)]
pub(super) struct CurrentPartition {
    pub token: Option<Token>,
    pub key: Vec<u8>,
    pub is_over: bool,
}

impl CurrentPartition {
    pub fn enter(&mut self, token: Token, key: &[u8]) {
        self.token = Some(token);
        self.key.clear();
        self.key.extend_from_slice(key);
        self.is_over = false;
    }

    /// Makes the read go on here, unless it stands within this partition or has reached none in this step.
    pub fn note(self: &CurrentPartition, state: &mut ReadState) {
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
