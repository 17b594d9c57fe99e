//! Tables whose changes are logged: their logs are made, altered and dropped with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::ast::AlterTableAction;
use helenus_engine::CqlError;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, DroppedColumn, KeyspaceMetadata, TableId,
    TableKind, TableMetadata, TableParams, change_log_columns as names, change_log_name,
};
use helenus_types::CqlType;
use uuid::Uuid;

use super::change::DdlContext;
use super::options::compaction_of_change_log;

/// A table that is a log in use does not go, and is not altered, but with the table that it is of.
pub(super) fn check_no_log(
    keyspace: &KeyspaceMetadata,
    table: &TableMetadata,
    verb: &str,
) -> Result<(), CqlError> {
    match keyspace.base_of_log(table) {
        Some(base) => Err(invalid!(
            "Cannot {verb} {}.{}: it is the CDC log of {}.{}. Disable it first: ALTER TABLE {}.{} WITH cdc = \
             {{'enabled': 'false'}}",
            table.keyspace,
            table.name,
            base.keyspace,
            base.name,
            base.keyspace,
            base.name
        )),
        None => Ok(()),
    }
}

/// The columns of a log in use are those that its table gives it; its options are its own.
pub(super) fn check_alters_no_log(
    keyspace: &KeyspaceMetadata,
    table: &TableMetadata,
    action: &AlterTableAction,
) -> Result<(), CqlError> {
    match action {
        AlterTableAction::With(_) => Ok(()),
        _ => check_no_log(keyspace, table, "alter the columns of"),
    }
}

/// Makes the log of a table that has come, or alters it as the table has been.
pub(super) fn follow(
    after: &mut KeyspaceMetadata,
    before: Option<&TableMetadata>,
    table: &TableMetadata,
    context: &DdlContext<'_>,
) -> Result<(), CqlError> {
    if table.params.change_log.is_none() {
        return Ok(());
    }
    check_may_have_log(table)?;
    let name = change_log_name(&table.name);
    let log = match after.tables.get(name.as_str()) {
        Some(known) if known.is_change_log() => TableMetadata::clone(known),
        Some(_) => {
            return Err(invalid!(
                "Cannot create the CDC log of {}.{}: there is a table {name} that is none. Rename or drop it first",
                table.keyspace,
                table.name
            ));
        }
        None => new_log(table, &name, context.new_table_id),
    };
    let log = fitted(log, before, table, context.now_us)?;
    after.tables.insert(Arc::clone(&log.name), Arc::new(log));
    Ok(())
}

fn check_may_have_log(table: &TableMetadata) -> Result<(), CqlError> {
    if table.is_change_log() {
        return Err(invalid!("Cannot create a CDC log of a CDC log"));
    }
    if table.is_counter() {
        return Err(invalid!("CDC logs are not supported on counter tables"));
    }
    let mut columns = table.columns.iter();
    match columns.find(|column| column.name.starts_with(names::RESERVED)) {
        Some(column) => Err(invalid!(
            "Cannot create the CDC log of {}.{}: the name of its column \"{}\" begins with {}, which names columns of \
             logs",
            table.keyspace,
            table.name,
            column.name,
            names::RESERVED
        )),
        None => Ok(()),
    }
}

/// A log with nothing but its key.
fn new_log(base: &TableMetadata, name: &str, new_table_id: TableId) -> TableMetadata {
    let key = |id: u16, name: &str, kind, position, cql_type| ColumnMetadata {
        id: ColumnId(id),
        name: name.into(),
        kind,
        position,
        cql_type,
        order: ClusteringOrder::Ascending,
    };
    let mut log = TableMetadata {
        keyspace: Arc::clone(&base.keyspace),
        name: name.into(),
        // Ids of nodes differ in most of 62 random bits, and of one node in their times: the other id of this time is free.
        id: TableId(Uuid::from_u128(new_table_id.0.as_u128() ^ 1)),
        kind: TableKind::Regular,
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: ColumnId(3),
        dropped_columns: Vec::new(),
        indexes: Vec::new(),
        expiration_column: None,
        params: TableParams {
            comment: format!("CDC log for {}.{}", base.keyspace, base.name),
            compaction: compaction_of_change_log(),
            gc_grace_seconds: 0,
            ..TableParams::default()
        },
    };
    log.set_columns(vec![
        key(0, names::STREAM_ID, ColumnKind::PartitionKey, 0, CqlType::Blob),
        key(1, names::TIME, ColumnKind::Clustering, 0, CqlType::Timeuuid),
        key(2, names::BATCH_SEQ_NO, ColumnKind::Clustering, 1, CqlType::Int),
    ]);
    log
}

