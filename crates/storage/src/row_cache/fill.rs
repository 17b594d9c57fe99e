//! Recording of what a read took from SSTables, on its way into the cache.

use std::cell::RefCell;
use std::cmp::Ordering;

use super::cursor::side_of_row;
use super::item::{Item, Knowledge, compare_bounds};
use super::partition::CachedPartition;
use helenus_rows::clustering::{ClusteringComparator, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};

/// Bytes that one read adds to the cache at most, per gap. Two pages of a client: a read of more goes through a partition
/// once, and what it passed is not worth displacing what others come back to. A row that is larger is not cached.
pub(crate) const FILL_BYTES_MAX: usize = 256 << 10;

/// Keeps what a read comes across, in the form the cache stores.
#[derive(Debug)]
pub struct Recorder {
    reversed: bool,
    items: Vec<u8>,
    /// Where each item begins.
    starts: Vec<u32>,
    /// The range deletion in force after the last item, in the direction of the read.
    in_force: DeletionTime,
    /// Nothing more is taken.
    is_full: bool,
    /// There was nothing after the last item.
    is_complete: bool,
}

/// Hands a cursor's elements on and has them recorded.
#[derive(Debug)]
pub struct RecordingCursor<'a, C> {
    cursor: C,
    recorder: &'a RefCell<Recorder>,
}

impl Recorder {
    pub fn new(reversed: bool) -> Self {
        Recorder {
            reversed,
            items: Vec::new(),
            starts: Vec::new(),
            in_force: DeletionTime::LIVE,
            is_full: false,
            is_complete: false,
        }
    }

    fn record(&mut self, element: Unfiltered<'_>) {
        let bytes = match element {
            Unfiltered::Row { row, .. } => row.as_bytes().len(),
            Unfiltered::Marker { .. } => 0,
        };
        self.is_full |= self.items.len() + bytes > FILL_BYTES_MAX;
        if self.is_full {
            return;
        }
        self.starts.push(self.items.len() as u32);
        let item = match element {
            Unfiltered::Row { clustering, row } => Item::Row {
                clustering,
                row,
                is_island: false,
            },
            Unfiltered::Marker { bound, deletion } => {
                let before = std::mem::replace(&mut self.in_force, deletion);
                // A mark tells of the places after it, a marker of those that the read comes to next.
                let knowledge = Knowledge::Known(if self.reversed { before } else { deletion });
                Item::Mark { bound, knowledge }
            }
        };
        item.encode(&mut self.items);
    }

    fn end(&mut self) {
        self.is_complete = !self.is_full;
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty() && !self.is_complete
    }

    /// In clustering order.
    fn item(&self, index: usize) -> Option<Item<'_>> {
        let index = if self.reversed {
            self.starts.len().checked_sub(index + 1)?
        } else {
            index
        };
        let start = *self.starts.get(index)? as usize;
        let end = self
            .starts
            .get(index + 1)
            .map_or(self.items.len(), |&end| end as usize);
        self.items.get(start..end).map(Item::decode)
    }

    /// The place up to which everything in the slices is known; `None` for all of it.
    fn last_place(&self) -> Option<BoundRef<'_>> {
        if self.is_complete {
            return None;
        }
        let last = if self.reversed {
            0
        } else {
            self.starts.len().checked_sub(1)?
        };
        Some(match self.item(last)? {
            Item::Row { clustering, .. } => side_of_row(clustering, self.reversed),
            Item::Mark { bound, .. } => bound,
        })
    }

    /// Puts into a partition what was recorded of some slices.
    pub(super) fn fill(
        &self,
        comparator: &ClusteringComparator,
        slices: &[Slice],
        partition: &mut CachedPartition,
    ) {
        let last_place = self.last_place();
        if self.is_empty() {
            return;
        }
        let mut index = 0;
        for slice in slices {
            let (mut start, mut end) = (slice.start.borrowed(), slice.end.borrowed());
            let first = index;
            while self
                .item(index)
                .is_some_and(|item| is_within(comparator, &item, end))
            {
                index += 1;
            }
            let mut deletion = DeletionTime::LIVE;
            match last_place {
                Some(place) if self.reversed && compare_bounds(comparator, start, place).is_le() => {
                    start = place;
                    deletion = self.in_force;
                }
                Some(place) if !self.reversed && compare_bounds(comparator, place, end).is_lt() => {
                    end = place
                }
                _ => {}
            }
            if compare_bounds(comparator, start, end).is_ge() {
                continue;
            }
            let is_one = slice.as_key(comparator.component_count());
            let lone = match (is_one, index - first) {
                (Some(key), 0) => Some((key, RowRef::EMPTY)),
                (Some(_), 1) => self.item(first).and_then(|item| match item {
                    Item::Row { clustering, row, .. } => Some((clustering, row)),
                    Item::Mark { .. } => None,
                }),
                _ => None,
            };
            match lone {
                Some((key, row)) => partition.put_row(comparator, key, row),
                None => {
                    let items = (first..index).filter_map(|index| self.item(index));
                    partition.fill(comparator, (start, end), deletion, items);
                }
            }
        }
    }
}

/// Returns whether an item belongs to the slice with this end and not to one after it.
fn is_within(comparator: &ClusteringComparator, item: &Item<'_>, end: BoundRef<'_>) -> bool {
    match item.compare_to_bound(comparator, end) {
        Ordering::Less => true,
        // Of two marks where slices touch, the first ends what is in force.
        Ordering::Equal => matches!(item, Item::Mark { knowledge, .. } if *knowledge == Knowledge::LIVE),
        Ordering::Greater => false,
    }
}

impl<'a, C: PartitionCursor> RecordingCursor<'a, C> {
    pub fn new(cursor: C, recorder: &'a RefCell<Recorder>) -> Self {
        RecordingCursor { cursor, recorder }
    }
}

impl<C: PartitionCursor> PartitionCursor for RecordingCursor<'_, C> {
    fn deletion(&self) -> DeletionTime {
        self.cursor.deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        self.cursor.static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        let has_element = self.cursor.advance()?;
        let mut recorder = self.recorder.borrow_mut();
        if has_element {
            recorder.record(self.cursor.current());
        } else {
            recorder.end();
        }
        Ok(has_element)
    }

    fn current(&self) -> Unfiltered<'_> {
        self.cursor.current()
    }
}
