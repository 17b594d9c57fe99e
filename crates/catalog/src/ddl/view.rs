//! CREATE, ALTER and DROP MATERIALIZED VIEW.

use std::collections::HashSet;
use std::sync::Arc;

use helenus_cql::ast::{
    self, AlterView, CreateView, DropView, OrderDirection, QualifiedName, Relation, Selection, Selector,
    TableOptions as WrittenOptions, TupleInValues,
};
use helenus_engine::CqlError;
use helenus_engine::clause::{RelationText, WhereClause};
use helenus_engine::error::AlreadyExists;
use helenus_engine::functions::Clock;
use helenus_engine::term::RawTerm;
use helenus_engine::views::view_clause;
use helenus_protocol::response::SchemaChangeKind;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, KeyspaceMetadata, Schema, TableKind,
    TableMetadata, ViewMetadata,
};
use helenus_types::quoted_identifier;

use super::change::{DdlContext, DdlOutcome, SchemaChange};
use super::guard::{Access, Resource, check_access, check_keyspace_name, keyspace_of};
use super::options::{PropertyReader, TABLE_PROPERTIES, TableOptions};
use super::table::{check_table_name, table_id};

pub(super) const GC_GRACE_CONSEQUENCE: &str = "since this value is used to TTL undelivered updates. Setting gc_grace_seconds too low \
     might cause undelivered updates to expire before being replayed.";

pub(super) fn create(
    schema: &Schema,
    create: &CreateView,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let written_base = create.base_table.keyspace.as_deref();
    let keyspace_name = keyspace_of(create.view.keyspace.as_deref(), context.session_keyspace)?;
    if written_base.is_some_and(|base| base != keyspace_name) {
        return Err(invalid!(
            "Cannot create a materialized view on a table in a different keyspace"
        ));
    }
    check_access(Access {
        verb: "ALTER",
        keyspace: keyspace_name,
        resource: Resource::Table(&create.base_table.name),
    })?;
    check_keyspace_name(keyspace_name)?;
    if !context.materialized_views {
        return Err(invalid!(
            "Materialized views are disabled. Enable in cassandra.yaml to use."
        ));
    }
    let Some(keyspace) = schema.keyspace(keyspace_name) else {
        return Err(invalid!("Keyspace '{keyspace_name}' doesn't exist"));
    };
    let Some(base) = base_table(keyspace, create)? else {
        return Ok(DdlOutcome::unchanged());
    };
    let options = TableOptions::read_new(&create.options.properties)?;
    let view = build(schema, create, base, options, context)?;
    if let Some(other) = schema.table_by_id(view.id) {
        return Err(CqlError::config(format_args!(
            "Table id {} is already used by {}.{}",
            view.id.0, other.keyspace, other.name
        )));
    }
    let metadata = ViewMetadata {
        name: Arc::clone(&view.name),
        base: Arc::clone(&base.name),
        base_id: base.id,
        includes_all_columns: matches!(create.selection, Selection::Wildcard),
        conditions: conditions_text(&create.relations).into(),
    };
    let change = SchemaChange::table(SchemaChangeKind::Created, &keyspace.name, &view.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    after.views.insert(Arc::clone(&metadata.name), Arc::new(metadata));
    after.tables.insert(Arc::clone(&view.name), Arc::new(view));
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

/// The table that a view is to be of; none if the view is there and may be.
fn base_table<'a>(
    keyspace: &'a KeyspaceMetadata,
    create: &CreateView,
) -> Result<Option<&'a Arc<TableMetadata>>, CqlError> {
    let (name, base_name) = (&*create.view.name, &*create.base_table.name);
    let base = keyspace.tables.get(base_name);
    let Some(base) = base.filter(|_| !keyspace.views.contains_key(base_name)) else {
        return Err(invalid!("Base table '{base_name}' doesn't exist"));
    };
    if keyspace.views.contains_key(name) {
        if create.if_not_exists {
            return Ok(None);
        }
        return Err(CqlError::AlreadyExists(Box::new(AlreadyExists::Table {
            keyspace: keyspace.name.to_string(),
            table: name.to_owned(),
        })));
    }
    if keyspace.tables.contains_key(name) {
        return Err(invalid!(
            "Cannot create materialized view '{name}' - a table with the same name already exists"
        ));
    }
    if base.is_change_log() {
        return Err(invalid!("Materialized views are not supported on CDC logs"));
    }
    if base.is_counter() {
        return Err(invalid!("Materialized views are not supported on counter tables"));
    }
    if base.params.gc_grace_seconds == 0 {
        return Err(invalid!(
            "Cannot create materialized view '{name}' for base table '{base_name}' with gc_grace_seconds of 0, \
             {GC_GRACE_CONSEQUENCE}"
        ));
    }
    Ok(Some(base))
}

