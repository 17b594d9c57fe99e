//! CREATE and DROP TABLE.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::ast::{self, CreateTable, DropTable, NativeType, OrderDirection, Properties, PropertyValue};
use helenus_engine::CqlError;
use helenus_engine::error::AlreadyExists;
use helenus_engine::names::first_repeated;
use helenus_protocol::response::SchemaChangeKind;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, KeyspaceMetadata, Schema, TableId, TableKind,
    TableMetadata, TableParams,
};
use helenus_types::{CqlType, UserType};
use uuid::Uuid;

use super::base_table::{check_no_view, check_no_views_of};
use super::change::{DdlContext, DdlOutcome, SchemaChange};
use super::change_log::{check_no_log, follow as follow_with_log};
use super::column_type::{check_order, declared_type, is_native};
use super::expiration;
use super::guard::{
    Access, KEYSPACE_NAME_LENGTH_MAX, Resource, check_access, check_keyspace_name, is_word, keyspace_of,
};
use super::options::{PropertyReader, TABLE_PROPERTIES, TableOptions};

pub(super) fn create(
    schema: &Schema,
    create: &CreateTable,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    check_syntax(create)?;
    let keyspace_name = keyspace_of(create.table.keyspace.as_deref(), context.session_keyspace)?;
    if create.primary_keys.is_empty() {
        return Err(CqlError::invalid(format_args!(
            "No PRIMARY KEY specifed for table '{}' (exactly one required)",
            create.table
        )));
    }
    check_access(Access {
        verb: "CREATE",
        keyspace: keyspace_name,
        resource: Resource::AllTables,
    })?;
    if create.options.compact_storage {
        return Err(refused_compact_table(create));
    }
    let options = TableOptions::read_new(&create.options.properties)?;
    if create.columns.iter().any(|column| column.mask.is_some()) {
        return Err(masking_is_off());
    }
    check_keyspace_name(keyspace_name)?;
    let Some(keyspace) = schema.keyspace(keyspace_name) else {
        return Err(CqlError::invalid(format_args!(
            "Keyspace '{keyspace_name}' doesn't exist"
        )));
    };
    let name = &*create.table.name;
    if keyspace.tables.contains_key(name) {
        if create.if_not_exists {
            return Ok(DdlOutcome::unchanged());
        }
        let existing = AlreadyExists::Table {
            keyspace: keyspace_name.to_owned(),
            table: name.to_owned(),
        };
        return Err(CqlError::AlreadyExists(Box::new(existing)));
    }
    let table = build(
        create,
        &keyspace.name,
        &keyspace.types,
        options,
        context.new_table_id,
    )?;
    if let Some(other) = schema.table_by_id(table.id) {
        return Err(CqlError::config(format_args!(
            "Table id {} is already used by {}.{}",
            table.id.0, other.keyspace, other.name
        )));
    }
    let change = SchemaChange::table(SchemaChangeKind::Created, &keyspace.name, &table.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    follow_with_log(&mut after, None, &table, context)?;
    after.tables.insert(Arc::clone(&table.name), Arc::new(table));
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

pub(super) fn drop(
    schema: &Schema,
    drop: &DropTable,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace_name = keyspace_of(drop.table.keyspace.as_deref(), context.session_keyspace)?;
    let name = &*drop.table.name;
    check_access(Access {
        verb: "DROP",
        keyspace: keyspace_name,
        resource: Resource::Table(name),
    })?;
    check_keyspace_name(keyspace_name)?;
    let found = schema
        .keyspace(keyspace_name)
        .and_then(|keyspace| Some((keyspace, keyspace.tables.get(name)?)));
    let Some((keyspace, table)) = found else {
        if drop.if_exists {
            return Ok(DdlOutcome::unchanged());
        }
        return Err(CqlError::invalid(format_args!(
            "Table '{keyspace_name}.{name}' doesn't exist"
        )));
    };
    check_no_view(
        keyspace,
        name,
        "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.",
    )?;
    check_no_views_of(keyspace, table)?;
    check_no_log(keyspace, table, "drop")?;
    let change = SchemaChange::table(SchemaChangeKind::Dropped, &keyspace.name, &table.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    after.tables.remove(name);
    if let Some(log) = keyspace.log_of(table) {
        after.tables.remove(&log.name);
    }
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

/// Compact tables are refused as by a Cassandra that is configured so, after what is wrong with them in any case.
fn refused_compact_table(create: &CreateTable) -> CqlError {
    let key = &create.primary_keys[0];
    let is_key = |name: &String| key.partition.contains(name) || key.clustering.contains(name);
    if key.clustering.is_empty() && create.columns.iter().all(|column| is_key(&column.name)) {
        return CqlError::invalid(format_args!(
            "No definition found that is not part of the PRIMARY KEY"
        ));
    }
    CqlError::invalid(format_args!(
        "Guardrail compact_tables violated: Creation of new COMPACT STORAGE tables is not allowed"
    ))
}

/// The table that a CREATE TABLE describes, for definitions that come with the program.
pub(crate) fn build_table(
    create: &CreateTable,
    keyspace: &Arc<str>,
    kind: TableKind,
) -> Result<TableMetadata, CqlError> {
    check_syntax(create)?;
    let options = TableOptions::read_new(&create.options.properties)?;
    let mut table = build(create, keyspace, &BTreeMap::new(), options, TableId(Uuid::nil()))?;
    table.kind = kind;
    Ok(table)
}

pub(super) fn masking_is_off() -> CqlError {
    CqlError::invalid(format_args!(
        "Cannot mask columns because dynamic data masking is not enabled. You can enable it with the \
         dynamic_data_masking_enabled property on cassandra.yaml"
    ))
}

/// Non-frozen user types may hold frozen collections only.
pub(super) fn has_nested_multi_cell(cql_type: &CqlType) -> bool {
    cql_type.is_user_defined() && cql_type.is_multi_cell() && cql_type.sub_types().any(CqlType::is_multi_cell)
}

/// Refuses what Cassandra refuses while it parses.
fn check_syntax(create: &CreateTable) -> Result<(), CqlError> {
    let table = &create.table;
    if let Some(repeated) = first_repeated(create.columns.iter().map(|column| column.name.as_str())) {
        return Err(CqlError::invalid(format_args!(
            "Duplicate column '{repeated}' declaration for table '{table}'"
        )));
    }
    if create.primary_keys.len() > 1 {
        return Err(CqlError::invalid(format_args!(
            "Multiple PRIMARY KEY specified for table '{table}' (exactly one required)"
        )));
    }
    let orders = &create.options.clustering_order;
    if let Some(repeated) = first_repeated(orders.iter().map(|order| order.column.as_str())) {
        return Err(CqlError::invalid(format_args!(
            "Duplicate column '{repeated}' in CLUSTERING ORDER BY clause for table '{table}'"
        )));
    }
    Ok(())
}

/// A declared column whose type is known.
struct Column<'a> {
    definition: &'a ast::ColumnDefinition,
    cql_type: CqlType,
}

fn build(
    create: &CreateTable,
    keyspace: &Arc<str>,
    user_types: &BTreeMap<Arc<str>, Arc<UserType>>,
    options: TableOptions,
    new_id: TableId,
) -> Result<TableMetadata, CqlError> {
    PropertyReader(&create.options.properties).check_names(&TABLE_PROPERTIES)?;
    let params = options.validate()?;
    let columns = declared_columns(create, keyspace, user_types)?;
    // One primary key: `check_syntax` and the caller saw to it.
    let (partition, clustering) = match create.primary_keys.first() {
        Some(key) => (key.partition.as_slice(), key.clustering.as_slice()),
        None => (&[][..], &[][..]),
    };
    check_primary_key(create, &columns, partition, clustering, keyspace)?;
    check_clustering_order(create, clustering)?;
    let is_key = |column: &Column<'_>| {
        partition
            .iter()
            .chain(clustering)
            .any(|name| *name == column.definition.name)
    };
    check_other_columns(
        create,
        columns.iter().filter(|column| !is_key(column)),
        clustering,
        &params,
    )?;
    let id = table_id(&create.options.properties)?.unwrap_or(new_id);
    check_table_name(keyspace, &create.table.name)?;
    let mut table = TableMetadata {
        keyspace: Arc::clone(keyspace),
        name: create.table.name.as_str().into(),
        id,
        kind: TableKind::Regular,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: ColumnId(0),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params,
    };
    place_columns(
        &mut table,
        columns,
        partition,
        clustering,
        &create.options.clustering_order,
    )?;
    expiration::declare(&mut table, &create.columns)?;
    Ok(table)
}

/// The columns in the order of their names.
fn declared_columns<'a>(
    create: &'a CreateTable,
    keyspace: &Arc<str>,
    user_types: &BTreeMap<Arc<str>, Arc<UserType>>,
) -> Result<Vec<Column<'a>>, CqlError> {
    let mut columns = create
        .columns
        .iter()
        .map(|definition| {
            let (column, table) = (&definition.name, &create.table.name);
            let cql_type = declared_type(
                &definition.type_name,
                keyspace,
                user_types,
                format_args!("column {column} of table {keyspace}.{table}"),
            )?;
            Ok(Column { definition, cql_type })
        })
        .collect::<Result<Vec<_>, CqlError>>()?;
    columns.sort_by(|left, right| left.definition.name.cmp(&right.definition.name));
    if columns
        .iter()
        .any(|column| has_nested_multi_cell(&column.cql_type))
    {
        return Err(CqlError::invalid(format_args!(
            "Non-frozen UDTs with nested non-frozen collections are not supported"
        )));
    }
    Ok(columns)
}

