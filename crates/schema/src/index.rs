//! Secondary indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_types::{CqlType, quoted_identifier};
use uuid::Uuid;

use crate::{ColumnId, ColumnMetadata, TableMetadata};

/// Identifies an index for its whole life: one that is dropped and made again under its name has another one, and what
/// was stored of the first is never taken for the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub Uuid);

/// Which of Cassandra's implementations an index stands for. They differ in what they serve and in texts, not in how
/// they are stored here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// `legacy_local_table`, also called 2i.
    Legacy,
    /// `sai`
    StorageAttached,
}

/// Part of a column that is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IndexTarget {
    /// The value of a column that is no collection.
    Simple,
    /// Each value of a list, set or map that is not frozen.
    Values,
    /// Each key of a map.
    Keys,
    /// Each entry of a map, key and value.
    Entries,
    /// A frozen collection as one value.
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexMetadata {
    pub id: IndexId,
    /// Unique within the keyspace.
    pub name: Arc<str>,
    pub kind: IndexKind,
    pub column: ColumnId,
    pub target: IndexTarget,
    /// As behind USING; none for an index that is not CUSTOM.
    pub class_name: Option<Arc<str>>,
    /// As behind WITH OPTIONS.
    pub options: BTreeMap<String, String>,
}

impl IndexTarget {
    /// As in CQL; none for a column by itself.
    pub fn function(self) -> Option<&'static str> {
        match self {
            IndexTarget::Simple => None,
            IndexTarget::Values => Some("values"),
            IndexTarget::Keys => Some("keys"),
            IndexTarget::Entries => Some("entries"),
            IndexTarget::Full => Some("full"),
        }
    }

    /// As in CQL, around the name of a column.
    pub fn text(self, column: &str) -> String {
        let column = quoted_identifier(column);
        match self.function() {
            None => column.into_owned(),
            Some(function) => format!("{function}({column})"),
        }
    }
}

impl TableMetadata {
    pub fn index(&self, name: &str) -> Option<&Arc<IndexMetadata>> {
        self.indexes.iter().find(|index| &*index.name == name)
    }

    pub fn indexes_of(&self, column: ColumnId) -> impl Iterator<Item = &Arc<IndexMetadata>> {
        self.indexes.iter().filter(move |index| index.column == column)
    }

    /// Returns whether an index of the table finds vectors by similarity, and not rows by a value.
    pub fn is_vector_index(&self, index: &IndexMetadata) -> bool {
        let is_float_vector = |column: &ColumnMetadata| match &column.cql_type {
            CqlType::Vector { element, .. } => **element == CqlType::Float,
            _ => false,
        };
        index.kind == IndexKind::StorageAttached
            && index.target == IndexTarget::Simple
            && self.column_by_id(index.column).is_some_and(is_float_vector)
    }

    /// The index that finds vectors of a column by similarity.
    pub fn vector_index(&self, column: ColumnId) -> Option<&Arc<IndexMetadata>> {
        self.indexes_of(column).find(|index| self.is_vector_index(index))
    }

    /// Target of an index of the table, as in CQL; empty for a column that the table does not have.
    pub fn index_target(&self, index: &IndexMetadata) -> String {
        let column = self.column_by_id(index.column);
        column.map_or_else(String::new, |column| index.target.text(&column.name))
    }

    /// Keeps the order that [`TableMetadata::indexes`] promises.
    pub fn add_index(&mut self, index: IndexMetadata) {
        let place = self.indexes.partition_point(|other| other.name < index.name);
        self.indexes.insert(place, Arc::new(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_in_cql() {
        assert_eq!(IndexTarget::Simple.text("v"), "v");
        assert_eq!(IndexTarget::Simple.text("V"), "\"V\"");
        assert_eq!(IndexTarget::Entries.text("order"), "entries(\"order\")");
    }
}
