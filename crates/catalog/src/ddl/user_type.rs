//! CREATE, ALTER and DROP TYPE.

use std::sync::Arc;

use helenus_cql::ast::{
    AlterType, AlterTypeAction, CreateType, DropType, FieldDefinition, NativeType, TypeName,
};
use helenus_engine::CqlError;
use helenus_engine::names::first_repeated;
use helenus_protocol::response::SchemaChangeKind;
use helenus_schema::{ColumnMetadata, KeyspaceMetadata, Schema, TableMetadata};
use helenus_types::{UserType, quoted_identifier};

use super::change::{DdlContext, DdlOutcome, SchemaChange};
use super::column_type::{Written, declared_type, is_native};
use super::guard::{Access, Resource, check_access, check_keyspace_name, keyspace_of};

pub(super) fn create(
    schema: &Schema,
    create: &CreateType,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace_name = keyspace_of(create.name.keyspace.as_deref(), context.session_keyspace)?;
    check_access(Access {
        verb: "CREATE",
        keyspace: keyspace_name,
        resource: Resource::AllTables,
    })?;
    check_keyspace_name(keyspace_name)?;
    let Some(keyspace) = schema.keyspace(keyspace_name) else {
        return Err(CqlError::invalid(format_args!(
            "Keyspace '{keyspace_name}' doesn't exist"
        )));
    };
    let name = &*create.name.name;
    if keyspace.types.contains_key(name) {
        if create.if_not_exists {
            return Ok(DdlOutcome::unchanged());
        }
        return Err(CqlError::invalid(format_args!(
            "A user type with name '{name}' already exists"
        )));
    }
    if let Some(repeated) = first_repeated(create.fields.iter().map(|field| field.name.as_str())) {
        return Err(CqlError::invalid(format_args!(
            "Duplicate field name '{repeated}' in type '{name}'"
        )));
    }
    create
        .fields
        .iter()
        .try_for_each(|field| check_field_type(&field.type_name))?;
    let fields = create.fields.iter().map(|field| {
        let cql_type = declared_type(
            &field.type_name,
            &keyspace.name,
            &keyspace.types,
            format_args!("field {} of user type {}.{name}", field.name, keyspace.name),
        )?;
        Ok((Arc::from(field.name.as_str()), cql_type))
    });
    let user_type = UserType {
        keyspace: Arc::clone(&keyspace.name),
        name: name.into(),
        fields: fields.collect::<Result<_, CqlError>>()?,
    };
    let change = SchemaChange::user_type(SchemaChangeKind::Created, &keyspace.name, &user_type.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    after
        .types
        .insert(Arc::clone(&user_type.name), Arc::new(user_type));
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

pub(super) fn alter(
    schema: &Schema,
    alter: &AlterType,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace_name = keyspace_of(alter.name.keyspace.as_deref(), context.session_keyspace)?;
    check_access(Access {
        verb: "ALTER",
        keyspace: keyspace_name,
        resource: Resource::AllTables,
    })?;
    check_keyspace_name(keyspace_name)?;
    let name = &*alter.name.name;
    let found = schema
        .keyspace(keyspace_name)
        .and_then(|keyspace| Some((keyspace, keyspace.types.get(name)?)));
    let Some((keyspace, before)) = found else {
        if alter.if_exists {
            return Ok(DdlOutcome::unchanged());
        }
        return Err(CqlError::invalid(format_args!(
            "Type {keyspace_name}.{name} doesn't exist"
        )));
    };
    let mut user_type = UserType::clone(before);
    match &alter.action {
        AlterTypeAction::ChangeType(_) => {
            return Err(CqlError::invalid(format_args!(
                "Altering field types is no longer supported"
            )));
        }
        AlterTypeAction::Add { if_not_exists, field } => {
            add_field(&mut user_type, keyspace, field, *if_not_exists)?;
        }
        AlterTypeAction::Rename { if_exists, renames } => rename_fields(&mut user_type, renames, *if_exists)?,
    }
    let change = SchemaChange::user_type(SchemaChangeKind::Updated, &keyspace.name, &user_type.name);
    let after = with_updated_type(keyspace, Arc::new(user_type));
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

pub(super) fn drop(
    schema: &Schema,
    drop: &DropType,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let keyspace_name = keyspace_of(drop.name.keyspace.as_deref(), context.session_keyspace)?;
    check_access(Access {
        verb: "DROP",
        keyspace: keyspace_name,
        resource: Resource::AllTables,
    })?;
    check_keyspace_name(keyspace_name)?;
    let name = &*drop.name.name;
    let found = schema
        .keyspace(keyspace_name)
        .and_then(|keyspace| Some((keyspace, keyspace.types.get(name)?)));
    let Some((keyspace, user_type)) = found else {
        if drop.if_exists {
            return Ok(DdlOutcome::unchanged());
        }
        return Err(CqlError::invalid(format_args!(
            "Type '{keyspace_name}.{name}' doesn't exist"
        )));
    };
    let types = keyspace.types.values().filter(|other| {
        *other.name != *name
            && other
                .fields
                .iter()
                .any(|(_, field)| field.references_user_type(name))
    });
    check_unused(keyspace_name, name, "user types", types.map(|other| &*other.name))?;
    let tables = keyspace.base_tables().filter(|table| {
        table
            .columns
            .iter()
            .any(|column| column.cql_type.references_user_type(name))
    });
    check_unused(keyspace_name, name, "tables", tables.map(|table| &*table.name))?;
    let change = SchemaChange::user_type(SchemaChangeKind::Dropped, &keyspace.name, &user_type.name);
    let mut after = KeyspaceMetadata::clone(keyspace);
    after.types.remove(name);
    Ok(DdlOutcome::altered(schema, keyspace, after, change))
}

fn check_unused<'a>(
    keyspace: &str,
    name: &str,
    users: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), CqlError> {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(CqlError::invalid(format_args!(
        "Cannot drop user type '{keyspace}.{name}' as it is still used by {users} {}",
        names.join(", ")
    )))
}

fn check_field_type(written: &TypeName) -> Result<(), CqlError> {
    if is_native(written, NativeType::Counter) {
        return Err(CqlError::invalid(format_args!(
            "A user type cannot contain counters"
        )));
    }
    if matches!(written, TypeName::UserType { .. }) {
        return Err(CqlError::invalid(format_args!(
            "A user type cannot contain non-frozen UDTs"
        )));
    }
    Ok(())
}

fn add_field(
    user_type: &mut UserType,
    keyspace: &KeyspaceMetadata,
    field: &FieldDefinition,
    if_not_exists: bool,
) -> Result<(), CqlError> {
    let FieldDefinition { name, type_name } = field;
    check_field_type(type_name)?;
    let full_name = qualified_name(user_type);
    if user_type.field_position(name).is_some() {
        if if_not_exists {
            return Ok(());
        }
        return Err(CqlError::invalid(format_args!(
            "Cannot add field {name} to type {full_name}: a field with name {name} already exists"
        )));
    }
    let cql_type = declared_type(
        type_name,
        &keyspace.name,
        &keyspace.types,
        format_args!("field {name} of user type {full_name}"),
    )?;
    let shown = Written::qualified(type_name, &keyspace.name);
    if cql_type.references_user_type(&user_type.name) {
        return Err(CqlError::invalid(format_args!(
            "Cannot add new field {name} of type {shown} to user type {full_name} as it would create a circular \
             reference"
        )));
    }
    let is_user = |column: &ColumnMetadata| column.cql_type.references_user_type(&user_type.name);
    let tables: Vec<String> = keyspace
        .tables
        .values()
        .filter(|table| table.partition_key().iter().any(is_user))
        .map(|table| {
            format!(
                "{}.{}",
                quoted_identifier(&table.keyspace),
                quoted_identifier(&table.name)
            )
        })
        .collect();
    if !tables.is_empty() {
        return Err(CqlError::invalid(format_args!(
            "Cannot add new field {name} of type {shown} to user type {full_name} as the type is being used in \
             partition key by the following tables: {}",
            tables.join(", ")
        )));
    }
    user_type.fields.push((name.as_str().into(), cql_type));
    Ok(())
}

fn rename_fields(
    user_type: &mut UserType,
    renames: &[(String, String)],
    if_exists: bool,
) -> Result<(), CqlError> {
    // All at once: every old name means the type as it was.
    let before = UserType::clone(user_type);
    for (from, to) in renames {
        match before.field_position(from) {
            Some(position) => {
                if let Some((name, _)) = user_type.fields.get_mut(position) {
                    *name = to.as_str().into();
                }
            }
            None if if_exists => {}
            None => {
                return Err(CqlError::invalid(format_args!(
                    "Unkown field {from} in user type {}",
                    qualified_name(&before)
                )));
            }
        }
    }
    if let Some(repeated) = first_repeated(user_type.fields.iter().map(|(name, _)| &**name)) {
        // Cassandra names the keyspace where the type is meant.
        return Err(CqlError::invalid(format_args!(
            "Duplicate field name {repeated} in type {}",
            before.keyspace
        )));
    }
    Ok(())
}

/// Replaces a user type wherever the keyspace uses it: in other types and in the columns of tables.
fn with_updated_type(keyspace: &KeyspaceMetadata, updated: Arc<UserType>) -> KeyspaceMetadata {
    let mut after = keyspace.clone();
    for user_type in after.types.values_mut() {
        if user_type.name == updated.name {
            *user_type = Arc::clone(&updated);
        } else if user_type
            .fields
            .iter()
            .any(|(_, field)| field.references_user_type(&updated.name))
        {
            *user_type = Arc::new(user_type.with_updated_user_type(&updated));
        }
    }
    for table in after.tables.values_mut() {
        if table
            .columns
            .iter()
            .any(|column| column.cql_type.references_user_type(&updated.name))
        {
            let mut altered = TableMetadata::clone(table);
            for column in &mut altered.columns {
                column.cql_type = column.cql_type.with_updated_user_type(&updated);
            }
            *table = Arc::new(altered);
        }
    }
    after
}

/// The type as messages name it: quoted where CQL would need it.
fn qualified_name(user_type: &UserType) -> String {
    format!(
        "{}.{}",
        quoted_identifier(&user_type.keyspace),
        quoted_identifier(&user_type.name)
    )
}