pub(super) fn check_table_name(keyspace: &str, name: &str) -> Result<(), CqlError> {
    match is_word(name) {
        true => Ok(()),
        false => Err(CqlError::config(format_args!(
            "{keyspace}.{name}: Table name must not be empty, more than {KEYSPACE_NAME_LENGTH_MAX} characters long, or \
             contain non-alphanumeric-underscore characters (got \"{name}\")",
        ))),
    }
}

/// Gives every column its kind, its position and, in the table's order, its id.
fn place_columns(
    table: &mut TableMetadata,
    columns: Vec<Column<'_>>,
    partition: &[String],
    clustering: &[String],
    orders: &[ast::ClusteringOrder],
) -> Result<(), CqlError> {
    let count = u16::try_from(columns.len())
        .map_err(|_| CqlError::invalid(format_args!("A table cannot have more than {} columns", u16::MAX)))?;
    let placed = columns.into_iter().map(|Column { definition, cql_type }| {
        let name = &definition.name;
        let index = |key: &[String]| key.iter().position(|column| column == name);
        let (kind, position) = match (index(partition), index(clustering)) {
            (Some(position), _) => (ColumnKind::PartitionKey, position),
            (None, Some(position)) => (ColumnKind::Clustering, position),
            (None, None) if definition.is_static => (ColumnKind::Static, 0),
            (None, None) => (ColumnKind::Regular, 0),
        };
        let is_descending = orders
            .iter()
            .any(|order| order.column == *name && order.direction == OrderDirection::Descending);
        ColumnMetadata {
            id: ColumnId(0),
            name: name.as_str().into(),
            kind,
            // At most as many columns as were counted above.
            position: position as u16,
            cql_type,
            order: if is_descending {
                ClusteringOrder::Descending
            } else {
                ClusteringOrder::Ascending
            },
        }
    });
    table.set_columns(placed.collect());
    for (id, column) in (0..count).zip(&mut table.columns) {
        column.id = ColumnId(id);
    }
    table.next_column_id = ColumnId(count);
    Ok(())
}

