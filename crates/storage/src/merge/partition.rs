//! One partition of several sources as one stream.

use std::cmp::Ordering;

use crate::read_state::side_behind;
use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::layout::TableLayout;
use helenus_rows::row::{RowRef, merge};
use helenus_rows::update::BoundRef;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};

/// Merges cursors of one partition. What comes out is resolved against the other sources and the partition's and
/// ranges' deletions, but tombstones and expired cells are still in it: a read and a compaction drop those by
/// different rules.
pub struct MergedCursor<'a> {
    layout: &'a TableLayout,
    reversed: bool,
    sources: Vec<Source<'a>>,
    /// Sources that stand on an element, in falling order, so that the next is the last.
    waiting: Vec<usize>,
    /// Sources that stand on the element handed out.
    taken: Vec<usize>,
    deletion: DeletionTime,
    static_row: Vec<u8>,
    /// The range deletion in force as last announced; live where the partition's deletion hides more.
    announced: DeletionTime,
    row: Vec<u8>,
    spare: Vec<u8>,
    /// True if the element handed out is the row in `row` under the key of the first of `taken`.
    is_row_merged: bool,
    shows_progress: bool,
    /// True if the element handed out only says how far the merge has come.
    is_progress: bool,
}

/// Elements that a merge for a read passes over in one go before it shows where it is.
pub(crate) const HIDDEN_ELEMENTS_MAX: u32 = 64;

struct Source<'a> {
    cursor: Box<dyn PartitionCursor + 'a>,
    /// The range deletion in force in this source.
    open: DeletionTime,
}

impl Source<'_> {
    /// Returns whether it stands on a marker that changes nothing.
    fn shows_progress(&self) -> bool {
        matches!(self.cursor.current(), Unfiltered::Marker { deletion, .. } if deletion == self.open)
    }
}

impl<'a> MergedCursor<'a> {
    pub fn new(
        layout: &'a TableLayout,
        reversed: bool,
        cursors: Vec<Box<dyn PartitionCursor + 'a>>,
    ) -> Result<Self, ReadError> {
        let deletion = cursors
            .iter()
            .fold(DeletionTime::LIVE, |max, cursor| max.max(cursor.deletion()));
        let count = cursors.len();
        let sources = cursors
            .into_iter()
            .map(|cursor| Source {
                cursor,
                open: DeletionTime::LIVE,
            })
            .collect();
        let mut merged = MergedCursor {
            layout,
            reversed,
            sources,
            waiting: Vec::with_capacity(count),
            taken: (0..count).collect(),
            deletion,
            static_row: Vec::new(),
            announced: DeletionTime::LIVE,
            row: Vec::new(),
            spare: Vec::new(),
            is_row_merged: false,
            shows_progress: false,
            is_progress: false,
        };
        merged.merge_static_rows();
        Ok(merged)
    }

    /// After [`HIDDEN_ELEMENTS_MAX`] elements of which nothing can be seen, hands out a marker that repeats the
    /// deletion in force, so that whoever reads can stop there. Not for what is written to a file.
    pub(crate) fn showing_progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    fn merge_static_rows(&mut self) {
        let mut merged = std::mem::take(&mut self.static_row);
        merged.extend_from_slice(RowRef::EMPTY.as_bytes());
        for source in &self.sources {
            let row = source.cursor.static_row();
            if !row.is_empty() {
                self.spare.clear();
                merge::merge(
                    &self.layout.shape,
                    RowRef::new(&merged),
                    row,
                    self.deletion,
                    &mut self.spare,
                );
                std::mem::swap(&mut merged, &mut self.spare);
            }
        }
        self.static_row = merged;
    }

    /// Moves the sources that were handed out and takes those that stand first now; false at the end.
    fn take_next(&mut self) -> Result<bool, ReadError> {
        while let Some(index) = self.taken.pop() {
            if self.sources[index].cursor.advance()? {
                self.wait(index);
            }
        }
        let Some(first) = self.waiting.pop() else {
            return Ok(false);
        };
        self.taken.push(first);
        while let Some(&next) = self.waiting.last() {
            if self.compare(first, next) != Ordering::Equal {
                break;
            }
            self.waiting.pop();
            self.taken.push(next);
        }
        Ok(true)
    }

    fn wait(&mut self, index: usize) {
        let at = self
            .waiting
            .partition_point(|&other| self.compare(other, index) == Ordering::Greater);
        self.waiting.insert(at, index);
    }

    fn compare(&self, left: usize, right: usize) -> Ordering {
        let left = self.sources[left].cursor.current();
        let right = self.sources[right].cursor.current();
        let order = compare_places(&self.layout.comparator, &left, &right);
        if self.reversed { order.reverse() } else { order }
    }

    /// Merges the rows taken; returns whether they leave anything to hand out.
    fn merge_rows(&mut self) -> bool {
        let shadow = self.deletion.max(self.announced);
        self.is_row_merged = !shadow.is_live() || !self.put_newest_first();
        if !self.is_row_merged {
            return true;
        }
        let MergedCursor {
            layout,
            sources,
            taken,
            row,
            spare,
            ..
        } = self;
        let mut rows = taken
            .iter()
            .filter_map(|&index| match sources[index].cursor.current() {
                Unfiltered::Row { row, .. } => Some(row),
                Unfiltered::Marker { .. } => None,
            });
        row.clear();
        let shadowable = rows.clone().any(|row| row.has_shadowable_deletion());
        if shadowable && merge::is_deletion_shadowed(rows.clone()) {
            return merge_without_deletions(layout, rows, shadow, row);
        }
        if layout.shape.is_counter() {
            merge::newest_deletion(rows.clone(), row);
        } else if let Some(first) = rows.next() {
            merge::filter(first, shadow, row);
        }
        for next in rows {
            spare.clear();
            merge::merge(&layout.shape, RowRef::new(row), next, shadow, spare);
            std::mem::swap(row, spare);
        }
        !RowRef::new(row).is_empty()
    }

