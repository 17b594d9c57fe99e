//! ALTER TABLE.

use std::collections::HashSet;
use std::sync::Arc;

use helenus_cql::ast::{AlterTable, AlterTableAction, ColumnDefinition, Properties};
use helenus_engine::CqlError;
use helenus_protocol::response::SchemaChangeKind;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, DroppedColumn, KeyspaceMetadata, Schema,
    TableMetadata,
};
use helenus_types::quoted_identifier;

use super::base_table::{check_no_view, follow};
use super::change::{DdlContext, DdlOutcome, SchemaChange};
use super::change_log::{check_alters_no_log, follow as follow_with_log};
use super::column_type::declared_type;
use super::expiration;
use super::guard::{Access, Resource, check_access, check_keyspace_name, keyspace_of, qualified_name};
use super::index::check_not_indexed;
use super::options::{PropertyReader, TABLE_PROPERTIES, TableOptions};
use super::table::{has_nested_multi_cell, masking_is_off, static_without_clustering};

pub(super) fn alter(
    schema: &Schema,
    alter: &AlterTable,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace_name = keyspace_of(alter.table.keyspace.as_deref(), context.session_keyspace)?;
    let name = &*alter.table.name;
    check_access(Access {
        verb: "ALTER",
        keyspace: keyspace_name,
        resource: Resource::Table(name),
    })?;
    match &alter.action {
        AlterTableAction::With(properties) => {
            TableOptions::read_new(properties)?;
        }
        AlterTableAction::ChangeMask { mask: Some(_), .. } => return Err(masking_is_off()),
        _ => {}
    }
    check_keyspace_name(keyspace_name)?;
    let found = schema
        .keyspace(keyspace_name)
        .and_then(|keyspace| Some((keyspace, keyspace.tables.get(name)?)));
    let Some((keyspace, before)) = found else {
        if alter.if_exists {
            return Ok(DdlOutcome::unchanged());
        }
        return Err(CqlError::invalid(format_args!(
            "Table '{keyspace_name}.{name}' doesn't exist"
        )));
    };
    check_no_view(
        keyspace,
        name,
        "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead",
    )?;
    check_alters_no_log(keyspace, before, &alter.action)?;
    let mut table = TableMetadata::clone(before);
    apply_action(&mut table, keyspace, &alter.action, context)?;
    let change = SchemaChange::table(SchemaChangeKind::Updated, &keyspace.name, &table.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    follow(&mut after, before, &table)?;
    follow_with_log(&mut after, Some(before), &table, context)?;
    after.tables.insert(Arc::clone(&table.name), Arc::new(table));
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

fn apply_action(
    table: &mut TableMetadata,
    keyspace: &KeyspaceMetadata,
    action: &AlterTableAction,
    context: &DdlContext<'_>,
) -> Result<(), CqlError> {
    match action {
        AlterTableAction::ChangeType { .. } => Err(CqlError::invalid(format_args!(
            "Altering column types is no longer supported"
        ))),
        AlterTableAction::ChangeMask {
            if_exists, column, ..
        } => {
            // No column has a mask, so dropping one changes nothing.
            if table.column(column).is_none() && !if_exists {
                return Err(CqlError::invalid(format_args!(
                    "Column with name '{column}' doesn't exist on table '{}'",
                    table.name
                )));
            }
            Ok(())
        }
        AlterTableAction::Add {
            if_not_exists,
            columns,
        } => {
            let is_counter = table.is_counter();
            add_columns(table, keyspace, columns, *if_not_exists)?;
            check_counters(table, is_counter)
        }
        AlterTableAction::Drop {
            if_exists,
            columns,
            timestamp,
        } => {
            let dropped_at_us = timestamp.unwrap_or(context.now_us);
            drop_columns(table, columns, *if_exists, dropped_at_us)
        }
        // `IF EXISTS` makes no difference: in Cassandra the look-up of the column fails before it is asked for.
        AlterTableAction::Rename { renames, .. } => renames
            .iter()
            .try_for_each(|(from, to)| rename_column(table, from, to)),
        AlterTableAction::DropCompactStorage => Err(CqlError::invalid(format_args!(
            "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"
        ))),
        AlterTableAction::With(properties) => alter_options(table, properties),
        AlterTableAction::Expire(column) => expiration::alter(table, column.as_deref()),
    }
}

/// Columns are put in order once, however many there are.
fn add_columns(
    table: &mut TableMetadata,
    keyspace: &KeyspaceMetadata,
    definitions: &[ColumnDefinition],
    if_not_exists: bool,
) -> Result<(), CqlError> {
    let mut added = Vec::with_capacity(definitions.len());
    let mut names = HashSet::with_capacity(definitions.len());
    let mut expirations = Vec::new();
    for definition in definitions {
        if let Some(column) = added_column(table, keyspace, definition, if_not_exists, &mut names)? {
            added.push(column);
            expirations.extend(definition.is_expiration.then_some(&definition.name));
        }
    }
    let mut columns = std::mem::take(&mut table.columns);
    columns.append(&mut added);
    table.set_columns(columns);
    expirations
        .into_iter()
        .try_for_each(|name| expiration::designate(table, name))
}

/// One more column; none if there is one of this name already, in the table or among `names`.
fn added_column<'a>(
    table: &mut TableMetadata,
    keyspace: &KeyspaceMetadata,
    column: &'a ColumnDefinition,
    if_not_exists: bool,
    names: &mut HashSet<&'a str>,
) -> Result<Option<ColumnMetadata>, CqlError> {
    let ColumnDefinition {
        name,
        is_static,
        mask,
        ..
    } = column;
    let cql_type = declared_type(
        &column.type_name,
        &keyspace.name,
        &keyspace.types,
        format_args!("column {name} of table {}.{}", keyspace.name, table.name),
    )?;
    if mask.is_some() {
        return Err(masking_is_off());
    }
    if table.column(name).is_some() || !names.insert(name) {
        if if_not_exists {
            return Ok(None);
        }
        return Err(CqlError::invalid(format_args!(
            "Column with name '{name}' already exists"
        )));
    }
    if *is_static && table.clustering_count == 0 {
        return Err(static_without_clustering());
    }
    if has_nested_multi_cell(&cql_type) {
        return Err(CqlError::invalid(format_args!(
            "Non-frozen UDTs with nested non-frozen collections are not supported for column {name}"
        )));
    }
    let kind = if *is_static {
        ColumnKind::Static
    } else {
        ColumnKind::Regular
    };
    let dropped = table
        .dropped_columns
        .iter()
        .find(|dropped| *dropped.name == **name);
    // The column that it was: what was written to it after the time of its deletion is there again.
    let id = dropped.map_or(table.next_column_id, |dropped| dropped.id);
    let column = ColumnMetadata {
        id,
        name: name.as_str().into(),
        kind,
        position: 0,
        cql_type,
        order: ClusteringOrder::Ascending,
    };
    if let Some(dropped) = dropped {
        check_re_added(table, &column, dropped)?;
        return Ok(Some(column));
    }
    let next = column.id.0.checked_add(1).ok_or_else(|| {
        CqlError::invalid(format_args!(
            "A table cannot have more than {} columns in its life",
            u16::MAX
        ))
    })?;
    table.next_column_id = ColumnId(next);
    Ok(Some(column))
}

/// A column may come back under its old name if what was stored under it can still be read.
fn check_re_added(
    table: &TableMetadata,
    column: &ColumnMetadata,
    dropped: &DroppedColumn,
) -> Result<(), CqlError> {
    let name = &column.name;
    if !column
        .cql_type
        .is_serialization_compatible_with(&dropped.cql_type)
    {
        return Err(CqlError::invalid(format_args!(
            "Cannot re-add previously dropped column '{name}' of type {}, incompatible with previous type {}",
            column.cql_type, dropped.cql_type
        )));
    }
    if column.kind != dropped.kind {
        return Err(CqlError::invalid(format_args!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
            kind_name(column.kind),
            kind_name(dropped.kind)
        )));
    }
    if table.is_counter() {
        return Err(CqlError::invalid(format_args!(
            "Cannot re-add previously dropped counter column {name}"
        )));
    }
    Ok(())
}

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::PartitionKey => "PARTITION_KEY",
        ColumnKind::Clustering => "CLUSTERING",
        ColumnKind::Static => "STATIC",
        ColumnKind::Regular => "REGULAR",
    }
}

