//! From a statement to the change it stands for.

use helenus_cql::Statement;
use helenus_schema::Schema;

use super::change::{DdlContext, DdlOutcome};
use super::{alter_table, keyspace, table, user_type};
use crate::error::CqlError;

/// Whether the statement is for [`apply`].
pub fn is_ddl(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateKeyspace(_)
            | Statement::AlterKeyspace(_)
            | Statement::DropKeyspace(_)
            | Statement::CreateTable(_)
            | Statement::AlterTable(_)
            | Statement::DropTable(_)
            | Statement::CreateType(_)
            | Statement::AlterType(_)
            | Statement::DropType(_)
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_)
            | Statement::CreateView(_)
            | Statement::AlterView(_)
            | Statement::DropView(_)
            | Statement::CreateFunction(_)
            | Statement::DropFunction(_)
            | Statement::CreateAggregate(_)
            | Statement::DropAggregate(_)
            | Statement::CreateTrigger(_)
            | Statement::DropTrigger(_)
    )
}

/// Applies a schema change to `schema`, which stays as it is.
pub fn apply(
    schema: &Schema,
    statement: &Statement,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    match statement {
        Statement::CreateKeyspace(create) => keyspace::create(schema, create, context),
        Statement::AlterKeyspace(alter) => keyspace::alter(schema, alter, context),
        Statement::DropKeyspace(drop) => keyspace::drop(schema, drop),
        Statement::CreateTable(create) => table::create(schema, create, context),
        Statement::AlterTable(alter) => alter_table::alter(schema, alter, context),
        Statement::DropTable(drop) => table::drop(schema, drop, context),
        Statement::CreateType(create) => user_type::create(schema, create, context),
        Statement::AlterType(alter) => user_type::alter(schema, alter, context),
        Statement::DropType(drop) => user_type::drop(schema, drop, context),
        // As a Cassandra answers whose configuration leaves these off, which is the default.
        Statement::CreateView(_) => Err(CqlError::invalid(format_args!(
            "Materialized views are disabled. Enable in cassandra.yaml to use."
        ))),
        Statement::CreateFunction(_) | Statement::CreateAggregate(_) => Err(CqlError::invalid(format_args!(
            "User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable"
        ))),
        other => Err(CqlError::invalid(format_args!(
            "{} is not supported",
            other.name()
        ))),
    }
}
