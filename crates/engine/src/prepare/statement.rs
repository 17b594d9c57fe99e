//! The entry: parses a statement and makes its plan.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use helenus_cql::TokenBudget;
use helenus_cql::ast::{Batch, Modification, QualifiedName, Returning, Statement, Term};
use helenus_schema::{Schema, TableMetadata};

use super::metadata::check_extent;
use super::plan::{Plan, Prepared, prepared_id};
use super::timeout::{StatementTimeout, timeout_of};
use crate::CqlError;
use crate::functions::Clock;
use crate::modify::{
    BatchPlan, ModifyPlan, check_batch, no_table, prepare_batch_attributes, prepare_modification,
};
use crate::select::prepare_select;
use crate::term::{BindMarkers, CallTypes, StatementScope, Typing};
use crate::transaction::{TransactionText, prepare_transaction};
use crate::views::prepare_prune;

/// A request counts its values in a u16.
const MARKERS_MAX: usize = u16::MAX as usize;

/// Parses and plans a statement. `session_keyspace` is where unqualified names are looked up, `now` what `'now'` means.
pub fn prepare(
    schema: &Arc<Schema>,
    session_keyspace: Option<&str>,
    now: Clock,
    query: &str,
) -> Result<Prepared, CqlError> {
    prepare_within(schema, session_keyspace, now, query, &mut TokenBudget::default())
}

/// As [`prepare`], of one of several statements of a request, which share a budget.
pub fn prepare_within(
    schema: &Arc<Schema>,
    session_keyspace: Option<&str>,
    now: Clock,
    query: &str,
    budget: &mut TokenBudget,
) -> Result<Prepared, CqlError> {
    let statement = helenus_cql::parse_statement_within(query, budget)?;
    let preparation = Preparation {
        schema,
        session_keyspace,
        now,
        query,
        markers: RefCell::default(),
        calls: RefCell::default(),
    };
    preparation.prepare(statement)
}

/// One statement on its way from syntax tree to plan.
struct Preparation<'a> {
    schema: &'a Arc<Schema>,
    session_keyspace: Option<&'a str>,
    now: Clock,
    query: &'a str,
    markers: RefCell<BindMarkers>,
    calls: RefCell<CallTypes>,
}

/// A plan, and the table that the statement is about if it is one alone: the markers of its partition key route requests.
type Routed = (Plan, Option<Arc<TableMetadata>>);

