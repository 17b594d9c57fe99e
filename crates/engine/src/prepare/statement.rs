//! The entry: parses a statement and makes its plan.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_cql::TokenBudget;
use helenus_cql::ast::{Batch, Modification, QualifiedName, Returning, Statement};
use helenus_schema::{Schema, TableMetadata};

use super::metadata::check_extent;
use super::plan::{Plan, Prepared, prepared_id};
use super::timeout::{StatementTimeout, timeout_of};
use crate::CqlError;
use crate::modify::{
    BatchPlan, ModifyPlan, check_batch, no_table, prepare_batch_attributes, prepare_modification,
};
use crate::select::prepare_select;
use crate::term::{BindMarkers, CallTypes, StatementScope, Typing};
use crate::transaction::{TransactionText, prepare_transaction};

/// A request counts its values in a u16.
const MARKERS_MAX: usize = u16::MAX as usize;

/// Parses and plans a statement. `session_keyspace` is where unqualified names are looked up.
pub fn prepare(
    schema: &Arc<Schema>,
    session_keyspace: Option<&str>,
    query: &str,
) -> Result<Prepared, CqlError> {
    prepare_within(schema, session_keyspace, query, &mut TokenBudget::default())
}

/// As [`prepare`], of one of several statements of a request, which share a budget.
pub fn prepare_within(
    schema: &Arc<Schema>,
    session_keyspace: Option<&str>,
    query: &str,
    budget: &mut TokenBudget,
) -> Result<Prepared, CqlError> {
    let statement = helenus_cql::parse_statement_within(query, budget)?;
    prepare_statement(schema, session_keyspace, query, statement)
}

fn prepare_statement(
    schema: &Arc<Schema>,
    session_keyspace: Option<&str>,
    query: &str,
    statement: Statement,
) -> Result<Prepared, CqlError> {
    let markers = RefCell::new(BindMarkers::default());
    let calls = RefCell::new(CallTypes::default());
    let is_qualified = is_fully_qualified(&statement);
    let mut routed_table: Option<Arc<TableMetadata>> = None;
    let mut result = None;
    let mut modify = |modification: Modification| {
        let name = table_of(&modification);
        let table = table(schema, session_keyspace, name)?;
        let scope = StatementScope {
            schema,
            table,
            markers: &markers,
            calls: &calls,
            references: None,
        };
        routed_table = Some(Arc::clone(table));
        prepare_modification(&Typing::terms(scope), &modification)
    };
    let timeout = timeout_of(&statement).cloned();
    let plan = match statement {
        Statement::Select(select) => {
            let table = table(schema, session_keyspace, &select.table)?;
            let scope = StatementScope {
                schema,
                table,
                markers: &markers,
                calls: &calls,
                references: None,
            };
            let plan = prepare_select(scope, &select)?;
            result = Some(Arc::clone(&plan.result));
            routed_table = Some(Arc::clone(table));
            Plan::Select(Box::new(plan))
        }
        Statement::Insert(insert) => Plan::Modify(Box::new(modify(Modification::Insert(insert))?)),
        Statement::Update(update) => Plan::Modify(Box::new(modify(Modification::Update(update))?)),
        Statement::Delete(delete) => Plan::Modify(Box::new(modify(Modification::Delete(delete))?)),
        Statement::Batch(batch) => {
            let (plan, single_table) = prepare_batch(schema, session_keyspace, &markers, batch)?;
            routed_table = single_table;
            Plan::Batch(Box::new(plan))
        }
        Statement::Transaction(transaction) => {
            let around = TransactionText {
                schema,
                markers: &markers,
                find_table: &|name| table(schema, session_keyspace, name),
                text: query,
            };
            let plan = prepare_transaction(&around, &transaction)?;
            result = plan.result().cloned();
            Plan::Transaction(Box::new(plan))
        }
        Statement::Use(keyspace) if schema.keyspace(&keyspace).is_none() => {
            return Err(invalid!("Keyspace '{keyspace}' does not exist"));
        }
        Statement::Use(keyspace) => Plan::Use(keyspace),
        Statement::Truncate(name) => Plan::Truncate(Arc::clone(table(schema, session_keyspace, &name)?)),
        other => Plan::Other(Box::new(other)),
    };
    let timeout = timeout
        .map(|term| {
            let table = routed_table.clone().unwrap_or_else(|| Arc::new(no_table()));
            let scope = StatementScope {
                schema,
                table: &table,
                markers: &markers,
                calls: &calls,
                references: None,
            };
            StatementTimeout::prepare(&Typing::terms(scope), &term)
        })
        .transpose()?;
    let markers = markers.into_inner();
    let partition_key_bind_indexes = routed_table
        .map(|table| markers.partition_key_bind_indexes(&table))
        .unwrap_or_default();
    let bind_columns = markers.into_specs();
    if bind_columns.len() > MARKERS_MAX {
        return Err(invalid!(
            "Too many markers(?). {} markers exceed the allowed maximum of {MARKERS_MAX}",
            bind_columns.len()
        ));
    }
    check_extent("bind markers", &bind_columns)?;
    let keyspace = session_keyspace.filter(|_| !is_qualified);
    Ok(Prepared {
        id: prepared_id(keyspace, query),
        plan,
        partition_key_bind_indexes,
        bind_columns,
        result,
        schema_version: schema.version,
        query: query.into(),
        keyspace: keyspace.map(Arc::from),
        timeout,
    })
}

