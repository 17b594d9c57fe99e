//! Tables of indexes for tools: which of them are built, and how storage-attached ones compare.

use helenus_schema::{IndexKind, IndexMetadata, IndexTarget, Schema, TableMetadata};
use helenus_types::CqlType;

use super::node_state::NodeState;
use super::row_writer::{RowWriter, Value};

fn indexes(schema: &Schema) -> impl Iterator<Item = (&TableMetadata, &IndexMetadata)> {
    let tables = schema.tables().map(|table| &**table);
    tables.flat_map(|table| table.indexes.iter().map(move |index| (table, &**index)))
}

/// `system."IndexInfo"`, in which the first column is the keyspace, whatever its name says.
pub(super) fn built(rows: &mut RowWriter<'_>, schema: &Schema, node: &NodeState) {
    for (table, index) in indexes(schema) {
        if !node.usage.building_indexes.contains(&index.id) {
            rows.row(&[
                ("table_name", Value::Text(&table.keyspace)),
                ("index_name", Value::Text(&index.name)),
            ]);
        }
    }
}

/// `system_views.sai_column_indexes`
pub(super) fn attached(rows: &mut RowWriter<'_>, schema: &Schema, node: &NodeState) {
    for (table, index) in indexes(schema).filter(|(_, index)| index.kind == IndexKind::StorageAttached) {
        let Some(column) = table.column_by_id(index.column) else {
            continue;
        };
        let is_building = node.usage.building_indexes.contains(&index.id);
        rows.row(&[
            ("keyspace_name", Value::Text(&table.keyspace)),
            ("index_name", Value::Text(&index.name)),
            ("analyzer", Value::Text(&analyzer(index))),
            ("column_name", Value::Text(&column.name)),
            ("is_building", Value::Boolean(is_building)),
            ("is_queryable", Value::Boolean(!is_building)),
            (
                "is_string",
                Value::Boolean(is_literal(&column.cql_type, index.target)),
            ),
            ("table_name", Value::Text(&table.name)),
        ]);
    }
}

/// As Cassandra prints its own.
fn analyzer(index: &IndexMetadata) -> String {
    let option = |name: &str| {
        index
            .options
            .get(name)
            .map(|value| value.eq_ignore_ascii_case("true"))
    };
    let (case_sensitive, normalized, ascii) =
        (option("case_sensitive"), option("normalize"), option("ascii"));
    if case_sensitive.or(normalized).or(ascii).is_none() {
        return "NoOpAnalyzer".to_owned();
    }
    format!(
        "NonTokenizingAnalyzer{{caseSensitive={}, normalized={}, ascii={}}}",
        case_sensitive.unwrap_or(true),
        normalized.unwrap_or(false),
        ascii.unwrap_or(false)
    )
}

/// Returns whether Cassandra keeps the terms in its tree for texts.
fn is_literal(cql_type: &CqlType, target: IndexTarget) -> bool {
    let indexed = match (cql_type, target) {
        (_, IndexTarget::Entries) => return true,
        (CqlType::Map { key, .. }, IndexTarget::Keys) => key,
        (CqlType::Map { value, .. }, IndexTarget::Values) => value,
        (CqlType::List { element, .. } | CqlType::Set { element, .. }, IndexTarget::Values) => element,
        _ => cql_type,
    };
    matches!(indexed, CqlType::Text | CqlType::Ascii | CqlType::Boolean)
        || indexed.sub_types().next().is_some()
}
