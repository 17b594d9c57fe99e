//! From a syntax tree to a plan.

use helenus_cql::ast::{self, Delete, DeletionTarget, Insert, InsertSource, Modification, Term, Update};
use helenus_schema::{ColumnKind, ColumnMetadata, TableMetadata, is_made_from_code};

use super::attributes::Attributes;
use super::conditional::{ConditionPlan, check_timestamp};
use super::json::{Inserted, insert_json};
use super::operation::{Operation, RowBefore};
use super::plan::ModifyPlan;
use crate::CqlError;
use crate::clause::relation::single as single_restriction;
use crate::clause::restriction::{Restriction, RestrictionKind, TupleTerm};
use crate::clause::statement_kind::StatementKind;
use crate::clause::where_clause::{WhereClause, WhereRules};
use crate::names::first_repeated;
use crate::term::{Receiver, Typing};

/// Types a modification of the table that `typing` is about.
pub fn prepare_modification(
    typing: &Typing<'_>,
    modification: &Modification,
) -> Result<ModifyPlan, CqlError> {
    prepare(typing, modification, RowBefore::Unread)
}

/// As [`prepare_modification`], of a statement in a transaction.
pub fn prepare_modification_in_transaction(
    typing: &Typing<'_>,
    modification: &Modification,
) -> Result<ModifyPlan, CqlError> {
    prepare(typing, modification, RowBefore::OfTransaction)
}

fn prepare(
    typing: &Typing<'_>,
    modification: &Modification,
    reads: RowBefore,
) -> Result<ModifyPlan, CqlError> {
    let (using, clause, if_not_exists) = match modification {
        Modification::Insert(insert) => (&insert.using, &ast::Conditions::None, insert.if_not_exists),
        Modification::Update(update) => (&update.using, &update.conditions, false),
        Modification::Delete(delete) => (&delete.using, &delete.conditions, false),
    };
    let attributes = Attributes::prepare(typing, using)?;
    let conditions = ConditionPlan::prepare(typing, clause, if_not_exists, using)?;
    let is_insert = matches!(modification, Modification::Insert(_));
    if conditions.is_some() && !is_insert && typing.scope.table.is_counter() {
        return Err(invalid!(
            "Conditional updates are not supported on counter tables"
        ));
    }
    let plan = match modification {
        Modification::Insert(insert) => prepare_insert(typing, insert, attributes, conditions)?,
        Modification::Update(update) => prepare_update(typing, update, attributes, conditions, reads)?,
        Modification::Delete(delete) => prepare_delete(typing, delete, attributes, conditions)?,
    };
    let table = &plan.table;
    if typing.scope.schema.view(&table.keyspace, &table.name).is_some() {
        return Err(invalid!("Cannot directly modify a materialized view"));
    }
    check_table(&plan)?;
    let plan = plan.with_markers(&typing.scope.markers.borrow());
    Ok(plan.with_columns_read())
}

fn check_table(plan: &ModifyPlan) -> Result<(), CqlError> {
    let table = &plan.table;
    if plan.is_conditional() {
        check_timestamp(plan.has_timestamp())?;
    }
    if table.is_counter() {
        if plan.has_timestamp() {
            return Err(invalid!("Cannot provide custom timestamp for counter updates"));
        }
        if plan.attributes.ttl.is_some() {
            return Err(invalid!("Cannot provide custom TTL for counter updates"));
        }
        return Ok(());
    }
    if is_made_from_code(&table.keyspace) {
        if plan.has_timestamp() {
            return Err(invalid!("Custom timestamp is not supported by virtual tables"));
        }
        if plan.attributes.ttl.is_some() {
            return Err(invalid!("Expiring columns are not supported by virtual tables"));
        }
        if plan.is_conditional() {
            return Err(invalid!(
                "Conditional updates are not supported by virtual tables"
            ));
        }
        return Err(invalid!(
            "Modification is not supported by table {}.{}",
            table.keyspace,
            table.name
        ));
    }
    Ok(())
}