/// The log with the columns that `base` gives it, each under the id that it has had.
fn fitted(
    mut log: TableMetadata,
    before: Option<&TableMetadata>,
    base: &TableMetadata,
    now_us: i64,
) -> Result<TableMetadata, CqlError> {
    let mut wanted = wanted_columns(base);
    let mut columns = std::mem::take(&mut log.columns);
    for column in &mut columns {
        if let Some(name) = before.and_then(|before| name_after(before, base, &column.name)) {
            column.name = name;
        }
    }
    let mut kept = Vec::with_capacity(columns.len() + wanted.len());
    for mut column in columns {
        if column.kind != ColumnKind::Regular {
            kept.push(column);
            continue;
        }
        match wanted.remove(&*column.name) {
            // Another type of a column is one that can read what was written as the first.
            Some(cql_type) => {
                column.cql_type = cql_type;
                kept.push(column);
            }
            None => {
                log.dropped_columns.retain(|earlier| earlier.id != column.id);
                log.dropped_columns.push(DroppedColumn {
                    id: column.id,
                    name: column.name,
                    kind: column.kind,
                    cql_type: column.cql_type.expand_user_types(),
                    dropped_at_us: now_us,
                });
            }
        }
    }
    for (name, cql_type) in wanted {
        let id = match log
            .dropped_columns
            .iter()
            .rev()
            .find(|dropped| *dropped.name == *name)
        {
            Some(dropped) => dropped.id,
            None => next_id(&mut log)?,
        };
        kept.push(ColumnMetadata {
            id,
            name: name.into(),
            kind: ColumnKind::Regular,
            position: 0,
            cql_type,
            order: ClusteringOrder::Ascending,
        });
    }
    log.set_columns(kept);
    Ok(log)
}

fn next_id(log: &mut TableMetadata) -> Result<ColumnId, CqlError> {
    let id = log.next_column_id;
    let next = id.0.checked_add(1).ok_or_else(|| {
        invalid!(
            "A CDC log cannot have more than {} columns in its life; a table has two or three of them for each of its own",
            u16::MAX
        )
    })?;
    log.next_column_id = ColumnId(next);
    Ok(id)
}

/// The new name of a log's column whose table's column was renamed: only key columns are, and have one column in the log.
fn name_after(before: &TableMetadata, base: &TableMetadata, name: &str) -> Option<Arc<str>> {
    let column = before.column(name)?;
    let renamed = base.column_by_id(column.id)?;
    (renamed.name != column.name).then(|| Arc::clone(&renamed.name))
}

/// The columns of the log of a table, by name, without its key.
fn wanted_columns(base: &TableMetadata) -> BTreeMap<String, CqlType> {
    let mut wanted = BTreeMap::from([
        (names::END_OF_BATCH.to_owned(), CqlType::Boolean),
        (names::OPERATION.to_owned(), CqlType::Tinyint),
        (names::TTL.to_owned(), CqlType::Bigint),
    ]);
    for column in &base.columns {
        let cql_type = &column.cql_type;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            wanted.insert(column.name.to_string(), cql_type.clone());
            continue;
        }
        wanted.insert(format!("{}{}", names::DELETED, column.name), CqlType::Boolean);
        let (value, elements) = logged_types(cql_type);
        wanted.insert(column.name.to_string(), value);
        if let Some(elements) = elements {
            let name = format!("{}{}", names::DELETED_ELEMENTS, column.name);
            wanted.insert(name, CqlType::set(elements, true));
        }
    }
    wanted
}

/// The type that a log has a column's values in, and, if it is of several cells, that of what names one of them.
fn logged_types(cql_type: &CqlType) -> (CqlType, Option<CqlType>) {
    if !cql_type.is_multi_cell() {
        return (cql_type.clone(), None);
    }
    match cql_type {
        CqlType::List { element, .. } => (
            CqlType::map(CqlType::Timeuuid, CqlType::clone(element), true),
            Some(CqlType::Timeuuid),
        ),
        CqlType::Set { element, .. } => (cql_type.freeze(), Some(CqlType::clone(element))),
        CqlType::Map { key, .. } => (cql_type.freeze(), Some(CqlType::clone(key))),
        // The place of a field.
        _ => (cql_type.freeze(), Some(CqlType::Smallint)),
    }
}
