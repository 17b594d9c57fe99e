//! From the syntax tree of a transaction to its plan.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_cql::ast;
use helenus_cql::ast::{
    Condition, ConditionTest, Modification, Operator, Place, QualifiedName, Reference, Returning, Select,
    Term, Transaction,
};
use helenus_schema::{ColumnKind, Schema, TableMetadata, is_system_keyspace};

use super::plan::{Answer, NamedRead, RowCondition, RowTest, STATEMENTS_MAX, TransactionPlan};
use crate::CqlError;
use crate::functions::Clock;
use crate::modify::{ColumnCondition, ModifyPlan, prepare_modification_in_transaction};
use crate::prepare::ResultMetadata;
use crate::select::{ManyRows, SelectPlan, prepare_select};
use crate::term::{BindMarkers, CallTypes, ColumnSpec, LetRow, References, StatementScope, Typing};

/// Context in which a transaction is planned.
pub(crate) struct TransactionText<'s> {
    pub schema: &'s Schema,
    pub markers: &'s RefCell<BindMarkers>,
    pub find_table: &'s dyn Fn(&QualifiedName) -> Result<&'s Arc<TableMetadata>, CqlError>,
    pub now: Clock,
    /// The whole text, by which messages say where a statement is.
    pub text: &'s str,
}

pub(crate) fn prepare_transaction(
    around: &TransactionText<'_>,
    transaction: &Transaction,
) -> Result<TransactionPlan, CqlError> {
    check_shape(transaction)?;
    let mut reads = Vec::with_capacity(transaction.lets.len() + 1);
    let mut rows: Vec<LetRow> = Vec::with_capacity(transaction.lets.len());
    for one in &transaction.lets {
        if rows.iter().any(|row| row.name == one.name) {
            return Err(invalid!(
                "The name '{}' has already been used by a LET assignment.",
                one.name
            ));
        }
        let name = format!("LET assignment {}", one.name);
        let plan = around.read(&name, &one.select, one.place)?;
        rows.push(LetRow {
            name: one.name.clone(),
            table: plan.table.clone(),
            columns: plan.selected_columns(),
        });
        reads.push(NamedRead { name, plan });
    }
    let references = References::new(rows, transaction.markers);
    let answer = around.answer(transaction.returning.as_ref(), &references, &mut reads)?;
    let statements = transaction.statements.iter();
    let statements = statements
        .map(|(modification, place)| around.statement(modification, *place, &references))
        .collect::<Result<_, CqlError>>()?;
    let conditions = transaction.conditions.iter();
    let conditions = conditions
        .map(|condition| around.condition(condition, &references))
        .collect::<Result<_, CqlError>>()?;
    Ok(TransactionPlan {
        reads,
        answer,
        conditions,
        statements,
        references: references.into_used(),
    })
}

fn check_shape(transaction: &Transaction) -> Result<(), CqlError> {
    let count = transaction.lets.len() + transaction.statements.len() + transaction.conditions.len();
    if count > STATEMENTS_MAX {
        return Err(invalid!(
            "A transaction has at most {STATEMENTS_MAX} statements, LETs and conditions, this one has {count}"
        ));
    }
    if transaction.statements.is_empty() {
        if transaction.returning.is_none() {
            return Err(invalid!("Transaction contains no reads or writes"));
        }
        if !transaction.conditions.is_empty() {
            return Err(invalid!("No condition should exist without updates present"));
        }
    }
    Ok(())
}

/// Refuses tables of counters, and those that are no tables of their own (system tables, views), which cannot be held.
fn check_table(schema: &Schema, table: &TableMetadata, (kind, at): (&str, &str)) -> Result<(), CqlError> {
    if table.is_counter() {
        return Err(invalid!(
            "Counter columns cannot be accessed within a transaction; {kind} statement {at}"
        ));
    }
    if is_system_keyspace(&table.keyspace) || schema.view(&table.keyspace, &table.name).is_some() {
        return Err(invalid!(
            "Accord transactions are disabled on table (See transactional_mode in table options); {kind} statement {at}"
        ));
    }
    Ok(())
}

