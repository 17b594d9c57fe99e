//! Effect of one update of a base table on the views: the base rows that it touches are read as they are stored, and what
//! they stand for before it and after it is compared (`TableViews`, `ViewUpdateGenerator`).
//!
//! The read may take several steps, and what it comes to may be taken in chunks ([`ViewDelta::take_chunk`]): nothing is kept of
//! the rows that were passed.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{RowBuilder, RowRef, RowShape, merge};
use helenus_rows::update::{BoundRef, Update, UpdateBuilder, UpdateItem};
use helenus_schema::TableMetadata;
use helenus_sstable::source::Unfiltered;
use helenus_storage::read::StoredSink;
use helenus_types::Token;

use super::changes::Changes;
use super::compare::{CompareScratch, Compared};
use super::plan::BaseViews;
use crate::CqlError;

/// The bytes of updates of views after which they are taken as a chunk: a quarter of what a record of the log may have.
const CHUNK_BYTES: usize = 4 << 20;

/// Effect of an update on the views of its table; the sink of the read of what is stored.
#[derive(Debug)]
pub struct ViewDelta<'v> {
    views: &'v BaseViews,
    now_s: u32,
    key: Vec<u8>,
    update: BaseUpdate,
    /// All rows are new.
    is_build: bool,
    /// How many of the update's rows are done.
    rows_done: usize,
    /// Deletion of the stored partition.
    partition_deletion: DeletionTime,
    /// The range deletion that is stored, where the read stands.
    in_force: DeletionTime,
    changes: Changes,
    /// Rows that were passed, as they become in the base table; only where there may be many of them.
    passed: Vec<PassedRow>,
    failure: Option<CqlError>,
    scratch: CompareScratch,
}

/// Chunk of an update: the rows that were passed since the chunk before it.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Packed updates of the views.
    pub views: Vec<Vec<u8>>,
    /// Packed; what the update does to the base rows that `views` is about. None if there are no such.
    pub base: Option<Vec<u8>>,
}

/// An update in the order of its rows.
#[derive(Debug)]
struct BaseUpdate {
    deletion: DeletionTime,
    /// Ascending, each once.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    ranges: Vec<(Slice, DeletionTime)>,
}

/// One base row of the update, as it becomes.
#[derive(Debug)]
struct PassedRow {
    clustering: Vec<u8>,
    row: Vec<u8>,
}

impl<'v> ViewDelta<'v> {
    /// `now_s` in seconds since the Unix epoch: what has expired by then is not there.
    pub fn new(views: &'v BaseViews, update: &Update<'_>, now_s: u32) -> Self {
        let layout = &views.layout;
        let update_of_rows = BaseUpdate::of(update, &layout.shape, &layout.comparator);
        Self::with(views, update.partition_key, update_of_rows, now_s)
    }

    /// As of a write that makes all rows be there that are read.
    pub fn of_build(views: &'v BaseViews, key: &[u8], now_s: u32) -> Self {
        let nothing = BaseUpdate {
            deletion: DeletionTime::LIVE,
            rows: Vec::new(),
            ranges: Vec::new(),
        };
        ViewDelta {
            is_build: true,
            ..Self::with(views, key, nothing, now_s)
        }
    }

    fn with(views: &'v BaseViews, key: &[u8], update: BaseUpdate, now_s: u32) -> Self {
        ViewDelta {
            views,
            now_s,
            key: key.to_vec(),
            update,
            is_build: false,
            rows_done: 0,
            partition_deletion: DeletionTime::LIVE,
            in_force: DeletionTime::LIVE,
            changes: Changes::default(),
            passed: Vec::new(),
            failure: None,
            scratch: CompareScratch::default(),
        }
    }

    /// The table that is written to.
    pub fn base(&self) -> &Arc<TableMetadata> {
        &self.views.layout.metadata
    }

