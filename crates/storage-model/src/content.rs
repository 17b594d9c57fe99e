//! Random contents of a table: partitions in which nothing is hidden by anything else of the same file, which is how
//! Cassandra writes them too.

use std::cmp::Ordering;

use helenus_rows::clustering::{ClusteringComparator, Components, Side};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Entry, Liveness, counter};
use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::CqlType;
use helenus_types::partition_key::write_partition_key;

use crate::chance::Chance;
use crate::partition::{Item, Partition, packed_key, packed_row};
use crate::value::{distinct, random_value};

/// When things were written and when they end.
#[derive(Clone, Copy, Debug)]
pub struct Era {
    /// The first timestamp, in microseconds since the Unix epoch.
    pub base_us: i64,
    /// The latest second that an expiry of the format can have.
    pub expiry_max_s: u32,
}

impl Era {
    /// From 2023-11-14T22:13:20Z on, for formats that end in 2038 with their seconds.
    pub const SIGNED: Era = Era {
        base_us: 1_700_000_000_000_000,
        expiry_max_s: i32::MAX as u32 - 1,
    };
    /// For formats whose seconds are unsigned; the largest that Cassandra writes.
    pub const UNSIGNED: Era = Era {
        base_us: 1_700_000_000_000_000,
        expiry_max_s: u32::MAX - 2,
    };
    /// Earliest expiry of what lives, in seconds since the Unix epoch: 2036, beyond any run of this.
    const FUTURE_S: u32 = 2_100_000_000;

    fn base_s(self) -> u32 {
        (self.base_us / 1_000_000) as u32
    }
}

/// Cassandra's largest TTL: 20 years of 365 days.
const TTL_S_MAX: u32 = 20 * 365 * 24 * 60 * 60;

/// Steps of timestamps within an era, so that a deletion never hides what the same file holds.
#[derive(Clone, Copy)]
enum Step {
    Partition = 0,
    Range = 1,
    Row = 2,
    Collection = 3,
    Cell = 4,
}

/// Fills one table.
pub(crate) struct Contents<'a> {
    pub chance: &'a Chance,
    pub table: &'a TableMetadata,
    pub era: Era,
    /// One in so many rows has a value of a MiB.
    pub huge_one_in: Option<u64>,
}

/// Times of an expiring or deleted cell, row or marker.
struct Times {
    timestamp_us: i64,
    ttl_s: u32,
    local_s: u32,
}

/// A cell that owns its bytes, until the row is packed.
struct OwnedCell {
    times: Times,
    path: Option<Vec<u8>>,
    value: Vec<u8>,
}

const HUGE_VALUE_BYTES: usize = 1 << 20;

