//! Reads of a traced request, counted on whichever shards they are made.
//!
//! A shard counts all its reads together for the metrics. What a traced request has read is the growth of those counts over the steps that
//! are made for it, during which the shard does nothing else; so no other request pays for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Names of the counts, as the parameters of a trace have them: those of the metrics, without what every metric's name has.
pub(crate) const COUNT_NAMES: [&str; 12] = [
    "rows_read",
    "tombstones_read",
    "index_reads",
    "sstables_opened",
    "disk_reads",
    "disk_read_bytes",
    "index_page_hits",
    "index_page_misses",
    "data_page_hits",
    "data_page_misses",
    "row_cache_hits",
    "row_cache_misses",
];

/// Counts of one shard since its start, in the order of [`COUNT_NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts(pub [u64; COUNT_NAMES.len()]);

/// Counts of one request, which its shards add to.
#[derive(Debug, Default)]
pub(crate) struct TracedReads {
    counts: [AtomicU64; COUNT_NAMES.len()],
    /// Names of the indexes that could tell which rows match, and whether a shard has asked them.
    indexes: Mutex<BTreeMap<String, bool>>,
}

impl TracedReads {
    /// A step has been made for the request.
    pub fn add(&self, before: ReadCounts, after: ReadCounts) {
        let grown = after.0.iter().zip(before.0);
        for (count, (after, before)) in self.counts.iter().zip(grown) {
            count.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// A shard has looked for rows by those of these indexes that it has asked.
    pub fn note_indexes<'n>(&self, names: impl Iterator<Item = (&'n str, bool)>) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, is_asked) in names {
            *indexes.entry(name.to_owned()).or_default() |= is_asked;
        }
    }

    /// Describes what was read, by names.
    pub fn describe(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let counts = COUNT_NAMES.into_iter().zip(&self.counts);
        let counts = counts.map(|(name, count)| (name, count.load(Ordering::Relaxed).to_string()));
        let indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |name, wanted: bool| {
            let names = indexes.iter().filter(|(_, is_asked)| **is_asked == wanted);
            let names: Vec<&str> = names.map(|(index, _)| index.as_str()).collect();
            (!names.is_empty()).then(|| (name, names.join(", ")))
        };
        let indexes = [named("indexes", true), named("indexes_left_out", false)];
        counts.chain(indexes.into_iter().flatten())
    }
}

/// Runs a step that is made for a request; what it reads is counted if the request is traced. `counts` are the shard's.
#[inline]
pub(crate) fn counted<T>(
    reads: Option<&Arc<TracedReads>>,
    counts: impl Fn() -> ReadCounts,
    step: impl FnOnce() -> T,
) -> T {
    let Some(reads) = reads else {
        return step();
    };
    let before = counts();
    let done = step();
    reads.add(before, counts());
    done
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_grew_during_the_steps_of_a_request_is_its_own() {
        let total = Cell::new(ReadCounts::default());
        let reads = |rows: u64| {
            let mut counts = total.get();
            counts.0[0] += rows;
            total.set(counts);
        };
        let traced = Arc::new(TracedReads::default());
        reads(100);
        counted(Some(&traced), || total.get(), || reads(3));
        counted(None, || total.get(), || reads(50));
        counted(Some(&traced), || total.get(), || reads(4));
        traced.note_indexes([("by_v", true), ("by_w", true), ("by_x", false)].into_iter());
        traced.note_indexes([("by_v", false), ("by_w", true), ("by_x", false)].into_iter());
        let described: Vec<_> = traced.describe().collect();
        assert_eq!(described[0], ("rows_read", "7".to_owned()));
        assert!(
            described[1..COUNT_NAMES.len()]
                .iter()
                .all(|(_, count)| count == "0")
        );
        let indexes = [
            ("indexes", "by_v, by_w".to_owned()),
            ("indexes_left_out", "by_x".to_owned()),
        ];
        assert_eq!(described[COUNT_NAMES.len()..], indexes);
    }
}
