//! Slow queries: the SELECTs that took longer than `slow_query_log_timeout`, for `system_views.slow_queries`.
//!
//! As in Cassandra only reads count, and the shard that executes one sees how long it took, from when its request came. What is answered at
//! once is bounded work that no clock has to watch, so only reads that had to wait or to take turns are looked at, where they end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use helenus_catalog::system::SlowQuery;
use helenus_engine::{Plan, Prepared};
use helenus_transport::deadline::nanoseconds;

/// Statements that a shard keeps, of which the one that was slow longest ago makes room: more than a person reads, and 128 KiB at most.
const STATEMENTS_MAX: usize = 100;

/// Bytes of a statement's text that are kept: Cassandra's `slow_query_log` has statements without a bound, a table for people needs one.
const TEXT_BYTES_MAX: usize = 1_024;

/// Slow statements of one shard, the one that was slow last at the end.
#[derive(Debug)]
pub(crate) struct SlowQueries {
    threshold_ns: u64,
    statements: RefCell<VecDeque<SlowQuery>>,
}

impl SlowQueries {
    /// Without a threshold nothing is slow.
    pub fn over(threshold: Option<Duration>) -> Self {
        SlowQueries {
            threshold_ns: threshold.map_or(u64::MAX, nanoseconds),
            statements: RefCell::default(),
        }
    }

    #[inline]
    pub fn is_slow(&self, took_ns: u64) -> bool {
        took_ns > self.threshold_ns
    }

    /// A read has taken `took_ns`, which [is slow](Self::is_slow).
    #[cold]
    pub fn note(&self, prepared: &Prepared, took_ns: u64, now_us: i64, is_cross_shard: bool) {
        let Plan::Select(plan) = &prepared.plan else {
            return;
        };
        let took = Duration::from_nanos(took_ns);
        self.add(SlowQuery {
            keyspace: plan.table.keyspace.clone(),
            table: plan.table.name.clone(),
            text: beginning(&prepared.query).to_owned(),
            reported_ms: now_us / 1_000,
            min: took,
            max: took,
            total: took,
            count: 1,
            is_cross_shard,
        });
    }

    fn add(&self, slow: SlowQuery) {
        let mut statements = self.statements.borrow_mut();
        add(&mut statements, slow);
        if statements.len() > STATEMENTS_MAX {
            statements.pop_front();
        }
    }

    pub fn list(&self) -> Vec<SlowQuery> {
        self.statements.borrow().iter().cloned().collect()
    }
}

/// Puts those of all shards together.
pub(crate) fn of_shards(shards: impl Iterator<Item = Vec<SlowQuery>>) -> Vec<SlowQuery> {
    let mut all = VecDeque::new();
    for slow in shards.flatten() {
        add(&mut all, slow);
    }
    all.into()
}

/// Adds times of a statement to those that are known of it, and moves it to the end.
fn add(statements: &mut VecDeque<SlowQuery>, mut slow: SlowQuery) {
    let known = statements.iter().position(|known| {
        (&known.text, &known.keyspace, &known.table) == (&slow.text, &slow.keyspace, &slow.table)
    });
    if let Some(known) = known.and_then(|place| statements.remove(place)) {
        slow.reported_ms = slow.reported_ms.max(known.reported_ms);
        slow.min = slow.min.min(known.min);
        slow.max = slow.max.max(known.max);
        slow.total += known.total;
        slow.count += known.count;
        slow.is_cross_shard |= known.is_cross_shard;
    }
    statements.push_back(slow);
}

/// The part of a text that is kept.
fn beginning(text: &str) -> &str {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(text: &str, took_ms: u64) -> SlowQuery {
        let took = Duration::from_millis(took_ms);
        SlowQuery {
            keyspace: "k".into(),
            table: "t".into(),
            text: text.to_owned(),
            reported_ms: took_ms.cast_signed(),
            min: took,
            max: took,
            total: took,
            count: 1,
            is_cross_shard: false,
        }
    }

    #[test]
    fn a_statement_is_kept_once_with_all_its_times() {
        let queries = SlowQueries::over(Some(Duration::from_millis(10)));
        assert!(!queries.is_slow(10_000_000) && queries.is_slow(10_000_001));
        for (text, took_ms) in [("a", 30), ("b", 50), ("a", 20)] {
            queries.add(slow(text, took_ms));
        }
        let listed = queries.list();
        let texts: Vec<&str> = listed.iter().map(|slow| &*slow.text).collect();
        assert_eq!(texts, ["b", "a"]);
        let SlowQuery { min, max, total, .. } = listed[1];
        assert_eq!([min, max, total].map(|time| time.as_millis()), [20, 30, 50]);
        assert_eq!((listed[1].count, listed[1].reported_ms), (2, 30));
    }

    #[test]
    fn the_statement_that_was_slow_longest_ago_makes_room() {
        let queries = SlowQueries::over(None);
        assert!(!queries.is_slow(u64::MAX));
        for number in 0..=STATEMENTS_MAX {
            queries.add(slow(&number.to_string(), 1));
        }
        let listed = queries.list();
        assert_eq!((listed.len(), &*listed[0].text), (STATEMENTS_MAX, "1"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "\u{e4}".repeat(TEXT_BYTES_MAX);
        assert_eq!(beginning(&text).len(), TEXT_BYTES_MAX);
        assert_eq!(beginning(&text[..3 * 2]), "\u{e4}\u{e4}\u{e4}");
        assert_eq!(beginning(&format!("a{text}")).len(), TEXT_BYTES_MAX - 1);
    }
}
