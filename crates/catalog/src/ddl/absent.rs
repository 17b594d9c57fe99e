//! Changes of what no schema here has: functions, aggregates, triggers.
//!
//! Schema tools drop such things `IF EXISTS` before they create anything, so these statements are answered as Cassandra
//! answers them where there is nothing to drop.

use std::collections::BTreeMap;
use std::fmt::Display;

use helenus_cql::ast::{CreateTrigger, DropFunction, DropTrigger, QualifiedName};
use helenus_engine::CqlError;
use helenus_schema::Schema;

use super::change::{DdlContext, DdlOutcome};
use super::column_type::resolve_type;
use super::guard::{check_keyspace_name, keyspace_of};

/// `kind` is `Function` or `Aggregate`.
pub(super) fn drop_function(
    schema: &Schema,
    kind: &str,
    drop: &DropFunction,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let name = &drop.name.name;
    let keyspace = keyspace_of(drop.name.keyspace.as_deref(), context.session_keyspace)?;
    check_keyspace_name(keyspace)?;
    let none = BTreeMap::new();
    let user_types = schema
        .keyspace(keyspace)
        .map_or(&none, |keyspace| &keyspace.types);
    let Some(written) = &drop.argument_types else {
        return not_found(
            drop.if_exists,
            format_args!("{kind} '{keyspace}.{name}' doesn't exist"),
        );
    };
    let types = written
        .iter()
        .map(|written| Ok(resolve_type(written, keyspace, user_types)?.to_string()));
    let types = types.collect::<Result<Vec<_>, CqlError>>()?.join(", ");
    not_found(
        drop.if_exists,
        format_args!("{kind} '{keyspace}.{name}({types})' doesn't exist"),
    )
}

pub(super) fn create_trigger(
    schema: &Schema,
    create: &CreateTrigger,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace = checked_keyspace(&create.table, context)?;
    let table = &create.table.name;
    if schema.table(keyspace, table).is_none() {
        return Err(CqlError::invalid(format_args!("Table '{table}' doesn't exist")));
    }
    if schema.view(keyspace, table).is_some() {
        return Err(CqlError::invalid(format_args!(
            "Cannot CREATE TRIGGER for a materialized view"
        )));
    }
    // Triggers are Java classes.
    Err(CqlError::invalid(format_args!(
        "Trigger class '{}' couldn't be loaded",
        create.class
    )))
}

pub(super) fn drop_trigger(drop: &DropTrigger, context: &DdlContext<'_>) -> Result<DdlOutcome, CqlError> {
    let keyspace = checked_keyspace(&drop.table, context)?;
    let DropTrigger {
        if_exists,
        trigger,
        table,
    } = drop;
    not_found(
        *if_exists,
        format_args!("Trigger '{trigger}' on '{keyspace}.{}' doesn't exist", table.name),
    )
}

fn checked_keyspace<'a>(name: &'a QualifiedName, context: &DdlContext<'a>) -> Result<&'a str, CqlError> {
    let keyspace = keyspace_of(name.keyspace.as_deref(), context.session_keyspace)?;
    check_keyspace_name(keyspace)?;
    Ok(keyspace)
}

fn not_found(if_exists: bool, message: impl Display) -> Result<DdlOutcome, CqlError> {
    if if_exists {
        return Ok(DdlOutcome::unchanged());
    }
    Err(CqlError::invalid(format_args!("{message}")))
}
