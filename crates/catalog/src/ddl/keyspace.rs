//! CREATE, ALTER and DROP KEYSPACE.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Properties};
use helenus_engine::CqlError;
use helenus_engine::error::AlreadyExists;
use helenus_protocol::response::SchemaChangeKind;
use helenus_schema::{KeyspaceMetadata, Replication, Schema};

use super::change::{DdlContext, DdlOutcome, SchemaChange};
use super::guard::{Access, Resource, check_access, check_keyspace_name};
use super::options::PropertyReader;
use super::replication;

pub(super) fn create(
    schema: &Schema,
    create: &CreateKeyspace,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let name = &*create.keyspace;
    check_keyspace_name(name)?;
    let options = KeyspaceOptions::read(&create.properties)?;
    let written = options
        .replication
        .ok_or_else(|| CqlError::invalid(format_args!("Missing mandatory option 'replication'")))?;
    if schema.keyspace(name).is_some() {
        if create.if_not_exists {
            return Ok(DdlOutcome::unchanged());
        }
        let existing = AlreadyExists::Keyspace {
            keyspace: name.to_owned(),
        };
        return Err(CqlError::AlreadyExists(Box::new(existing)));
    }
    let durable_writes = options.durable_writes()?.unwrap_or(true);
    let replication = replication::prepare(written, None, context)?;
    let warnings = replication::validate(name, &replication, context)?;
    let keyspace = KeyspaceMetadata {
        name: name.into(),
        durable_writes,
        replication,
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
        views: BTreeMap::new(),
        is_virtual: false,
    };
    let change = SchemaChange::keyspace(SchemaChangeKind::Created, &keyspace.name);
    let mut next = schema.clone();
    next.keyspaces
        .insert(Arc::clone(&keyspace.name), Arc::new(keyspace));
    Ok(DdlOutcome::changed(next, change.clone(), vec![change]).with_warnings(warnings))
}

pub(super) fn alter(
    schema: &Schema,
    alter: &AlterKeyspace,
    context: &DdlContext<'_>,
) -> Result<DdlOutcome, CqlError> {
    let name = &*alter.keyspace;
    check_access(Access {
        verb: "ALTER",
        keyspace: name,
        resource: Resource::Keyspace,
    })?;
    check_keyspace_name(name)?;
    let options = KeyspaceOptions::read(&alter.properties)?;
    let Some(before) = schema.keyspace(name) else {
        if alter.if_exists {
            return Ok(DdlOutcome::unchanged());
        }
        return Err(CqlError::invalid(format_args!("Keyspace '{name}' doesn't exist")));
    };
    let mut after = KeyspaceMetadata::clone(before);
    if let Some(durable_writes) = options.durable_writes()? {
        after.durable_writes = durable_writes;
    }
    if let Some(written) = options.replication.filter(|written| !written.is_empty()) {
        after.replication = replication::prepare(written, Some(&before.replication), context)?;
    }
    let mut warnings = replication::validate(name, &after.replication, context)?;
    let change = SchemaChange::keyspace(SchemaChangeKind::Updated, &after.name);
    let copies = |replication: &Replication| replication::copies(replication);
    let has_more_copies = copies(&before.replication) < copies(&after.replication);
    let outcome = DdlOutcome::altered(schema, before, after, change);
    if outcome.transition.is_some() && has_more_copies {
        warnings.push(
            "When increasing replication factor you need to run a full (-full) repair to distribute the data.".to_owned(),
        );
    }
    Ok(outcome.with_warnings(warnings))
}

pub(super) fn drop(schema: &Schema, drop: &DropKeyspace) -> Result<DdlOutcome, CqlError> {
    let name = &*drop.keyspace;
    check_access(Access {
        verb: "DROP",
        keyspace: name,
        resource: Resource::Keyspace,
    })?;
    check_keyspace_name(name)?;
    let Some(keyspace) = schema.keyspace(name) else {
        if drop.if_exists {
            return Ok(DdlOutcome::unchanged());
        }
        return Err(CqlError::invalid(format_args!("Keyspace '{name}' doesn't exist")));
    };
    let change = SchemaChange::keyspace(SchemaChangeKind::Dropped, &keyspace.name);
    let tables = keyspace.tables.keys();
    let types = keyspace.types.keys();
    let events = tables
        .map(|table| SchemaChange::table(SchemaChangeKind::Dropped, &keyspace.name, table))
        .chain(types.map(|name| SchemaChange::user_type(SchemaChangeKind::Dropped, &keyspace.name, name)))
        .chain([change.clone()])
        .collect();
    let mut next = schema.clone();
    next.keyspaces.remove(name);
    Ok(DdlOutcome::changed(next, change, events))
}

/// The options of a keyspace, as far as they can be read without knowing the strategy.
struct KeyspaceOptions<'a> {
    reader: PropertyReader<'a>,
    replication: Option<&'a [(String, String)]>,
}

impl<'a> KeyspaceOptions<'a> {
    fn read(properties: &'a Properties) -> Result<Self, CqlError> {
        let reader = PropertyReader(properties);
        reader.check_names(&["durable_writes", "replication"])?;
        let replication = reader.map("replication")?;
        if let Some(options) = replication
            && !options.is_empty()
            && !options.iter().any(|(name, _)| name == "class")
        {
            return Err(CqlError::config(format_args!(
                "Missing replication strategy class"
            )));
        }
        Ok(KeyspaceOptions { reader, replication })
    }

    fn durable_writes(&self) -> Result<Option<bool>, CqlError> {
        self.reader.boolean("durable_writes")
    }
}
