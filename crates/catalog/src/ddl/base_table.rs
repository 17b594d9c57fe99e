//! Tables that have views: what they may not become, and what becomes of the views when they change.

use std::fmt::Display;
use std::sync::Arc;

use helenus_cql::ast::Relation;
use helenus_engine::CqlError;
use helenus_engine::views::conditions_of;
use helenus_schema::{ColumnId, ColumnKind, ColumnMetadata, KeyspaceMetadata, TableMetadata, ViewMetadata};

use super::view::{GC_GRACE_CONSEQUENCE, conditions_text};

/// A statement about tables names a view.
pub(super) fn check_no_view(
    keyspace: &KeyspaceMetadata,
    name: &str,
    refusal: impl Display,
) -> Result<(), CqlError> {
    match keyspace.views.contains_key(name) {
        true => Err(invalid!("{refusal}")),
        false => Ok(()),
    }
}

/// A table goes only after its views.
pub(super) fn check_no_views_of(keyspace: &KeyspaceMetadata, table: &TableMetadata) -> Result<(), CqlError> {
    match keyspace.views_of(table.id).next() {
        // The keyspace is what Cassandra names here.
        Some(_) => Err(invalid!(
            "Cannot drop a table when materialized views still depend on it ({})",
            keyspace.name
        )),
        None => Ok(()),
    }
}

/// Alters the views of a table along with it; refuses what they do not allow.
pub(super) fn follow(
    after: &mut KeyspaceMetadata,
    before: &TableMetadata,
    altered: &TableMetadata,
) -> Result<(), CqlError> {
    let views: Vec<Arc<ViewMetadata>> = after.views_of(before.id).cloned().collect();
    if views.is_empty() {
        return Ok(());
    }
    if altered.params.gc_grace_seconds == 0 && before.params.gc_grace_seconds != 0 {
        return Err(invalid!(
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, {GC_GRACE_CONSEQUENCE}"
        ));
    }
    let gone = before
        .columns
        .iter()
        .find(|column| altered.column_by_id(column.id).is_none());
    if let Some(column) = gone {
        return Err(invalid!(
            "Cannot drop column {} on base table {} with materialized views",
            column.name,
            before.name
        ));
    }
    for view in views {
        follow_one(after, &view, before, altered)?;
    }
    Ok(())
}

fn follow_one(
    after: &mut KeyspaceMetadata,
    view: &ViewMetadata,
    before: &TableMetadata,
    altered: &TableMetadata,
) -> Result<(), CqlError> {
    let Some(table) = after.tables.get(&view.name) else {
        return Ok(());
    };
    let (mut table, mut view) = (TableMetadata::clone(table), view.clone());
    let mut columns = std::mem::take(&mut table.columns);
    let mut renamed = Vec::new();
    for column in &altered.columns {
        let known = before.column_by_id(column.id);
        match known {
            Some(old) if old.name != column.name => renamed.push((&old.name, &column.name)),
            None if view.includes_all_columns && column.kind == ColumnKind::Regular => {
                let next = table.next_column_id;
                columns.push(ColumnMetadata {
                    id: next,
                    ..column.clone()
                });
                table.next_column_id = next.0.checked_add(1).map(ColumnId).ok_or_else(|| {
                    invalid!(
                        "A materialized view cannot have more than {} columns in its life",
                        u16::MAX
                    )
                })?;
            }
            _ => {}
        }
    }
    for column in &mut columns {
        if let Some((_, to)) = renamed.iter().find(|(from, _)| **from == column.name) {
            column.name = Arc::clone(to);
        }
    }
    table.set_columns(columns);
    if !renamed.is_empty() {
        view.conditions = renamed_conditions(&view, &renamed)?.into();
    }
    after.tables.insert(Arc::clone(&table.name), Arc::new(table));
    after.views.insert(Arc::clone(&view.name), Arc::new(view));
    Ok(())
}

fn renamed_conditions(view: &ViewMetadata, renamed: &[(&Arc<str>, &Arc<str>)]) -> Result<String, CqlError> {
    let mut relations = conditions_of(view)?;
    let rename = |name: &mut String| {
        if let Some((_, to)) = renamed.iter().find(|(from, _)| ***from == **name) {
            *name = to.to_string();
        }
    };
    for relation in &mut relations {
        match relation {
            Relation::Column { column, .. }
            | Relation::In { column, .. }
            | Relation::IsNotNull { column }
            | Relation::Element { column, .. } => rename(column),
            Relation::Token { columns, .. }
            | Relation::Tuple { columns, .. }
            | Relation::TupleIn { columns, .. } => columns.iter_mut().for_each(rename),
            Relation::Expression { .. } => {}
        }
    }
    Ok(conditions_text(&relations))
}
