//! Changes of what no schema here has: functions, aggregates, triggers.
//!
//! Schema tools drop such things `IF EXISTS` before they create anything, so these statements are answered as Cassandra
//! answers them where there is nothing to drop.

use std::fmt::Display;

use helenus_cql::ast::{
    CreateAggregate, CreateFunction, CreateTrigger, DropFunction, DropTrigger, QualifiedName, TypeName,
};
use helenus_engine::CqlError;
use helenus_schema::Schema;

use super::change::{DdlContext, DdlOutcome};
use super::column_type::{Written, resolve_type, supports_freezing};
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
    let Some(types) = &drop.argument_types else {
        return not_found(
            drop.if_exists,
            format_args!("{kind} '{keyspace}.{name}' doesn't exist"),
        );
    };
    if let Some(found) = schema.keyspace(keyspace) {
        for written in types {
            check_not_frozen("Argument", written, Written::new(written))?;
            resolve_type(written, keyspace, &found.types)?;
        }
    }
    let types: Vec<String> = types
        .iter()
        .map(|written| Written::new(written).to_string())
        .collect();
    not_found(
        drop.if_exists,
        format_args!("{kind} '{keyspace}.{name}({})' doesn't exist", types.join(", ")),
    )
}

/// As a Cassandra answers whose configuration leaves functions off, as it does where nothing is said.
pub(super) fn create_function(
    create: &CreateFunction,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    check_keyspace_name(keyspace_of(
        create.name.keyspace.as_deref(),
        context.session_keyspace,
    )?)?;
    check_directives(create.or_replace, create.if_not_exists)?;
    Err(CqlError::invalid(format_args!(
        "User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable"
    )))
}

/// Aggregates are made of functions, of which there are none.
pub(super) fn create_aggregate(
    schema: &Schema,
    create: &CreateAggregate,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace = keyspace_of(create.name.keyspace.as_deref(), context.session_keyspace)?;
    check_keyspace_name(keyspace)?;
    let Some(found) = schema.keyspace(keyspace) else {
        return Err(CqlError::config(format_args!(
            "Keyspace {keyspace} doesn't exist"
        )));
    };
    check_directives(create.or_replace, create.if_not_exists)?;
    let qualified = |written| Written::qualified(written, keyspace);
    for written in &create.argument_types {
        check_not_frozen("Argument", written, qualified(written))?;
    }
    check_not_frozen("State type", &create.state_type, qualified(&create.state_type))?;
    for written in create.argument_types.iter().chain([&create.state_type]) {
        resolve_type(written, keyspace, &found.types)?;
    }
    let arguments = std::iter::once(&create.state_type).chain(&create.argument_types);
    let arguments: Vec<String> = arguments.map(|written| qualified(written).to_string()).collect();
    Err(CqlError::invalid(format_args!(
        "State function {keyspace}.{}({}) doesn't exist",
        create.state_function,
        arguments.join(", ")
    )))
}

fn check_directives(or_replace: bool, if_not_exists: bool) -> Result<(), CqlError> {
    match or_replace && if_not_exists {
        true => Err(CqlError::invalid(format_args!(
            "Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives"
        ))),
        false => Ok(()),
    }
}

/// Tuples are always frozen, and may be said to be.
fn check_not_frozen(what: &str, written: &TypeName, shown: Written<'_>) -> Result<(), CqlError> {
    match written {
        TypeName::Frozen(inner) if supports_freezing(inner) && !matches!(**inner, TypeName::Tuple(_)) => {
            Err(CqlError::invalid(format_args!(
                "{what} '{shown}' cannot be frozen; remove frozen<> modifier from '{shown}'"
            )))
        }
        _ => Ok(()),
    }
}

pub(super) fn create_trigger(
    schema: &Schema,
    create: &CreateTrigger,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace = checked_keyspace(&create.table, context)?;
    let table = &create.table.name;
    if schema.keyspace(keyspace).is_none() {
        return Err(CqlError::invalid(format_args!(
            "Keyspace '{keyspace}' doesn't exist"
        )));
    }
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
