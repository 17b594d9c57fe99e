//! Gathers an SSTable's statistics while it is written.

use crate::meta::cardinality::Cardinality;
use crate::meta::histogram::TombstoneHistogram;
use crate::meta::statistics::{KeyRange, SsTableStatistics};
use crate::rows::clustering_codec::PlaceRef;
use crate::rows::row_encoder::RowCounts;
use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::guardrails::PartitionExtent;
use helenus_rows::row::{Entry, RowRef, counter};

#[derive(Debug)]
pub(crate) struct StatisticsCollector {
    comparator: ClusteringComparator,
    timestamps: Extent<i64>,
    local_deletions: Extent<u32>,
    ttls: Extent<u32>,
    tombstone_drop_times: TombstoneHistogram,
    clustering_min: Option<Extreme>,
    clustering_max: Option<Extreme>,
    /// The last place of the partition being written, if it has any: they come in order, so that only the first and the
    /// last of each partition need to be compared.
    last_place: Extreme,
    has_places: bool,
    /// True if the last place is the first, too.
    has_one_place: bool,
    is_counter: bool,
    first_key: Option<Box<[u8]>>,
    last_key: Vec<u8>,
    partition_cells: u64,
    partition_tombstones: u64,
    /// Extent of the partition that ended last.
    pub last_extent: PartitionExtent,
    pub stats: SsTableStatistics,
    pub cardinality: Cardinality,
}

/// From the smallest to the largest of what was seen; the other way round while nothing was.
#[derive(Clone, Copy, Debug)]
struct Extent<T> {
    min: T,
    max: T,
}

impl<T: Copy + Ord> Extent<T> {
    /// Creates the extent of nothing yet: the largest and the smallest of the type.
    fn new(largest: T, smallest: T) -> Self {
        Extent {
            min: largest,
            max: smallest,
        }
    }

    #[inline]
    fn widen(&mut self, value: T) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn get(self) -> Option<(T, T)> {
        (self.min <= self.max).then_some((self.min, self.max))
    }
}

/// The first or last place so far; written over in place.
#[derive(Debug, Default)]
struct Extreme {
    prefix: Vec<u8>,
    /// `None` for a row.
    side: Option<Side>,
}

impl StatisticsCollector {
    pub fn new(comparator: ClusteringComparator, is_counter: bool) -> Self {
        StatisticsCollector {
            comparator,
            timestamps: Extent::new(i64::MAX, i64::MIN),
            local_deletions: Extent::new(u32::MAX, 0),
            ttls: Extent::new(u32::MAX, 0),
            tombstone_drop_times: TombstoneHistogram::default(),
            clustering_min: None,
            clustering_max: None,
            last_place: Extreme::default(),
            has_places: false,
            has_one_place: false,
            is_counter,
            first_key: None,
            last_key: Vec::new(),
            partition_cells: 0,
            partition_tombstones: 0,
            last_extent: PartitionExtent::default(),
            stats: SsTableStatistics::empty(),
            cardinality: Cardinality::new(),
        }
    }

    /// A row that was written; `clustering` is `None` for a static one.
    pub fn row(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>, counts: RowCounts) {
        let (liveness, deletion, entries) = row.open();
        if !liveness.is_none() {
            self.written(liveness.timestamp_us, liveness.ttl_s, liveness.expires_at_s);
        }
        self.deletion(deletion);
        let timestamps_us = counts.timestamps_us.filter(|_| !self.is_counter);
        if let Some((oldest, newest)) = timestamps_us {
            self.written(oldest, 0, NEVER_S);
            self.timestamps.widen(newest);
        }
        let entries = timestamps_us.is_none().then_some(entries);
        for entry in entries.into_iter().flatten() {
            match entry {
                Entry::ComplexDeletion { deletion, .. } => self.deletion(deletion),
                Entry::Cell(cell) => {
                    self.written(cell.timestamp_us, cell.ttl_s, cell.local_deletion_s);
                    self.stats.has_legacy_counter_shards |=
                        self.is_counter && !cell.is_tombstone() && counter::has_legacy_shards(cell.value);
                }
            }
        }
        self.stats.rows += 1;
        self.stats.columns += counts.columns;
        self.partition_cells += counts.cells;
        if let Some(clustering) = clustering {
            self.cover(clustering, None);
        }
    }

    /// A range tombstone marker. Both its deletions count, as in Cassandra.
    pub fn marker(&mut self, prefix: &[u8], side: Side, before: DeletionTime, after: DeletionTime) {
        self.deletion(before);
        self.deletion(after);
        self.cover(prefix, Some(side));
    }

