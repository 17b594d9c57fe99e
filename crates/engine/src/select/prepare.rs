//! From a syntax tree to a plan.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use helenus_cql::ast::{OrderDirection, OrderingExpression, Select, SelectItem, Selection, Term};
use helenus_schema::{ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableMetadata};
use helenus_types::CqlType;
use helenus_types::json::quoted_json_name;

use super::group_by::grouping;
use super::hints::IndexHints;
use super::nearest::Nearest;
use super::plan::{Grouping, OrderColumn, Output, SelectPlan};
use super::row_view::{Fetched, FetchedColumn};
use crate::CqlError;
use crate::clause::restriction::Restriction;
use crate::clause::statement_kind::StatementKind;
use crate::clause::where_clause::{REQUIRES_ALLOW_FILTERING, WhereClause, WhereRules};
use crate::functions::check_selected;
use crate::prepare::{ResultMetadata, check_extent};
use crate::term::{
    AggregateCall, ColumnSpec, Expression, JsonColumn, RawTerm, Receiver, SelectionScope, StatementScope,
    Typing,
};

/// Types a SELECT from the table of the scope.
pub fn prepare_select(scope: StatementScope<'_>, select: &Select) -> Result<SelectPlan, CqlError> {
    let plan = match IndexHints::resolve(scope.table, &select.index_hints)? {
        Some(hints) => hinted(scope, select, hints)?,
        None => planned(scope, select)?,
    };
    Ok(SelectPlan {
        is_direct: plan.allows_short_way(),
        short_index: plan.short_index(),
        ..plan
    })
}

/// The plan as if the table had only the indexes that the hints leave.
fn hinted(scope: StatementScope<'_>, select: &Select, hints: IndexHints) -> Result<SelectPlan, CqlError> {
    let plan = planned(
        StatementScope {
            table: &hints.table,
            ..scope
        },
        select,
    )?;
    hints.check_used(&plan.clause, plan.nearest.as_ref())?;
    let mut needed_indexes = plan.needed_indexes;
    for index in &hints.included {
        if !needed_indexes.contains(index) {
            needed_indexes.push(*index);
        }
    }
    Ok(SelectPlan {
        table: Arc::clone(scope.table),
        needed_indexes,
        hints: Some(Box::new(hints)),
        ..plan
    })
}

/// The plan, of which it is not known yet whether the short way is open to it.
fn planned(scope: StatementScope<'_>, select: &Select) -> Result<SelectPlan, CqlError> {
    let table = scope.table;
    let selection = RefCell::new(SelectionScope::default());
    let typing = Typing::selectors(scope, &selection);
    let terms = Typing::terms(scope);
    let is_static_only = selects_only_statics(&typing, &select.selection)?;
    let orderings = orderings(&typing, select)?;
    let mut nearest = Nearest::prepare(&terms, select)?;
    let rules = WhereRules {
        kind: StatementKind::Select,
        is_static_only,
        allows_filtering: select.allow_filtering,
        filters_freely: matches!(&*table.keyspace, "system_views" | "system_virtual_schema"),
        uses_indexes: true,
        nearest: nearest.as_ref().map(Nearest::column),
    };
    let clause = where_clause(scope, select, rules)?;
    let (expressions, columns) = match select.json {
        true => selected_json(&typing, select)?,
        false => selected(&typing, select)?,
    };
    let orders_rows = nearest.as_ref().is_some_and(Nearest::is_of_rows);
    check_distinct(table, select, (&clause, orders_rows), &selection.borrow())?;
    let grouping = grouping(&typing, select, &clause)?;
    check_per_partition_limit(select, grouping.as_ref(), &selection.borrow())?;
    let is_reversed = is_reversed(table, &clause, &orderings)?;
    let ordering = post_ordering(&selection, &clause, &orderings, is_reversed);
    check_needs_filtering(&clause, rules)?;
    if let Some(nearest) = &mut nearest {
        nearest.slot = selection.borrow_mut().fetch(Fetched::Value(nearest.column.id));
    }
    let per_partition = select.per_partition_limit.as_ref();
    let per_partition_limit = limit(&terms, per_partition, "[per_partition_limit]")?;
    let limit = limit(&terms, select.limit.as_ref(), "[limit]")?;
    let SelectionScope {
        fetched, aggregates, ..
    } = selection.into_inner();
    let writes_json = expressions.iter().any(Expression::writes_json);
    let output = output(expressions, aggregates, grouping.is_some());
    let fetched = fetched_columns(table, fetched);
    check_extent("selected columns", &columns)?;
    Ok(SelectPlan {
        table: Arc::clone(table),
        result: Arc::new(ResultMetadata::new(columns)),
        clustering_prefix: clause.clustering_prefix_length(),
        filters_partition_key: clause.needs_partition_filtering(table),
        is_reversed,
        is_distinct: select.distinct,
        returns_static_rows: !restricts_rows(&clause) && nearest.is_none(),
        selects_statics: fetched.iter().any(FetchedColumn::is_static),
        fetched,
        output,
        grouping,
        ordering,
        nearest,
        limit,
        per_partition_limit,
        needed_indexes: match select.allow_filtering {
            true => Vec::new(),
            false => clause.needed_indexes.clone(),
        },
        hints: None,
        clause,
        bypasses_cache: select.bypass_cache,
        decodes_json: scope.markers.borrow().decodes_json(),
        writes_json,
        is_direct: false,
        short_index: None,
    })
}