/// The table that holds the view's rows.
fn build(
    schema: &Schema,
    create: &CreateView,
    base: &Arc<TableMetadata>,
    options: TableOptions,
    context: &DdlContext<'_>,
) -> Result<TableMetadata, CqlError> {
    let selected = selected_columns(create, base)?;
    check_key(create, base, &selected)?;
    check_conditions(schema, create, base, context)?;
    PropertyReader(&create.options.properties).check_names(&TABLE_PROPERTIES)?;
    let params = options.validate()?;
    if params.default_time_to_live != 0 {
        return Err(invalid!(
            "Cannot set default_time_to_live for a materialized view. Data in a materialized view always expire at the \
             same time than the corresponding data in the parent table."
        ));
    }
    check_table_name(&base.keyspace, &create.view.name)?;
    let key = &create.primary_key;
    let place =
        |names: &[String], column: &ColumnMetadata| names.iter().position(|name| **name == *column.name);
    let columns = selected.into_iter().map(|column| {
        let (kind, position) = match (place(&key.partition, column), place(&key.clustering, column)) {
            (Some(position), _) => (ColumnKind::PartitionKey, position),
            (None, Some(position)) => (ColumnKind::Clustering, position),
            (None, None) => (ColumnKind::Regular, 0),
        };
        ColumnMetadata {
            kind,
            // A key has no more columns than its base has.
            position: position as u16,
            order: order_of(kind, column, &create.options),
            ..column.clone()
        }
    });
    let mut view = TableMetadata {
        keyspace: Arc::clone(&base.keyspace),
        name: create.view.name.as_str().into(),
        id: table_id(&create.options.properties)?.unwrap_or(context.new_table_id),
        kind: TableKind::Regular,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: ColumnId(0),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params,
    };
    view.set_columns(columns.collect());
    for (id, column) in (0..).zip(&mut view.columns) {
        column.id = ColumnId(id);
    }
    view.next_column_id = ColumnId(view.columns.len() as u16);
    Ok(view)
}

/// As written, else as in the base table.
fn order_of(kind: ColumnKind, column: &ColumnMetadata, options: &WrittenOptions) -> ClusteringOrder {
    let written = options
        .clustering_order
        .iter()
        .find(|order| *order.column == *column.name);
    match (kind, written) {
        (ColumnKind::Clustering, None) => column.order,
        (ColumnKind::Clustering, Some(order)) if order.direction == OrderDirection::Descending => {
            ClusteringOrder::Descending
        }
        _ => ClusteringOrder::Ascending,
    }
}

/// The base table's columns that the view has.
fn selected_columns<'a>(
    create: &CreateView,
    base: &'a TableMetadata,
) -> Result<Vec<&'a ColumnMetadata>, CqlError> {
    let columns: Vec<&ColumnMetadata> = match &create.selection {
        Selection::Wildcard => base.columns.iter().collect(),
        Selection::Items(items) => {
            let mut names = HashSet::new();
            let mut columns = Vec::new();
            for item in items {
                let selector = RawTerm::from(&item.selector);
                if let Some(alias) = &item.alias {
                    return Err(invalid!(
                        "Cannot use aliases when defining a materialized view (got {selector} AS {alias})"
                    ));
                }
                let Selector::Column(name) = &item.selector else {
                    return Err(invalid!(
                        "Can only select columns by name when defining a materialized view (got {selector})"
                    ));
                };
                let column = base.column(name).ok_or_else(|| undefined(name, base))?;
                columns.extend(names.insert(name).then_some(column));
            }
            columns
        }
    };
    match columns.iter().find(|column| column.kind == ColumnKind::Static) {
        Some(column) => Err(invalid!(
            "Cannot include static column '{}' in materialized view '{}'",
            column.name,
            create.view.name
        )),
        None => Ok(columns),
    }
}

