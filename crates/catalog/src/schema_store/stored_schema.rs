//! The schema as it is stored, and the way back.
//!
//! Types are stored as CQL text and everything else by name, so that a reader needs no numbers of this program. Fields
//! that later releases add have defaults; a field that this release does not know refuses the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::parse_type;
use helenus_engine::views::conditions_of;
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, DroppedColumn, KeyspaceMetadata, Replication,
    Schema, TableId, TableKind, TableMetadata, ViewMetadata, is_local_system_keyspace,
    is_replicated_system_keyspace,
};
use helenus_types::value::uuid::{format_uuid, parse_uuid};
use helenus_types::{CqlType, ExtentBounds, TYPE_DEPTH_MAX, TypeExtent, UserType};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::stored_index::StoredIndex;
use super::stored_params::StoredParams;
use crate::ddl::{TYPE_BEYOND_BOUNDS, resolve_type};

/// The content of the file behind its header: everything users created, in a form that is the same for equal schemas.
pub(crate) fn encode_schema(schema: &Schema) -> String {
    let keyspaces = schema
        .keyspaces
        .values()
        .filter(|keyspace| !is_local_system_keyspace(&keyspace.name));
    let stored = StoredSchema {
        version: schema.version,
        keyspaces: keyspaces.map(StoredKeyspace::of).collect(),
    };
    // Maps with string keys and numbers only: nothing that JSON could not express.
    serde_json::to_string_pretty(&stored).unwrap_or_default()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredSchema {
    version: u64,
    keyspaces: Vec<StoredKeyspace>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeyspace {
    name: String,
    durable_writes: bool,
    /// The strategy's full class name.
    replication_class: String,
    replication_options: BTreeMap<String, String>,
    #[serde(default)]
    types: Vec<StoredType>,
    #[serde(default)]
    tables: Vec<StoredTable>,
    /// Not written where there are none, so that earlier releases read the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    views: Vec<StoredView>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredType {
    name: String,
    /// Names and CQL types, in declaration order.
    fields: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTable {
    name: String,
    id: String,
    columns: Vec<StoredColumn>,
    next_column_id: u16,
    #[serde(default)]
    dropped_columns: Vec<StoredDroppedColumn>,
    /// Not written where there are none, so that earlier releases read the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<StoredIndex>,
    /// By its name. Only where there is one, for the same reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiration_column: Option<String>,
    params: StoredParams,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredView {
    name: String,
    base: String,
    includes_all_columns: bool,
    conditions: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredColumn {
    id: u16,
    name: String,
    kind: StoredKind,
    #[serde(default)]
    position: u16,
    #[serde(rename = "type")]
    cql_type: String,
    #[serde(default)]
    descending: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDroppedColumn {
    id: u16,
    name: String,
    kind: StoredKind,
    #[serde(rename = "type")]
    cql_type: String,
    dropped_at_us: i64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

impl StoredKeyspace {
    /// The tables of the system's keyspaces come with the program, only their options are stored.
    fn of(keyspace: &Arc<KeyspaceMetadata>) -> Self {
        let options = keyspace.replication.options.iter();
        let is_system = is_replicated_system_keyspace(&keyspace.name);
        StoredKeyspace {
            name: keyspace.name.to_string(),
            durable_writes: keyspace.durable_writes,
            replication_class: keyspace.replication.class.to_string(),
            replication_options: options
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            types: keyspace.types.values().map(StoredType::of).collect(),
            tables: keyspace
                .tables
                .values()
                .filter(|_| !is_system)
                .map(StoredTable::of)
                .collect(),
            views: keyspace.views.values().map(StoredView::of).collect(),
        }
    }
}

impl StoredType {
    fn of(user_type: &Arc<UserType>) -> Self {
        let fields = user_type.fields.iter();
        StoredType {
            name: user_type.name.to_string(),
            fields: fields
                .map(|(name, field)| (name.to_string(), field.to_string()))
                .collect(),
        }
    }
}

impl StoredView {
    fn of(view: &Arc<ViewMetadata>) -> Self {
        StoredView {
            name: view.name.to_string(),
            base: view.base.to_string(),
            includes_all_columns: view.includes_all_columns,
            conditions: view.conditions.to_string(),
        }
    }

    /// Both tables must be there, and the conditions must be CQL.
    fn view(self, keyspace: &str, tables: &Tables) -> Result<ViewMetadata, String> {
        let StoredView {
            name,
            base,
            includes_all_columns,
            conditions,
        } = self;
        let base_id = match (tables.get(&*name), tables.get(&*base)) {
            (Some(_), Some(base)) => base.id,
            _ => return Err(format!("view {keyspace}.{name}: a table is missing")),
        };
        let view = ViewMetadata {
            name: name.into(),
            base: base.into(),
            base_id,
            includes_all_columns,
            conditions: conditions.into(),
        };
        match conditions_of(&view) {
            Ok(_) => Ok(view),
            Err(error) => Err(format!("view {keyspace}.{}: {error}", view.name)),
        }
    }
}

impl StoredTable {
    fn of(table: &Arc<TableMetadata>) -> Self {
        let columns = table.columns.iter().map(|column| StoredColumn {
            id: column.id.0,
            name: column.name.to_string(),
            kind: StoredKind::of(column.kind),
            position: column.position,
            cql_type: column.cql_type.to_string(),
            descending: column.order == ClusteringOrder::Descending,
        });
        let dropped = table.dropped_columns.iter().map(|column| StoredDroppedColumn {
            id: column.id.0,
            name: column.name.to_string(),
            kind: StoredKind::of(column.kind),
            cql_type: column.cql_type.to_string(),
            dropped_at_us: column.dropped_at_us,
        });
        StoredTable {
            name: table.name.to_string(),
            id: format_uuid(table.id.0.into_bytes()),
            columns: columns.collect(),
            next_column_id: table.next_column_id.0,
            dropped_columns: dropped.collect(),
            indexes: table
                .indexes
                .iter()
                .filter_map(|index| StoredIndex::of(index, table))
                .collect(),
            expiration_column: table
                .expiration_column
                .and_then(|id| Some(table.column_by_id(id)?.name.to_string())),
            params: StoredParams::of(&table.params),
        }
    }
}

impl StoredKind {
    fn of(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::PartitionKey => StoredKind::PartitionKey,
            ColumnKind::Clustering => StoredKind::Clustering,
            ColumnKind::Static => StoredKind::Static,
            ColumnKind::Regular => StoredKind::Regular,
        }
    }

    fn kind(self) -> ColumnKind {
        match self {
            StoredKind::PartitionKey => ColumnKind::PartitionKey,
            StoredKind::Clustering => ColumnKind::Clustering,
            StoredKind::Static => ColumnKind::Static,
            StoredKind::Regular => ColumnKind::Regular,
        }
    }
}

type Tables = BTreeMap<Arc<str>, Arc<TableMetadata>>;

type UserTypes = BTreeMap<Arc<str>, Arc<UserType>>;

impl StoredSchema {
    /// Puts the stored keyspaces beside the system's. The error says what does not add up.
    pub fn add_to(self, schema: &mut Schema) -> Result<(), String> {
        schema.version = self.version;
        for stored in self.keyspaces {
            let keyspace = match schema.keyspaces.get(stored.name.as_str()) {
                Some(system) => stored.options_over(system),
                None => stored.keyspace()?,
            };
            schema
                .keyspaces
                .insert(Arc::clone(&keyspace.name), Arc::new(keyspace));
        }
        Ok(())
    }
}

impl StoredKeyspace {
    fn options_over(&self, system: &KeyspaceMetadata) -> KeyspaceMetadata {
        KeyspaceMetadata {
            durable_writes: self.durable_writes,
            replication: self.replication(),
            ..system.clone()
        }
    }

    fn keyspace(self) -> Result<KeyspaceMetadata, String> {
        let name: Arc<str> = self.name.as_str().into();
        let replication = self.replication();
        let types = resolve_user_types(&name, self.types)?;
        let tables = self.tables.into_iter().map(|stored| {
            let table = stored.table(&name, &types)?;
            Ok((Arc::clone(&table.name), Arc::new(table)))
        });
        let tables = tables.collect::<Result<Tables, String>>()?;
        let views = self.views.into_iter().map(|stored| {
            let view = stored.view(&name, &tables)?;
            Ok((Arc::clone(&view.name), Arc::new(view)))
        });
        Ok(KeyspaceMetadata {
            durable_writes: self.durable_writes,
            replication,
            views: views.collect::<Result<_, String>>()?,
            tables,
            types,
            is_virtual: false,
            name,
        })
    }

    fn replication(&self) -> Replication {
        let options = self.replication_options.iter();
        Replication {
            class: self.replication_class.as_str().into(),
            options: options
                .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
                .collect(),
        }
    }
}

/// Types refer to each other by name in no particular order: those whose parts are known are resolved until all are.
fn resolve_user_types(keyspace: &Arc<str>, stored: Vec<StoredType>) -> Result<UserTypes, String> {
    let mut types = UserTypes::new();
    let mut pending = stored;
    while !pending.is_empty() {
        let pending_before = pending.len();
        let mut reason = String::new();
        pending.retain(|stored| match stored.user_type(keyspace, &types) {
            Ok(user_type) => {
                types.insert(Arc::clone(&user_type.name), Arc::new(user_type));
                false
            }
            Err(error) => {
                reason = format!("type {}: {error}", stored.name);
                true
            }
        });
        if pending.len() == pending_before {
            return Err(reason);
        }
    }
    Ok(types)
}

/// Puts [`TYPE_BEYOND_BOUNDS`] in the place of what makes a type larger than can be declared, as earlier releases let
/// it be: such a type overflows stacks and memory wherever it is spelled out.
fn bound_fields(fields: &mut [(Arc<str>, CqlType)]) {
    let bounds = ExtentBounds {
        depth_max: ExtentBounds::DECLARED.depth_max - 1,
        ..ExtentBounds::DECLARED
    };
    let mut total = TypeExtent::default();
    for (_, field) in fields {
        let sum = bounds
            .check([&*field])
            .and_then(|extent| bounds.check_sum(total, extent));
        match sum {
            Ok(sum) => total = sum,
            Err(_) => *field = CqlType::Custom(TYPE_BEYOND_BOUNDS.into()),
        }
    }
}

/// As [`bound_fields`], of a column: what is a cell stays one.
fn bounded_column(cql_type: CqlType) -> CqlType {
    if STORED_COLUMN_BOUNDS.check([&cql_type]).is_ok() {
        return cql_type;
    }
    let stand_in = || CqlType::Custom(TYPE_BEYOND_BOUNDS.into());
    match cql_type {
        CqlType::List { frozen: false, .. } => CqlType::list(stand_in(), false),
        CqlType::Set { frozen: false, .. } => CqlType::set(stand_in(), false),
        CqlType::Map { frozen: false, .. } => CqlType::map(stand_in(), stand_in(), false),
        _ => stand_in(),
    }
}

/// Lists the fields and columns whose types a loaded schema has blobs in the place of, because they were larger than can be
/// declared.
pub fn types_beyond_bounds(schema: &Schema) -> Vec<String> {
    let is_stand_in =
        |cql_type: &CqlType| matches!(cql_type, CqlType::Custom(class) if **class == *TYPE_BEYOND_BOUNDS);
    let mut found = Vec::new();
    for keyspace in schema.keyspaces.values() {
        for user_type in keyspace.types.values() {
            let fields = user_type.fields.iter().filter(|(_, field)| is_stand_in(field));
            found.extend(
                fields.map(|(name, _)| format!("type {}.{}, field {name}", keyspace.name, user_type.name)),
            );
        }
        for table in keyspace.tables.values() {
            let columns = table.columns.iter().filter(|column| {
                is_stand_in(&column.cql_type) || column.cql_type.sub_types().any(is_stand_in)
            });
            found.extend(
                columns
                    .map(|column| format!("table {}.{}, column {}", keyspace.name, table.name, column.name)),
            );
        }
    }
    found
}

/// Bounds of column types that are read back: user types have the bounds of declared ones already, and a class name of what
/// a column adds to them can still be read.
pub(super) const STORED_COLUMN_BOUNDS: ExtentBounds = ExtentBounds {
    depth_max: TYPE_DEPTH_MAX - 4,
    ..ExtentBounds::DECLARED
};

fn parse_cql_type(text: &str, keyspace: &str, types: &UserTypes) -> Result<CqlType, String> {
    let written = parse_type(text).map_err(|error| format!("type {text}: {error}"))?;
    resolve_type(&written, keyspace, types).map_err(|error| format!("type {text}: {error}"))
}

impl StoredType {
    fn user_type(&self, keyspace: &Arc<str>, types: &UserTypes) -> Result<UserType, String> {
        let fields = self
            .fields
            .iter()
            .map(|(name, field)| Ok((Arc::from(name.as_str()), parse_cql_type(field, keyspace, types)?)));
        let mut user_type = UserType {
            keyspace: Arc::clone(keyspace),
            name: self.name.as_str().into(),
            fields: fields.collect::<Result<_, String>>()?,
        };
        bound_fields(&mut user_type.fields);
        Ok(user_type)
    }
}

impl StoredTable {
    fn table(self, keyspace: &Arc<str>, types: &UserTypes) -> Result<TableMetadata, String> {
        let in_table = |reason: String| format!("table {keyspace}.{}: {reason}", self.name);
        let columns = self.columns.iter().map(|stored| {
            Ok(ColumnMetadata {
                id: ColumnId(stored.id),
                name: stored.name.as_str().into(),
                kind: stored.kind.kind(),
                position: stored.position,
                cql_type: parse_cql_type(&stored.cql_type, keyspace, types)
                    .map(bounded_column)
                    .map_err(in_table)?,
                order: if stored.descending {
                    ClusteringOrder::Descending
                } else {
                    ClusteringOrder::Ascending
                },
            })
        });
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        let dropped = self.dropped_columns.iter().map(|stored| {
            Ok(DroppedColumn {
                id: ColumnId(stored.id),
                name: stored.name.as_str().into(),
                kind: stored.kind.kind(),
                cql_type: parse_cql_type(&stored.cql_type, keyspace, types)
                    .map(bounded_column)
                    .map_err(in_table)?,
                dropped_at_us: stored.dropped_at_us,
            })
        });
        let dropped_columns = dropped.collect::<Result<Vec<_>, String>>()?;
        let id = parse_uuid(&self.id).ok_or_else(|| in_table(format!("{} is not an id", self.id)))?;
        let params = self.params.params().map_err(in_table)?;
        let mut table = TableMetadata {
            keyspace: Arc::clone(keyspace),
            name: self.name.as_str().into(),
            id: TableId(Uuid::from_bytes(id)),
            kind: TableKind::Regular,
            columns: Vec::new(),
            partition_key_count: 0,
            clustering_count: 0,
            static_count: 0,
            next_column_id: ColumnId(self.next_column_id),
            dropped_columns,
            indexes: Vec::new(),
            expiration_column: None,
            params,
        };
        table.set_columns(columns);
        check_table(&table).map_err(in_table)?;
        if let Some(name) = &self.expiration_column {
            let column = table.column(name);
            let column = column.ok_or_else(|| in_table(format!("column {name} is missing")))?;
            table.expiration_column = Some(column.id);
        }
        for stored in &self.indexes {
            let index = stored.index(&table).map_err(in_table)?;
            table.add_index(index);
        }
        Ok(table)
    }
}

/// Checks a table's invariants, on which the rest of the program relies.
fn check_table(table: &TableMetadata) -> Result<(), String> {
    if table.partition_key_count == 0 {
        return Err("no partition key".to_owned());
    }
    let in_order = |columns: &[ColumnMetadata]| {
        columns
            .iter()
            .enumerate()
            .all(|(index, column)| usize::from(column.position) == index)
    };
    if !in_order(table.partition_key()) || !in_order(table.clustering()) {
        return Err("positions of key columns have gaps".to_owned());
    }
    let mut ids: Vec<ColumnId> = table.columns.iter().map(|column| column.id).collect();
    ids.sort_unstable();
    let has_repeats = ids.windows(2).any(|pair| pair[0] == pair[1]);
    if has_repeats || ids.last().is_some_and(|last| *last >= table.next_column_id) {
        return Err("column ids repeat or exceed the next one".to_owned());
    }
    Ok(())
}
