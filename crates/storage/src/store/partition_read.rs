//! One partition's SSTables as a source of a read, with the row cache before them.

use std::cell::{Cell, OnceCell, RefCell};

use helenus_types::Token;

use super::table::Table;
use crate::merge::MergedCursor;
use crate::row_cache::{
    CachedCursor, CachedPartition, GAPS_MAX, Gap, Recorder, RecordingCursor, RowCache, Step,
};
use helenus_rows::clustering::{ClusteringBound, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{RowRef, RowShape};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_sstable::{Pages, SsTable, SsTableCursor};

/// Rows and deletions that one step of a read has found in SSTables and not in the row cache. Costs nothing while there is none.
#[derive(Debug, Default)]
pub(super) struct Fills {
    slots: OnceCell<Box<[OnceCell<Fill>; GAPS_MAX]>>,
    sstables_touched: Cell<u32>,
    was_refused: Cell<bool>,
}

/// Some slices of a partition.
#[derive(Debug)]
struct Fill {
    slices: Vec<Slice>,
    deletion: DeletionTime,
    static_row: Vec<u8>,
    recorder: RefCell<Recorder>,
}

/// A partition to be read.
#[derive(Clone, Copy)]
pub(super) struct PartitionRead<'a> {
    pub table: &'a Table,
    pub pages: Pages<'a>,
    pub token: Token,
    pub key: &'a [u8],
    pub reversed: bool,
    pub fills: &'a Fills,
}

/// Bounds that hide older files: those whose last write is at or before a deletion, or before everything in a complete row.
#[derive(Clone, Copy)]
pub(super) struct Settled {
    pub deletion: DeletionTime,
    pub below_us: i64,
}

/// Cursors over one partition, newest first. That of one SSTable alone, as most reads have, is not boxed.
pub(super) struct Sources<'a> {
    only: Option<BegunCursor<SsTableCursor<'a>>>,
    boxed: Vec<Box<dyn PartitionCursor + 'a>>,
}

/// Result of opening the SSTables that matter.
struct Opened {
    /// True if the opened ones are all there is in SSTables, whatever memtables hide of it.
    is_whole: bool,
    /// True if an index had to be asked.
    is_consulted: bool,
}

impl<'a> Sources<'a> {
    pub fn new() -> Self {
        Sources {
            only: None,
            boxed: Vec::new(),
        }
    }

    pub fn push(&mut self, cursor: impl PartitionCursor + 'a) {
        self.boxed.extend(self.only.take().map(box_cursor));
        self.boxed.push(Box::new(cursor));
    }

    fn push_sstable(&mut self, cursor: BegunCursor<SsTableCursor<'a>>) {
        if self.only.is_none() && self.boxed.is_empty() {
            self.only = Some(cursor);
        } else {
            self.push(cursor);
        }
    }

    /// The one unboxed cursor, or all of them.
    pub fn into_parts(self) -> Result<BegunCursor<SsTableCursor<'a>>, Vec<Box<dyn PartitionCursor + 'a>>> {
        self.only.ok_or(self.boxed)
    }

    fn into_boxed(self) -> Vec<Box<dyn PartitionCursor + 'a>> {
        match self.only {
            Some(only) => vec![box_cursor(only)],
            None => self.boxed,
        }
    }
}

fn box_cursor<'a>(cursor: BegunCursor<SsTableCursor<'a>>) -> Box<dyn PartitionCursor + 'a> {
    Box::new(cursor)
}

impl Settled {
    pub const NOTHING: Settled = Settled {
        deletion: DeletionTime::LIVE,
        below_us: i64::MIN,
    };

    /// Takes in a source. `is_point` where it has no more than the one row that is asked for.
    pub fn add<C: PartitionCursor>(
        &mut self,
        cursor: &mut BegunCursor<C>,
        shape: &RowShape,
        is_point: bool,
    ) -> Result<(), ReadError> {
        self.deletion = self.deletion.max(cursor.deletion());
        if is_point {
            self.below_us = self.below_us.max(cursor.begin(shape)?);
        }
        Ok(())
    }

    fn hides(&self, sstable: &SsTable) -> bool {
        let timestamp_us_max = sstable.statistics().timestamp_us_max;
        self.deletion.hides(timestamp_us_max) || timestamp_us_max < self.below_us
    }
}

impl<'a> PartitionRead<'a> {
    pub fn is_point(&self, slices: &[Slice]) -> bool {
        let component_count = self.table.layout.comparator.component_count();
        matches!(slices, [slice] if slice.as_key(component_count).is_some())
    }

