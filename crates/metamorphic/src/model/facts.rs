//! Facts that were said of a table, and what follows from them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::ast::Operator;
use helenus_schema::{ClusteringOrder, ColumnMetadata, TableMetadata};
use helenus_types::partition_key::write_partition_key;
use helenus_types::value::collection::write_collection;
use helenus_types::{CqlType, Token, token_of};

/// One value for each column of a key.
pub type Key = Vec<Vec<u8>>;

/// Something that was written to a partition.
#[derive(Clone, Debug)]
pub struct Fact {
    pub partition: Key,
    pub timestamp: i64,
    pub kind: FactKind,
}

#[derive(Clone, Debug)]
pub enum FactKind {
    /// Deletion of the rows that meet all bounds; without any, of the whole partition with its static row.
    Deletion(Vec<Bound>),
    /// That there is a row, as INSERT says; until then, in seconds.
    Marker {
        row: Key,
        until_s: Option<i64>,
    },
    /// Deletion of all elements of a column.
    ColumnDeletion {
        row: Option<Key>,
        column: String,
        /// By a new value for the whole column.
        is_overwrite: bool,
    },
    Cell(Cell),
    /// By how much a counter grew.
    Count {
        row: Option<Key>,
        column: String,
        by: i64,
    },
}

#[derive(Clone, Debug)]
pub struct Cell {
    /// `None` is the static row.
    pub row: Option<Key>,
    pub column: String,
    /// The element of a set, the key of a map; empty for a column of one cell.
    pub path: Vec<u8>,
    /// `None` is a deletion.
    pub value: Option<Vec<u8>>,
    pub until_s: Option<i64>,
}

/// A restriction of one clustering column.
#[derive(Clone, Debug)]
pub struct Bound {
    pub column: usize,
    pub operator: Operator,
    pub value: Vec<u8>,
}

/// A table's facts.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    table: Option<Arc<TableMetadata>>,
    partitions: BTreeMap<(Token, Vec<u8>), Vec<Fact>>,
}

/// Column values by name, of those that are not null.
pub type Cells = BTreeMap<String, Vec<u8>>;

/// Live content of a partition at a time.
#[derive(Debug)]
pub struct Partition {
    pub key: Key,
    pub token: Token,
    pub statics: Cells,
    /// In clustering order.
    pub rows: Vec<(Key, Cells)>,
}

impl Facts {
    pub fn table(&self) -> Option<&TableMetadata> {
        self.table.as_deref()
    }

    pub fn follow(&mut self, table: &Arc<TableMetadata>) {
        // What is newer than a column's deletion waits for the column to come back.
        for facts in self.partitions.values_mut() {
            facts.retain(|fact| !is_dropped(table, fact));
        }
        self.table = Some(table.clone());
    }

    pub fn extend(&mut self, facts: Vec<Fact>) {
        for fact in facts {
            if let Some(place) = place_of(&fact.partition) {
                self.partitions.entry(place).or_default().push(fact);
            }
        }
    }

    /// Everything that lives, in the order of tokens.
    pub fn partitions(&self, now_s: i64) -> Vec<Partition> {
        let Some(table) = &self.table else {
            return Vec::new();
        };
        let all = self.partitions.iter();
        all.filter_map(|((token, _), facts)| partition(table, *token, facts, now_s))
            .collect()
    }
}

/// Where a partition is in the order of partitions; `None` for a key too long to be one.
pub fn place_of(key: &Key) -> Option<(Token, Vec<u8>)> {
    let mut bytes = Vec::new();
    write_partition_key(&mut bytes, key.iter().map(Vec::as_slice)).then(|| (token_of(&bytes), bytes))
}

