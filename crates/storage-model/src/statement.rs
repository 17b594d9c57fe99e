//! A random table's schema as CQL.

use std::fmt::Write as _;

use helenus_schema::{ClusteringOrder, ColumnKind, TableMetadata};
use helenus_types::quoted_identifier;

use crate::table::RandomTable;

/// CREATE TYPE for each user type, CREATE TABLE with the table's id and what the table had when it was written, and
/// ALTER TABLE for each column dropped since. One statement each; the keyspace is there already.
pub fn schema_statements(table: &RandomTable) -> Vec<String> {
    let metadata = &table.metadata;
    let keyspace = quoted_identifier(&metadata.keyspace);
    let mut statements = Vec::new();
    for user_type in &table.user_types {
        let fields: Vec<_> = user_type
            .fields
            .iter()
            .map(|(name, cql_type)| format!("{} {cql_type}", quoted_identifier(name)))
            .collect();
        let name = quoted_identifier(&user_type.name);
        statements.push(format!("CREATE TYPE {keyspace}.{name} ({})", fields.join(", ")));
    }
    statements.push(create_table(metadata));
    for dropped in &metadata.dropped_columns {
        statements.push(format!(
            "ALTER TABLE {} DROP {} USING TIMESTAMP {}",
            qualified(metadata),
            quoted_identifier(&dropped.name),
            dropped.dropped_at_us
        ));
    }
    statements
}

fn qualified(table: &TableMetadata) -> String {
    format!(
        "{}.{}",
        quoted_identifier(&table.keyspace),
        quoted_identifier(&table.name)
    )
}

fn create_table(table: &TableMetadata) -> String {
    let mut out = format!("CREATE TABLE {} (", qualified(table));
    let put = |out: &mut String, text: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = out.write_fmt(text);
    };
    let dropped = table.dropped_columns.iter();
    let dropped = dropped.map(|column| (&column.name, &column.cql_type, column.kind));
    let present = table.columns.iter();
    let present = present.map(|column| (&column.name, &column.cql_type, column.kind));
    for (name, cql_type, kind) in present.chain(dropped) {
        let is_static = if kind == ColumnKind::Static { " static" } else { "" };
        put(
            &mut out,
            format_args!("{} {cql_type}{is_static}, ", quoted_identifier(name)),
        );
    }
    let names = |columns: &[helenus_schema::ColumnMetadata]| {
        let names: Vec<_> = columns
            .iter()
            .map(|column| quoted_identifier(&column.name))
            .collect();
        names.join(", ")
    };
    put(
        &mut out,
        format_args!("PRIMARY KEY (({})", names(table.partition_key())),
    );
    if !table.clustering().is_empty() {
        put(&mut out, format_args!(", {}", names(table.clustering())));
    }
    put(&mut out, format_args!(")) WITH ID = {}", table.id.0));
    if !table.clustering().is_empty() {
        let orders: Vec<_> = table
            .clustering()
            .iter()
            .map(|column| {
                let order = if column.order == ClusteringOrder::Descending {
                    "DESC"
                } else {
                    "ASC"
                };
                format!("{} {order}", quoted_identifier(&column.name))
            })
            .collect();
        put(
            &mut out,
            format_args!(" AND CLUSTERING ORDER BY ({})", orders.join(", ")),
        );
    }
    let params = &table.params;
    put(
        &mut out,
        format_args!(
            " AND gc_grace_seconds = {} AND bloom_filter_fp_chance = {} AND min_index_interval = {}",
            params.gc_grace_seconds, params.bloom_filter_fp_chance, params.min_index_interval
        ),
    );
    if table.params.compression.is_empty() {
        out.push_str(" AND compression = {'enabled': false}");
    } else {
        let options: Vec<_> = table
            .params
            .compression
            .iter()
            .map(|(name, value)| format!("'{name}': '{value}'"))
            .collect();
        put(
            &mut out,
            format_args!(" AND compression = {{{}}}", options.join(", ")),
        );
    }
    out
}