    /// Appends a cursor for each SSTable that matters. `settled` tells of the memtables.
    pub fn open_sstables(
        &self,
        slices: &'a [Slice],
        settled: Settled,
        sources: &mut Sources<'a>,
    ) -> Result<(), ReadError> {
        self.open(slices, settled, sources).map(|_| ())
    }

    /// As [`PartitionRead::open_sstables`], of a partition that the row cache would have recorded if it had admitted it.
    pub fn open_refused(
        &self,
        slices: &'a [Slice],
        settled: Settled,
        sources: &mut Sources<'a>,
    ) -> Result<(), ReadError> {
        let opened = self.open(slices, settled, sources)?;
        self.fills.was_refused.set(opened.is_whole && opened.is_consulted);
        Ok(())
    }

    /// As [`PartitionRead::open_sstables`]; what is read is kept for the row cache.
    pub fn open_recorded(
        &self,
        slices: &'a [Slice],
        settled: Settled,
        sources: &mut Sources<'a>,
    ) -> Result<(), ReadError> {
        let mut own = Sources::new();
        let opened = self.open(slices, settled, &mut own)?;
        if !opened.is_whole || !opened.is_consulted {
            for cursor in own.into_boxed() {
                sources.push(cursor);
            }
            return Ok(());
        }
        let merged = self.merged(own)?;
        if let Some(fill) = self.fills.add(slices.to_vec(), &*merged, self.reversed) {
            sources.push(RecordingCursor::new(merged, &fill.recorder));
        } else {
            sources.push(merged);
        }
        Ok(())
    }

    fn open(
        &self,
        slices: &'a [Slice],
        mut settled: Settled,
        sources: &mut Sources<'a>,
    ) -> Result<Opened, ReadError> {
        let is_point = self.is_point(slices);
        let shape = &self.table.layout.shape;
        let mut own = Settled::NOTHING;
        let mut opened = Opened {
            is_whole: true,
            is_consulted: false,
        };
        for (index, sstable) in self.table.sstables.iter().enumerate() {
            if settled.hides(sstable) {
                // The files after this one are older still.
                let mut rest = self.table.sstables.iter().skip(index);
                opened.is_whole = rest.all(|rest| {
                    let timestamp_us_max = rest.statistics().timestamp_us_max;
                    own.deletion.hides(timestamp_us_max)
                        || !rest.may_contain(self.token, self.key)
                        || (own.hides(rest) && rest.has_only_rows())
                });
                break;
            }
            match sstable.partition(self.pages, self.token, self.key, slices, self.reversed)? {
                None => opened.is_consulted |= sstable.may_contain(self.token, self.key),
                Some(cursor) => {
                    opened.is_consulted = true;
                    self.fills.sstables_touched.update(|count| count + 1);
                    let mut cursor = BegunCursor::new(cursor);
                    // For the files that come after it.
                    if index + 1 < self.table.sstables.len() {
                        settled.add(&mut cursor, shape, is_point)?;
                        own.deletion = own.deletion.max(cursor.deletion());
                        own.below_us = own.below_us.max(cursor.settled_below_us);
                    }
                    sources.push_sstable(cursor);
                }
            }
        }
        Ok(opened)
    }

    fn merged(&self, sources: Sources<'a>) -> Result<Box<dyn PartitionCursor + 'a>, ReadError> {
        let mut cursors = sources.into_boxed();
        match cursors.pop() {
            Some(only) if cursors.is_empty() => Ok(only),
            last => {
                cursors.extend(last);
                let merged = MergedCursor::new(&self.table.layout, self.reversed, cursors)?;
                Ok(Box::new(merged.showing_progress()))
            }
        }
    }
}

impl Fills {
    /// How many SSTables were looked into.
    pub fn sstables_touched(&self) -> u32 {
        self.sstables_touched.get()
    }

    /// Returns whether there would have been something to record of a partition that the row cache does not admit.
    pub fn was_refused(&self) -> bool {
        self.was_refused.get()
    }

    /// Returns whether nothing was looked for in SSTables to be cached.
    pub fn is_empty(&self) -> bool {
        self.slots.get().is_none()
    }

    /// Brings what was read into the cache.
    pub fn apply(self, table: &Table, (token, key): (Token, &[u8]), cache: &mut RowCache) {
        let slots = self.slots.into_inner().into_iter().flat_map(|slots| *slots);
        for fill in slots.filter_map(OnceCell::into_inner) {
            let head = (fill.deletion, RowRef::new(&fill.static_row));
            let recorder = fill.recorder.into_inner();
            cache.fill(&table.layout, (token, key), head, &fill.slices, &recorder);
        }
    }

