//! The statements that would create what is there.

use helenus_schema::{
    ClusteringOrder, ColumnMetadata, DroppedColumn, IndexMetadata, KeyspaceMetadata, TableMetadata,
    TableParams, ViewMetadata, is_virtual_system_keyspace,
};
use helenus_types::value::blob::to_hex;
use helenus_types::value::floating::format_double;
use helenus_types::{UserType, quoted_identifier};

use super::cql_text::CqlText;

const LOCATOR_PACKAGE: &str = "org.apache.cassandra.locator.";

pub(crate) fn create_keyspace_statement(keyspace: &KeyspaceMetadata) -> String {
    let name = quoted_identifier(&keyspace.name);
    if is_virtual_system_keyspace(&keyspace.name) {
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with CQL.\nStructure, for \
             reference:\nVIRTUAL KEYSPACE {name};\n*/"
        );
    }
    let class = &*keyspace.replication.class;
    let mut text = CqlText::default();
    text.push(format_args!(
        "CREATE KEYSPACE {name} WITH replication = {{'class': "
    ));
    text.quoted(class.strip_prefix(LOCATOR_PACKAGE).unwrap_or(class));
    for (option, value) in &keyspace.replication.options {
        text.push(", ").quoted(option).push(": ").quoted(value);
    }
    text.push(format_args!(
        "}}  AND durable_writes = {};",
        keyspace.durable_writes
    ));
    text.into_string()
}

pub fn create_type_statement(user_type: &UserType) -> String {
    let mut text = CqlText::default();
    text.push(format_args!(
        "CREATE TYPE {}.{} (",
        quoted_identifier(&user_type.keyspace),
        quoted_identifier(&user_type.name)
    ));
    text.new_line();
    text.indented(|text| {
        for (index, (name, field)) in user_type.fields.iter().enumerate() {
            if index > 0 {
                text.push(",").new_line();
            }
            text.push(format_args!("{} {field}", quoted_identifier(name)));
        }
        text.new_line();
    });
    text.push(");");
    text.into_string()
}

/// `with_internals` adds what only a copy of the table's files needs: its id, and the history of dropped columns.
pub fn create_table_statement(table: &TableMetadata, with_internals: bool) -> String {
    let name = format!(
        "{}.{}",
        quoted_identifier(&table.keyspace),
        quoted_identifier(&table.name)
    );
    let is_virtual = is_virtual_system_keyspace(&table.keyspace);
    let mut text = CqlText::default();
    if is_virtual {
        text.push(format_args!(
            "/*\nWarning: Table {name} is a virtual table and cannot be recreated with CQL.\nStructure, for \
             reference:\nVIRTUAL TABLE {name} ("
        ));
    } else {
        text.push(format_args!("CREATE TABLE {name} ("));
    }
    text.new_line()
        .indented(|text| columns(text, table, with_internals));
    text.push(") WITH ").indented(|text| {
        if with_internals {
            text.push(format_args!("ID = {}", table.id.0))
                .new_line()
                .push("AND ");
        }
        clustering_order(text, table);
        if is_virtual {
            text.push("comment = ").quoted(&table.params.comment);
        } else {
            options(text, &table.params, true);
        }
        text.push(";");
    });
    if is_virtual {
        text.new_line().push("*/");
    }
    if with_internals {
        dropped_columns(&mut text, table, &name);
    }
    text.into_string()
}

pub fn create_view_statement(view: &ViewMetadata, table: &TableMetadata, with_internals: bool) -> String {
    let keyspace = quoted_identifier(&table.keyspace);
    let names: Vec<_> = table
        .columns
        .iter()
        .map(|column| quoted_identifier(&column.name))
        .collect();
    let selected = match view.includes_all_columns {
        true => "*".to_owned(),
        false => names.join(", "),
    };
    let mut text = CqlText::default();
    text.push(format_args!(
        "CREATE MATERIALIZED VIEW {keyspace}.{} AS",
        quoted_identifier(&view.name)
    ));
    text.new_line().indented(|text| {
        text.push(format_args!("SELECT {selected}")).new_line();
        text.push(format_args!("FROM {keyspace}.{}", quoted_identifier(&view.base)))
            .new_line();
        text.push(format_args!("WHERE {}", view.conditions)).new_line();
        primary_key(text, table);
    });
    text.push(" WITH ").indented(|text| {
        if with_internals {
            text.push(format_args!("ID = {}", table.id.0))
                .new_line()
                .push("AND ");
        }
        clustering_order(text, table);
        options(text, &table.params, false);
        text.push(";");
    });
    text.into_string()
}

pub fn create_index_statement(index: &IndexMetadata, table: &TableMetadata) -> String {
    let mut text = CqlText::default();
    let custom = if index.class_name.is_some() { "CUSTOM " } else { "" };
    text.push(format_args!(
        "CREATE {custom}INDEX {} ON {}.{} ({})",
        quoted_identifier(&index.name),
        quoted_identifier(&table.keyspace),
        quoted_identifier(&table.name),
        table.index_target(index)
    ));
    if let Some(class) = &index.class_name {
        text.push(" USING ").quoted(class);
    }
    if !index.options.is_empty() {
        text.push(" WITH OPTIONS = ").map(&index.options);
    }
    text.push(";");
    text.into_string()
}

