//! Reading all of an SSTable in order, and comparing what is said in several places.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};

use helenus_rows::clustering::{ClusteringComparator, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::TableMetadata;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, PartitionScanner, Unfiltered};
use helenus_sstable::{PageCache, SsTable};
use serde::{Deserialize, Serialize};

use super::Finding;
use crate::progress::{Progress, Unit};

/// A pass reads every page once; a reversed one comes back to few.
const CACHE_BYTES: usize = 4 << 20;

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub partitions: u64,
    /// With static rows.
    pub rows: u64,
    pub range_tombstones: u64,
    pub cells: u64,
    /// Uncompressed.
    pub data_bytes: u64,
}

/// Reads everything once; `data_file` is the name to report. The error is what makes reading on impossible; the findings do not.
pub(crate) fn check_contents(
    sstable: &SsTable,
    table: &TableMetadata,
    data_file: &str,
    progress: &dyn Progress,
) -> Result<(Contents, Vec<Finding>), Finding> {
    let mut check = Check {
        file: data_file.to_owned(),
        comparator: ClusteringComparator::of(table),
        contents: Contents::default(),
        extremes: Extremes::default(),
        findings: Vec::new(),
    };
    progress.begin("verifying", Unit::Bytes, sstable.data_bytes());
    check.partitions(sstable, progress)?;
    check.statistics(sstable);
    check.contents.data_bytes = sstable.data_bytes();
    Ok((check.contents, check.findings))
}

struct Check {
    file: String,
    comparator: ClusteringComparator,
    contents: Contents,
    extremes: Extremes,
    findings: Vec<Finding>,
}

/// Returns whether a partition read up to `at` ends at `position`. Where its last index block was full, the mark of its end
/// is in no block and was not read.
fn is_end(at: u64, position: u64) -> bool {
    position == at || position == at + 1
}

impl Check {
    fn partitions(&mut self, sstable: &SsTable, progress: &dyn Progress) -> Result<(), Finding> {
        let cache = PageCache::new(CACHE_BYTES);
        let slices = [Slice::all()];
        let (start, end) = PartitionRange::everything().bounds();
        let mut scanner = sstable.scan(&cache, start, end, &slices, false);
        let mut backward = sstable.scan(&cache, start, end, &slices, true);
        let mut at = 0;
        let (mut first_key, mut last_key) = (None, Vec::new());
        while scanner.advance()? {
            let (token, key) = scanner.position();
            last_key = key.to_vec();
            first_key.get_or_insert_with(|| last_key.clone());
            if !sstable.may_contain(token, &last_key) {
                self.find(
                    at,
                    "a filter that knows the key",
                    "one that rules it out".to_owned(),
                );
            }
            if sstable.partition(&cache, token, &last_key, &[], false)?.is_none() {
                let found = "none of this key".to_owned();
                self.find(at, "a partition that reads come to", found);
            }
            let position = scanner.data_position().unwrap_or(at);
            let by_index = sstable.position_by_index(&cache, token, &last_key)?;
            if by_index != Some(position) {
                let found = by_index.map_or("none of this key".to_owned(), |found| format!("one to {found}"));
                self.find(at, "an index that leads to every key", found);
            }
            if !is_end(at, position) {
                let found = format!("one at {position}");
                self.find(at, "a partition where the one before ends", found);
            }
            let has_row_index = scanner.has_row_index();
            let mut cursor = scanner.open_in_file()?;
            let forward = self.partition(&mut cursor)?;
            at = cursor.end_position();
            if has_row_index {
                self.backward(&mut backward, &last_key, forward, position)?;
            }
            self.contents.partitions += 1;
            progress.at(at);
        }
        if !is_end(at, sstable.data_bytes()) {
            let found = format!("{} bytes of data", sstable.data_bytes());
            self.find(at, "the data's end behind the last partition", found);
        }
        let ends = [
            (first_key.unwrap_or_default(), sstable.first_key(), "first"),
            (last_key, sstable.last_key(), "last"),
        ];
        for (read, stated, which) in ends {
            if read != stated {
                let found = format!("another {which} key");
                self.find(0, "a summary that names the first and last key", found);
            }
        }
        Ok(())
    }

    /// Rows and markers come in order; returns a fingerprint of the rows.
    fn partition(&mut self, cursor: &mut dyn PartitionCursor) -> Result<u64, ReadError> {
        self.extremes.deletion(cursor.deletion());
        if !cursor.static_row().is_empty() {
            self.row(cursor.static_row());
        }
        let mut rows = 0_u64;
        let mut last: Option<(Vec<u8>, Option<Side>)> = None;
        while cursor.advance()? {
            let (prefix, side) = match cursor.current() {
                Unfiltered::Row { clustering, row } => {
                    self.row(row);
                    rows = rows.wrapping_add(fingerprint(clustering, row));
                    (clustering, None)
                }
                Unfiltered::Marker { bound, deletion } => {
                    self.contents.range_tombstones += 1;
                    self.extremes.deletion(deletion);
                    (bound.prefix, Some(bound.side))
                }
            };
            if let Some((before, side_before)) = &last
                && !self.follows((before, *side_before), (prefix, side))
            {
                let row = self.contents.rows;
                self.find(
                    0,
                    "rows in clustering order",
                    format!("row {row} before its predecessor"),
                );
            }
            last = Some((prefix.to_vec(), side));
        }
        Ok(rows)
    }