/// Returns whether only the static row is written, and looked at.
fn is_static_only(
    static_operations: &[Operation],
    regular_operations: &[Operation],
    conditions: Option<&ConditionPlan>,
) -> bool {
    regular_operations.is_empty()
        && !static_operations.is_empty()
        && !conditions.is_some_and(|plan| plan.conditions.are_of_regular_columns())
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
    conditions: Option<ConditionPlan>,
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
        uses_indexes: false,
        nearest: None,
    };
    let mut clause = WhereClause::default();
    for (column, term) in keys {
        clause.add(
            table,
            single_restriction(column, RestrictionKind::Equal(TupleTerm::Single(term))),
            rules,
        )?;
    }
    clause.check(table, rules)?;
    let operations = (static_operations, regular_operations);
    let plan = ModifyPlan::new(
        StatementKind::Insert,
        table,
        clause,
        attributes,
        conditions,
        operations,
    );
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
    conditions: Option<ConditionPlan>,
    reads: RowBefore,
) -> Result<ModifyPlan, CqlError> {
    let reads = match (reads, &conditions) {
        (RowBefore::Unread, Some(_)) => RowBefore::OfCondition,
        (reads, _) => reads,
    };
    let mut operations = Vec::new();
    for assignment in &update.assignments {
        let column = typing.column(&assignment.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            return Err(invalid!("PRIMARY KEY part {} found in SET part", column.name));
        }
        operations.push((
            column,
            Operation::assign(typing, column, &assignment.operation, reads)?,
        ));
    }
    let (static_operations, regular_operations) = split_operations(operations);
    let rules = WhereRules {
        kind: StatementKind::Update,
        is_static_only: is_static_only(&static_operations, &regular_operations, conditions.as_ref()),
        allows_filtering: false,
        filters_freely: false,
        uses_indexes: false,
        nearest: None,
    };
    let keys = WhereClause::prepare(typing, &update.relations, rules)?;
    let operations = (static_operations, regular_operations);
    Ok(ModifyPlan::new(
        StatementKind::Update,
        typing.scope.table,
        keys,
        attributes,
        conditions,
        operations,
    ))
}

fn prepare_delete(
    typing: &Typing<'_>,
    delete: &Delete,
    attributes: Attributes,
    conditions: Option<ConditionPlan>,
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
        is_static_only: is_static_only(&static_operations, &regular_operations, conditions.as_ref()),
        allows_filtering: false,
        filters_freely: false,
        uses_indexes: false,
        nearest: None,
    };
    let keys = WhereClause::prepare(typing, &delete.relations, rules)?;
    if let Some(conditions) = &conditions
        && !names_rows(&keys, typing.scope.table)
    {
        check_conditional_delete(&static_operations, &regular_operations, conditions)?;
    }
    let operations = (static_operations, regular_operations);
    Ok(ModifyPlan::new(
        StatementKind::Delete,
        typing.scope.table,
        keys,
        attributes,
        conditions,
        operations,
    ))
}

/// Returns whether each column of the clustering key is given a value or several.
fn names_rows(keys: &WhereClause, table: &TableMetadata) -> bool {
    let named = keys
        .clustering
        .iter()
        .map(|restriction| restriction.columns.len());
    named.sum::<usize>() == usize::from(table.clustering_count)
        && !keys.clustering.iter().any(Restriction::is_slice)
}

/// A conditional DELETE of more than one row, or of what is not looked at.
fn check_conditional_delete(
    static_operations: &[Operation],
    regular_operations: &[Operation],
    conditions: &ConditionPlan,
) -> Result<(), CqlError> {
    const RESTRICT_ALL: &str =
        "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to";
    if !regular_operations.is_empty() || static_operations.is_empty() {
        return Err(invalid!("{RESTRICT_ALL} delete non static columns"));
    }
    if conditions.conditions.are_of_regular_columns() {
        return Err(invalid!("{RESTRICT_ALL} use IF condition on non static columns"));
    }
    Ok(())
}
