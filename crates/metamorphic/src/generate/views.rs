//! Materialized views of a history's tables. They are made with the tables: when one that is made later is built is not the
//! same on all nodes.

use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_storage_model::Chance;
use helenus_types::{CqlType, quoted_identifier};

use super::KEYSPACE;

/// Tables that can have a view, of which one has it.
const VIEW_ONE_IN: u64 = 2;

/// A view to be made.
pub struct View {
    pub create: String,
    /// Qualified.
    pub name: String,
    /// True if a write to a base row can give the view's row another key.
    pub moves_rows: bool,
}

/// A view of a table.
pub fn view(chance: &Chance, table: &TableMetadata) -> Option<View> {
    if table.is_counter() || !table.statics().is_empty() || !chance.one_in(VIEW_ONE_IN) {
        return None;
    }
    // Of a number that is written in several ways (1.0, 1.00) a table keeps one, and which one a merge decides.
    if !table.clustering().iter().all(has_one_form) {
        return None;
    }
    let own: Vec<&ColumnMetadata> = table
        .regulars()
        .iter()
        .filter(|column| is_short(column))
        .collect();
    let mut key: Vec<&ColumnMetadata> = table.clustering().iter().rev().collect();
    key.extend(table.partition_key());
    let moves_rows = !own.is_empty() && chance.one_in(2);
    if moves_rows {
        key.insert(chance.count(key.len()), *chance.pick(&own));
    }
    let names: Vec<String> = key
        .iter()
        .map(|column| quoted_identifier(&column.name).to_string())
        .collect();
    let (first, others) = names.split_first()?;
    // Of several columns, so that none of them is too short or too long to be a key by itself.
    let partition = match others.split_first() {
        Some((second, rest)) => {
            let rest: String = rest.iter().map(|name| format!(", {name}")).collect();
            format!("({first}, {second}){rest}")
        }
        None => first.clone(),
    };
    let conditions: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
    let view = format!("{KEYSPACE}.{}_view", table.name);
    let create = format!(
        "CREATE MATERIALIZED VIEW {view} AS SELECT * FROM {}.{} WHERE {} PRIMARY KEY ({partition})",
        quoted_identifier(&table.keyspace),
        quoted_identifier(&table.name),
        conditions.join(" AND ")
    );
    Some(View {
        create,
        name: view,
        moves_rows,
    })
}

/// Returns whether values that are equal have the same bytes.
fn has_one_form(column: &ColumnMetadata) -> bool {
    is_short(column) || matches!(column.cql_type, CqlType::Text | CqlType::Ascii | CqlType::Blob)
}

/// Returns whether all values of a column are short enough for a key.
fn is_short(column: &ColumnMetadata) -> bool {
    matches!(
        column.cql_type,
        CqlType::Int
            | CqlType::Bigint
            | CqlType::Boolean
            | CqlType::Smallint
            | CqlType::Tinyint
            | CqlType::Uuid
            | CqlType::Timestamp
            | CqlType::Date
            | CqlType::Time
    )
}