impl TransactionText<'_> {
    fn read(&self, name: &str, select: &Select, place: Place) -> Result<SelectPlan, CqlError> {
        let table = (self.find_table)(&select.table)?;
        let calls = RefCell::new(CallTypes::default());
        let scope = StatementScope {
            schema: self.schema,
            table,
            markers: self.markers,
            calls: &calls,
            references: None,
            now: self.now,
        };
        let plan = prepare_select(scope, select)?;
        let at = place.in_text(self.text);
        check_table(self.schema, table, ("SELECT", &at))?;
        if let Some(refusal) = plan.computes_over_rows() {
            return Err(invalid!("{refusal}; {name} {at}"));
        }
        plan.check_one_row(None)
            .map_err(|many| too_many_rows(many, name, &at))?;
        Ok(plan)
    }

    fn answer(
        &self,
        returning: Option<&Returning>,
        references: &References,
        reads: &mut Vec<NamedRead>,
    ) -> Result<Answer, CqlError> {
        match returning {
            None => Ok(Answer::Nothing),
            Some(Returning::Select(select, place)) => {
                let name = "returning select".to_owned();
                let plan = self.read(&name, select, *place)?;
                let result = plan.result.clone();
                reads.push(NamedRead { name, plan });
                Ok(Answer::Select(result))
            }
            Some(Returning::References(returned)) => {
                let mut plans = Vec::with_capacity(returned.len());
                let mut specs = Vec::with_capacity(returned.len());
                for reference in returned {
                    if reference.column.is_none() {
                        return Err(invalid!("SELECT references must specify a column."));
                    }
                    let (_, row, _) = references.column(reference)?;
                    let calls = RefCell::default();
                    let plan = references.plan(self.scope(&row.table, &calls, references), reference)?;
                    specs.push(ColumnSpec {
                        keyspace: row.table.keyspace.clone(),
                        table: row.table.name.clone(),
                        name: reference.to_string().into(),
                        cql_type: plan.cql_type.clone(),
                    });
                    plans.push(plan);
                }
                Ok(Answer::References(plans, Arc::new(ResultMetadata::new(specs))))
            }
        }
    }

    fn scope<'c>(
        &'c self,
        table: &'c Arc<TableMetadata>,
        calls: &'c RefCell<CallTypes>,
        references: &'c References,
    ) -> StatementScope<'c> {
        StatementScope {
            schema: self.schema,
            table,
            markers: self.markers,
            calls,
            references: Some(references),
            now: self.now,
        }
    }

    fn statement(
        &self,
        modification: &Modification,
        place: Place,
        references: &References,
    ) -> Result<ModifyPlan, CqlError> {
        let name = match modification {
            Modification::Insert(insert) => &insert.table,
            Modification::Update(update) => &update.table,
            Modification::Delete(delete) => &delete.table,
        };
        let table = (self.find_table)(name)?;
        check_key(table, modification)?;
        let calls = RefCell::default();
        let typing = Typing::terms(self.scope(table, &calls, references));
        let plan = prepare_modification_in_transaction(&typing, modification)?;
        let at = place.in_text(self.text);
        let kind = plan.kind_text();
        let refuse = |what: &str| {
            Err(invalid!(
                "Updates within transactions may not specify {what}; {kind} statement {at}"
            ))
        };
        if plan.is_conditional() {
            return refuse("their own conditions");
        }
        if plan.has_timestamp() {
            return refuse("custom timestamps");
        }
        if plan.has_ttl() {
            return refuse("custom ttls");
        }
        check_table(self.schema, table, (kind, &at))?;
        Ok(plan)
    }

    fn condition(
        &self,
        condition: &ast::RowCondition,
        references: &References,
    ) -> Result<RowCondition, CqlError> {
        let reference = &condition.reference;
        let compared = match &condition.test {
            ast::RowTest::IsNull => None,
            ast::RowTest::IsNotNull => None,
            ast::RowTest::Compare { operator, value } => Some((*operator, value)),
        };
        if reference.column.is_none() {
            let (row, _) = references.row(&reference.row)?;
            if compared.is_some() {
                return Err(invalid!(
                    "Row reference ({reference}) can only be used with IS NULL/IS NOT NULL conditions"
                ));
            }
            let exists = matches!(condition.test, ast::RowTest::IsNotNull);
            let test = RowTest::Exists(exists);
            return Ok(RowCondition { row, test });
        }
        let used_before = references.used_count();
        let (operator, value) = match (&condition.test, compared) {
            (ast::RowTest::IsNull, _) => (Operator::Equal, &Term::Null),
            (_, None) => (Operator::NotEqual, &Term::Null),
            (_, Some((_, Term::Null))) => return Err(null_comparison()),
            (_, Some(compared)) => compared,
        };
        let (row, typed) = self.column_condition(reference, operator, value, references)?;
        let test = match compared {
            None => RowTest::HasValue(Box::new(typed)),
            Some(_) => RowTest::Compare {
                condition: Box::new(typed),
                is_with_reference: references.used_count() > used_before,
            },
        };
        Ok(RowCondition { row, test })
    }

    fn column_condition(
        &self,
        reference: &Reference,
        operator: Operator,
        value: &Term,
        references: &References,
    ) -> Result<(usize, ColumnCondition), CqlError> {
        let (row, let_row, column) = references.column(reference)?;
        let calls = RefCell::default();
        let typing = Typing::terms(self.scope(&let_row.table, &calls, references));
        let condition = Condition {
            column: column.name.to_string(),
            target: reference.target.clone(),
            test: ConditionTest::Compare {
                operator,
                value: value.clone(),
            },
        };
        Ok((row, ColumnCondition::prepare(&typing, column, &condition)?))
    }
}