/// Fetched values as they are, where the select clause asks for nothing else.
fn output(expressions: Vec<Expression>, aggregates: Vec<AggregateCall>, is_grouped: bool) -> Output {
    let mut numbered = expressions.iter().enumerate();
    let is_fetched = |(index, expression)| matches!(expression, &Expression::Column(slot) if slot == index);
    if aggregates.is_empty() && !is_grouped && numbered.all(is_fetched) {
        return Output::Columns(expressions.len());
    }
    Output::Expressions {
        expressions,
        aggregates,
    }
}

fn limit(terms: &Typing<'_>, term: Option<&Term>, name: &str) -> Result<Option<Expression>, CqlError> {
    let receiver = Receiver::new(name, CqlType::Int);
    term.map(|term| terms.term(&term.into(), &receiver)).transpose()
}

/// Returns whether the WHERE clause says anything of single rows of a partition.
fn restricts_rows(clause: &WhereClause) -> bool {
    let mut others = clause.others.iter();
    !clause.clustering.is_empty() || others.any(|restriction| !restriction.is_static())
}

fn check_per_partition_limit(
    select: &Select,
    grouping: Option<&Grouping>,
    selection: &SelectionScope,
) -> Result<(), CqlError> {
    let sums_up_all = !selection.aggregates.is_empty() && grouping.is_none();
    match sums_up_all && select.per_partition_limit.is_some() {
        true => Err(invalid!(
            "PER PARTITION LIMIT is not allowed with aggregate queries."
        )),
        false => Ok(()),
    }
}

/// Returns whether the select clause names static columns, and besides them only the partition key.
fn selects_only_statics(typing: &Typing<'_>, selection: &Selection) -> Result<bool, CqlError> {
    let table = typing.scope.table;
    let Selection::Items(items) = selection else {
        return Ok(false);
    };
    // Cassandra looks at the columns' names this early only in tables with static ones.
    if table.static_count == 0 {
        return Ok(false);
    }
    let terms: Vec<RawTerm> = items.iter().map(|item| RawTerm::from(&item.selector)).collect();
    let names: Vec<&str> = terms.iter().flat_map(RawTerm::column_names).collect();
    for name in &names {
        typing.column(name)?;
    }
    let kinds: Vec<ColumnKind> = names
        .iter()
        .filter_map(|name| table.column(name))
        .map(|column| column.kind)
        .collect();
    Ok(kinds.contains(&ColumnKind::Static)
        && kinds
            .iter()
            .all(|kind| matches!(kind, ColumnKind::Static | ColumnKind::PartitionKey)))
}

fn where_clause(
    scope: StatementScope<'_>,
    select: &Select,
    rules: WhereRules,
) -> Result<WhereClause, CqlError> {
    let clause = WhereClause::prepare(&Typing::terms(scope), &select.relations, rules);
    clause.map_err(|refusal| refusal_of_selectors(scope, &select.selection).unwrap_or(refusal))
}

/// The refusal of a select clause that comes before any of the WHERE clause: Cassandra looks for functions by their arguments where it
/// asks whether selectors are of static columns. It does so of each in turn until it has met one that is, and once more until one that
/// is neither that nor of the partition key.
fn refusal_of_selectors(scope: StatementScope<'_>, selection: &Selection) -> Option<CqlError> {
    let table = scope.table;
    let Selection::Items(items) = selection else {
        return None;
    };
    if table.static_count == 0 {
        return None;
    }
    let has = |item: &SelectItem, is_looked_for: &dyn Fn(ColumnKind) -> bool| {
        let term = RawTerm::from(&item.selector);
        let names = term.column_names().into_iter();
        let mut columns = names.filter_map(|name| table.column(name));
        columns.any(|column| is_looked_for(column.kind))
    };
    let is_static = |kind| kind == ColumnKind::Static;
    let is_of_rows = |kind| matches!(kind, ColumnKind::Regular | ColumnKind::Clustering);
    let first_of_rows = items.iter().position(|item| has(item, &is_of_rows));
    let looked_at = items
        .iter()
        .position(|item| has(item, &is_static))
        .and_then(|first_static| Some(first_static.max(first_of_rows?)));
    let unused = RefCell::new(SelectionScope::default());
    let typing = Typing::selectors(scope, &unused);
    let mut looked_at = items.iter().take(looked_at.map_or(items.len(), |last| last + 1));
    looked_at.find_map(|item| refusal_of_calls(&typing, &RawTerm::from(&item.selector)))
}

