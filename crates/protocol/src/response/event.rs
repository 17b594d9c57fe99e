//! EVENT, and the schema change it shares with RESULT.

use std::net::SocketAddr;

use crate::version::ProtocolVersion;
use crate::wire::{put_inet, put_string, put_string_list};

/// A server's word to connections that registered for it; travels on stream -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    TopologyChange {
        change: TopologyChange,
        node: SocketAddr,
    },
    StatusChange {
        status: StatusChange,
        node: SocketAddr,
    },
    SchemaChange(SchemaChange<'a>),
    /// The server answers what it has accepted on this connection, takes nothing more, and closes it (CEP-59).
    GracefulDisconnect,
}

impl Event<'_> {
    /// The stream of every event.
    pub const STREAM: i16 = -1;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    NewNode,
    RemovedNode,
    MovedNode,
}

impl TopologyChange {
    pub const ALL: [TopologyChange; 3] = [Self::NewNode, Self::RemovedNode, Self::MovedNode];

    pub fn name(self) -> &'static str {
        match self {
            Self::NewNode => "NEW_NODE",
            Self::RemovedNode => "REMOVED_NODE",
            Self::MovedNode => "MOVED_NODE",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    Up,
    Down,
}

impl StatusChange {
    pub const ALL: [StatusChange; 2] = [Self::Up, Self::Down];

    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Down => "DOWN",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaChangeKind {
    Created,
    Updated,
    Dropped,
}

impl SchemaChangeKind {
    pub const ALL: [SchemaChangeKind; 3] = [Self::Created, Self::Updated, Self::Dropped];

    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Updated => "UPDATED",
            Self::Dropped => "DROPPED",
        }
    }
}

/// Target of a schema change, inside its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaTarget<'a> {
    Keyspace,
    /// Also materialized views and indexes, as changes of their table.
    Table(&'a str),
    Type(&'a str),
    Function {
        name: &'a str,
        argument_types: Vec<&'a str>,
    },
    Aggregate {
        name: &'a str,
        argument_types: Vec<&'a str>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange<'a> {
    pub change: SchemaChangeKind,
    pub keyspace: &'a str,
    pub target: SchemaTarget<'a>,
}

/// Writes the body of EVENT.
pub fn write_event(out: &mut Vec<u8>, version: ProtocolVersion, event: &Event<'_>) {
    match event {
        Event::TopologyChange { change, node } => {
            put_string(out, "TOPOLOGY_CHANGE");
            put_string(out, change.name());
            put_inet(out, *node);
        }
        Event::StatusChange { status, node } => {
            put_string(out, "STATUS_CHANGE");
            put_string(out, status.name());
            put_inet(out, *node);
        }
        Event::SchemaChange(change) => {
            put_string(out, "SCHEMA_CHANGE");
            put_schema_change(out, version, change);
        }
        Event::GracefulDisconnect => put_string(out, "GRACEFUL_DISCONNECT"),
    }
}

pub(super) fn put_schema_change(out: &mut Vec<u8>, version: ProtocolVersion, change: &SchemaChange<'_>) {
    let put_head = |out: &mut Vec<u8>, kind: SchemaChangeKind, target: &str| {
        put_string(out, kind.name());
        put_string(out, target);
        put_string(out, change.keyspace);
    };
    match &change.target {
        SchemaTarget::Keyspace => put_head(out, change.change, "KEYSPACE"),
        SchemaTarget::Table(name) => {
            put_head(out, change.change, "TABLE");
            put_string(out, name);
        }
        SchemaTarget::Type(name) => {
            put_head(out, change.change, "TYPE");
            put_string(out, name);
        }
        // v3 has no word for functions: their keyspace was updated. Cassandra sends an empty name behind it.
        SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. } if version < ProtocolVersion::V4 => {
            put_head(out, SchemaChangeKind::Updated, "KEYSPACE");
            put_string(out, "");
        }
        SchemaTarget::Function { name, argument_types } => {
            put_head(out, change.change, "FUNCTION");
            put_string(out, name);
            put_string_list(out, argument_types);
        }
        SchemaTarget::Aggregate { name, argument_types } => {
            put_head(out, change.change, "AGGREGATE");
            put_string(out, name);
            put_string_list(out, argument_types);
        }
    }
}