fn partition(table: &TableMetadata, token: Token, facts: &[Fact], now_s: i64) -> Option<Partition> {
    let key = facts.first()?.partition.clone();
    let statics = live_cells(table, facts, None, now_s).0;
    let mut keys: Vec<&Key> = facts.iter().filter_map(row_of).collect();
    keys.sort_by(|left, right| compare_rows(table.clustering(), left, right));
    keys.dedup_by(|left, right| compare_rows(table.clustering(), left, right) == Ordering::Equal);
    let rows = keys.into_iter().filter_map(|row| {
        let (cells, has_marker) = live_cells(table, facts, Some(row), now_s);
        (has_marker || !cells.is_empty()).then(|| (row.clone(), cells))
    });
    let rows: Vec<(Key, Cells)> = rows.collect();
    (!rows.is_empty() || !statics.is_empty()).then_some(Partition {
        key,
        token,
        statics,
        rows,
    })
}

fn row_of(fact: &Fact) -> Option<&Key> {
    match &fact.kind {
        FactKind::Marker { row, .. } => Some(row),
        FactKind::Cell(Cell { row, .. }) | FactKind::Count { row, .. } => row.as_ref(),
        FactKind::Deletion(_) | FactKind::ColumnDeletion { .. } => None,
    }
}

/// Returns whether the column was dropped after it was written to, by the timestamps of both.
fn is_dropped(table: &TableMetadata, fact: &Fact) -> bool {
    let (FactKind::Cell(Cell { column, .. }) | FactKind::ColumnDeletion { column, .. }) = &fact.kind else {
        return false;
    };
    let mut dropped = table.dropped_columns.iter();
    dropped.any(|dropped| *dropped.name == **column && fact.timestamp <= dropped.dropped_at_us)
}

/// The values of a row and whether its marker lives.
fn live_cells(table: &TableMetadata, facts: &[Fact], row: Option<&Key>, now_s: i64) -> (Cells, bool) {
    let clustering = table.clustering();
    let is_same = |other: Option<&Key>| match (row, other) {
        (None, None) => true,
        (Some(row), Some(other)) => compare_rows(clustering, row, other) == Ordering::Equal,
        _ => false,
    };
    let hidden = |bounds: &[Bound]| match row {
        None => bounds.is_empty(),
        Some(row) => bounds.iter().all(|bound| bound.holds(clustering, row)),
    };
    let deleted = facts.iter().filter_map(|fact| match &fact.kind {
        FactKind::Deletion(bounds) if hidden(bounds) => Some(fact.timestamp),
        _ => None,
    });
    let deleted = deleted.max().unwrap_or(i64::MIN);
    let mut marker: Option<(i64, Option<i64>)> = None;
    let mut columns: BTreeMap<&str, i64> = BTreeMap::new();
    let mut cells: BTreeMap<(&str, &[u8]), (&Fact, &Cell)> = BTreeMap::new();
    let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
    for fact in facts
        .iter()
        .filter(|fact| fact.timestamp > deleted && !is_dropped(table, fact))
    {
        match &fact.kind {
            FactKind::Marker { row, until_s } if is_same(Some(row)) => {
                marker = marker.max(Some((fact.timestamp, *until_s)));
            }
            FactKind::ColumnDeletion { row, column, .. } if is_same(row.as_ref()) => {
                let latest = columns.entry(column).or_insert(i64::MIN);
                *latest = fact.timestamp.max(*latest);
            }
            FactKind::Cell(cell) if is_same(cell.row.as_ref()) => {
                let place = cells.entry((&cell.column, &cell.path)).or_insert((fact, cell));
                if supersedes((fact, cell), *place) {
                    *place = (fact, cell);
                }
            }
            FactKind::Count { row, column, by } if is_same(row.as_ref()) => {
                let total = totals.entry(column).or_default();
                *total = total.wrapping_add(*by);
            }
            _ => {}
        }
    }
    // A deleted counter stays deleted, whatever is counted.
    totals.retain(|column, _| !cells.contains_key(&(*column, &[][..])) && table.column(column).is_some());
    let is_live = |until_s: Option<i64>| until_s.is_none_or(|until_s| now_s < until_s);
    cells.retain(|(column, _), (fact, cell)| {
        let is_shadowed = columns
            .get(column)
            .is_some_and(|latest| fact.timestamp <= *latest);
        cell.value.is_some() && is_live(cell.until_s) && !is_shadowed && table.column(column).is_some()
    });
    let has_marker = marker.is_some_and(|(_, until_s)| is_live(until_s));
    let mut values = values(table, &cells);
    values.extend(
        totals
            .into_iter()
            .map(|(column, total)| (column.to_owned(), total.to_be_bytes().to_vec())),
    );
    (values, has_marker)
}

