//! Clustering keys, the bounds between them, and their order.
//!
//! A clustering key is packed as `[length: u16 big-endian][bytes]` per component; a prefix has fewer components. The
//! packed form is what memtables key rows by and what travels in updates. A table without clustering columns has one
//! row per partition, under the empty clustering.

use std::cmp::Ordering;

use helenus_schema::{ClusteringOrder, TableMetadata};
use helenus_types::CqlType;

use crate::update::BoundRef;

/// A place between clustering keys: before or after every key that starts with `prefix`.
///
/// A slice and a range tombstone are each a pair of bounds, so "inclusive" and "exclusive" need no cases:
/// an inclusive start and an exclusive end lie before their prefix, the other two after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringBound {
    pub prefix: Box<[u8]>,
    pub side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    Before = 0,
    After = 1,
}

/// Rows from `start` to `end`, in clustering order whatever the direction of the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub start: ClusteringBound,
    pub end: ClusteringBound,
}

/// The order of one table's clustering keys.
#[derive(Clone, Debug)]
pub struct ClusteringComparator {
    components: Vec<(CqlType, ClusteringOrder)>,
}

impl ClusteringBound {
    /// Before every row of the partition.
    pub fn bottom() -> Self {
        ClusteringBound {
            prefix: Box::default(),
            side: Side::Before,
        }
    }

    /// After every row of the partition.
    pub fn top() -> Self {
        ClusteringBound {
            prefix: Box::default(),
            side: Side::After,
        }
    }

    pub fn borrowed(&self) -> BoundRef<'_> {
        BoundRef {
            prefix: &self.prefix,
            side: self.side,
        }
    }

    fn set(&mut self, prefix: &[u8], side: Side) {
        self.side = side;
        if self.prefix.len() == prefix.len() {
            self.prefix.copy_from_slice(prefix);
        } else {
            self.prefix = prefix.into();
        }
    }
}

impl From<BoundRef<'_>> for ClusteringBound {
    fn from(bound: BoundRef<'_>) -> Self {
        ClusteringBound {
            prefix: bound.prefix.into(),
            side: bound.side,
        }
    }
}

impl Slice {
    pub fn all() -> Self {
        Slice {
            start: ClusteringBound::bottom(),
            end: ClusteringBound::top(),
        }
    }

    /// Returns whether the slice has every row there can be.
    #[inline]
    pub fn is_all(&self) -> bool {
        let is_prefix_empty = self.start.prefix.is_empty() && self.end.prefix.is_empty();
        is_prefix_empty && self.start.side == Side::Before && self.end.side == Side::After
    }

    /// The whole of a prefix: one row, if it is a complete clustering key.
    pub fn covering(prefix: &[u8]) -> Self {
        Slice {
            start: ClusteringBound {
                prefix: prefix.into(),
                side: Side::Before,
            },
            end: ClusteringBound {
                prefix: prefix.into(),
                side: Side::After,
            },
        }
    }

    /// Becomes [`Slice::covering`]; keeps its memory where the prefix is as long as the one before.
    pub fn cover(&mut self, prefix: &[u8]) {
        self.start.set(prefix, Side::Before);
        self.end.set(prefix, Side::After);
    }

    /// The complete clustering key, if the slice is no more than that.
    pub fn as_key(&self, component_count: usize) -> Option<&[u8]> {
        let is_one_place = self.start.side == Side::Before
            && self.end.side == Side::After
            && self.start.prefix == self.end.prefix
            && Components::new(&self.start.prefix).count() == component_count;
        is_one_place.then_some(&self.start.prefix)
    }
}

impl ClusteringComparator {
    pub fn of(table: &TableMetadata) -> Self {
        let components = table
            .clustering()
            .iter()
            .map(|column| (column.cql_type.clone(), column.order))
            .collect();
        ClusteringComparator::of_components(components)
    }

    pub fn of_components(components: Vec<(CqlType, ClusteringOrder)>) -> Self {
        ClusteringComparator { components }
    }

    /// Types and orders of the clustering columns.
    pub fn components(&self) -> &[(CqlType, ClusteringOrder)] {
        &self.components
    }