pub(super) fn null_comparison() -> CqlError {
    invalid!("Invalid comparison with null for operator; use IS NULL or IS NOT NULL instead")
}

pub(super) fn too_many_rows(many: ManyRows, name: &str, at: &str) -> CqlError {
    match many {
        ManyRows::OfARange => {
            invalid!("Range queries are not allowed for reads within a transaction; {name} {at}")
        }
        ManyRows::OfAPartition => invalid!(
            "SELECT must specify either all primary key elements or all partition key elements and LIMIT 1. In both cases \
             partition key elements must be always specified with equality operators; {name} {at}"
        ),
    }
}

/// Which partitions are written is known before anything is read.
fn check_key(table: &TableMetadata, modification: &Modification) -> Result<(), CqlError> {
    let Modification::Insert(insert) = modification else {
        return Ok(());
    };
    let ast::InsertSource::Values { columns, values } = &insert.source else {
        return Ok(());
    };
    for (name, value) in columns.iter().zip(values) {
        let is_key = table
            .column(name)
            .is_some_and(|column| column.kind == ColumnKind::PartitionKey);
        if is_key && has_reference(value) {
            return Err(invalid!(
                "Cannot set partition key column '{name}' to a LET reference value"
            ));
        }
    }
    Ok(())
}

fn has_reference(term: &Term) -> bool {
    match term {
        Term::Reference(_) => true,
        Term::Literal(_) | Term::Null | Term::Marker(_) => false,
        Term::List(terms) | Term::Set(terms) | Term::Tuple(terms) => terms.iter().any(has_reference),
        Term::Map(entries) => entries
            .iter()
            .any(|(key, value)| has_reference(key) || has_reference(value)),
        Term::UserType(fields) => fields.iter().any(|(_, value)| has_reference(value)),
        Term::Function { arguments, .. } => arguments.iter().any(has_reference),
        Term::TypeHint { term, .. } | Term::Cast { term, .. } | Term::Negation(term) => has_reference(term),
        Term::Arithmetic { left, right, .. } => has_reference(left) || has_reference(right),
    }
}
