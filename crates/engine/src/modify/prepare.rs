//! From a syntax tree to a plan.

use helenus_cql::ast::{
    Conditions, Delete, DeletionTarget, Insert, InsertSource, Modification, Term, Update,
};
use helenus_schema::{ColumnKind, ColumnMetadata, TableKind, TableMetadata};

use super::attributes::Attributes;
use super::json::{Inserted, insert_json};
use super::operation::Operation;
use super::plan::ModifyPlan;
use crate::CqlError;
use crate::names::first_repeated;
use crate::select::restriction::{RestrictionKind, TupleTerm};
use crate::select::{StatementKind, WhereClause, WhereRules, single_restriction};
use crate::term::{Receiver, Typing};

/// Types a modification of the table that `typing` is about.
pub fn prepare_modification(
    typing: &Typing<'_>,
    modification: &Modification,
) -> Result<ModifyPlan, CqlError> {
    let (using, is_conditional) = match modification {
        Modification::Insert(insert) => (&insert.using, insert.if_not_exists),
        Modification::Update(update) => (&update.using, update.conditions != Conditions::None),
        Modification::Delete(delete) => (&delete.using, delete.conditions != Conditions::None),
    };
    let attributes = Attributes::prepare(typing, using)?;
    let plan = match modification {
        Modification::Insert(insert) => prepare_insert(typing, insert, attributes, is_conditional)?,
        Modification::Update(update) => prepare_update(typing, update, attributes, is_conditional)?,
        Modification::Delete(delete) => prepare_delete(typing, delete, attributes, is_conditional)?,
    };
    check_table(&plan)?;
    Ok(plan.with_decoding(typing.scope.markers.borrow().decodes_json()))
}

fn check_table(plan: &ModifyPlan) -> Result<(), CqlError> {
    let table = &plan.table;
    if table.is_counter() {
        if plan.has_timestamp() {
            return Err(invalid!("Cannot provide custom timestamp for counter updates"));
        }
        if plan.attributes.ttl.is_some() {
            return Err(invalid!("Cannot provide custom TTL for counter updates"));
        }
        return Ok(());
    }
    if table.kind == TableKind::Virtual {
        if plan.has_timestamp() {
            return Err(invalid!("Custom timestamp is not supported by virtual tables"));
        }
        if plan.attributes.ttl.is_some() {
            return Err(invalid!("Expiring columns are not supported by virtual tables"));
        }
        return Err(invalid!(
            "Modification is not supported by table {}.{}",
            table.keyspace,
            table.name
        ));
    }
    Ok(())
}

fn refuse_conditions(table: &TableMetadata, is_conditional: bool) -> Result<(), CqlError> {
    match is_conditional {
        true if table.is_counter() => Err(invalid!(
            "Conditional updates are not supported on counter tables"
        )),
        true => Err(invalid!("Conditional statements (IF) are not supported yet")),
        false => Ok(()),
    }
}

/// Operations on static and on other columns, each by column id.
fn split_operations(columns: Vec<(&ColumnMetadata, Operation)>) -> (Vec<Operation>, Vec<Operation>) {
    let is_static = |entry: &(&ColumnMetadata, Operation)| entry.0.kind == ColumnKind::Static;
    let (statics, regulars): (Vec<_>, Vec<_>) = columns.into_iter().partition(is_static);
    let sorted = |operations: Vec<(&ColumnMetadata, Operation)>| {
        let mut operations: Vec<Operation> = operations.into_iter().map(|(_, operation)| operation).collect();
        operations.sort_by_key(|operation| operation.column);
        operations
    };
    (sorted(statics), sorted(regulars))
}

