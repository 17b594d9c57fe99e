//! CREATE and DROP INDEX.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use helenus_cql::ast::{self, CreateIndex, DropIndex, IndexTargetKind};
use helenus_engine::CqlError;
use helenus_engine::names::first_repeated;
use helenus_protocol::response::SchemaChangeKind;
use helenus_schema::{
    ColumnKind, ColumnMetadata, IndexId, IndexKind, IndexMetadata, IndexTarget, KeyspaceMetadata, Schema,
    TableMetadata,
};
use helenus_types::{CqlType, quoted_identifier};

use super::change::{DdlContext, DdlOutcome, SchemaChange};
use super::guard::{
    Access, KEYSPACE_NAME_LENGTH_MAX, Resource, check_access, check_keyspace_name, is_word, keyspace_of,
};
use super::index_options;
use super::options::PropertyReader;
use super::vector_index;

/// Cassandra's name of its older indexes, which are those of CREATE INDEX by default.
const LEGACY: &str = "legacy_local_table";

/// Cassandra's class of storage-attached indexes.
pub(super) const SAI_CLASS: &str = "org.apache.cassandra.index.sai.StorageAttachedIndex";
/// Short names of it behind USING, in any case.
const SAI_ALIASES: [&str; 2] = ["sai", "storageattachedindex"];

const SASI_CLASS: &str = "org.apache.cassandra.index.sasi.SASIIndex";

pub(super) fn create(
    schema: &Schema,
    create: &CreateIndex,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace_name = keyspace_of(create.table.keyspace.as_deref(), context.session_keyspace)?;
    let table_name = &*create.table.name;
    check_access(Access {
        verb: "ALTER",
        keyspace: keyspace_name,
        resource: Resource::Table(table_name),
    })?;
    check_keyspace_name(keyspace_name)?;
    let class = class_of(create, context.default_index);
    let options = written_options(create, class)?;
    if class == Some(SASI_CLASS) {
        return Err(invalid!(
            "SASI indexes are disabled: this server does not have them"
        ));
    }
    let Some((keyspace, table)) = table_of(schema, create, keyspace_name)? else {
        return Ok(DdlOutcome::unchanged());
    };
    let targets = targets(create, table, class)?;
    let name = match &create.name {
        Some(name) => name.clone(),
        None => generated_name(keyspace, table_name, &targets),
    };
    if let Some(equal) = duplicate(table, class, &targets, &options) {
        return match create.if_not_exists {
            true => Ok(DdlOutcome::unchanged()),
            false => Err(invalid!(
                "Index {name} is a duplicate of existing index {}",
                equal.name
            )),
        };
    }
    if !is_word(&name) {
        return Err(CqlError::config(format_args!("Illegal index name {name}")));
    }
    let kind = match class {
        None => IndexKind::Legacy,
        Some(class) => kind_of_class(class)?,
    };
    let (column, target) = match kind {
        IndexKind::StorageAttached => index_options::check(table, &targets, class, &options)?,
        // Exactly one: `targets` saw to it.
        IndexKind::Legacy => targets[0],
    };
    let index = IndexMetadata {
        id: IndexId(context.new_table_id.0),
        name: name.into(),
        kind,
        column: column.id,
        target,
        class_name: class.map(Into::into),
        options,
    };
    let mut indexed = TableMetadata::clone(table);
    indexed.add_index(index);
    let warnings = vector_index::warnings(&indexed);
    Ok(altered(schema, keyspace, indexed).with_warnings(warnings))
}

type Found<'s> = Option<(&'s Arc<KeyspaceMetadata>, &'s Arc<TableMetadata>)>;

/// The table to be indexed; none if the index is there and may be.
fn table_of<'s>(
    schema: &'s Schema,
    create: &CreateIndex,
    keyspace_name: &str,
) -> Result<Found<'s>, CqlError> {
    let table_name = &*create.table.name;
    let Some(keyspace) = schema.keyspace(keyspace_name) else {
        return Err(invalid!("Keyspace '{keyspace_name}' doesn't exist"));
    };
    let Some(table) = keyspace.tables.get(table_name) else {
        return Err(invalid!("Table '{table_name}' doesn't exist"));
    };
    if let Some(name) = &create.name
        && keyspace.table_of_index(name).is_some()
    {
        return match create.if_not_exists {
            true => Ok(None),
            false => Err(invalid!("Index '{name}' already exists")),
        };
    }
    if table.is_counter() {
        return Err(invalid!("Secondary indexes on counter tables aren't supported"));
    }
    if keyspace.views.contains_key(table_name) {
        return Err(invalid!(
            "Secondary indexes on materialized views aren't supported"
        ));
    }
    Ok(Some((keyspace, table)))
}