/// Which of two cells of one place counts: the later one, a deletion before a value, then the greater value. What expires
/// has a timestamp for itself.
fn supersedes((fact, cell): (&Fact, &Cell), (old_fact, old): (&Fact, &Cell)) -> bool {
    let rank = |fact: &Fact, cell: &Cell| (fact.timestamp, cell.value.is_none(), cell.value.clone());
    rank(fact, cell) > rank(old_fact, old)
}

fn values(table: &TableMetadata, cells: &BTreeMap<(&str, &[u8]), (&Fact, &Cell)>) -> Cells {
    let mut by_column: BTreeMap<&str, Vec<&Cell>> = BTreeMap::new();
    for ((column, _), (_, cell)) in cells {
        by_column.entry(column).or_default().push(cell);
    }
    let mut values = Cells::new();
    for (name, mut cells) in by_column {
        let Some(column) = table.column(name) else {
            continue;
        };
        let bytes = match &column.cql_type {
            CqlType::Set {
                element,
                frozen: false,
            } => {
                cells.sort_by(|left, right| element.compare(&left.path, &right.path));
                collection(1, cells.iter().map(|cell| cell.path.as_slice()))
            }
            CqlType::Map {
                key, frozen: false, ..
            } => {
                cells.sort_by(|left, right| key.compare(&left.path, &right.path));
                let entries = cells
                    .iter()
                    .flat_map(|cell| [cell.path.as_slice(), cell.value.as_deref().unwrap_or_default()]);
                collection(2, entries)
            }
            _ => cells
                .first()
                .and_then(|cell| cell.value.clone())
                .unwrap_or_default(),
        };
        values.insert(name.to_owned(), bytes);
    }
    values
}

fn collection<'a>(values_per_entry: usize, values: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    write_collection(&mut out, values_per_entry, values);
    out
}

impl Bound {
    fn holds(&self, clustering: &[ColumnMetadata], row: &Key) -> bool {
        let (Some(column), Some(value)) = (clustering.get(self.column), row.get(self.column)) else {
            return false;
        };
        holds(self.operator, column.cql_type.compare(value, &self.value))
    }
}

/// Returns whether a comparison comes out as the operator wants.
pub fn holds(operator: Operator, ordering: Ordering) -> bool {
    match operator {
        Operator::Equal => ordering == Ordering::Equal,
        Operator::NotEqual => ordering != Ordering::Equal,
        Operator::Less => ordering == Ordering::Less,
        Operator::LessOrEqual => ordering != Ordering::Greater,
        Operator::Greater => ordering == Ordering::Greater,
        Operator::GreaterOrEqual => ordering != Ordering::Less,
        Operator::Contains | Operator::ContainsKey | Operator::Like => false,
    }
}

/// The order of rows in a partition.
fn compare_rows(clustering: &[ColumnMetadata], left: &Key, right: &Key) -> Ordering {
    for ((column, left), right) in clustering.iter().zip(left).zip(right) {
        let ordering = column.cql_type.compare(left, right);
        if ordering != Ordering::Equal {
            return match column.order {
                ClusteringOrder::Ascending => ordering,
                ClusteringOrder::Descending => ordering.reverse(),
            };
        }
    }
    Ordering::Equal
}
