//! Linearizability check: whether what clients saw of one register can have happened one after the other. A search over all
//! orders that fit the times of requests and answers, remembering which of them were looked at (Wing and Gong 1993, with the
//! memory of Lowe 2017).
//!
//! A history is that of one life of a node. What was answered has its place between request and answer; what was not may have
//! happened at any time after its request, or never. So the search says with which values the next life may begin.

use std::collections::{BTreeSet, HashSet};

/// Requests about one register in one life: the places of those that have been ordered are bits of a word.
pub(crate) const OPERATIONS_MAX: usize = 60;

/// Content of a register; `None` where there is no row.
pub type Value = Option<i32>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A SERIAL read.
    Read,
    Write(i32),
    /// The value is set if it is the expected one; `None` inserts.
    Compare {
        expected: Value,
        value: i32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Value that was read, or found by a comparison that did not hold.
    Found(Value),
    /// It was done.
    Done,
    /// Nobody was told.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub change: Change,
    pub seen: Seen,
    /// Counts requests and answers, whatever they are of.
    pub sent: u64,
    /// Later than any, where there was no answer.
    pub answered: u64,
}

/// The values with which a life may have ended that began with one of `first`; none if no order explains what was seen.
pub(crate) fn last_values(first: &BTreeSet<Value>, history: &[Operation]) -> BTreeSet<Value> {
    let mut search = Search {
        history,
        known: HashSet::new(),
        last: BTreeSet::new(),
    };
    for value in first {
        search.order(0, *value);
    }
    search.last
}

struct Search<'h> {
    history: &'h [Operation],
    known: HashSet<(u64, Value)>,
    last: BTreeSet<Value>,
}

impl Search<'_> {
    /// Goes on with one that may be next, after those of `ordered` have led to `value`.
    fn order(&mut self, ordered: u64, value: Value) {
        if !self.known.insert((ordered, value)) {
            return;
        }
        let open = || {
            self.history
                .iter()
                .enumerate()
                .filter(move |(place, _)| ordered >> place & 1 == 0)
        };
        if open().all(|(_, operation)| operation.seen == Seen::Unknown) {
            self.last.insert(value);
        }
        // Whoever was sent after an answer comes after what was answered.
        let first_answer = open()
            .map(|(_, operation)| operation.answered)
            .min()
            .unwrap_or(u64::MAX);
        let next: Vec<(usize, Operation)> = open()
            .filter(|(_, operation)| operation.sent <= first_answer)
            .map(|(place, operation)| (place, *operation))
            .collect();
        for (place, operation) in next {
            if let Some(after) = operation.after(value) {
                self.order(ordered | 1 << place, after);
            }
        }
    }
}

impl Operation {
    /// Returns the register's content after it; nothing if it cannot have been seen so.
    fn after(&self, value: Value) -> Option<Value> {
        match (self.change, self.seen) {
            (Change::Read, Seen::Found(found)) => (found == value).then_some(value),
            (Change::Read, _) => Some(value),
            (Change::Write(written), _) => Some(Some(written)),
            (Change::Compare { expected, value: new }, Seen::Done) => {
                (expected == value).then_some(Some(new))
            }
            (Change::Compare { expected, .. }, Seen::Found(found)) => {
                (found == value && expected != value).then_some(value)
            }
            (Change::Compare { expected, value: new }, Seen::Unknown) => match expected == value {
                true => Some(Some(new)),
                false => Some(value),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(change: Change, seen: Seen, sent: u64, answered: u64) -> Operation {
        Operation {
            change,
            seen,
            sent,
            answered,
        }
    }

    fn values(values: &[Value]) -> BTreeSet<Value> {
        values.iter().copied().collect()
    }

    fn compare(expected: Value, value: i32) -> Change {
        Change::Compare { expected, value }
    }

    #[test]
    fn one_of_two_that_expect_the_same_is_done() {
        let first = values(&[Some(0)]);
        let both = |second: Seen| {
            [
                operation(compare(Some(0), 1), Seen::Done, 0, 3),
                operation(compare(Some(0), 2), second, 1, 2),
            ]
        };
        assert_eq!(
            last_values(&first, &both(Seen::Found(Some(1)))),
            values(&[Some(1)])
        );
        assert_eq!(last_values(&first, &both(Seen::Done)), values(&[]));
    }

    /// A value that somebody was answered with is seen by whoever asks after that.
    #[test]
    fn a_value_that_was_seen_does_not_go_away() {
        let first = values(&[None]);
        let read = |found: Value, sent: u64| operation(Change::Read, Seen::Found(found), sent, sent + 1);
        let write = operation(Change::Write(7), Seen::Unknown, 0, u64::MAX);
        assert_eq!(
            last_values(&first, &[write, read(None, 1), read(Some(7), 3)]),
            values(&[Some(7)])
        );
        assert_eq!(
            last_values(&first, &[write, read(Some(7), 1), read(None, 3)]),
            values(&[])
        );
        // Reads that overlap may see either.
        let overlapping = [
            write,
            operation(Change::Read, Seen::Found(Some(7)), 1, 4),
            operation(Change::Read, Seen::Found(None), 2, 3),
        ];
        assert_eq!(last_values(&first, &overlapping), values(&[Some(7)]));
    }

    #[test]
    fn what_nobody_was_told_of_may_be_there_after_a_crash() {
        let first = values(&[Some(1)]);
        let unknown = [
            operation(compare(Some(1), 2), Seen::Unknown, 0, u64::MAX),
            operation(Change::Write(3), Seen::Unknown, 1, u64::MAX),
        ];
        assert_eq!(
            last_values(&first, &unknown),
            values(&[Some(1), Some(2), Some(3)])
        );
        let after = last_values(&first, &unknown);
        let read = [operation(Change::Read, Seen::Found(Some(4)), 0, 1)];
        assert_eq!(last_values(&after, &read), values(&[]));
    }

    /// Orders of requests that overlap: there are half a billion, of some thousand sets that came first.
    #[test]
    fn many_that_overlap_are_looked_at_once() {
        let history: Vec<Operation> = (0..12)
            .map(|place| operation(Change::Write(place), Seen::Done, place as u64, 100))
            .collect();
        assert_eq!(last_values(&values(&[None]), &history).len(), 12);
    }
}