pub(super) fn drop(
    schema: &Schema,
    drop: &DropIndex,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace_name = keyspace_of(drop.index.keyspace.as_deref(), context.session_keyspace)?;
    check_keyspace_name(keyspace_name)?;
    let name = &*drop.index.name;
    let found = schema
        .keyspace(keyspace_name)
        .and_then(|keyspace| Some((keyspace, keyspace.table_of_index(name)?)));
    let Some((keyspace, table)) = found else {
        return match drop.if_exists {
            true => Ok(DdlOutcome::unchanged()),
            // The stray quote is Cassandra's.
            false => Err(invalid!("Index '{keyspace_name}.{name}' doesn't exist'")),
        };
    };
    check_access(Access {
        verb: "ALTER",
        keyspace: keyspace_name,
        resource: Resource::Table(&table.name),
    })?;
    let mut without = TableMetadata::clone(table);
    without.indexes.retain(|index| &*index.name != name);
    Ok(altered(schema, keyspace, without))
}

fn altered(schema: &Schema, keyspace: &KeyspaceMetadata, table: TableMetadata) -> DdlOutcome {
    let change = SchemaChange::table(SchemaChangeKind::Updated, &keyspace.name, &table.name);
    let mut after = keyspace.clone();
    after.tables.insert(Arc::clone(&table.name), Arc::new(table));
    DdlOutcome::altered(schema, keyspace, after, change)
}

/// Refuses to drop or rename a column that indexes are of.
pub(super) fn check_not_indexed(
    table: &TableMetadata,
    column: &ColumnMetadata,
    refusal: &str,
) -> Result<(), CqlError> {
    let names: Vec<&str> = table.indexes_of(column.id).map(|index| &*index.name).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(invalid!(
            "{refusal} column {} because it has dependent secondary indexes ({})",
            column.name,
            names.join(", ")
        )),
    }
}

/// None for an index that is not CUSTOM.
fn class_of(create: &CreateIndex, default: IndexKind) -> Option<&str> {
    let default = match default {
        IndexKind::Legacy => LEGACY,
        IndexKind::StorageAttached => SAI_ALIASES[0],
    };
    let class = create.class.as_deref().unwrap_or(default);
    (create.custom || !class.eq_ignore_ascii_case(LEGACY)).then_some(class)
}

fn written_options(create: &CreateIndex, class: Option<&str>) -> Result<BTreeMap<String, String>, CqlError> {
    const OPTIONS: &str = "options";
    let reader = PropertyReader(&create.properties);
    reader.check_names(&[OPTIONS])?;
    if class.is_none() && !create.properties.is_empty() {
        return Err(invalid!("Cannot specify options for a non-CUSTOM index"));
    }
    let written = reader.map(OPTIONS)?.unwrap_or_default();
    let options: BTreeMap<String, String> = written.iter().cloned().collect();
    // What Cassandra keeps among the options besides.
    match ["class_name", "target"]
        .into_iter()
        .find(|name| options.contains_key(*name))
    {
        Some(name) => Err(invalid!("Cannot specify {name} as a CUSTOM option")),
        None => Ok(options),
    }
}

fn kind_of_class(class: &str) -> Result<IndexKind, CqlError> {
    let is_attached = class == SAI_CLASS || SAI_ALIASES.iter().any(|alias| class.eq_ignore_ascii_case(alias));
    if is_attached || vector_index::is_class(class) {
        return Ok(IndexKind::StorageAttached);
    }
    Err(CqlError::config(format_args!(
        "Unable to find custom indexer class '{class}'"
    )))
}

pub(super) type Target<'t> = (&'t ColumnMetadata, IndexTarget);

/// Resolves the targets of an index: one column, but for CUSTOM indexes, which say themselves how many they take.
fn targets<'t>(
    create: &CreateIndex,
    table: &'t TableMetadata,
    class: Option<&str>,
) -> Result<Vec<Target<'t>>, CqlError> {
    let prepared = create.targets.iter().map(|target| {
        let column = table.column(&target.column).ok_or_else(|| {
            invalid!(
                "Undefined column name {} in table {}.{}",
                quoted_identifier(&target.column),
                quoted_identifier(&table.keyspace),
                quoted_identifier(&table.name)
            )
        })?;
        Ok((column, target_of(column, target)))
    });
    let targets = prepared.collect::<Result<Vec<_>, CqlError>>()?;
    if targets.is_empty() && class.is_none() {
        return Err(invalid!(
            "Only CUSTOM indexes can be created without specifying a target column"
        ));
    }
    if targets.len() > 1 && class.is_none() {
        return Err(invalid!("Only CUSTOM indexes support multiple columns"));
    }
    if let Some(repeated) = first_repeated(targets.iter().map(|(column, _)| &*column.name)) {
        return Err(invalid!("Duplicate column '{repeated}' in index target list"));
    }
    for (column, target) in &targets {
        check_target(table, column, *target, class.is_some())?;
    }
    Ok(targets)
}