/// The plan of a batch, and its table if there is only one.
fn prepare_batch(
    schema: &Arc<Schema>,
    session_keyspace: Option<&str>,
    markers: &RefCell<BindMarkers>,
    batch: Batch,
) -> Result<(BatchPlan, Option<Arc<TableMetadata>>), CqlError> {
    let mut statements = Vec::with_capacity(batch.statements.len());
    for modification in &batch.statements {
        let table = table(schema, session_keyspace, table_of(modification))?;
        let calls = RefCell::default();
        let scope = StatementScope {
            schema,
            table,
            markers,
            calls: &calls,
            references: None,
        };
        statements.push(prepare_modification(&Typing::terms(scope), modification)?);
    }
    let attributes = prepare_batch_attributes(schema, markers, &batch.using)?;
    check_batch(
        batch.kind,
        batch.using.ttl.is_some(),
        batch.using.timestamp.is_some(),
        &statements,
    )?;
    let first = statements.first().map(|statement| Arc::clone(&statement.table));
    let single_table =
        first.filter(|first| statements.iter().all(|statement| statement.table.id == first.id));
    Ok((
        BatchPlan {
            kind: batch.kind,
            is_conditional: statements.iter().any(ModifyPlan::is_conditional),
            statements,
            attributes,
        },
        single_table,
    ))
}

fn table_of(modification: &Modification) -> &QualifiedName {
    match modification {
        Modification::Insert(insert) => &insert.table,
        Modification::Update(update) => &update.table,
        Modification::Delete(delete) => &delete.table,
    }
}

fn is_fully_qualified(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => select.table.keyspace.is_some(),
        Statement::Insert(insert) => insert.table.keyspace.is_some(),
        Statement::Update(update) => update.table.keyspace.is_some(),
        Statement::Delete(delete) => delete.table.keyspace.is_some(),
        Statement::Truncate(table) => table.keyspace.is_some(),
        Statement::Batch(batch) => batch
            .statements
            .iter()
            .all(|statement| table_of(statement).keyspace.is_some()),
        Statement::Transaction(transaction) => {
            let reads = transaction.lets.iter().map(|one| &one.select.table);
            let writes = transaction
                .statements
                .iter()
                .map(|(statement, _)| table_of(statement));
            let answered = match &transaction.returning {
                Some(Returning::Select(select, _)) => Some(&select.table),
                _ => None,
            };
            let mut tables = reads.chain(writes).chain(answered);
            tables.all(|table| table.keyspace.is_some())
        }
        _ => false,
    }
}

fn table<'s>(
    schema: &'s Schema,
    session_keyspace: Option<&str>,
    name: &QualifiedName,
) -> Result<&'s Arc<TableMetadata>, CqlError> {
    let keyspace = name.keyspace.as_deref().or(session_keyspace).ok_or_else(|| {
        invalid!("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
    })?;
    let metadata = schema
        .keyspace(keyspace)
        .ok_or_else(|| invalid!("keyspace {keyspace} does not exist"))?;
    metadata
        .tables
        .get(name.name.as_str())
        .ok_or_else(|| invalid!("table {} does not exist", name.name))
}