    /// `None` where there are as many as one step may have.
    fn add(
        &self,
        slices: Vec<Slice>,
        source: &(impl PartitionCursor + ?Sized),
        reversed: bool,
    ) -> Option<&Fill> {
        self.put(slices, source.deletion(), source.static_row(), reversed)
    }

    fn put(
        &self,
        slices: Vec<Slice>,
        deletion: DeletionTime,
        static_row: RowRef<'_>,
        reversed: bool,
    ) -> Option<&Fill> {
        let slots = self
            .slots
            .get_or_init(|| Box::new([const { OnceCell::new() }; GAPS_MAX]));
        let free = slots.iter().find(|slot| slot.get().is_none())?;
        Some(free.get_or_init(|| Fill {
            slices,
            deletion,
            static_row: static_row.as_bytes().to_vec(),
            recorder: RefCell::new(Recorder::new(reversed)),
        }))
    }
}

/// Cursor over what is cached of a partition, and from SSTables what is not.
pub(super) struct CachedSource<'a> {
    read: PartitionRead<'a>,
    partition: &'a CachedPartition,
    cursor: CachedCursor<'a>,
    /// The gap being read.
    gap: Option<RecordingCursor<'a, Box<dyn PartitionCursor + 'a>>>,
    current: Unfiltered<'a>,
}

impl<'a> CachedSource<'a> {
    pub fn new(read: PartitionRead<'a>, partition: &'a CachedPartition, slices: &'a [Slice]) -> Self {
        let comparator = &read.table.layout.comparator;
        CachedSource {
            cursor: CachedCursor::new(partition, comparator, slices, read.reversed),
            read,
            partition,
            gap: None,
            current: Unfiltered::Row {
                clustering: &[],
                row: RowRef::EMPTY,
            },
        }
    }

    fn open_gap(&mut self, gap: Gap<'a>) -> Result<(), ReadError> {
        let slice = Slice {
            start: ClusteringBound::from(gap.start),
            end: ClusteringBound::from(gap.end),
        };
        let mut slices = gap.rest.to_vec();
        slices.insert(if self.read.reversed { slices.len() } else { 0 }, slice);
        let (deletion, static_row) = (self.partition.deletion(), self.partition.static_row());
        let fill = self
            .read
            .fills
            .put(slices, deletion, static_row, self.read.reversed);
        let Some(fill) = fill else {
            unreachable!("a cursor names at most GAPS_MAX gaps, and each step of a read has one cursor");
        };
        let mut sources = Sources::new();
        self.read.open(&fill.slices, Settled::NOTHING, &mut sources)?;
        let merged = self.read.merged(sources)?;
        debug_assert!(
            !merged.deletion().supersedes(deletion),
            "a deletion that the cache does not know"
        );
        self.gap = Some(RecordingCursor::new(merged, &fill.recorder));
        Ok(())
    }
}

impl PartitionCursor for CachedSource<'_> {
    fn deletion(&self) -> DeletionTime {
        self.partition.deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        self.partition.static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            if let Some(gap) = &mut self.gap {
                if gap.advance()? {
                    return Ok(true);
                }
                self.gap = None;
            }
            match self.cursor.step() {
                Step::End => return Ok(false),
                Step::Gap(gap) => self.open_gap(gap)?,
                Step::Element(element) => {
                    self.current = element;
                    return Ok(true);
                }
            }
        }
    }

    fn current(&self) -> Unfiltered<'_> {
        self.gap.as_ref().map_or(self.current, PartitionCursor::current)
    }
}

/// A cursor whose first element may have been looked at before it is merged.
pub(super) struct BegunCursor<C> {
    cursor: C,
    /// Result of the first `advance`, until it is asked for.
    first: Option<bool>,
    /// The timestamp below which its first row lets nothing else show, where that was looked at.
    settled_below_us: i64,
}

impl<C: PartitionCursor> BegunCursor<C> {
    pub fn new(cursor: C) -> Self {
        BegunCursor {
            cursor,
            first: None,
            settled_below_us: i64::MIN,
        }
    }

    /// Moves to the first element; the timestamp below which it lets nothing else show.
    fn begin(&mut self, shape: &RowShape) -> Result<i64, ReadError> {
        let has_first = self.cursor.advance()?;
        self.first = Some(has_first);
        if let Some(Unfiltered::Row { row, .. }) = has_first.then(|| self.cursor.current()) {
            self.settled_below_us = shape.settled_below_us(row);
        }
        Ok(self.settled_below_us)
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
