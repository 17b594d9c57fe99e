//! The places under a range of terms, put in the order of a scan.

use helenus_index::ANY_TERM;
use helenus_rows::clustering::ClusteringComparator;
use helenus_sstable::Pages;
use helenus_sstable::error::ReadError;
use helenus_sstable::terms::{Head, TermPlace};
use helenus_types::Token;

use super::stream::{IndexSources, PlaceBound, prefix_of};

/// Places that a read gathers and sorts: a millisecond of work, and a megabyte of memory with common keys. A wider range
/// leaves its rows to the filter.
pub(crate) const RANGE_PLACES_MAX: usize = 16_384;
/// With long keys.
const RANGE_BYTES_MAX: usize = 4 << 20;

/// Sorted, and none covers another.
#[derive(Debug, Default)]
pub(crate) struct RangePlaces {
    bytes: Vec<u8>,
    places: Vec<RangePlace>,
    places_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct RangePlace {
    token: Token,
    /// Offset of its key, which its clustering follows.
    at: u32,
    key_length: u16,
    /// `None` for all of the partition.
    clustering_length: Option<u16>,
}

impl RangePlace {
    fn in_bytes(self, bytes: &[u8]) -> TermPlace<'_> {
        let rest = bytes.get(self.at as usize..).unwrap_or_default();
        let (key, rest) = rest
            .split_at_checked(usize::from(self.key_length))
            .unwrap_or_default();
        let clustering = |length| rest.get(..usize::from(length)).unwrap_or_default();
        TermPlace {
            token: self.token,
            key,
            clustering: self.clustering_length.map(clustering),
        }
    }
}

impl RangePlaces {
    /// `None` if there are more than `places_max`, or than [`RANGE_PLACES_MAX`].
    pub fn gather(
        comparator: &ClusteringComparator,
        sources: &IndexSources<'_>,
        pages: Pages<'_>,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        places_max: usize,
    ) -> Result<Option<Self>, ReadError> {
        let mut places = RangePlaces {
            places_max: places_max.min(RANGE_PLACES_MAX),
            ..RangePlaces::default()
        };
        // The term of those that have no other comes before all others.
        let first = from.map_or_else(Vec::new, prefix_of);
        let last = to.map(prefix_of);
        let any = prefix_of(ANY_TERM);
        let mut spans = vec![(first, last)];
        if from.is_some() {
            spans.push((any.clone(), Some(any)));
        }
        for (first, last) in &spans {
            let is_in = |head: &[u8]| {
                last.as_ref()
                    .is_none_or(|last| head.get(..last.len()).unwrap_or(head) <= &**last)
            };
            for terms in &sources.memtables {
                let entries = terms.entries_from(first).map(|(head, rows)| (head.bytes(), rows));
                let entries = entries.take_while(|(head, _)| is_in(head));
                for (head, rows) in entries {
                    let clusterings = rows.iter().map(|row| Some(row.clustering()));
                    let whole = rows.is_empty().then_some(None);
                    for clustering in whole.into_iter().chain(clusterings) {
                        if !places.push(head, clustering) {
                            return Ok(None);
                        }
                    }
                }
            }
            for file in &sources.files {
                let mut cursor = file.cursor(pages).reading_ahead();
                let mut is_there = cursor.seek(first)?;
                while is_there && is_in(cursor.head()) {
                    if !places.push(cursor.head(), cursor.clustering()) {
                        return Ok(None);
                    }
                    is_there = cursor.advance()?;
                }
            }
        }
        places.sort(comparator);
        Ok(Some(places))
    }

    /// Adds a place; returns whether there was room.
    fn push(&mut self, head: &[u8], clustering: Option<&[u8]>) -> bool {
        let Some(Head { token, key, .. }) = Head::parse(head) else {
            return true;
        };
        let place_bytes = key.len() + clustering.map_or(0, <[u8]>::len);
        if self.places.len() >= self.places_max || self.bytes.len() + place_bytes > RANGE_BYTES_MAX {
            return false;
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(clustering.unwrap_or_default());
        self.places.push(RangePlace {
            token,
            at,
            key_length: key.len() as u16,
            clustering_length: clustering.map(|clustering| clustering.len() as u16),
        });
        true
    }

    fn sort(&mut self, comparator: &ClusteringComparator) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|left, right| {
            let (left, right) = (left.in_bytes(bytes), right.in_bytes(bytes));
            let partitions = (left.token, left.key).cmp(&(right.token, right.key));
            partitions.then_with(|| match (left.clustering, right.clustering) {
                (Some(left), Some(right)) => comparator.compare(left, right),
                (left, right) => left.is_some().cmp(&right.is_some()),
            })
        });
        self.places.dedup_by(|place, before| {
            let (place, before) = (place.in_bytes(bytes), before.in_bytes(bytes));
            covers(&before, &place, comparator)
        });
    }

    pub fn get(&self, index: usize) -> Option<TermPlace<'_>> {
        Some(self.places.get(index)?.in_bytes(&self.bytes))
    }

    pub fn token(&self, index: usize) -> Option<Token> {
        Some(self.places.get(index)?.token)
    }

    /// The first that does not lie before a bound.
    pub fn first_from(&self, bound: &PlaceBound<'_>, comparator: &ClusteringComparator) -> usize {
        self.places
            .partition_point(|place| bound.is_behind(&place.in_bytes(&self.bytes), comparator))
    }
}

/// Returns whether all that `other` leads to is among what `place` leads to.
pub(super) fn covers(
    place: &TermPlace<'_>,
    other: &TermPlace<'_>,
    comparator: &ClusteringComparator,
) -> bool {
    place.token == other.token
        && (place.key.is_empty()
            || place.key == other.key
                && match (place.clustering, other.clustering) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(left), Some(right)) => comparator.compare(left, right).is_eq(),
                })
}
