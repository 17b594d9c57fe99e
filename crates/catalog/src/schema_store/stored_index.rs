//! Indexes as they are stored with their table.

use std::collections::BTreeMap;

use helenus_schema::{IndexId, IndexKind, IndexMetadata, IndexTarget, TableMetadata};
use helenus_types::value::uuid::{format_uuid, parse_uuid};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredIndex {
    name: String,
    id: String,
    kind: StoredIndexKind,
    column: String,
    target: StoredIndexTarget,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class_name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredIndexKind {
    Legacy,
    StorageAttached,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredIndexTarget {
    Simple,
    Values,
    Keys,
    Entries,
    Full,
}

impl StoredIndex {
    /// None for an index of no column, which no statement makes.
    pub fn of(index: &IndexMetadata, table: &TableMetadata) -> Option<Self> {
        let column = table.column_by_id(index.column)?;
        Some(StoredIndex {
            name: index.name.to_string(),
            id: format_uuid(index.id.0.into_bytes()),
            kind: match index.kind {
                IndexKind::Legacy => StoredIndexKind::Legacy,
                IndexKind::StorageAttached => StoredIndexKind::StorageAttached,
            },
            column: column.name.to_string(),
            target: StoredIndexTarget::of(index.target),
            class_name: index.class_name.as_deref().map(str::to_owned),
            options: index.options.clone(),
        })
    }

    /// The error says what does not add up.
    pub fn index(&self, table: &TableMetadata) -> Result<IndexMetadata, String> {
        let StoredIndex { name, id, column, .. } = self;
        if table.index(name).is_some() {
            return Err(format!("two indexes are called {name}"));
        }
        let id = parse_uuid(id).ok_or_else(|| format!("index {name}: {id} is not an id"))?;
        let column = table
            .column(column)
            .ok_or_else(|| format!("index {name}: no column {column}"))?;
        Ok(IndexMetadata {
            id: IndexId(Uuid::from_bytes(id)),
            name: name.as_str().into(),
            kind: match self.kind {
                StoredIndexKind::Legacy => IndexKind::Legacy,
                StoredIndexKind::StorageAttached => IndexKind::StorageAttached,
            },
            column: column.id,
            target: self.target.target(),
            class_name: self.class_name.as_deref().map(Into::into),
            options: self.options.clone(),
        })
    }
}

impl StoredIndexTarget {
    fn of(target: IndexTarget) -> Self {
        match target {
            IndexTarget::Simple => StoredIndexTarget::Simple,
            IndexTarget::Values => StoredIndexTarget::Values,
            IndexTarget::Keys => StoredIndexTarget::Keys,
            IndexTarget::Entries => StoredIndexTarget::Entries,
            IndexTarget::Full => StoredIndexTarget::Full,
        }
    }

    fn target(self) -> IndexTarget {
        match self {
            StoredIndexTarget::Simple => IndexTarget::Simple,
            StoredIndexTarget::Values => IndexTarget::Values,
            StoredIndexTarget::Keys => IndexTarget::Keys,
            StoredIndexTarget::Entries => IndexTarget::Entries,
            StoredIndexTarget::Full => IndexTarget::Full,
        }
    }
}