fn target_of(column: &ColumnMetadata, written: &ast::IndexTarget) -> IndexTarget {
    match written.kind {
        IndexTargetKind::Simple if column.cql_type.is_collection() => IndexTarget::Values,
        IndexTargetKind::Simple => IndexTarget::Simple,
        IndexTargetKind::Values => IndexTarget::Values,
        IndexTargetKind::Keys => IndexTarget::Keys,
        IndexTargetKind::Entries => IndexTarget::Entries,
        IndexTargetKind::Full => IndexTarget::Full,
    }
}

fn check_target(
    table: &TableMetadata,
    column: &ColumnMetadata,
    target: IndexTarget,
    is_custom: bool,
) -> Result<(), CqlError> {
    let ColumnMetadata { name, cql_type, .. } = column;
    let function = target.function().unwrap_or_default();
    if is_custom && (!is_word(name) || name.chars().count() > KEYSPACE_NAME_LENGTH_MAX) {
        return Err(invalid!(
            "Column '{name}' is longer than the permissible name length of {KEYSPACE_NAME_LENGTH_MAX} characters or \
             contains non-alphanumeric-underscore characters"
        ));
    }
    if cql_type.references_duration() {
        let what = match cql_type {
            cql_type if cql_type.is_collection() => "collections containing durations",
            CqlType::Tuple(_) => "tuples containing durations",
            CqlType::UserDefined { .. } => "UDTs containing durations",
            _ => "duration columns",
        };
        return Err(invalid!("Secondary indexes are not supported on {what}"));
    }
    if column.kind == ColumnKind::PartitionKey && table.partition_key_count == 1 {
        return Err(invalid!(
            "Cannot create secondary index on the only partition key column {name}"
        ));
    }
    let is_frozen_collection = cql_type.is_collection() && !cql_type.is_multi_cell();
    match (is_frozen_collection, target == IndexTarget::Full) {
        (true, false) => {
            return Err(invalid!(
                "Cannot create {function}() index on frozen column {name}. Frozen collections are immutable and must be \
                 fully indexed by using the 'full({})' modifier",
                quoted_identifier(name)
            ));
        }
        (false, true) => {
            return Err(invalid!(
                "full() indexes can only be created on frozen collections"
            ));
        }
        _ => {}
    }
    if !cql_type.is_collection() && target != IndexTarget::Simple {
        return Err(invalid!(
            "Cannot create {function}() index on {name}. Non-collection columns only support simple indexes"
        ));
    }
    let is_map = matches!(cql_type, CqlType::Map { frozen: false, .. });
    if matches!(target, IndexTarget::Keys | IndexTarget::Entries) && !is_map {
        return Err(invalid!(
            "Cannot create index on {function} of column {name} with non-map type"
        ));
    }
    if cql_type.is_user_defined() && cql_type.is_multi_cell() {
        return Err(invalid!("Cannot create index on non-frozen UDT column {name}"));
    }
    Ok(())
}

/// The first of `table_column_idx`, `table_column_idx_1`... that no index of the keyspace has, without what is no letter,
/// digit or underscore.
fn generated_name(keyspace: &KeyspaceMetadata, table: &str, targets: &[Target<'_>]) -> String {
    let column = match targets {
        [(column, _)] => format!("_{}", column.name),
        _ => String::new(),
    };
    let is_kept = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
    let base: String = format!("{table}{column}_idx").chars().filter(is_kept).collect();
    let taken: HashSet<&str> = keyspace
        .tables
        .values()
        .flat_map(|table| &table.indexes)
        .map(|index| &*index.name)
        .collect();
    let mut name = base.clone();
    let mut number = 0_u32;
    while taken.contains(&*name) {
        number += 1;
        name = format!("{base}_{number}");
    }
    name
}

/// An index of the table that differs from the new one in its name at most.
fn duplicate<'t>(
    table: &'t TableMetadata,
    class: Option<&str>,
    targets: &[Target<'_>],
    options: &BTreeMap<String, String>,
) -> Option<&'t Arc<IndexMetadata>> {
    let [(column, target)] = targets else { return None };
    table.indexes_of(column.id).find(|index| {
        index.target == *target && index.class_name.as_deref() == class && index.options == *options
    })
}