    fn follows(&self, before: (&[u8], Option<Side>), after: (&[u8], Option<Side>)) -> bool {
        let ordering = match (before.1, after.1) {
            (None, None) => self.comparator.compare(before.0, after.0),
            (None, Some(side)) => self.comparator.compare_to_place(before.0, after.0, side),
            (Some(side), None) => self
                .comparator
                .compare_to_place(after.0, before.0, side)
                .reverse(),
            (Some(left), Some(right)) => self.comparator.compare_bounds((before.0, left), (after.0, right)),
        };
        ordering == Ordering::Less
    }

    /// Reads a partition again through the index of its rows, last block first: it must come to the same rows.
    fn backward(
        &mut self,
        scanner: &mut impl PartitionScanner,
        key: &[u8],
        forward: u64,
        position: u64,
    ) -> Result<(), ReadError> {
        while scanner.advance()? {
            if scanner.position().1 != key {
                continue;
            }
            let mut cursor = scanner.open()?;
            let mut rows = 0_u64;
            while cursor.advance()? {
                if let Unfiltered::Row { clustering, row } = cursor.current() {
                    rows = rows.wrapping_add(fingerprint(clustering, row));
                }
            }
            if rows != forward {
                self.find(
                    position,
                    "an index of rows that leads to all of them",
                    "one that leads to others".to_owned(),
                );
            }
            return Ok(());
        }
        Ok(())
    }

    fn row(&mut self, row: RowRef<'_>) {
        self.contents.rows += 1;
        let (liveness, deletion, entries) = row.open();
        self.extremes.deletion(deletion);
        if !liveness.is_none() {
            self.extremes.stamp(liveness.timestamp_us);
        }
        for entry in entries {
            match entry {
                Entry::ComplexDeletion { deletion, .. } => self.extremes.deletion(deletion),
                Entry::Cell(cell) => {
                    self.contents.cells += 1;
                    self.extremes.stamp(cell.timestamp_us);
                    if cell.local_deletion_s != NEVER_S {
                        self.extremes.local_deletion_s_min =
                            self.extremes.local_deletion_s_min.min(cell.local_deletion_s);
                    }
                }
            }
        }
    }

    /// Checks the statistics against what was read; they may say less than could be said.
    fn statistics(&mut self, sstable: &SsTable) {
        let statistics = sstable.statistics();
        let counts = [
            (
                "as many partitions as the statistics count",
                statistics.partition_count(),
                self.contents.partitions,
            ),
            (
                "as many rows as the statistics count",
                statistics.rows,
                self.contents.rows,
            ),
        ];
        for (wanted, stated, read) in counts {
            if stated != read {
                self.find(0, wanted, format!("{read} instead of {stated}"));
            }
        }
        let Extremes {
            timestamp_us_min,
            timestamp_us_max,
            local_deletion_s_min,
        } = self.extremes;
        if timestamp_us_min < statistics.timestamp_us_min && timestamp_us_min != i64::MAX {
            let found = format!("{timestamp_us_min} below {}", statistics.timestamp_us_min);
            self.find(0, "timestamps from the statistics' minimum on", found);
        }
        if timestamp_us_max > statistics.timestamp_us_max && timestamp_us_max != i64::MIN {
            let found = format!("{timestamp_us_max} above {}", statistics.timestamp_us_max);
            self.find(0, "timestamps up to the statistics' maximum", found);
        }
        if local_deletion_s_min < statistics.local_deletion_s_min {
            let found = format!("{local_deletion_s_min} below {}", statistics.local_deletion_s_min);
            self.find(0, "deletions from the statistics' minimum on", found);
        }
    }

    fn find(&mut self, offset: u64, wanted: &str, found: String) {
        self.findings
            .push(Finding::at(self.file.clone(), offset, wanted, found));
    }
}

/// Extremes of all times that were read.
struct Extremes {
    timestamp_us_min: i64,
    timestamp_us_max: i64,
    local_deletion_s_min: u32,
}

impl Default for Extremes {
    fn default() -> Self {
        Extremes {
            timestamp_us_min: i64::MAX,
            timestamp_us_max: i64::MIN,
            local_deletion_s_min: NEVER_S,
        }
    }
}

impl Extremes {
    fn stamp(&mut self, timestamp_us: i64) {
        self.timestamp_us_min = self.timestamp_us_min.min(timestamp_us);
        self.timestamp_us_max = self.timestamp_us_max.max(timestamp_us);
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.stamp(deletion.timestamp_us);
            self.local_deletion_s_min = self.local_deletion_s_min.min(deletion.local_s);
        }
    }
}

/// The sum over the rows does not depend on their order.
fn fingerprint(clustering: &[u8], row: RowRef<'_>) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write_u64(clustering.len() as u64);
    hasher.write(clustering);
    hasher.write(row.as_bytes());
    hasher.finish()
}
