//! The WHERE clause of a view: restrictions of its base table.

use std::cell::RefCell;
use std::sync::Arc;

use helenus_cql::ast::{Relation, Statement};
use helenus_schema::{Schema, TableMetadata, ViewMetadata};

use crate::CqlError;
use crate::clause::statement_kind::StatementKind;
use crate::clause::where_clause::{WhereClause, WhereRules};
use crate::functions::Clock;
use crate::term::{BindMarkers, StatementScope, Typing};

/// The relations of a view's WHERE clause.
pub fn conditions_of(view: &ViewMetadata) -> Result<Vec<Relation>, CqlError> {
    if view.conditions.is_empty() {
        return Ok(Vec::new());
    }
    let select = format!("SELECT * FROM t WHERE {}", view.conditions);
    match helenus_cql::parse_statement(&select)? {
        Statement::Select(select) => Ok(select.relations),
        _ => Ok(Vec::new()),
    }
}

/// A view's conditions, as restrictions of its base table, without those that only keep nulls out; and their markers.
pub fn view_clause(
    schema: &Schema,
    base: &Arc<TableMetadata>,
    relations: &[Relation],
    now: Clock,
) -> Result<(WhereClause, BindMarkers), CqlError> {
    let (markers, calls) = (RefCell::new(BindMarkers::default()), RefCell::default());
    let scope = StatementScope {
        schema,
        table: base,
        markers: &markers,
        calls: &calls,
        references: None,
        now,
    };
    let rules = WhereRules {
        kind: StatementKind::Select,
        is_static_only: false,
        allows_filtering: true,
        filters_freely: false,
        uses_indexes: false,
        nearest: None,
    };
    let clause = WhereClause::prepare(&Typing::terms(scope), relations, rules)?;
    Ok((clause, markers.into_inner()))
}