fn check_primary_key(
    create: &CreateTable,
    columns: &[Column<'_>],
    partition: &[String],
    clustering: &[String],
    keyspace: &str,
) -> Result<(), CqlError> {
    let table = &*create.table.name;
    let key: Vec<&String> = partition.iter().chain(clustering).collect();
    for (index, &name) in key.iter().enumerate() {
        let Some(column) = columns.iter().find(|column| column.definition.name == *name) else {
            return Err(CqlError::invalid(format_args!(
                "Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'"
            )));
        };
        if key[..index].contains(&name) {
            return Err(CqlError::invalid(format_args!(
                "Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'"
            )));
        }
        check_key_column(column, keyspace)?;
        if clustering.contains(name) {
            check_order(&column.cql_type, "clustering columns")?;
        }
    }
    Ok(())
}

fn check_key_column(column: &Column<'_>, keyspace: &str) -> Result<(), CqlError> {
    let Column { definition, cql_type } = column;
    let name = &definition.name;
    match cql_type {
        CqlType::UserDefined {
            definition,
            frozen: false,
        } => Err(CqlError::invalid(format_args!(
            "Invalid non-frozen user-defined type \"{keyspace}.{}\" for PRIMARY KEY column '{name}'",
            definition.name
        ))),
        _ if cql_type.is_multi_cell() => Err(CqlError::invalid(format_args!(
            "Invalid non-frozen collection type {cql_type} for PRIMARY KEY column '{name}'"
        ))),
        _ if cql_type.is_counter() => Err(CqlError::invalid(format_args!(
            "counter type is not supported for PRIMARY KEY column '{name}'"
        ))),
        _ if cql_type.references_duration() => Err(CqlError::invalid(format_args!(
            "duration type is not supported for PRIMARY KEY column '{name}'"
        ))),
        _ if definition.is_static => Err(CqlError::invalid(format_args!(
            "Static column '{name}' cannot be part of the PRIMARY KEY"
        ))),
        _ => Ok(()),
    }
}

/// The directive names clustering columns in their order, from the first on without gaps.
fn check_clustering_order(create: &CreateTable, clustering: &[String]) -> Result<(), CqlError> {
    let ordered: Vec<&str> = create
        .options
        .clustering_order
        .iter()
        .map(|order| order.column.as_str())
        .collect();
    let others: Vec<&str> = ordered
        .iter()
        .copied()
        .filter(|name| !clustering.iter().any(|column| column == name))
        .collect();
    if !others.is_empty() {
        return Err(CqlError::invalid(format_args!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            others.join(", ")
        )));
    }
    for (&name, column) in ordered.iter().zip(clustering) {
        if name == column {
            continue;
        }
        return Err(if ordered.contains(&column.as_str()) {
            CqlError::invalid(format_args!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
                 ({column} must appear before {name})"
            ))
        } else {
            CqlError::invalid(format_args!("Missing CLUSTERING ORDER for column {column}"))
        });
    }
    Ok(())
}