/// The same of the first call in a term: casts, elements and fields are looked at later.
fn refusal_of_calls(typing: &Typing<'_>, term: &RawTerm) -> Option<CqlError> {
    match term {
        RawTerm::Function { .. } | RawTerm::Arithmetic { .. } | RawTerm::Negation(_) => {
            typing.select(term, None).err()
        }
        _ => {
            let mut parts = term.parts().into_iter();
            parts.find_map(|part| refusal_of_calls(typing, part))
        }
    }
}

type OrderedColumn<'a> = (&'a ColumnMetadata, bool);

/// The columns of ORDER BY, and whether each is to descend.
fn orderings<'a>(typing: &Typing<'a>, select: &Select) -> Result<Vec<OrderedColumn<'a>>, CqlError> {
    let mut ordered: Vec<OrderedColumn<'a>> = Vec::new();
    for ordering in &select.order_by {
        match &ordering.expression {
            OrderingExpression::Column(name) => {
                let column = typing.column(name)?;
                let descends = ordering.direction == Some(OrderDirection::Descending);
                match ordered.iter_mut().find(|(other, _)| other.id == column.id) {
                    Some(known) => known.1 = descends,
                    None => ordered.push((column, descends)),
                }
            }
            OrderingExpression::Nearest { .. } => {}
        }
    }
    Ok(ordered)
}

/// The expressions of the select clause, and the columns of the result.
fn selected(typing: &Typing<'_>, select: &Select) -> Result<(Vec<Expression>, Vec<ColumnSpec>), CqlError> {
    let table = typing.scope.table;
    let spec = |name: Arc<str>, cql_type: CqlType| ColumnSpec {
        keyspace: Arc::clone(&table.keyspace),
        table: Arc::clone(&table.name),
        name,
        cql_type,
    };
    let mut expressions = Vec::new();
    let mut columns = Vec::new();
    match &select.selection {
        Selection::Wildcard => {
            for column in &table.columns {
                let selected = typing.select(&RawTerm::Column(column.name.to_string()), None)?;
                expressions.push(selected.expression);
                columns.push(spec(Arc::clone(&column.name), selected.cql_type));
            }
        }
        Selection::Items(items) => {
            for item in items {
                let term = RawTerm::from(&item.selector);
                check_selected(&term)?;
                let selected = typing.select(&term, None)?;
                let name = item.alias.clone().unwrap_or(selected.name);
                expressions.push(selected.expression);
                let cql_type = match select.json {
                    true => selected.cql_type,
                    false => announced_type(table, &term, selected.cql_type),
                };
                columns.push(spec(name.into(), cql_type));
            }
        }
    }
    Ok((expressions, columns))
}

/// All expressions of the select clause as one, whose value is a JSON object.
fn selected_json(
    typing: &Typing<'_>,
    select: &Select,
) -> Result<(Vec<Expression>, Vec<ColumnSpec>), CqlError> {
    let table = typing.scope.table;
    let (expressions, columns) = selected(typing, select)?;
    let parts = expressions
        .into_iter()
        .zip(columns)
        .map(|(value, column)| JsonColumn {
            name: quoted_json_name(&column.name).into(),
            cql_type: column.cql_type,
            value,
        });
    let row = ColumnSpec {
        keyspace: Arc::clone(&table.keyspace),
        table: Arc::clone(&table.name),
        name: "[json]".into(),
        cql_type: CqlType::Text,
    };
    Ok((vec![Expression::JsonRow(parts.collect())], vec![row]))
}

/// The type clients are told of. Functions that return what they are given see a timeuuid as the type that
/// Cassandra's user-defined functions know, which the protocol has only by its class; except in a clustering column of
/// descending order, whose type Cassandra wraps.
fn announced_type(table: &TableMetadata, term: &RawTerm, cql_type: CqlType) -> CqlType {
    let is_descending = |argument: Option<&RawTerm>| match argument {
        Some(RawTerm::Column(name)) => table
            .column(name)
            .is_some_and(|column| column.order == ClusteringOrder::Descending),
        _ => false,
    };

    let returns_argument = |name: &str| {
        matches!(
            name,
            "max" | "min" | "mask_null" | "mask_default" | "mask_replace"
        )
    };
    match term {
        RawTerm::Function { name, arguments }
            if cql_type == CqlType::Timeuuid
                && returns_argument(&name.name)
                && !is_descending(arguments.first()) =>
        {
            CqlType::Custom("org.apache.cassandra.db.marshal.LegacyTimeUUIDType".into())
        }
        _ => cql_type,
    }
}

