//! The rows of a shard that are nearest to a vector, as far as they were looked at.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use helenus_types::Token;

/// At most so many rows, the nearest. Of two that are equally near the one with the lesser token, key and clustering
/// comes first: what is found does not depend on where it was looked for.
#[derive(Debug)]
pub(super) struct TopRows {
    rows_max: usize,
    /// The farthest on top.
    rows: BinaryHeap<TopRow>,
    bytes: usize,
}

#[derive(Debug)]
struct TopRow {
    closeness: f32,
    token: Token,
    key: Box<[u8]>,
    clustering: Box<[u8]>,
    /// Values that were fetched of it.
    fetched: Box<[u8]>,
}

/// Token, partition key and clustering of a row.
type Place<'r> = (Token, &'r [u8], &'r [u8]);

impl TopRow {
    fn place(&self) -> Place<'_> {
        (self.token, &self.key, &self.clustering)
    }

    fn bytes(&self) -> usize {
        size_of::<TopRow>() + self.key.len() + self.clustering.len() + self.fetched.len()
    }
}

fn compare(left: (f32, Place<'_>), right: (f32, Place<'_>)) -> Ordering {
    right.0.total_cmp(&left.0).then_with(|| left.1.cmp(&right.1))
}

/// Nearer is less.
impl Ord for TopRow {
    fn cmp(&self, other: &Self) -> Ordering {
        compare((self.closeness, self.place()), (other.closeness, other.place()))
    }
}

impl PartialOrd for TopRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TopRow {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for TopRow {}

impl TopRows {
    pub fn new(rows_max: u32) -> Self {
        TopRows {
            rows_max: rows_max as usize,
            rows: BinaryHeap::new(),
            bytes: 0,
        }
    }

    /// Memory held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.rows_max
    }

    /// Returns whether a row would be kept. One that is there already would not.
    pub fn takes(&self, closeness: f32, place: Place<'_>) -> bool {
        let row = (closeness, place);
        let against = |other: &TopRow| compare(row, (other.closeness, other.place()));
        let is_nearer = self.rows.peek().is_none_or(|farthest| against(farthest).is_lt());
        let has_room = self.rows.len() < self.rows_max;
        (has_room || is_nearer) && !self.rows.iter().any(|other| other.place() == place)
    }

    pub fn add(&mut self, closeness: f32, (token, key, clustering): Place<'_>, fetched: &[u8]) {
        let added = TopRow {
            closeness,
            token,
            key: key.into(),
            clustering: clustering.into(),
            fetched: fetched.into(),
        };
        self.bytes += added.bytes();
        self.rows.push(added);
        if self.rows.len() > self.rows_max
            && let Some(farthest) = self.rows.pop()
        {
            self.bytes -= farthest.bytes();
        }
    }

    /// Returns the values that were fetched of the rows, the nearest first.
    pub fn into_fetched(self) -> impl ExactSizeIterator<Item = Box<[u8]>> {
        self.rows.into_sorted_vec().into_iter().map(|row| row.fetched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_are_kept_and_ties_are_settled_by_place() {
        let mut rows = TopRows::new(3);
        for (closeness, token) in [(0.5, 9), (0.1, 1), (0.5, 3), (0.9, 2), (0.5, 4), (0.5, 3)] {
            let place = (Token(token), &b"key"[..], &b""[..]);
            if rows.takes(closeness, place) {
                rows.add(closeness, place, format!("{closeness} {token}").as_bytes());
            }
        }
        let kept: Vec<_> = rows
            .into_fetched()
            .map(|fetched| String::from_utf8(fetched.into()).unwrap())
            .collect();
        assert_eq!(kept, ["0.9 2", "0.5 3", "0.5 4"]);
    }

    #[test]
    fn memory_is_counted_back_to_nothing() {
        let mut rows = TopRows::new(1);
        rows.add(0.1, (Token(1), b"key", b""), b"a long row that goes again");
        rows.add(0.2, (Token(1), b"key", b""), b"");
        assert_eq!(rows.bytes(), size_of::<TopRow>() + 3);
    }
}