fn undefined(name: &str, table: &TableMetadata) -> CqlError {
    let name = quoted_identifier(name);
    invalid!(
        "Undefined column name {name} in table {}.{}",
        table.keyspace,
        table.name
    )
}

fn is_key(column: &ColumnMetadata) -> bool {
    matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering)
}

fn check_key(
    create: &CreateView,
    base: &TableMetadata,
    selected: &[&ColumnMetadata],
) -> Result<(), CqlError> {
    let (view, key) = (&create.view.name, &create.primary_key);
    let mut names: HashSet<&str> = HashSet::new();
    let mut own = Vec::new();
    for name in key.partition.iter().chain(&key.clustering) {
        let Some(column) = selected.iter().find(|column| *column.name == **name) else {
            return Err(invalid!(
                "Unknown column '{name}' referenced in PRIMARY KEY for materialized view '{view}'"
            ));
        };
        if !names.insert(name) {
            return Err(invalid!(
                "Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"
            ));
        }
        check_key_type(column)?;
        own.extend((!is_key(column)).then_some(name.as_str()));
    }
    let ordered = create.options.clustering_order.iter().map(|order| &order.column);
    if !create.options.clustering_order.is_empty() && !ordered.eq(&key.clustering) {
        return Err(invalid!(
            "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"
        ));
    }
    let base_key = base.partition_key().iter().chain(base.clustering());
    let missing = base_key
        .map(|column| &*column.name)
        .filter(|name| !names.contains(name));
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        return Err(invalid!(
            "Cannot create materialized view '{view}' without primary key columns {} from base table '{}'",
            missing.join(", "),
            base.name
        ));
    }
    match own.as_slice() {
        [] | [_] => Ok(()),
        own => Err(invalid!(
            "Cannot include more than one non-primary key column in materialized view primary key (got {})",
            own.join(", ")
        )),
    }
}

fn check_key_type(column: &ColumnMetadata) -> Result<(), CqlError> {
    let ColumnMetadata { name, cql_type, .. } = column;
    if cql_type.is_multi_cell() {
        let kind = match cql_type.is_collection() {
            true => "collection",
            false => "user-defined",
        };
        return Err(invalid!(
            "Invalid non-frozen {kind} type '{}' for PRIMARY KEY column '{name}'",
            cql_type.to_marshal_class()
        ));
    }
    if cql_type.references_duration() {
        return Err(invalid!(
            "duration type is not supported for PRIMARY KEY column '{name}'"
        ));
    }
    Ok(())
}

/// The conditions must keep nulls out of the view's key, and say nothing else of what is not of the base table's.
fn check_conditions(
    schema: &Schema,
    create: &CreateView,
    base: &Arc<TableMetadata>,
    context: &DdlContext<'_>,
) -> Result<(), CqlError> {
    let is_token = |relation: &Relation| matches!(relation, Relation::Token { .. });
    if create.relations.iter().any(is_token) {
        return Err(invalid!(
            "Cannot use token relation when defining a materialized view"
        ));
    }
    if create
        .relations
        .iter()
        .any(|relation| matches!(relation, Relation::Expression { .. }))
    {
        return Err(invalid!(
            "WHERE clause for materialized view '{}' cannot contain custom index expressions",
            create.view.name
        ));
    }
    let mut restricted: HashSet<&str> = HashSet::new();
    let mut others = Vec::new();
    for relation in &create.relations {
        match relation {
            Relation::IsNotNull { column } => {
                base.column(column).ok_or_else(|| undefined(column, base))?;
                restricted.insert(column);
            }
            relation => others.push(relation.clone()),
        }
    }
    let now = Clock {
        server_timestamp_us: context.now_us,
    };
    let (clause, markers) = view_clause(schema, base, &others, now)?;
    if !markers.into_specs().is_empty() {
        return Err(invalid!(
            "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements"
        ));
    }
    check_restricted(create, base, restricted, &clause)
}