impl Contents<'_> {
    pub fn partition_key(&self) -> Vec<u8> {
        loop {
            let columns = self.table.partition_key();
            let components: Vec<_> = columns
                .iter()
                .map(|column| random_value(self.chance, &column.cql_type))
                .collect();
            let mut key = Vec::new();
            let is_written = write_partition_key(&mut key, components.iter().map(Vec::as_slice));
            if is_written && !key.is_empty() {
                return key;
            }
        }
    }

    /// A partition with about `rows` rows; at least one thing is in it.
    pub fn partition(&self, rows: usize) -> Partition {
        let mut partition = Partition::default();
        if self.chance.one_in(8) && !self.table.is_counter() {
            partition.deletion = self.deletion(Step::Partition);
        }
        if !self.table.statics().is_empty() && !self.chance.one_in(4) {
            partition.static_row = self.row(self.table.statics(), true);
        }
        let mut clusterings: Vec<Vec<u8>> = (0..rows).map(|_| self.clustering()).collect();
        let comparator = ClusteringComparator::of(self.table);
        clusterings.sort_by(|left, right| comparator.compare(left, right));
        clusterings.dedup_by(|left, right| comparator.compare(left, right) == Ordering::Equal);
        let is_bare = partition.deletion.is_live() && partition.static_row.len() <= 1;
        if is_bare && clusterings.is_empty() {
            clusterings.push(self.clustering());
        }
        let markers = self.markers(&comparator, &clusterings);
        let mut markers = markers.into_iter().peekable();
        for clustering in clusterings {
            while let Some(Item::Marker { prefix, side, .. }) = markers.peek()
                && comparator.compare_to_place(&clustering, prefix, *side) == Ordering::Greater
            {
                partition.items.extend(markers.next());
            }
            let row = self.row(self.table.regulars(), false);
            partition.items.push(Item::Row { clustering, row });
        }
        partition.items.extend(markers);
        partition
    }

    fn clustering(&self) -> Vec<u8> {
        let columns = self.table.clustering();
        let components: Vec<_> = columns
            .iter()
            .map(|column| random_value(self.chance, &column.cql_type))
            .collect();
        packed_key(components.iter().map(Vec::as_slice))
    }

    /// Range deletions: bounds in order, each opening, closing or changing the deletion in force.
    fn markers(&self, comparator: &ClusteringComparator, clusterings: &[Vec<u8>]) -> Vec<Item> {
        let column_count = self.table.clustering().len();
        if column_count == 0 || self.table.is_counter() || self.chance.one_in(3) {
            return Vec::new();
        }
        let mut bounds: Vec<(Vec<u8>, Side)> = (0..self.chance.count(3 + clusterings.len() / 8))
            .map(|_| self.bound(column_count, clusterings))
            .collect();
        bounds.sort_by(|left, right| comparator.compare_bounds((&left.0, left.1), (&right.0, right.1)));
        bounds.dedup_by(|left, right| {
            comparator.compare_bounds((&left.0, left.1), (&right.0, right.1)) == Ordering::Equal
        });
        let mut items = Vec::new();
        let mut is_open = false;
        let last = bounds.len().saturating_sub(1);
        for (index, (prefix, side)) in bounds.into_iter().enumerate() {
            let closes = is_open && (index == last || self.chance.one_in(2));
            if index == last && !is_open {
                break;
            }
            let deletion = if closes {
                DeletionTime::LIVE
            } else {
                self.deletion(Step::Range)
            };
            is_open = !closes;
            items.push(Item::Marker {
                prefix,
                side,
                deletion,
            });
        }
        items
    }

    fn bound(&self, column_count: usize, clusterings: &[Vec<u8>]) -> (Vec<u8>, Side) {
        let of_row = match clusterings {
            [] => self.clustering(),
            _ if self.chance.one_in(3) => self.clustering(),
            _ => self.chance.pick(clusterings).clone(),
        };
        let length = self.chance.count(column_count + 1);
        let prefix = packed_key(Components::new(&of_row).take(length));
        // Nothing lies before the partition's start or after its end.
        let side = if self.chance.one_in(2) {
            Side::Before
        } else {
            Side::After
        };
        (prefix, side)
    }

    fn deletion(&self, step: Step) -> DeletionTime {
        DeletionTime {
            timestamp_us: self.timestamp(step),
            local_s: self.era.base_s() + self.chance.below(100_000) as u32,
        }
    }

    fn timestamp(&self, step: Step) -> i64 {
        const STEP_US: u64 = 1 << 30;
        self.era.base_us + (step as u64 * STEP_US + self.chance.below(STEP_US)) as i64
    }

    fn liveness(&self) -> Liveness {
        if self.table.is_counter() || self.chance.one_in(4) {
            return Liveness::NONE;
        }
        let times = self.times(self.timestamp(Step::Cell), false);
        Liveness {
            timestamp_us: times.timestamp_us,
            ttl_s: times.ttl_s,
            expires_at_s: times.local_s,
        }
    }

    /// Mostly forever; else expiring, expired or, for cells only, deleted.
    fn times(&self, timestamp_us: i64, may_be_deleted: bool) -> Times {
        let (ttl_s, local_s) = match self.chance.below(12) {
            0 if may_be_deleted => (0, self.era.base_s() + self.chance.below(1000) as u32),
            1 => (60, self.era.base_s() + 60),
            2 => (TTL_S_MAX, self.era.expiry_max_s),
            3 => (
                1 + self.chance.below(u64::from(TTL_S_MAX)) as u32,
                Era::FUTURE_S + self.chance.below(1000) as u32,
            ),
            _ => (0, NEVER_S),
        };
        Times {
            timestamp_us,
            ttl_s,
            local_s,
        }
    }

    /// A row with something in it.
    fn row(&self, columns: &[ColumnMetadata], is_static: bool) -> Vec<u8> {
        let liveness = if is_static {
            Liveness::NONE
        } else {
            self.liveness()
        };
        let may_be_deleted = !is_static && !self.table.is_counter();
        let mut deletion = DeletionTime::LIVE;
        if may_be_deleted && self.chance.one_in(10) {
            deletion = self.deletion(Step::Row);
        }
        let is_bare = liveness.is_none() && deletion.is_live();
        let mut chosen: Vec<&ColumnMetadata> = columns.iter().filter(|_| !self.chance.one_in(3)).collect();
        if is_bare && chosen.is_empty() {
            chosen.extend(columns.first());
        }
        if is_bare && chosen.is_empty() {
            deletion = self.deletion(Step::Row);
        }
        chosen.sort_by_key(|column| column.id);
        let mut columns = Vec::new();
        for column in chosen {
            columns.push((column, self.column(column, liveness)));
        }
        let entries = columns.iter().flat_map(|(column, (complex, cells))| {
            let complex = complex.map(|deletion| Entry::ComplexDeletion {
                column: column.id,
                deletion,
            });
            complex
                .into_iter()
                .chain(cells.iter().map(|cell| Entry::Cell(cell.borrow(column))))
        });
        packed_row(liveness, deletion, entries)
    }

    /// A column's deletion, if it has cells per element, and its cells: at least one of these.
    fn column(&self, column: &ColumnMetadata, liveness: Liveness) -> (Option<DeletionTime>, Vec<OwnedCell>) {
        let cells = match &column.cql_type {
            CqlType::Set {
                element,
                frozen: false,
            } => self.elements(element, liveness, |_| Vec::new()),
            CqlType::Map {
                key,
                value,
                frozen: false,
            } => self.elements(key, liveness, |_| random_value(self.chance, value)),
            CqlType::List {
                element,
                frozen: false,
            } => self.elements(&CqlType::Timeuuid, liveness, |_| {
                random_value(self.chance, element)
            }),
            CqlType::UserDefined {
                definition,
                frozen: false,
            } => {
                let field_type = |path: &[u8]| &definition.fields[usize::from(path[1])].1;
                let fields = (0..definition.fields.len() as u16).filter(|_| self.chance.one_in(2));
                let paths = fields.map(|field| field.to_be_bytes().to_vec()).collect();
                self.cells(paths, liveness, |path| {
                    random_value(self.chance, field_type(path))
                })
            }
            _ => return (None, vec![self.cell(None, self.simple_value(column), liveness)]),
        };
        let is_deleted = cells.is_empty() || self.chance.one_in(4);
        (is_deleted.then(|| self.deletion(Step::Collection)), cells)
    }

    fn elements(
        &self,
        path_type: &CqlType,
        liveness: Liveness,
        value: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Vec<OwnedCell> {
        let count_max = if self.chance.one_in(20) { 60 } else { 4 };
        // The empty element is no path.
        let mut paths = distinct(self.chance, path_type, count_max);
        paths.retain(|path| !path.is_empty());
        self.cells(paths, liveness, value)
    }

    fn cells(
        &self,
        paths: Vec<Vec<u8>>,
        liveness: Liveness,
        value: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Vec<OwnedCell> {
        paths
            .into_iter()
            .map(|path| {
                let value = value(&path);
                self.cell(Some(path), value, liveness)
            })
            .collect()
    }

    fn simple_value(&self, column: &ColumnMetadata) -> Vec<u8> {
        let is_huge = self.huge_one_in.is_some_and(|count| self.chance.one_in(count));
        match &column.cql_type {
            CqlType::Counter => {
                let mut context = Vec::new();
                for _ in 0..1 + self.chance.count(3) {
                    let mut node = [0; 16];
                    node.copy_from_slice(&self.chance.bytes(16));
                    let count = self.chance.below(1000) as i64 - 500;
                    let clock = self.chance.below(1 << 40) as i64;
                    let others = std::mem::take(&mut context);
                    counter::merge(&others, &counter::global(&node, clock, count), &mut context);
                }
                context
            }
            CqlType::Blob if is_huge => self.chance.bytes(HUGE_VALUE_BYTES),
            CqlType::Text if is_huge => vec![b'x'; HUGE_VALUE_BYTES],
            cql_type => random_value(self.chance, cql_type),
        }
    }

    /// Often as old as its row and of the same TTL, which files say in a bit.
    fn cell(&self, path: Option<Vec<u8>>, value: Vec<u8>, liveness: Liveness) -> OwnedCell {
        let mut times = self.times(self.timestamp(Step::Cell), !self.table.is_counter());
        if !liveness.is_none() && !self.chance.one_in(3) {
            times.timestamp_us = liveness.timestamp_us;
            if self.chance.one_in(2) {
                (times.ttl_s, times.local_s) = (liveness.ttl_s, liveness.expires_at_s);
            }
        }
        if self.table.is_counter() {
            (times.ttl_s, times.local_s) = (0, NEVER_S);
        }
        let is_tombstone = times.ttl_s == 0 && times.local_s != NEVER_S;
        OwnedCell {
            times,
            path,
            value: if is_tombstone { Vec::new() } else { value },
        }
    }
}

impl OwnedCell {
    fn borrow(&self, column: &ColumnMetadata) -> CellRef<'_> {
        CellRef {
            column: column.id,
            timestamp_us: self.times.timestamp_us,
            ttl_s: self.times.ttl_s,
            local_deletion_s: self.times.local_s,
            path: self.path.as_deref(),
            value: &self.value,
        }
    }
}
