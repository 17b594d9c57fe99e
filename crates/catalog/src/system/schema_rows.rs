//! `system_schema` and `system_virtual_schema`: the schema as rows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_schema::{
    ClusteringOrder, ColumnKind, ColumnMetadata, KeyspaceMetadata, Schema, TableMetadata, TableParams,
    ViewMetadata, is_virtual_system_keyspace,
};
use helenus_types::value::collection::write_collection;

use super::row_writer::{RowWriter, Value};

pub(super) fn keyspaces(rows: &mut RowWriter<'_>, schema: &Schema) {
    for keyspace in stored_keyspaces(schema) {
        let replication = replication_map(keyspace);
        rows.row(&[
            ("keyspace_name", Value::Text(&keyspace.name)),
            ("durable_writes", Value::Boolean(keyspace.durable_writes)),
            ("replication", Value::TextMap(&replication)),
        ]);
    }
}

pub(super) fn tables(rows: &mut RowWriter<'_>, schema: &Schema) {
    for table in stored_keyspaces(schema).flat_map(|keyspace| keyspace.base_tables()) {
        table_row(rows, table);
    }
}

pub(super) fn views(rows: &mut RowWriter<'_>, schema: &Schema) {
    for keyspace in stored_keyspaces(schema) {
        for (view, table) in keyspace
            .views
            .values()
            .filter_map(|view| Some((view, keyspace.tables.get(&view.name)?)))
        {
            view_row(rows, view, table);
        }
    }
}

pub(super) fn indexes(rows: &mut RowWriter<'_>, schema: &Schema) {
    for table in stored_keyspaces(schema).flat_map(|keyspace| keyspace.tables.values()) {
        for index in &table.indexes {
            let mut options = index.options.clone();
            options.insert("target".to_owned(), table.index_target(index));
            let kind = match &index.class_name {
                Some(class) => {
                    options.insert("class_name".to_owned(), class.to_string());
                    "CUSTOM"
                }
                None => "COMPOSITES",
            };
            rows.row(&[
                ("keyspace_name", Value::Text(&table.keyspace)),
                ("table_name", Value::Text(&table.name)),
                ("index_name", Value::Text(&index.name)),
                ("kind", Value::Text(kind)),
                ("options", Value::TextMap(&options)),
            ]);
        }
    }
}

pub(super) fn columns(rows: &mut RowWriter<'_>, schema: &Schema) {
    stored_keyspaces(schema).for_each(|keyspace| keyspace_columns(rows, keyspace));
}

pub(super) fn dropped_columns(rows: &mut RowWriter<'_>, schema: &Schema) {
    for table in stored_keyspaces(schema).flat_map(|keyspace| keyspace.tables.values()) {
        for column in &table.dropped_columns {
            let cql_type = column.cql_type.to_string();
            rows.row(&[
                ("keyspace_name", Value::Text(&table.keyspace)),
                ("table_name", Value::Text(&table.name)),
                ("column_name", Value::Text(&column.name)),
                (
                    "dropped_time",
                    Value::Timestamp(column.dropped_at_us.div_euclid(1000)),
                ),
                ("kind", Value::Text(kind_name(column.kind))),
                ("type", Value::Text(&cql_type)),
            ]);
        }
    }
}

pub(super) fn types(rows: &mut RowWriter<'_>, schema: &Schema) {
    for user_type in stored_keyspaces(schema).flat_map(|keyspace| keyspace.types.values()) {
        let names = user_type
            .fields
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        let types = user_type
            .fields
            .iter()
            .map(|(_, field)| field.to_string())
            .collect();
        rows.row(&[
            ("keyspace_name", Value::Text(&user_type.keyspace)),
            ("type_name", Value::Text(&user_type.name)),
            ("field_names", Value::TextList(names)),
            ("field_types", Value::TextList(types)),
        ]);
    }
}

pub(super) fn virtual_keyspaces(rows: &mut RowWriter<'_>, schema: &Schema) {
    for keyspace in virtual_system_keyspaces(schema) {
        rows.row(&[("keyspace_name", Value::Text(&keyspace.name))]);
    }
}

pub(super) fn virtual_tables(rows: &mut RowWriter<'_>, schema: &Schema) {
    for table in virtual_system_keyspaces(schema).flat_map(|keyspace| keyspace.tables.values()) {
        rows.row(&[
            ("keyspace_name", Value::Text(&table.keyspace)),
            ("table_name", Value::Text(&table.name)),
            ("comment", Value::Text(&table.params.comment)),
        ]);
    }
}

pub(super) fn virtual_columns(rows: &mut RowWriter<'_>, schema: &Schema) {
    virtual_system_keyspaces(schema).for_each(|keyspace| keyspace_columns(rows, keyspace));
}

fn stored_keyspaces(schema: &Schema) -> impl Iterator<Item = &Arc<KeyspaceMetadata>> {
    schema
        .keyspaces
        .values()
        .filter(|keyspace| !is_virtual_system_keyspace(&keyspace.name))
}

fn virtual_system_keyspaces(schema: &Schema) -> impl Iterator<Item = &Arc<KeyspaceMetadata>> {
    schema
        .keyspaces
        .values()
        .filter(|keyspace| is_virtual_system_keyspace(&keyspace.name))
}

fn replication_map(keyspace: &KeyspaceMetadata) -> BTreeMap<String, String> {
    let options = keyspace.replication.options.iter();
    let class = ("class".to_owned(), keyspace.replication.class.to_string());
    options
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .chain([class])
        .collect()
}