    /// Returns the slices of the partition to be read: disjoint, ascending. Empty where no view has anything of what is written.
    /// To be asked before anything is read.
    pub fn slices(&self) -> Vec<Slice> {
        if !self.update.deletion.is_live() || self.is_build {
            return vec![Slice::all()];
        }
        let base = &self.views.layout.metadata;
        let rows = self.update.rows.iter();
        let concerning = rows.filter(|(clustering, row)| {
            let mut views = self.views.views.iter();
            views.any(|view| view.is_concerned((&self.key, clustering), RowRef::new(row), base))
        });
        let rows = concerning.map(|(clustering, _)| Slice {
            start: bound(clustering, Side::Before),
            end: bound(clustering, Side::After),
        });
        let ranges = self.update.ranges.iter().map(|(slice, _)| slice.clone());
        disjoint(rows.chain(ranges).collect(), &self.views.layout.comparator)
    }

    /// Returns whether the views' updates are to be written before the read goes on.
    pub fn is_full(&self) -> bool {
        self.change_bytes() > CHUNK_BYTES
    }

    /// Bytes of the views' updates since the last chunk.
    pub fn change_bytes(&self) -> usize {
        self.changes.byte_count()
    }

    /// Takes the updates of the rows that were passed since the last chunk.
    pub fn take_chunk(&mut self) -> Result<Chunk, CqlError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let passed = std::mem::take(&mut self.passed);
        let mut base = Vec::new();
        let table = self.views.layout.metadata.id;
        let mut builder = UpdateBuilder::new(&mut base, table, &self.key, DeletionTime::LIVE);
        for PassedRow { clustering, row } in &passed {
            builder.packed(Some(clustering), RowRef::new(row));
        }
        Ok(Chunk {
            views: std::mem::take(&mut self.changes).to_vecs(),
            base: (!passed.is_empty()).then_some(base),
        })
    }

    /// Returns the updates of the views that are left after the last step of the read.
    pub fn finish(&mut self) -> Result<Vec<Vec<u8>>, CqlError> {
        self.rows_before(None);
        Ok(self.take_chunk()?.views)
    }

    /// The update's rows that are not stored, up to a place that the read has come to.
    fn rows_before(&mut self, place: Option<BoundRef<'_>>) {
        while let Some((clustering, row)) = self.update.rows.get_mut(self.rows_done) {
            let comparator = &self.views.layout.comparator;
            let is_behind = |place: BoundRef<'_>| {
                comparator
                    .compare_to_place(clustering, place.prefix, place.side)
                    .is_gt()
            };
            if place.is_some_and(is_behind) {
                return;
            }
            self.rows_done += 1;
            let (clustering, row) = (std::mem::take(clustering), std::mem::take(row));
            self.compare(&clustering, RowRef::EMPTY, RowRef::new(&row));
        }
    }

    fn stored_row(&mut self, clustering: &[u8], stored: RowRef<'_>) {
        let place = |side| BoundRef {
            prefix: clustering,
            side,
        };
        self.rows_before(Some(place(Side::Before)));
        let comparator = &self.views.layout.comparator;
        let next = self.update.rows.get_mut(self.rows_done);
        let row = match next.filter(|next| comparator.compare(&next.0, clustering) == Ordering::Equal) {
            Some((_, row)) => {
                self.rows_done += 1;
                std::mem::take(row)
            }
            None => RowRef::EMPTY.as_bytes().to_vec(),
        };
        self.compare(clustering, stored, RowRef::new(&row));
    }

    fn compare(&mut self, clustering: &[u8], stored: RowRef<'_>, written: RowRef<'_>) {
        let shadow = self.update.shadow(clustering, &self.views.layout.comparator);
        let compared = Compared {
            key: &self.key,
            clustering,
            stored,
            stored_shadow: self.partition_deletion.max(self.in_force),
            written,
            written_shadow: shadow,
            is_build: self.is_build,
            now_s: self.now_s,
        };
        let changes_before = self.changes.count();
        if let Err(error) = self
            .views
            .compare(&compared, &mut self.scratch, &mut self.changes)
        {
            self.failure.get_or_insert(error);
        }
        if self.may_be_long() && self.changes.count() > changes_before {
            self.note_passed(clustering, written, shadow);
        }
    }

    /// Returns whether the update may be about more rows than it names.
    fn may_be_long(&self) -> bool {
        !self.update.deletion.is_live() || !self.update.ranges.is_empty()
    }

    fn note_passed(&mut self, clustering: &[u8], written: RowRef<'_>, shadow: DeletionTime) {
        let mut row = Vec::new();
        let (liveness, deletion, entries) = written.open();
        let mut builder = RowBuilder::new(&mut row, liveness, deletion.max(shadow));
        entries.for_each(|entry| builder.push(entry));
        self.passed.push(PassedRow {
            clustering: clustering.to_vec(),
            row,
        });
    }
}