/// The rules for static columns and counters; `others` are the columns outside the primary key.
fn check_other_columns<'a>(
    create: &CreateTable,
    mut others: impl Iterator<Item = &'a Column<'a>>,
    clustering: &[String],
    params: &TableParams,
) -> Result<(), CqlError> {
    if clustering.is_empty() && create.columns.iter().any(|column| column.is_static) {
        return Err(static_without_clustering());
    }
    let has_counters = create
        .columns
        .iter()
        .any(|column| is_native(&column.type_name, NativeType::Counter));
    if !has_counters {
        return Ok(());
    }
    if others.any(|column| !column.cql_type.is_counter()) {
        return Err(CqlError::invalid(format_args!(
            "Cannot mix counter and non counter columns in the same table"
        )));
    }
    if params.default_time_to_live > 0 {
        return Err(CqlError::invalid(format_args!(
            "Cannot set default_time_to_live on a table with counters"
        )));
    }
    Ok(())
}

pub(super) fn static_without_clustering() -> CqlError {
    CqlError::invalid(format_args!(
        "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
    ))
}

/// `WITH ID = ...`
pub(super) fn table_id(properties: &Properties) -> Result<Option<TableId>, CqlError> {
    let property = properties.iter().find(|property| property.name == "id");
    let Some(PropertyValue::Simple(text)) = property.map(|property| &property.value) else {
        return Ok(None);
    };
    match helenus_types::value::uuid::parse_uuid(text) {
        Some(bytes) => Ok(Some(TableId(Uuid::from_bytes(bytes)))),
        None => Err(CqlError::config(format_args!("Invalid table id"))),
    }
}
