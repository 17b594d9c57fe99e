//! Reading slices of a cached partition, as far as they are known.

use super::item::{Knowledge, compare_bounds};
use super::partition::CachedPartition;
use super::walk::{Piece, Walk};
use helenus_rows::clustering::{ClusteringComparator, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::update::BoundRef;
use helenus_sstable::source::Unfiltered;

/// So many gaps of one read are read by themselves; from the last of them on everything is, known or not. A gap costs
/// a look into the index of each SSTable, which is dearer than reading a few rows again.
pub(crate) const GAPS_MAX: usize = 8;

/// Result of a step of the cursor.
#[derive(Debug)]
pub enum Step<'a> {
    Element(Unfiltered<'a>),
    /// Unknown places, which the caller reads elsewhere before it goes on.
    Gap(Gap<'a>),
    End,
}

/// Places between two bounds, whatever the direction of the read.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    pub start: BoundRef<'a>,
    pub end: BoundRef<'a>,
    /// Slices after that one, in the direction of the read, which belong to the gap too. The read ends there.
    pub rest: &'a [Slice],
}

/// Walks over what is known in some slices, in either direction, and names the gaps between. Elements come as from a
/// [`PartitionCursor`](helenus_sstable::source::PartitionCursor).
#[derive(Debug)]
pub struct CachedCursor<'a> {
    partition: &'a CachedPartition,
    comparator: &'a ClusteringComparator,
    /// Those that were not begun yet.
    slices: &'a [Slice],
    reversed: bool,
    window: Option<Window<'a>>,
    /// The range deletion in force as last told.
    announced: DeletionTime,
    gap_count: usize,
}

/// The slice being read.
#[derive(Debug)]
struct Window<'a> {
    walk: Walk<'a>,
    far: BoundRef<'a>,
    /// Where what is known has last changed, and to what.
    at: BoundRef<'a>,
    knowledge: Knowledge,
    /// The change is still to be told.
    is_change: bool,
    /// The piece after a gap.
    next: Option<Option<Piece<'a>>>,
}

impl<'a> CachedCursor<'a> {
    pub fn new(
        partition: &'a CachedPartition,
        comparator: &'a ClusteringComparator,
        slices: &'a [Slice],
        reversed: bool,
    ) -> Self {
        CachedCursor {
            partition,
            comparator,
            slices,
            reversed,
            window: None,
            announced: DeletionTime::LIVE,
            gap_count: 0,
        }
    }

    pub fn step(&mut self) -> Step<'a> {
        loop {
            let Some(window) = &mut self.window else {
                if !self.open_window() {
                    return Step::End;
                }
                continue;
            };
            if window.is_change {
                let in_force = match window.knowledge {
                    Knowledge::Known(deletion) => deletion,
                    Knowledge::Unknown => DeletionTime::LIVE,
                };
                if in_force != self.announced {
                    self.announced = in_force;
                    return Step::Element(Unfiltered::Marker {
                        bound: window.at,
                        deletion: in_force,
                    });
                }
                window.is_change = false;
                if window.knowledge == Knowledge::Unknown
                    && let Some(gap) = self.gap()
                {
                    return Step::Gap(gap);
                }
                continue;
            }
            let piece = window.next.take().unwrap_or_else(|| window.walk.next());
            if let Some(element) = self.take(piece) {
                return Step::Element(element);
            }
        }
    }

    fn open_window(&mut self) -> bool {
        let next = if self.reversed {
            self.slices.split_last()
        } else {
            self.slices.split_first()
        };
        let Some((slice, rest)) = next else {
            return false;
        };
        self.slices = rest;
        let (walk, knowledge) = Walk::new(self.partition, self.comparator, slice, self.reversed);
        let (start, end) = (slice.start.borrowed(), slice.end.borrowed());
        let (at, far) = if self.reversed { (end, start) } else { (start, end) };
        self.window = Some(Window {
            walk,
            far,
            at,
            knowledge,
            is_change: true,
            next: None,
        });
        true
    }

    /// The gap that begins where the window is; `None` where there is no place in it.
    fn gap(&mut self) -> Option<Gap<'a>> {
        let reversed = self.reversed;
        let window = self.window.as_mut()?;
        let piece = window.walk.next();
        let mut far = match piece {
            None => window.far,
            Some(Piece::Change { bound, .. }) => bound,
            Some(Piece::Row { clustering, .. }) => side_of_row(clustering, !reversed),
        };
        window.next = Some(piece);
        if compare_bounds(self.comparator, window.at, far).is_eq() {
            return None;
        }
        self.gap_count += 1;
        let mut rest: &[Slice] = &[];
        let at = window.at;
        if self.gap_count == GAPS_MAX {
            far = window.far;
            rest = std::mem::take(&mut self.slices);
            self.window = None;
        }
        let (start, end) = if reversed { (far, at) } else { (at, far) };
        Some(Gap { start, end, rest })
    }

    /// Goes on to a piece; the end of the slice where there is none.
    fn take(&mut self, piece: Option<Piece<'a>>) -> Option<Unfiltered<'a>> {
        let window = self.window.as_mut()?;
        match piece {
            Some(Piece::Row { clustering, row }) => {
                if window.knowledge == Knowledge::Unknown {
                    window.at = side_of_row(clustering, self.reversed);
                    window.is_change = true;
                }
                (!row.is_empty()).then_some(Unfiltered::Row { clustering, row })
            }
            Some(Piece::Change { bound, knowledge }) => {
                window.at = bound;
                window.knowledge = knowledge;
                window.is_change = true;
                None
            }
            None => {
                let bound = window.far;
                self.window = None;
                let is_open = !std::mem::replace(&mut self.announced, DeletionTime::LIVE).is_live();
                is_open.then_some(Unfiltered::Marker {
                    bound,
                    deletion: DeletionTime::LIVE,
                })
            }
        }
    }
}

/// The place next to a row.
pub(super) fn side_of_row(clustering: &[u8], is_before: bool) -> BoundRef<'_> {
    BoundRef {
        prefix: clustering,
        side: if is_before { Side::Before } else { Side::After },
    }
}