impl StoredSink for ViewDelta<'_> {
    fn partition(&mut self, _: Token, _: &[u8], deletion: DeletionTime) -> ControlFlow<()> {
        self.partition_deletion = deletion;
        self.in_force = DeletionTime::LIVE;
        ControlFlow::Continue(())
    }

    fn element(&mut self, element: Unfiltered<'_>) -> ControlFlow<()> {
        match element {
            Unfiltered::Marker { bound, deletion } => {
                self.rows_before(Some(bound));
                self.in_force = deletion;
            }
            Unfiltered::Row { clustering, row } => self.stored_row(clustering, row),
        }
        match self.failure {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    /// Ends the step where a chunk is to be taken.
    fn take_units(&mut self) -> u32 {
        if self.is_full() { u32::MAX } else { 0 }
    }
}

fn bound(clustering: &[u8], side: Side) -> ClusteringBound {
    ClusteringBound {
        prefix: clustering.into(),
        side,
    }
}

/// Slices that cover what these cover, in order.
fn disjoint(mut slices: Vec<Slice>, comparator: &ClusteringComparator) -> Vec<Slice> {
    let compare = |left: &ClusteringBound, right: &ClusteringBound| {
        comparator.compare_bounds((&left.prefix, left.side), (&right.prefix, right.side))
    };
    slices.retain(|slice| compare(&slice.start, &slice.end).is_lt());
    slices.sort_by(|left, right| compare(&left.start, &right.start));
    slices.dedup_by(|later, first| {
        let overlaps = compare(&later.start, &first.end).is_le();
        if overlaps && compare(&first.end, &later.end).is_lt() {
            std::mem::swap(&mut first.end, &mut later.end);
        }
        overlaps
    });
    slices
}

impl BaseUpdate {
    fn of(update: &Update<'_>, shape: &RowShape, comparator: &ClusteringComparator) -> Self {
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut ranges = Vec::new();
        for item in update.items() {
            match item {
                // No view has statics.
                UpdateItem::StaticRow(_) => {}
                UpdateItem::Row { clustering, row } => {
                    rows.push((clustering.to_vec(), row.as_bytes().to_vec()));
                }
                UpdateItem::RangeTombstone { start, end, deletion } => {
                    let (start, end) = (ClusteringBound::from(start), ClusteringBound::from(end));
                    ranges.push((Slice { start, end }, deletion));
                }
            }
        }
        rows.sort_by(|left, right| comparator.compare(&left.0, &right.0));
        rows.dedup_by(|later, first| {
            let is_same = comparator.compare(&later.0, &first.0) == Ordering::Equal;
            if is_same {
                let mut both = Vec::new();
                let (one, other) = (RowRef::new(&first.1), RowRef::new(&later.1));
                merge::merge(shape, one, other, DeletionTime::LIVE, &mut both);
                first.1 = both;
            }
            is_same
        });
        BaseUpdate {
            deletion: update.deletion,
            rows,
            ranges,
        }
    }

    /// The deletion of the partition or of a range that is written over a row.
    fn shadow(&self, clustering: &[u8], comparator: &ClusteringComparator) -> DeletionTime {
        let covers = |slice: &Slice| {
            comparator.compare_to_bound(clustering, &slice.start).is_gt()
                && comparator.compare_to_bound(clustering, &slice.end).is_lt()
        };
        let ranges = self.ranges.iter().filter(|(slice, _)| covers(slice));
        ranges.fold(self.deletion, |shadow, (_, deletion)| shadow.max(*deletion))
    }
}