fn columns(text: &mut CqlText, table: &TableMetadata, with_dropped: bool) {
    let has_simple_key = table.partition_key_count == 1 && table.clustering_count == 0;
    let dropped = if with_dropped {
        table.dropped_columns.as_slice()
    } else {
        &[]
    };
    // A column that came back is declared as it was dropped, then dropped and added again below.
    let is_dropped = |column: &ColumnMetadata| dropped.iter().any(|dropped| dropped.name == column.name);
    let declared: Vec<&ColumnMetadata> = in_create_order(table)
        .into_iter()
        .filter(|column| !is_dropped(column))
        .collect();
    for (index, column) in declared.iter().enumerate() {
        declaration(text, table, column);
        let is_key = table.partition_key().contains(column);
        if has_simple_key && is_key {
            text.push(" PRIMARY KEY");
        }
        if !has_simple_key || !dropped.is_empty() || index + 1 < declared.len() {
            text.push(",");
        }
        text.new_line();
    }
    for (index, column) in dropped.iter().enumerate() {
        dropped_declaration(text, column);
        if !has_simple_key || index + 1 < dropped.len() {
            text.push(",");
        }
        text.new_line();
    }
    if !has_simple_key {
        primary_key(text, table);
    }
}

/// The keys, then statics and regulars, each with single-cell columns first.
fn in_create_order(table: &TableMetadata) -> Vec<&ColumnMetadata> {
    let mut columns: Vec<&ColumnMetadata> = table.columns.iter().collect();
    columns.sort_by_key(|column| (column.kind, column.cql_type.is_multi_cell()));
    columns
}

fn declaration(text: &mut CqlText, table: &TableMetadata, column: &ColumnMetadata) {
    text.push(format_args!(
        "{} {}",
        quoted_identifier(&column.name),
        column.cql_type
    ));
    if column.kind == helenus_schema::ColumnKind::Static {
        text.push(" static");
    }
    if table.expiration_column == Some(column.id) {
        text.push(" TTL");
    }
}

fn dropped_declaration(text: &mut CqlText, column: &DroppedColumn) {
    text.push(format_args!(
        "{} {}",
        quoted_identifier(&column.name),
        column.cql_type
    ));
    if column.kind == helenus_schema::ColumnKind::Static {
        text.push(" static");
    }
}

fn primary_key(text: &mut CqlText, table: &TableMetadata) {
    let names = |columns: &[ColumnMetadata]| {
        let names: Vec<_> = columns
            .iter()
            .map(|column| quoted_identifier(&column.name))
            .collect();
        names.join(", ")
    };
    let partition = names(table.partition_key());
    text.push("PRIMARY KEY (");
    if table.partition_key_count > 1 {
        text.push(format_args!("({partition})"));
    } else {
        text.push(partition);
    }
    if table.clustering_count > 0 {
        text.push(format_args!(", {}", names(table.clustering())));
    }
    text.push(")").new_line();
}

fn clustering_order(text: &mut CqlText, table: &TableMetadata) {
    if table.clustering_count == 0 {
        return;
    }
    text.push("CLUSTERING ORDER BY (");
    for (index, column) in table.clustering().iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let order = match column.order {
            ClusteringOrder::Ascending => "ASC",
            ClusteringOrder::Descending => "DESC",
        };
        text.push(format_args!(
            "{separator}{} {order}",
            quoted_identifier(&column.name)
        ));
    }
    text.push(")").new_line().push("AND ");
}

/// Views have no time to live of their own.
fn options(text: &mut CqlText, params: &TableParams, has_time_to_live: bool) {
    text.push("additional_write_policy = ")
        .quoted(&params.additional_write_policy);
    option(text, "allow_auto_snapshot").push(params.allow_auto_snapshot);
    option(text, "bloom_filter_fp_chance").push(format_double(params.bloom_filter_fp_chance));
    option(text, "caching").map(&params.caching);
    match params.change_log {
        Some(change_log) => option(text, "cdc").map(&change_log.options()),
        None => option(text, "cdc").push(params.cdc),
    };
    option(text, "comment").quoted(&params.comment);
    option(text, "compaction").map(&params.compaction);
    option(text, "compression").map(&params.compression);
    option(text, "memtable").quoted(&params.memtable);
    option(text, "crc_check_chance").push(format_double(params.crc_check_chance));
    if has_time_to_live {
        option(text, "default_time_to_live").push(params.default_time_to_live);
    }
    option(text, "extensions").push("{");
    for (index, (name, value)) in params.extensions.iter().enumerate() {
        text.push(if index == 0 { "" } else { ", " });
        text.quoted(name).push(format_args!(": 0x{}", to_hex(value)));
    }
    text.push("}");
    option(text, "gc_grace_seconds").push(params.gc_grace_seconds);
    option(text, "incremental_backups").push(params.incremental_backups);
    option(text, "max_index_interval").push(params.max_index_interval);
    option(text, "memtable_flush_period_in_ms").push(params.memtable_flush_period_in_ms);
    option(text, "min_index_interval").push(params.min_index_interval);
    if let Some(limit) = params.per_partition_rate_limit {
        option(text, "per_partition_rate_limit").map(&limit.options());
    }
    option(text, "read_repair").quoted(&params.read_repair);
    option(text, "speculative_retry").quoted(&params.speculative_retry);
    if let Some(format) = params.sstable_format {
        option(text, "sstable_format").quoted(format.name());
    }
}

fn option<'t>(text: &'t mut CqlText, name: &str) -> &'t mut CqlText {
    text.new_line().push(format_args!("AND {name} = "))
}

fn dropped_columns(text: &mut CqlText, table: &TableMetadata, table_name: &str) {
    for dropped in &table.dropped_columns {
        let name = quoted_identifier(&dropped.name);
        text.new_line().push(format_args!(
            "ALTER TABLE {table_name} DROP {name} USING TIMESTAMP {};",
            dropped.dropped_at_us
        ));
        if let Some(column) = table.column(&dropped.name) {
            text.new_line()
                .push(format_args!("ALTER TABLE {table_name} ADD "));
            declaration(text, table, column);
            text.push(";");
        }
    }
}