fn check_restricted<'a>(
    create: &CreateView,
    base: &TableMetadata,
    mut restricted: HashSet<&'a str>,
    clause: &'a WhereClause,
) -> Result<(), CqlError> {
    restricted.extend(clause.column_names());
    let key = &create.primary_key;
    let free = key.partition.iter().chain(&key.clustering).map(String::as_str);
    let mut free: Vec<&str> = free.filter(|name| !restricted.contains(name)).collect();
    if !free.is_empty() {
        free.sort_unstable();
        return Err(invalid!(
            "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
            free.join(", ")
        ));
    }
    let names = clause.column_names();
    let mut illegal: Vec<&str> = names
        .filter(|name| base.column(name).is_some_and(|column| !is_key(column)))
        .collect();
    if illegal.is_empty() {
        return Ok(());
    }
    illegal.sort_unstable();
    Err(invalid!(
        "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted illegally)",
        illegal.join(",")
    ))
}

/// Relations as CQL, which reads back as the same.
pub(super) fn conditions_text(relations: &[Relation]) -> String {
    let text = |relation: &Relation| match relation {
        Relation::TupleIn {
            columns,
            values: TupleInValues::Tuples(tuples),
        } => {
            let names: Vec<_> = columns.iter().map(|name| quoted_identifier(name)).collect();
            let tuple = |values: &Vec<ast::Term>| RawTerm::Tuple(values.iter().map(RawTerm::from).collect());
            let values = RawTerm::Tuple(tuples.iter().map(tuple).collect());
            format!("({}) IN {values}", names.join(", "))
        }
        relation => RelationText(relation).to_string(),
    };
    relations.iter().map(text).collect::<Vec<_>>().join(" AND ")
}

pub(super) fn alter(
    schema: &Schema,
    alter: &AlterView,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let Some((keyspace, before)) = view_of(schema, &alter.view, alter.if_exists, "ALTER", context)? else {
        return Ok(DdlOutcome::unchanged());
    };
    PropertyReader(&alter.properties).check_names(&TABLE_PROPERTIES)?;
    let params = TableOptions::read_altered(&before.params, &alter.properties)?.validate()?;
    if params.gc_grace_seconds == 0 {
        return Err(invalid!(
            "Cannot alter gc_grace_seconds of a materialized view to 0, {GC_GRACE_CONSEQUENCE}"
        ));
    }
    if params.default_time_to_live > 0 {
        return Err(invalid!(
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view always expire at \
             the same time than the corresponding data in the parent table. default_time_to_live must be set to zero, see \
             CASSANDRA-12868 for more information"
        ));
    }
    let table = TableMetadata {
        params,
        ..TableMetadata::clone(before)
    };
    let change = SchemaChange::table(SchemaChangeKind::Updated, &keyspace.name, &table.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    after.tables.insert(Arc::clone(&table.name), Arc::new(table));
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

pub(super) fn drop(
    schema: &Schema,
    drop: &DropView,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let Some((keyspace, view)) = view_of(schema, &drop.view, drop.if_exists, "DROP", context)? else {
        return Ok(DdlOutcome::unchanged());
    };
    let change = SchemaChange::table(SchemaChangeKind::Dropped, &keyspace.name, &view.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    after.tables.remove(&view.name);
    after.views.remove(&view.name);
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

type Found<'a> = Option<(&'a Arc<KeyspaceMetadata>, &'a Arc<TableMetadata>)>;

/// The view that a statement names; none if there is none and need not be.
fn view_of<'a>(
    schema: &'a Schema,
    name: &QualifiedName,
    if_exists: bool,
    verb: &'static str,
    context: &DdlContext<'_>,
) -> Result<Found<'a>, CqlError> {
    let keyspace_name = keyspace_of(name.keyspace.as_deref(), context.session_keyspace)?;
    check_keyspace_name(keyspace_name)?;
    let view = &*name.name;
    let found = schema.keyspace(keyspace_name).and_then(|keyspace| {
        keyspace.views.get(view)?;
        Some((keyspace, keyspace.tables.get(view)?))
    });
    if found.is_some() {
        check_access(Access {
            verb,
            keyspace: keyspace_name,
            resource: Resource::Table(view),
        })?;
    } else if !if_exists {
        return Err(invalid!(
            "Materialized view '{keyspace_name}.{view}' doesn't exist"
        ));
    }
    Ok(found)
}