/// A table is one of counters or one without, which CREATE TABLE decided.
fn check_counters(table: &TableMetadata, is_counter: bool) -> Result<(), CqlError> {
    let TableMetadata { keyspace, name, .. } = table;
    let mut others = table.statics().iter().chain(table.regulars());
    let Some(column) = others.find(|column| column.cql_type.is_counter() != is_counter) else {
        return Ok(());
    };
    Err(if is_counter {
        CqlError::config(format_args!(
            "{keyspace}.{name}: Cannot have a non counter column (\"{}\") in a counter table",
            column.name
        ))
    } else {
        CqlError::config(format_args!(
            "{keyspace}.{name}: Cannot have a counter column (\"{}\") in a non counter table",
            column.name
        ))
    })
}

fn drop_columns(
    table: &mut TableMetadata,
    names: &[String],
    if_exists: bool,
    dropped_at_us: i64,
) -> Result<(), CqlError> {
    let mut gone = HashSet::with_capacity(names.len());
    let mut dropped = Vec::with_capacity(names.len());
    for name in names {
        dropped.extend(dropped_column(table, name, if_exists, dropped_at_us, &mut gone)?);
    }
    table
        .dropped_columns
        .retain(|earlier| !gone.contains(&*earlier.name));
    table.dropped_columns.append(&mut dropped);
    let mut columns = std::mem::take(&mut table.columns);
    columns.retain(|column| !gone.contains(&*column.name));
    table.set_columns(columns);
    Ok(())
}

