//! Input and outcome of a schema change.

use std::sync::Arc;

use helenus_protocol::response::{self, SchemaChangeKind, SchemaTarget};
use helenus_schema::{IndexKind, KeyspaceMetadata, Schema, TableId};

/// Everything outside the schema that a change depends on.
#[derive(Clone, Copy, Debug)]
pub struct DdlContext<'a> {
    /// Keyspace that `USE` chose.
    pub session_keyspace: Option<&'a str>,
    /// Microseconds since the Unix epoch; when a column dropped without a timestamp was dropped.
    pub now_us: i64,
    /// The id of the table that this statement may create; a fresh time uuid.
    pub new_table_id: TableId,
    /// The name of this node's datacenter, the only one there is.
    pub data_center: &'a str,
    /// True if materialized views may be made.
    pub materialized_views: bool,
    /// Cassandra's `default_secondary_index`: of CREATE INDEX without USING.
    pub default_index: IndexKind,
}

#[derive(Clone, Debug, Default)]
pub struct DdlOutcome {
    /// None when the schema is already as the statement wants it; the client is then answered with VOID.
    pub transition: Option<SchemaTransition>,
    /// For the client, in the response's warnings.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct SchemaTransition {
    pub schema: Arc<Schema>,
    /// Change that the response reports.
    pub change: SchemaChange,
    /// Events for those who registered for schema events, in order; includes `change`.
    pub events: Vec<SchemaChange>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    pub kind: SchemaChangeKind,
    pub keyspace: Arc<str>,
    pub target: SchemaChangeTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaChangeTarget {
    Keyspace,
    Table(Arc<str>),
    Type(Arc<str>),
}

impl SchemaChange {
    /// The change as the protocol's encoders take it.
    pub fn to_protocol(&self) -> response::SchemaChange<'_> {
        response::SchemaChange {
            change: self.kind,
            keyspace: &self.keyspace,
            target: match &self.target {
                SchemaChangeTarget::Keyspace => SchemaTarget::Keyspace,
                SchemaChangeTarget::Table(name) => SchemaTarget::Table(name),
                SchemaChangeTarget::Type(name) => SchemaTarget::Type(name),
            },
        }
    }

    pub(super) fn keyspace(kind: SchemaChangeKind, keyspace: &Arc<str>) -> Self {
        SchemaChange {
            kind,
            keyspace: Arc::clone(keyspace),
            target: SchemaChangeTarget::Keyspace,
        }
    }

    pub(super) fn table(kind: SchemaChangeKind, keyspace: &Arc<str>, table: &Arc<str>) -> Self {
        SchemaChange {
            kind,
            keyspace: Arc::clone(keyspace),
            target: SchemaChangeTarget::Table(Arc::clone(table)),
        }
    }

    pub(super) fn user_type(kind: SchemaChangeKind, keyspace: &Arc<str>, name: &Arc<str>) -> Self {
        SchemaChange {
            kind,
            keyspace: Arc::clone(keyspace),
            target: SchemaChangeTarget::Type(Arc::clone(name)),
        }
    }
}

impl DdlOutcome {
    /// The statement found nothing to do.
    pub(super) fn unchanged() -> Self {
        DdlOutcome::default()
    }

    /// The outcome of replacing `before` by `after`, with the events of what else changed inside the keyspace.
    pub(super) fn altered(
        schema: &Schema,
        before: &KeyspaceMetadata,
        after: KeyspaceMetadata,
        change: SchemaChange,
    ) -> Self {
        if *before == after {
            return DdlOutcome::unchanged();
        }
        let mut events = vec![change.clone()];
        for (name, table) in &after.tables {
            let kind = match before.tables.get(name) {
                None => SchemaChangeKind::Created,
                Some(old) if old != table => SchemaChangeKind::Updated,
                Some(_) => continue,
            };
            events.push(SchemaChange::table(kind, &after.name, name));
        }
        let gone = before
            .tables
            .keys()
            .filter(|name| !after.tables.contains_key(*name));
        events.extend(gone.map(|name| SchemaChange::table(SchemaChangeKind::Dropped, &after.name, name)));
        let is_other = |event: &SchemaChange| *event != change;
        let others: Vec<SchemaChange> = events.drain(1..).filter(is_other).collect();
        events.extend(others);
        DdlOutcome::changed(with_keyspace(schema, after), change, events)
    }

    pub(super) fn changed(mut schema: Schema, change: SchemaChange, events: Vec<SchemaChange>) -> Self {
        schema.version += 1;
        let transition = SchemaTransition {
            schema: Arc::new(schema),
            change,
            events,
        };
        DdlOutcome {
            transition: Some(transition),
            warnings: Vec::new(),
        }
    }

    pub(super) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

fn with_keyspace(schema: &Schema, keyspace: KeyspaceMetadata) -> Schema {
    let mut next = schema.clone();
    next.keyspaces
        .insert(Arc::clone(&keyspace.name), Arc::new(keyspace));
    next
}