    pub fn partition_deletion(&mut self, deletion: DeletionTime) {
        self.stats.has_partition_deletions |= !deletion.is_live();
        self.deletion(deletion);
    }

    /// Counts the deletion of a row, a range or a collection.
    pub fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.timestamps.widen(deletion.timestamp_us);
            self.local_deletion(deletion.local_s);
        }
    }

    pub fn partition_end(&mut self, key: &[u8], bytes: u64) {
        self.stats.partition_bytes.add(bytes);
        self.last_extent = PartitionExtent {
            bytes,
            tombstones: std::mem::take(&mut self.partition_tombstones),
        };
        self.stats
            .partition_cells
            .add(std::mem::take(&mut self.partition_cells));
        if std::mem::take(&mut self.has_places) && !self.has_one_place {
            let last = std::mem::take(&mut self.last_place);
            self.widen_covered(last.as_ref());
            self.last_place = last;
        }
        self.cardinality.add(key);
        if self.first_key.is_none() {
            self.first_key = Some(key.into());
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    pub fn finish(mut self) -> (SsTableStatistics, Cardinality) {
        if let Some((min, max)) = self.timestamps.get() {
            (self.stats.timestamp_us_min, self.stats.timestamp_us_max) = (min, max);
        }
        if let Some((min, max)) = self.local_deletions.get() {
            (self.stats.local_deletion_s_min, self.stats.local_deletion_s_max) = (min, max);
        }
        if let Some((min, max)) = self.ttls.get() {
            (self.stats.ttl_s_min, self.stats.ttl_s_max) = (min, max);
        }
        self.stats.tombstone_drop_times = self.tombstone_drop_times;
        self.stats.covered = Slice {
            start: covered_bound(self.clustering_min, Side::Before),
            end: covered_bound(self.clustering_max, Side::After),
        };
        self.stats.key_range = self.first_key.map(|first| KeyRange {
            first,
            last: self.last_key.into(),
        });
        (self.stats, self.cardinality)
    }

    #[inline]
    fn written(&mut self, timestamp_us: i64, ttl_s: u32, local_deletion_s: u32) {
        self.timestamps.widen(timestamp_us);
        self.ttls.widen(ttl_s);
        self.local_deletion(local_deletion_s);
    }

    #[inline]
    fn local_deletion(&mut self, local_deletion_s: u32) {
        self.local_deletions.widen(local_deletion_s);
        if local_deletion_s != NEVER_S {
            self.partition_tombstones += 1;
            self.tombstone_drop_times.add(local_deletion_s);
        }
    }

    /// Range deletions count with their bounds: a read outside of what is covered skips the file.
    #[inline]
    fn cover(&mut self, prefix: &[u8], side: Option<Side>) {
        let place = PlaceRef { prefix, side };
        self.has_one_place = !self.has_places;
        if self.has_one_place {
            self.has_places = true;
            self.widen_covered(place);
            return;
        }
        self.last_place.set(place);
    }

    fn widen_covered(&mut self, place: PlaceRef<'_>) {
        let comparator = &self.comparator;
        let (Some(min), Some(max)) = (&mut self.clustering_min, &mut self.clustering_max) else {
            self.clustering_min = Some(place.to_extreme());
            self.clustering_max = Some(place.to_extreme());
            return;
        };
        if place.compare(comparator, max.as_ref()).is_gt() {
            max.set(place);
        } else if place.compare(comparator, min.as_ref()).is_lt() {
            min.set(place);
        }
    }
}

impl Extreme {
    fn as_ref(&self) -> PlaceRef<'_> {
        PlaceRef {
            prefix: &self.prefix,
            side: self.side,
        }
    }

    fn set(&mut self, place: PlaceRef<'_>) {
        self.prefix.clear();
        self.prefix.extend_from_slice(place.prefix);
        self.side = place.side;
    }
}

impl PlaceRef<'_> {
    fn to_extreme(self) -> Extreme {
        Extreme {
            prefix: self.prefix.to_vec(),
            side: self.side,
        }
    }
}

/// `outward` is the side of a row that the row is within. Where nothing was covered, the slice is empty.
fn covered_bound(place: Option<Extreme>, outward: Side) -> ClusteringBound {
    match place {
        Some(Extreme { prefix, side }) => ClusteringBound {
            prefix: prefix.into(),
            side: side.unwrap_or(outward),
        },
        None => ClusteringBound {
            prefix: Box::default(),
            side: match outward {
                Side::Before => Side::After,
                Side::After => Side::Before,
            },
        },
    }
}