/// A column to be dropped, which then counts as `gone`.
fn dropped_column<'a>(
    table: &TableMetadata,
    name: &'a str,
    if_exists: bool,
    dropped_at_us: i64,
    gone: &mut HashSet<&'a str>,
) -> Result<Option<DroppedColumn>, CqlError> {
    let column = table.column(name).filter(|_| !gone.contains(name));
    let Some(column) = column else {
        if if_exists {
            return Ok(None);
        }
        return Err(CqlError::invalid(format_args!(
            "Column {name} was not found in table '{}'",
            qualified_name(table)
        )));
    };
    if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        return Err(CqlError::invalid(format_args!(
            "Cannot drop PRIMARY KEY column {name}"
        )));
    }
    if column.cql_type.is_user_defined() && column.cql_type.is_multi_cell() {
        return Err(CqlError::invalid(format_args!(
            "Cannot drop non-frozen column {name} of user type {}",
            column.cql_type
        )));
    }
    check_not_indexed(table, column, "Cannot drop")?;
    expiration::check_not_designated(table, column)?;
    gone.insert(name);
    // What an earlier deletion of the column hides may have been removed since: it stays hidden.
    let mut earlier = table.dropped_columns.iter();
    let earlier = earlier.find(|dropped| dropped.name == column.name);
    let dropped_at_us = earlier.map_or(dropped_at_us, |earlier| dropped_at_us.max(earlier.dropped_at_us));
    Ok(Some(DroppedColumn {
        id: column.id,
        name: Arc::clone(&column.name),
        kind: column.kind,
        cql_type: column.cql_type.expand_user_types(),
        dropped_at_us,
    }))
}

fn rename_column(table: &mut TableMetadata, from: &str, to: &str) -> Result<(), CqlError> {
    let Some(column) = table.column(from) else {
        return Err(CqlError::invalid(format_args!(
            "Undefined column name {} in table {}",
            quoted_identifier(from),
            qualified_name(table)
        )));
    };
    if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        return Err(CqlError::invalid(format_args!(
            "Cannot rename non PRIMARY KEY column {from}"
        )));
    }
    if table.column(to).is_some() {
        return Err(CqlError::invalid(format_args!(
            "Cannot rename column {from} to {to} in table '{}'; another column with that name already exists",
            qualified_name(table)
        )));
    }
    check_not_indexed(table, column, "Can't rename")?;
    let renamed = ColumnMetadata {
        name: to.into(),
        ..column.clone()
    };
    let mut columns = std::mem::take(&mut table.columns);
    columns.retain(|column| column.id != renamed.id);
    columns.push(renamed);
    table.set_columns(columns);
    Ok(())
}

fn alter_options(table: &mut TableMetadata, properties: &Properties) -> Result<(), CqlError> {
    let reader = PropertyReader(properties);
    reader.check_names(&TABLE_PROPERTIES)?;
    TableOptions::read_new(properties)?.validate()?;
    if reader.text("id")?.is_some() {
        return Err(CqlError::config(format_args!("Cannot alter table id.")));
    }
    let options = TableOptions::read_altered(&table.params, properties)?;
    let params = options.validate()?;
    if table.is_counter() && params.default_time_to_live > 0 {
        return Err(CqlError::invalid(format_args!(
            "Cannot set default_time_to_live on a table with counters"
        )));
    }
    table.params = params;
    Ok(())
}
