//! Which relations an index serves, and which indexes a statement is read by: Cassandra's rules, which decide what needs
//! ALLOW FILTERING and what texts mean.

use std::sync::Arc;

use helenus_index::{Collation, IndexedColumn};
use helenus_schema::{
    ColumnId, ColumnMetadata, IndexId, IndexKind, IndexMetadata, IndexTarget, TableMetadata,
};
use helenus_types::CqlType;

use super::restriction::{Restriction, RestrictionKind};

/// The column that is ordered by, for the rules of the WHERE clause.
#[derive(Clone, Copy, Debug)]
pub struct NearestColumn {
    pub column: ColumnId,
    /// True if there is an index that finds its vectors by similarity.
    pub is_indexed: bool,
}

/// Kind of query that a test would ask an index for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseOfIndex {
    Equality,
    Range,
    Element,
    Key,
    Other,
}

/// How an index compares values, where a filter on its column has to do likewise.
#[derive(Clone, Copy, Debug)]
pub struct IndexCollation {
    pub index: IndexId,
    pub column: ColumnId,
    pub collation: Collation,
    target: IndexTarget,
}

impl IndexCollation {
    /// Returns whether a test of this kind is one that the index serves.
    pub fn is_for(&self, cql_type: &CqlType, test: UseOfIndex) -> bool {
        match (self.target, test) {
            (IndexTarget::Simple, UseOfIndex::Equality)
            | (IndexTarget::Values, UseOfIndex::Element)
            | (IndexTarget::Keys, UseOfIndex::Key) => true,
            (IndexTarget::Simple, UseOfIndex::Range) => has_ranges(cql_type),
            _ => false,
        }
    }
}

/// Operation of a restriction on an indexed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Equality; of a map, with the value under a key.
    Equal,
    In,
    Range,
    Contains,
    ContainsKey,
}

/// Indexes that are read together: all storage-attached ones of a table, or one of another kind.
type Group<'t> = Vec<&'t IndexMetadata>;

/// Purpose of reading indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexReads {
    Matching,
    /// Rows that match, in the order of how near they are to a vector: only storage-attached indexes know that.
    Nearest,
}

impl IndexReads {
    pub fn of(nearest: Option<NearestColumn>) -> Self {
        match nearest {
            Some(_) => IndexReads::Nearest,
            None => IndexReads::Matching,
        }
    }
}

fn groups(table: &TableMetadata, reads: IndexReads) -> Vec<Group<'_>> {
    let indexes = table.indexes.iter().map(Arc::as_ref);
    let indexes =
        indexes.filter(|index| reads == IndexReads::Matching || index.kind == IndexKind::StorageAttached);
    let (attached, others): (Vec<_>, Vec<_>) =
        indexes.partition(|index| index.kind == IndexKind::StorageAttached);
    let others = others.into_iter().map(|index| vec![index]);
    others.chain((!attached.is_empty()).then_some(attached)).collect()
}

fn serves(index: &IndexMetadata, column: &ColumnMetadata, operation: Operation) -> bool {
    if index.column != column.id {
        return false;
    }
    let cql_type = &column.cql_type;
    match (index.target, operation) {
        (IndexTarget::Values, Operation::Contains)
        | (IndexTarget::Keys, Operation::ContainsKey)
        | (IndexTarget::Entries | IndexTarget::Full | IndexTarget::Simple, Operation::Equal) => true,
        (IndexTarget::Simple, Operation::Range) => {
            index.kind == IndexKind::StorageAttached && has_ranges(cql_type)
        }
        _ => false,
    }
}

/// Returns whether storage-attached indexes find ranges of the type; of the others they find single values only.
fn has_ranges(cql_type: &CqlType) -> bool {
    let is_literal = matches!(
        cql_type,
        CqlType::Text | CqlType::Ascii | CqlType::Boolean | CqlType::Uuid
    );
    !is_literal && cql_type.sub_types().next().is_none()
}

/// Returns the operations of a restriction on its columns; several for one of CONTAINS.
fn operations(restriction: &Restriction) -> Vec<Operation> {
    match &restriction.kind {
        RestrictionKind::Equal(_) => vec![Operation::Equal],
        RestrictionKind::In(_) => vec![Operation::In],
        RestrictionKind::Slice { .. } => vec![Operation::Range],
        RestrictionKind::Contains {
            values,
            keys,
            entries,
        } => [
            (values.len(), Operation::Contains),
            (keys.len(), Operation::ContainsKey),
            (entries.len(), Operation::Equal),
        ]
        .into_iter()
        .filter_map(|(count, operation)| (count > 0).then_some(operation))
        .collect(),
    }
}

fn contained_count(restriction: &Restriction) -> usize {
    match &restriction.kind {
        RestrictionKind::Contains {
            values,
            keys,
            entries,
        } => values.len() + keys.len() + entries.len(),
        _ => 0,
    }
}

fn serves_part(index: &IndexMetadata, restriction: &Restriction) -> bool {
    let operations = operations(restriction);
    let mut columns = restriction.columns.iter();
    columns.any(|restricted| {
        let mut operations = operations.iter();
        operations.any(|operation| serves(index, &restricted.column, *operation))
    })
}

/// Returns whether an index of the table serves the restriction, or a part of it.
pub(crate) fn has_index(table: &TableMetadata, restriction: &Restriction) -> bool {
    let mut indexes = table.indexes.iter();
    indexes.any(|index| serves_part(index, restriction))
}

/// Returns whether rows have to be looked at because the indexes of a group say too little of a restriction.
fn group_filters(group: &Group<'_>, restriction: &Restriction) -> bool {
    let operations = operations(restriction);
    let mut columns = restriction.columns.iter();
    let is_served = columns.all(|restricted| {
        let mut indexes = group.iter();
        indexes.any(|index| {
            let takes_one = index.kind == IndexKind::Legacy && contained_count(restriction) > 1;
            let mut operations = operations.iter();
            !takes_one && operations.any(|operation| serves(index, &restricted.column, *operation))
        })
    });
    !is_served
}

/// Returns whether no group of indexes alone tells which rows match all of these.
pub(crate) fn needs_filtering(
    table: &TableMetadata,
    restrictions: &[&Restriction],
    reads: IndexReads,
) -> bool {
    if restrictions.is_empty() {
        return false;
    }
    let mut groups = groups(table, reads).into_iter();
    groups.all(|group| {
        let mut restrictions = restrictions.iter();
        restrictions.any(|restriction| group_filters(&group, restriction))
    })
}

/// The indexes by which Cassandra would read the rows that match: those of the first group that serves anything, legacy ones
/// before storage-attached ones.
pub(crate) fn chosen<'t>(
    table: &'t TableMetadata,
    restrictions: &[&Restriction],
    reads: IndexReads,
) -> Vec<&'t IndexMetadata> {
    let mut groups = groups(table, reads).into_iter();
    let serving = groups.find_map(|mut group| {
        group.retain(|index| {
            let mut restrictions = restrictions.iter();
            restrictions.any(|restriction| serves_part(index, restriction))
        });
        (!group.is_empty()).then_some(group)
    });
    serving.unwrap_or_default()
}

/// How the [`chosen`] indexes compare, where that is not as types do.
pub(crate) fn collations(
    table: &TableMetadata,
    restrictions: &[&Restriction],
    reads: IndexReads,
) -> Vec<IndexCollation> {
    let chosen = chosen(table, restrictions, reads).into_iter();
    chosen
        .filter_map(|index| {
            Some(IndexCollation {
                index: index.id,
                column: index.column,
                collation: IndexedColumn::of(table, index)?.collation()?,
                target: index.target,
            })
        })
        .collect()
}