/// Columns that Cassandra leaves null unless they differ from what older versions assume stay null here as well.
fn table_row(rows: &mut RowWriter<'_>, table: &TableMetadata) {
    let TableMetadata { params, .. } = table;
    let counter = table.is_counter().then_some("counter");
    let flags = ["compound"]
        .into_iter()
        .chain(counter)
        .map(str::to_owned)
        .collect();
    let mut extensions = extensions(params);
    let expiration = table.expiration_column.and_then(|id| table.column_by_id(id));
    if let Some(column) = expiration {
        let name = column.name.as_bytes().to_vec();
        extensions.to_mut().insert("expiration_column".to_owned(), name);
    }
    let mut row = vec![
        ("keyspace_name", Value::Text(&table.keyspace)),
        ("table_name", Value::Text(&table.name)),
        ("flags", Value::TextSet(flags)),
        ("id", Value::Uuid(table.id.0)),
    ];
    row.extend(option_values(params, &extensions));
    row.extend(newer_options(params));
    rows.row(&row);
}

fn view_row(rows: &mut RowWriter<'_>, view: &ViewMetadata, table: &TableMetadata) {
    let extensions = extensions(&table.params);
    let mut row = vec![
        ("keyspace_name", Value::Text(&table.keyspace)),
        ("view_name", Value::Text(&view.name)),
        ("base_table_id", Value::Uuid(view.base_id.0)),
        ("base_table_name", Value::Text(&view.base)),
        ("id", Value::Uuid(table.id.0)),
        ("include_all_columns", Value::Boolean(view.includes_all_columns)),
        ("where_clause", Value::Text(&view.conditions)),
    ];
    row.extend(option_values(&table.params, &extensions));
    row.extend(newer_options(&table.params));
    rows.row(&row);
}

/// The options that tables and views have in common.
fn option_values<'a>(
    params: &'a TableParams,
    extensions: &'a BTreeMap<String, Vec<u8>>,
) -> Vec<(&'static str, Value<'a>)> {
    // Options are bounded by i32 when they are set.
    let int = |value: u32| Value::Int(value.cast_signed());
    vec![
        (
            "additional_write_policy",
            Value::Text(&params.additional_write_policy),
        ),
        (
            "bloom_filter_fp_chance",
            Value::Double(params.bloom_filter_fp_chance),
        ),
        ("caching", Value::TextMap(&params.caching)),
        ("comment", Value::Text(&params.comment)),
        ("compaction", Value::TextMap(&params.compaction)),
        ("compression", Value::TextMap(&params.compression)),
        ("crc_check_chance", Value::Double(params.crc_check_chance)),
        ("dclocal_read_repair_chance", Value::Double(0.0)),
        ("default_time_to_live", int(params.default_time_to_live)),
        ("extensions", Value::BlobMap(extensions)),
        ("gc_grace_seconds", int(params.gc_grace_seconds)),
        ("max_index_interval", int(params.max_index_interval)),
        (
            "memtable_flush_period_in_ms",
            int(params.memtable_flush_period_in_ms),
        ),
        ("min_index_interval", int(params.min_index_interval)),
        ("read_repair", Value::Text(&params.read_repair)),
        ("read_repair_chance", Value::Double(0.0)),
        ("speculative_retry", Value::Text(&params.speculative_retry)),
    ]
}

/// Options that Cassandra has no column for are among the extensions: ScyllaDB's map of text to text, serialized.
fn extensions(params: &TableParams) -> Cow<'_, BTreeMap<String, Vec<u8>>> {
    let limit = params.per_partition_rate_limit.map(|limit| limit.options());
    let change_log = params.change_log.map(|change_log| change_log.options());
    let options = [("per_partition_rate_limit", limit), ("cdc", change_log)];
    let mut extensions = Cow::Borrowed(&params.extensions);
    for (name, options) in options {
        let Some(options) = options else {
            continue;
        };
        let values = options
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let mut bytes = Vec::new();
        write_collection(&mut bytes, 2, values);
        extensions.to_mut().insert(name.to_owned(), bytes);
    }
    extensions
}

fn newer_options(params: &TableParams) -> impl Iterator<Item = (&'static str, Value<'_>)> {
    let memtable = (params.memtable != "default").then_some(("memtable", Value::Text(&params.memtable)));
    let snapshot = (!params.allow_auto_snapshot).then_some(("allow_auto_snapshot", Value::Boolean(false)));
    let backups = (!params.incremental_backups).then_some(("incremental_backups", Value::Boolean(false)));
    [memtable, snapshot, backups].into_iter().flatten()
}

fn keyspace_columns(rows: &mut RowWriter<'_>, keyspace: &KeyspaceMetadata) {
    for table in keyspace.tables.values() {
        for column in &table.columns {
            column_row(rows, table, column);
        }
    }
}

fn column_row(rows: &mut RowWriter<'_>, table: &TableMetadata, column: &ColumnMetadata) {
    let order = match (column.kind, column.order) {
        (ColumnKind::Clustering, ClusteringOrder::Ascending) => "asc",
        (ColumnKind::Clustering, ClusteringOrder::Descending) => "desc",
        _ => "none",
    };
    let position = match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => i32::from(column.position),
        ColumnKind::Static | ColumnKind::Regular => -1,
    };
    let cql_type = column.cql_type.to_string();
    rows.row(&[
        ("keyspace_name", Value::Text(&table.keyspace)),
        ("table_name", Value::Text(&table.name)),
        ("column_name", Value::Text(&column.name)),
        ("clustering_order", Value::Text(order)),
        ("column_name_bytes", Value::Blob(column.name.as_bytes())),
        ("kind", Value::Text(kind_name(column.kind))),
        ("position", Value::Int(position)),
        ("type", Value::Text(&cql_type)),
    ]);
}

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    }
}
