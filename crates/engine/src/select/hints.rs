//! Index hints of a SELECT: `WITH included_indexes = {..} AND excluded_indexes = {..}`, as Cassandra 6 has them
//! (CASSANDRA-18112). They choose among indexes, and never change the rows of the answer but where indexes disagree about
//! what is equal.

use std::sync::Arc;

use helenus_cql::ast::{self, HintedIndex, QualifiedName};
use helenus_schema::{IndexId, IndexKind, IndexMetadata, TableMetadata, TableParams};

use super::nearest::Nearest;
use crate::CqlError;
use crate::clause::where_clause::WhereClause;
use crate::heap_bytes::{HeapBytes, flat_bytes};

/// Hints of a statement, resolved: what it says of the indexes of its table.
#[derive(Clone, Debug)]
pub(super) struct IndexHints {
    /// The table as the statement sees it: with the indexes that it may use, those first that it has to use.
    pub table: Arc<TableMetadata>,
    /// Those that it has to use.
    pub included: Vec<IndexId>,
}

impl IndexHints {
    /// `None` where there are none.
    pub fn resolve(table: &TableMetadata, hints: &ast::IndexHints) -> Result<Option<Self>, CqlError> {
        if hints.included.is_empty() && hints.excluded.is_empty() {
            return Ok(None);
        }
        if hints.included.contains(&HintedIndex::All) {
            return Err(invalid!("The wildcard '*' is not allowed in included_indexes."));
        }
        let included = named(table, &hints.included)?;
        let excluded = named(table, &hints.excluded)?;
        let conflicting: Vec<&str> = included
            .iter()
            .filter(|index| excluded.contains(*index))
            .map(|index| &*index.name)
            .collect();
        if !conflicting.is_empty() {
            return Err(invalid!(
                "Indexes cannot be both included and excluded: {}",
                conflicting.join(",")
            ));
        }
        let is_usable = |index: &&Arc<IndexMetadata>| {
            !excluded.contains(index)
                && !included.contains(index)
                && included
                    .first()
                    .is_none_or(|first| are_read_together(first, index))
        };
        let others = table.indexes.iter().filter(is_usable);
        Ok(Some(IndexHints {
            table: Arc::new(TableMetadata {
                indexes: included.iter().copied().chain(others).cloned().collect(),
                // Nothing of these says how a SELECT is planned, and a comment may be long.
                params: TableParams::default(),
                ..table.clone()
            }),
            included: included.iter().map(|index| index.id).collect(),
        }))
    }

    /// Fails where the statement would not be read by all indexes that it names.
    pub fn check_used(&self, clause: &WhereClause, nearest: Option<&Nearest>) -> Result<(), CqlError> {
        let by_vector = nearest.and_then(|nearest| nearest.index).map(|(index, _)| index);
        let is_used = |index: &IndexId| clause.needed_indexes.contains(index) || by_vector == Some(*index);
        match self.included.iter().all(is_used) {
            true => Ok(()),
            false => Err(invalid!(
                "It's not possible to use all the specified included indexes with this query."
            )),
        }
    }
}

/// Returns whether a statement that is read by `first` may be read by the other index, too: storage-attached ones are read
/// together, any other alone.
fn are_read_together(first: &IndexMetadata, other: &IndexMetadata) -> bool {
    first.kind == IndexKind::StorageAttached && other.kind == IndexKind::StorageAttached
}

/// Indexes that one hint names at most: as many as Cassandra 6 takes where its guardrail says nothing.
const HINTED_INDEXES_MAX: usize = 128;

/// The indexes of a hint, each once.
fn named<'t>(
    table: &'t TableMetadata,
    hint: &[HintedIndex],
) -> Result<Vec<&'t Arc<IndexMetadata>>, CqlError> {
    if hint.len() > HINTED_INDEXES_MAX {
        return Err(invalid!(
            "Cannot have more than 'secondary_indexes_per_table_fail_threshold' included/excluded indexes, found {}",
            hint.len()
        ));
    }
    let mut indexes: Vec<&Arc<IndexMetadata>> = Vec::new();
    for index in hint {
        let found: Vec<_> = match index {
            HintedIndex::All => table.indexes.iter().collect(),
            HintedIndex::Named(name) => vec![find(table, name)?],
        };
        for index in found {
            if !indexes.contains(&index) {
                indexes.push(index);
            }
        }
    }
    Ok(indexes)
}

fn find<'t>(table: &'t TableMetadata, name: &QualifiedName) -> Result<&'t Arc<IndexMetadata>, CqlError> {
    if name
        .keyspace
        .as_deref()
        .is_some_and(|keyspace| keyspace != &*table.keyspace)
    {
        return Err(invalid!(
            "Index {name} is not in the same keyspace as the queried table."
        ));
    }
    let mut indexes = table.indexes.iter();
    let found = indexes.find(|index| *index.name == *name.name);
    found.ok_or_else(|| invalid!("Table {} doesn't have an index named {}", table.name, name.name))
}

impl HeapBytes for IndexHints {
    fn heap_bytes(&self) -> usize {
        // Names within are shared with the table itself.
        size_of::<TableMetadata>()
            + flat_bytes(&self.table.columns)
            + flat_bytes(&self.table.dropped_columns)
            + flat_bytes(&self.table.indexes)
            + flat_bytes(&self.included)
    }
}