fn prepare_insert(
    typing: &Typing<'_>,
    insert: &Insert,
    attributes: Attributes,
    is_conditional: bool,
) -> Result<ModifyPlan, CqlError> {
    let table = typing.scope.table;
    if table.is_counter() {
        return Err(invalid!(
            "INSERT statements are not allowed on counter tables, use UPDATE instead"
        ));
    }
    let Inserted {
        keys,
        operations,
        json,
    } = match &insert.source {
        InsertSource::Values { columns, values } => insert_values(typing, columns, values)?,
        InsertSource::Json { value, default } => insert_json(typing, value, *default)?,
    };
    let sets_clustering = keys
        .iter()
        .any(|(column, _)| column.kind == ColumnKind::Clustering);
    let (static_operations, regular_operations) = split_operations(operations);
    let rules = WhereRules {
        kind: StatementKind::Insert,
        is_static_only: !sets_clustering && regular_operations.is_empty() && !static_operations.is_empty(),
        allows_filtering: false,
        filters_freely: false,
    };
    let mut clause = WhereClause::default();
    for (column, term) in keys {
        clause.add(
            single_restriction(column, RestrictionKind::Equal(TupleTerm::Single(term))),
            rules,
        )?;
    }
    clause.check_partition(table, rules)?;
    clause.check_clustering(table, rules)?;
    refuse_conditions(typing.scope.table, is_conditional)?;
    let operations = (static_operations, regular_operations);
    let plan = ModifyPlan::new(StatementKind::Insert, table, clause, attributes, operations);
    Ok(plan.with_json(json))
}

/// The columns and values of an `INSERT ... VALUES`.
fn insert_values<'a>(
    typing: &Typing<'a>,
    columns: &[String],
    values: &[Term],
) -> Result<Inserted<'a>, CqlError> {
    if columns.is_empty() {
        return Err(invalid!("No columns provided to INSERT"));
    }
    if columns.len() != values.len() {
        return Err(invalid!("Unmatched column names/values"));
    }
    if first_repeated(columns.iter().map(String::as_str)).is_some() {
        return Err(invalid!("The column names contains duplicates"));
    }
    let mut keys = Vec::new();
    let mut operations = Vec::new();
    for (name, value) in columns.iter().zip(values) {
        let column = typing.column(name)?;
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => keys.push((column, value)),
            ColumnKind::Static | ColumnKind::Regular => {
                operations.push((column, Operation::set(typing, column, value)?));
            }
        }
    }
    let key = |(column, value): (&'a ColumnMetadata, &Term)| {
        Ok((column, typing.term(&value.into(), &Receiver::column(column))?))
    };
    Ok(Inserted {
        keys: keys.into_iter().map(key).collect::<Result<_, CqlError>>()?,
        operations,
        json: None,
    })
}

fn prepare_update(
    typing: &Typing<'_>,
    update: &Update,
    attributes: Attributes,
    is_conditional: bool,
) -> Result<ModifyPlan, CqlError> {
    let mut operations = Vec::new();
    for assignment in &update.assignments {
        let column = typing.column(&assignment.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            return Err(invalid!("PRIMARY KEY part {} found in SET part", column.name));
        }
        operations.push((column, Operation::assign(typing, column, &assignment.operation)?));
    }
    let (static_operations, regular_operations) = split_operations(operations);
    let rules = WhereRules {
        kind: StatementKind::Update,
        is_static_only: regular_operations.is_empty() && !static_operations.is_empty(),
        allows_filtering: false,
        filters_freely: false,
    };
    let keys = WhereClause::prepare(typing, &update.relations, rules)?;
    refuse_conditions(typing.scope.table, is_conditional)?;
    let operations = (static_operations, regular_operations);
    Ok(ModifyPlan::new(
        StatementKind::Update,
        typing.scope.table,
        keys,
        attributes,
        operations,
    ))
}

fn prepare_delete(
    typing: &Typing<'_>,
    delete: &Delete,
    attributes: Attributes,
    is_conditional: bool,
) -> Result<ModifyPlan, CqlError> {
    let mut operations = Vec::new();
    for target in &delete.targets {
        let (DeletionTarget::Column(name)
        | DeletionTarget::Element { column: name, .. }
        | DeletionTarget::Field { column: name, .. }) = target;
        let column = typing.column(name)?;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            return Err(invalid!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            ));
        }
        operations.push((column, Operation::delete(typing, column, target)?));
    }
    let (static_operations, regular_operations) = split_operations(operations);
    let rules = WhereRules {
        kind: StatementKind::Delete,
        is_static_only: regular_operations.is_empty() && !static_operations.is_empty(),
        allows_filtering: false,
        filters_freely: false,
    };
    let keys = WhereClause::prepare(typing, &delete.relations, rules)?;
    refuse_conditions(typing.scope.table, is_conditional)?;
    let operations = (static_operations, regular_operations);
    Ok(ModifyPlan::new(
        StatementKind::Delete,
        typing.scope.table,
        keys,
        attributes,
        operations,
    ))
}