fn check_distinct(
    table: &TableMetadata,
    select: &Select,
    (clause, orders_rows): (&WhereClause, bool),
    selection: &SelectionScope,
) -> Result<(), CqlError> {
    if !select.distinct {
        return Ok(());
    }
    if select.per_partition_limit.is_some() {
        return Err(invalid!(
            "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"
        ));
    }
    if orders_rows || !clause.clustering.is_empty() || !clause.others.iter().all(Restriction::is_static) {
        return Err(invalid!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."
        ));
    }
    let requested = |column: &ColumnMetadata| {
        selection.fetched.iter().any(|fetched| {
            let (Fetched::Value(id) | Fetched::WriteTime(id) | Fetched::Ttl(id)) = fetched;
            *id == column.id
        })
    };
    for column in table.columns.iter().filter(|column| requested(column)) {
        if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static) {
            return Err(invalid!(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
                column.name
            ));
        }
    }
    if !clause.is_key_range {
        return Ok(());
    }
    match table.partition_key().iter().find(|column| !requested(column)) {
        Some(missing) => Err(invalid!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            missing.name
        )),
        None => Ok(()),
    }
}

/// Returns whether rows are read from last to first, which all columns of ORDER BY must agree on.
fn is_reversed(
    table: &TableMetadata,
    clause: &WhereClause,
    orderings: &[OrderedColumn<'_>],
) -> Result<bool, CqlError> {
    if orderings.is_empty() {
        return Ok(false);
    }
    if clause.uses_index {
        return Err(invalid!(
            "ORDER BY with 2ndary indexes is not supported, except for ANN queries."
        ));
    }
    if clause.is_key_range {
        return Err(invalid!(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
        ));
    }
    let mut next = 0;
    let mut reversed = None;
    for (column, descends) in orderings {
        if column.kind != ColumnKind::Clustering {
            return Err(invalid!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                column.name
            ));
        }
        while next != usize::from(column.position) {
            if !table
                .clustering()
                .get(next)
                .is_some_and(|skipped| clause.is_equal(skipped))
            {
                return Err(invalid!(
                    "Order by currently only supports the ordering of columns following their declared order in the \
                     PRIMARY KEY"
                ));
            }
            next += 1;
        }
        next += 1;
        let is_reversed = *descends != (column.order == ClusteringOrder::Descending);
        if *reversed.get_or_insert(is_reversed) != is_reversed {
            return Err(invalid!("Unsupported order by relation"));
        }
    }
    Ok(reversed.unwrap_or(false))
}

/// How rows of several partitions are sorted once they have come together.
fn post_ordering(
    selection: &RefCell<SelectionScope>,
    clause: &WhereClause,
    orderings: &[OrderedColumn<'_>],
    is_reversed: bool,
) -> Vec<OrderColumn> {
    if !clause.has_key_in() {
        return Vec::new();
    }
    let column = |(column, _): &OrderedColumn<'_>| OrderColumn {
        slot: selection.borrow_mut().fetch(Fetched::Value(column.id)),
        cql_type: column.cql_type.clone(),
        is_descending: (column.order == ClusteringOrder::Descending) != is_reversed,
        nulls_last: is_reversed,
    };
    orderings.iter().map(column).collect()
}

fn check_needs_filtering(clause: &WhereClause, rules: WhereRules) -> Result<(), CqlError> {
    let has_leave = rules.allows_filtering || rules.filters_freely;
    match !has_leave && (clause.is_key_range || clause.uses_index) && clause.needs_filtering {
        true => Err(invalid!("{REQUIRES_ALLOW_FILTERING}")),
        false => Ok(()),
    }
}

fn fetched_columns(table: &TableMetadata, fetched: Vec<Fetched>) -> Vec<FetchedColumn> {
    let by_id: HashMap<ColumnId, &ColumnMetadata> =
        table.columns.iter().map(|column| (column.id, column)).collect();
    let column = |fetched| {
        let (Fetched::Value(id) | Fetched::WriteTime(id) | Fetched::Ttl(id)) = fetched;
        Some(FetchedColumn::new(
            fetched,
            ColumnMetadata::clone(by_id.get(&id)?),
        ))
    };
    fetched.into_iter().filter_map(column).collect()
}
