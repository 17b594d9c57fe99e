//! Knowledge of one writer about its rows: acknowledged values, and the one request in doubt.

use std::collections::BTreeMap;

/// A row's place: its partition and its clustering key.
pub type Place = (u32, u32);

/// Content of a place after a request: a value, or nothing after a deletion.
pub type Value = Option<i64>;

/// Invariant: a writer has one request under way, so at most one request is in doubt after a kill.
#[derive(Default)]
pub struct Ledger {
    acknowledged: BTreeMap<Place, Value>,
    in_doubt: Vec<(Place, Value)>,
    acknowledged_count: u64,
}

impl Ledger {
    /// Notes a request before it is sent: from now on its outcome is in doubt.
    pub fn sending(&mut self, changes: Vec<(Place, Value)>) {
        self.in_doubt = changes;
    }

    /// Notes that the server acknowledged the request that was sent last.
    pub fn acknowledge(&mut self) {
        self.acknowledged.extend(self.in_doubt.drain(..));
        self.acknowledged_count += 1;
    }

    /// Returns the value last acknowledged at a place, if there is any.
    pub fn value(&self, place: Place) -> Value {
        self.acknowledged.get(&place).copied().flatten()
    }

    pub fn acknowledged_count(&self) -> u64 {
        self.acknowledged_count
    }

    /// Compares with the rows that the server has, and settles what was in doubt by what is there.
    pub fn compare(&mut self, found: &BTreeMap<Place, i64>) -> Vec<String> {
        let mut expected_after = self.acknowledged.clone();
        expected_after.extend(self.in_doubt.iter().copied());
        let without = differences(&self.acknowledged, found);
        let with = differences(&expected_after, found);
        if with.is_empty() {
            self.acknowledged = expected_after;
        }
        self.in_doubt.clear();
        if with.is_empty() || without.is_empty() {
            Vec::new()
        } else {
            without
        }
    }
}

fn differences(expected: &BTreeMap<Place, Value>, found: &BTreeMap<Place, i64>) -> Vec<String> {
    let mut differences = Vec::new();
    for (place, value) in expected {
        let there = found.get(place).copied();
        if there != *value {
            differences.push(format!("row {place:?} is {there:?}, acknowledged was {value:?}"));
        }
    }
    for (place, value) in found {
        if !expected.contains_key(place) {
            differences.push(format!("row {place:?} is {value}, but nobody wrote it"));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger_with_batch_in_doubt() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.sending(vec![((0, 1), Some(10)), ((0, 2), Some(20))]);
        ledger.acknowledge();
        ledger.sending(vec![((0, 1), Some(11)), ((0, 2), None)]);
        ledger
    }

    #[test]
    fn request_in_doubt_may_have_happened_or_not() {
        let before = BTreeMap::from([((0, 1), 10), ((0, 2), 20)]);
        let after = BTreeMap::from([((0, 1), 11)]);
        assert!(ledger_with_batch_in_doubt().compare(&before).is_empty());
        assert!(ledger_with_batch_in_doubt().compare(&after).is_empty());
    }

    #[test]
    fn half_a_batch_and_lost_or_invented_rows_are_told() {
        let half = BTreeMap::from([((0, 1), 11), ((0, 2), 20)]);
        let lost = BTreeMap::from([((0, 2), 20)]);
        let invented = BTreeMap::from([((0, 1), 10), ((0, 2), 20), ((9, 9), 1)]);
        for found in [half, lost, invented] {
            assert_eq!(ledger_with_batch_in_doubt().compare(&found).len(), 1);
        }
    }

    #[test]
    fn what_was_found_is_expected_from_then_on() {
        let mut ledger = ledger_with_batch_in_doubt();
        assert!(ledger.compare(&BTreeMap::from([((0, 1), 11)])).is_empty());
        assert_eq!(
            ledger
                .compare(&BTreeMap::from([((0, 1), 10), ((0, 2), 20)]))
                .len(),
            2
        );
    }
}