impl Preparation<'_> {
    fn prepare(self, statement: Statement) -> Result<Prepared, CqlError> {
        let is_qualified = is_fully_qualified(&statement);
        let timeout = timeout_of(&statement).cloned();
        let (plan, table) = self.plan(statement)?;
        let timeout = timeout
            .map(|term| self.timeout(table.as_ref(), &term))
            .transpose()?;
        let markers = self.markers.into_inner();
        let partition_key_bind_indexes = table
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
        let keyspace = self.session_keyspace.filter(|_| !is_qualified);
        Ok(Prepared {
            id: prepared_id(keyspace, self.query),
            result: plan.result().cloned(),
            plan,
            partition_key_bind_indexes,
            bind_columns,
            schema_version: self.schema.version,
            query: self.query.into(),
            keyspace: keyspace.map(Arc::from),
            timeout,
            heap_bytes: OnceLock::new(),
        })
    }

    fn plan(&self, statement: Statement) -> Result<Routed, CqlError> {
        match statement {
            Statement::Select(select) => {
                let table = self.table(&select.table)?;
                let plan = prepare_select(self.scope(table, &self.calls), &select)?;
                Ok((Plan::Select(Box::new(plan)), Some(Arc::clone(table))))
            }
            Statement::Modification(modification) => self.modification(&modification),
            Statement::Batch(batch) => self.batch(&batch),
            Statement::Transaction(transaction) => {
                let text = TransactionText {
                    schema: self.schema,
                    markers: &self.markers,
                    find_table: &|name| self.table(name),
                    now: self.now,
                    text: self.query,
                };
                let plan = prepare_transaction(&text, &transaction)?;
                Ok((Plan::Transaction(Box::new(plan)), None))
            }
            Statement::Use(keyspace) if self.schema.keyspace(&keyspace).is_none() => {
                Err(invalid!("Keyspace '{keyspace}' does not exist"))
            }
            Statement::Use(keyspace) => Ok((Plan::Use(keyspace), None)),
            Statement::Truncate(name) => Ok((Plan::Truncate(Arc::clone(self.table(&name)?)), None)),
            Statement::Prune(prune) => {
                let view = self.table(&prune.view)?;
                let plan = prepare_prune(self.scope(view, &self.calls), &prune)?;
                Ok((Plan::Prune(Box::new(plan)), None))
            }
            Statement::Schema(statement) => Ok((Plan::Schema(Arc::new(statement)), None)),
            Statement::Role(statement) => Ok((Plan::Role(Box::new(statement)), None)),
            Statement::Describe(statement) => Ok((Plan::Describe(Box::new(statement)), None)),
        }
    }

    fn modification(&self, modification: &Modification) -> Result<Routed, CqlError> {
        let table = self.table(table_of(modification))?;
        let typing = Typing::terms(self.scope(table, &self.calls));
        let plan = prepare_modification(&typing, modification)?;
        Ok((Plan::Modify(Box::new(plan)), Some(Arc::clone(table))))
    }

    fn batch(&self, batch: &Batch) -> Result<Routed, CqlError> {
        let mut statements = Vec::with_capacity(batch.statements.len());
        for modification in &batch.statements {
            let table = self.table(table_of(modification))?;
            let calls = RefCell::default();
            let typing = Typing::terms(self.scope(table, &calls));
            statements.push(prepare_modification(&typing, modification)?);
        }
        let attributes = prepare_batch_attributes(self.schema, &self.markers, self.now, &batch.using)?;
        check_batch(
            batch.kind,
            batch.using.ttl.is_some(),
            batch.using.timestamp.is_some(),
            &statements,
        )?;
        let first = statements.first().map(|statement| Arc::clone(&statement.table));
        let single_table =
            first.filter(|first| statements.iter().all(|statement| statement.table.id == first.id));
        let plan = BatchPlan {
            kind: batch.kind,
            is_conditional: statements.iter().any(ModifyPlan::is_conditional),
            statements,
            attributes,
        };
        Ok((Plan::Batch(Box::new(plan)), single_table))
    }

    fn timeout(&self, table: Option<&Arc<TableMetadata>>, term: &Term) -> Result<StatementTimeout, CqlError> {
        let table = table.cloned().unwrap_or_else(|| Arc::new(no_table()));
        StatementTimeout::prepare(&Typing::terms(self.scope(&table, &self.calls)), term)
    }

    fn scope<'s>(
        &'s self,
        table: &'s Arc<TableMetadata>,
        calls: &'s RefCell<CallTypes>,
    ) -> StatementScope<'s> {
        StatementScope {
            schema: self.schema,
            table,
            markers: &self.markers,
            calls,
            references: None,
            now: self.now,
        }
    }

    fn table(&self, name: &QualifiedName) -> Result<&Arc<TableMetadata>, CqlError> {
        let keyspace = name.keyspace.as_deref().or(self.session_keyspace);
        let keyspace = keyspace.ok_or_else(|| {
            invalid!(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
            )
        })?;
        let metadata = self
            .schema
            .keyspace(keyspace)
            .ok_or_else(|| invalid!("keyspace {keyspace} does not exist"))?;
        metadata
            .tables
            .get(name.name.as_str())
            .ok_or_else(|| invalid!("table {} does not exist", name.name))
    }
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
        Statement::Modification(modification) => table_of(modification).keyspace.is_some(),
        Statement::Truncate(table) => table.keyspace.is_some(),
        Statement::Prune(prune) => prune.view.keyspace.is_some(),
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
        Statement::Use(_) | Statement::Schema(_) | Statement::Role(_) | Statement::Describe(_) => false,
    }
}