    /// Returns whether one of the rows taken leaves nothing of the others, as an INSERT does; it is the first of `taken` then.
    fn put_newest_first(&mut self) -> bool {
        let (shape, sources) = (&self.layout.shape, &self.sources);
        let row_of = |index: usize| match sources[index].cursor.current() {
            Unfiltered::Row { row, .. } => row,
            Unfiltered::Marker { .. } => RowRef::EMPTY,
        };
        for at in 1..self.taken.len() {
            let (first, other) = (row_of(self.taken[0]), row_of(self.taken[at]));
            if merge::replaces(shape, other, first) {
                self.taken.swap(0, at);
            } else if !merge::replaces(shape, first, other) {
                return false;
            }
        }
        true
    }

    /// Merges the markers taken; returns whether they change the deletion in force.
    fn merge_markers(&mut self) -> bool {
        for &index in &self.taken {
            let source = &mut self.sources[index];
            if let Unfiltered::Marker { deletion, .. } = source.cursor.current() {
                source.open = deletion;
            }
        }
        let open = self
            .sources
            .iter()
            .fold(DeletionTime::LIVE, |max, source| max.max(source.open));
        let in_force = if open.supersedes(self.deletion) {
            open
        } else {
            DeletionTime::LIVE
        };
        let is_change = in_force != self.announced;
        self.announced = in_force;
        is_change
    }

    fn first_taken(&self) -> Unfiltered<'_> {
        match self.taken.first() {
            Some(&index) => self.sources[index].cursor.current(),
            None => unreachable!("read before advance"),
        }
    }
}

impl PartitionCursor for MergedCursor<'_> {
    fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    fn static_row(&self) -> RowRef<'_> {
        RowRef::new(&self.static_row)
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        self.is_progress = false;
        let mut hidden = 0;
        while self.take_next()? {
            // A source that is itself a merge shows its own progress.
            let is_progress = self
                .taken
                .iter()
                .any(|&index| self.sources[index].shows_progress());
            let has_element = match self.first_taken() {
                Unfiltered::Row { .. } => self.merge_rows(),
                Unfiltered::Marker { .. } => self.merge_markers(),
            };
            if has_element {
                return Ok(true);
            }
            hidden += if is_progress { HIDDEN_ELEMENTS_MAX } else { 1 };
            if hidden >= HIDDEN_ELEMENTS_MAX && self.shows_progress {
                self.is_progress = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn current(&self) -> Unfiltered<'_> {
        match self.first_taken() {
            Unfiltered::Row { clustering, .. } if self.is_progress => Unfiltered::Marker {
                bound: BoundRef {
                    prefix: clustering,
                    side: side_behind(self.reversed),
                },
                deletion: self.announced,
            },
            Unfiltered::Row { clustering, .. } if self.is_row_merged => Unfiltered::Row {
                clustering,
                row: RowRef::new(&self.row),
            },
            row @ Unfiltered::Row { .. } => row,
            Unfiltered::Marker { bound, .. } => Unfiltered::Marker {
                bound,
                deletion: self.announced,
            },
        }
    }
}

/// Merges rows without their deletions; returns whether anything is left. Only of views, and seldom there.
#[cold]
fn merge_without_deletions<'a>(
    layout: &TableLayout,
    rows: impl Iterator<Item = RowRef<'a>>,
    shadow: DeletionTime,
    out: &mut Vec<u8>,
) -> bool {
    out.extend_from_slice(RowRef::EMPTY.as_bytes());
    for row in rows {
        let (mut undeleted, mut merged) = (Vec::new(), Vec::new());
        merge::without_deletion(row, &mut undeleted);
        merge::merge(
            &layout.shape,
            RowRef::new(out),
            RowRef::new(&undeleted),
            shadow,
            &mut merged,
        );
        *out = merged;
    }
    !RowRef::new(out).is_empty()
}

fn compare_places(
    comparator: &ClusteringComparator,
    left: &Unfiltered<'_>,
    right: &Unfiltered<'_>,
) -> Ordering {
    let to_bound =
        |key: &[u8], bound: &BoundRef<'_>| comparator.compare_to_place(key, bound.prefix, bound.side);
    match (left, right) {
        (
            Unfiltered::Row { clustering: left, .. },
            Unfiltered::Row {
                clustering: right, ..
            },
        ) => comparator.compare(left, right),
        (Unfiltered::Row { clustering, .. }, Unfiltered::Marker { bound, .. }) => to_bound(clustering, bound),
        (Unfiltered::Marker { bound, .. }, Unfiltered::Row { clustering, .. }) => {
            to_bound(clustering, bound).reverse()
        }
        (Unfiltered::Marker { bound: left, .. }, Unfiltered::Marker { bound: right, .. }) => {
            comparator.compare_bounds((left.prefix, left.side), (right.prefix, right.side))
        }
    }
}