    pub fn component_count(&self) -> usize {
        self.components.len()
    }

    /// The order of two packed keys or prefixes, as far as both have components.
    pub fn compare_common(&self, left: &[u8], right: &[u8]) -> Ordering {
        let mut left_components = Components::new(left);
        let mut right_components = Components::new(right);
        for (cql_type, order) in &self.components {
            let (Some(left), Some(right)) = (left_components.next(), right_components.next()) else {
                break;
            };
            let ordering = match order {
                ClusteringOrder::Ascending => cql_type.compare(left, right),
                ClusteringOrder::Descending => cql_type.compare(right, left),
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    }

    /// The order of two complete clustering keys.
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.compare_common(left, right)
    }

    /// Where a complete clustering key lies relative to a bound; never `Equal`.
    pub fn compare_to_bound(&self, key: &[u8], bound: &ClusteringBound) -> Ordering {
        self.compare_to_place(key, &bound.prefix, bound.side)
    }

    /// As [`ClusteringComparator::compare_to_bound`], for a bound that is borrowed.
    pub fn compare_to_place(&self, key: &[u8], prefix: &[u8], side: Side) -> Ordering {
        self.compare_common(key, prefix).then(match side {
            Side::Before => Ordering::Greater,
            Side::After => Ordering::Less,
        })
    }

    /// Returns the rest of disjoint slices behind a place, in the direction of a read.
    pub fn slices_behind(&self, slices: &[Slice], place: &ClusteringBound, reversed: bool) -> Vec<Slice> {
        let is_before = |left: &ClusteringBound, right: &ClusteringBound| {
            self.compare_bounds((&left.prefix, left.side), (&right.prefix, right.side))
                .is_lt()
        };
        let cut = slices.iter().map(|slice| match reversed {
            true if is_before(place, &slice.end) => Slice {
                start: slice.start.clone(),
                end: place.clone(),
            },
            false if is_before(&slice.start, place) => Slice {
                start: place.clone(),
                end: slice.end.clone(),
            },
            _ => slice.clone(),
        });
        cut.filter(|slice| is_before(&slice.start, &slice.end)).collect()
    }

    /// The order of two bounds.
    pub fn compare_bounds(&self, left: (&[u8], Side), right: (&[u8], Side)) -> Ordering {
        self.compare_common(left.0, right.0).then_with(|| {
            let left_count = Components::new(left.0).count();
            let right_count = Components::new(right.0).count();
            match left_count.cmp(&right_count) {
                Ordering::Equal => (left.1 as u8).cmp(&(right.1 as u8)),
                // The shorter prefix covers the longer one: its side alone decides.
                Ordering::Less if left.1 == Side::Before => Ordering::Less,
                Ordering::Less => Ordering::Greater,
                Ordering::Greater if right.1 == Side::Before => Ordering::Greater,
                Ordering::Greater => Ordering::Less,
            }
        })
    }
}

/// The components of a packed clustering key or prefix. Stops at the first byte that does not fit.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    rest: &'a [u8],
}

impl<'a> Components<'a> {
    pub fn new(packed: &'a [u8]) -> Self {
        Components { rest: packed }
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let (component, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.rest = rest;
        Some(component)
    }
}

/// Appends one component; the caller has checked that it is at most 65,535 bytes (Cassandra's limit on key parts).
pub fn push_component(packed: &mut Vec<u8>, component: &[u8]) {
    debug_assert!(component.len() <= usize::from(u16::MAX));
    packed.extend_from_slice(&(component.len() as u16).to_be_bytes());
    packed.extend_from_slice(component);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_that_is_used_again_covers_what_it_is_told_and_nothing_of_before() {
        let mut slice = Slice::all();
        for prefix in [b"abc".as_slice(), b"xyz", b"", b"longer"] {
            slice.cover(prefix);
            assert_eq!(slice, Slice::covering(prefix));
            assert_eq!((slice.start.side, slice.end.side), (Side::Before, Side::After));
            assert_eq!((&*slice.start.prefix, &*slice.end.prefix), (prefix, prefix));
        }
        slice.start.side = Side::After;
        slice.cover(b"longer");
        assert_eq!(slice, Slice::covering(b"longer"));
    }
}
