//! A partition up to the first thing in it that is wrong.

use std::cmp::Ordering;

use helenus_rows::clustering::{ClusteringComparator, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_rows::update::BoundRef;
use helenus_sstable::SsTableCursor;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};

/// Ends where the cursor fails or comes out of order, with a range deletion in force ended there too.
pub struct GoodPart<'c, 'a> {
    cursor: &'c mut SsTableCursor<'a>,
    comparator: &'c ClusteringComparator,
    last: Option<(Vec<u8>, Option<Side>)>,
    in_force: DeletionTime,
    /// The current element is the end of the range deletion in force, made up.
    is_closing: bool,
    damage: Option<String>,
    position: u64,
    /// The next partition begins there.
    end: u64,
}

impl<'c, 'a> GoodPart<'c, 'a> {
    pub fn new(cursor: &'c mut SsTableCursor<'a>, comparator: &'c ClusteringComparator, end: u64) -> Self {
        let position = cursor.rows_position();
        GoodPart {
            cursor,
            comparator,
            last: None,
            in_force: DeletionTime::LIVE,
            is_closing: false,
            damage: None,
            position,
            end,
        }
    }

    pub fn damage(&self) -> Option<&String> {
        self.damage.as_ref()
    }

    /// Behind the last good element, or where the damage was found.
    pub fn position(&self) -> u64 {
        self.position
    }

    fn stop(&mut self, damage: String) -> bool {
        self.damage = Some(damage);
        self.is_closing = !self.in_force.is_live();
        self.in_force = DeletionTime::LIVE;
        self.is_closing
    }

    fn is_next(&self, prefix: &[u8], side: Option<Side>) -> bool {
        let Some((last, last_side)) = &self.last else {
            return true;
        };
        let ordering = match (*last_side, side) {
            (None, None) => self.comparator.compare(last, prefix),
            (None, Some(side)) => self.comparator.compare_to_place(last, prefix, side),
            (Some(side), None) => self.comparator.compare_to_place(prefix, last, side).reverse(),
            (Some(left), Some(right)) => self.comparator.compare_bounds((last, left), (prefix, right)),
        };
        ordering == Ordering::Less
    }
}

impl PartitionCursor for GoodPart<'_, '_> {
    fn deletion(&self) -> DeletionTime {
        self.cursor.deletion()
    }

    fn static_row(&self) -> RowRef<'_> {
        self.cursor.static_row()
    }

    fn advance(&mut self) -> Result<bool, ReadError> {
        if self.damage.is_some() {
            return Ok(false);
        }
        match self.cursor.advance() {
            Err(error) => return Ok(self.stop(error.to_string())),
            Ok(false) => match self.cursor.pass_rest() {
                Err(error) => return Ok(self.stop(error.to_string())),
                Ok(end) => {
                    self.position = end;
                    return Ok(false);
                }
            },
            Ok(true) => {}
        }
        self.position = self.cursor.position();
        if self.position >= self.end {
            return Ok(self.stop("a partition that does not end where the next begins".to_owned()));
        }
        let (prefix, side, in_force) = match self.cursor.current() {
            Unfiltered::Row { clustering, .. } => (clustering.to_vec(), None, self.in_force),
            Unfiltered::Marker { bound, deletion } => (bound.prefix.to_vec(), Some(bound.side), deletion),
        };
        if !self.is_next(&prefix, side) {
            return Ok(self.stop("a row that is not behind the one before".to_owned()));
        }
        self.last = Some((prefix, side));
        self.in_force = in_force;
        Ok(true)
    }

    fn current(&self) -> Unfiltered<'_> {
        if !self.is_closing {
            return self.cursor.current();
        }
        let prefix = self.last.as_ref().map_or(&[][..], |(prefix, _)| prefix);
        Unfiltered::Marker {
            bound: BoundRef {
                prefix,
                side: Side::After,
            },
            deletion: DeletionTime::LIVE,
        }
    }
}
