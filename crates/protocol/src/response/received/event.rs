//! EVENT, and RESULT's schema change, as a client reads them.

use super::StringList;
use crate::response::event::{
    Event, SchemaChange, SchemaChangeKind, SchemaTarget, StatusChange, TopologyChange,
};
use crate::wire::{DecodeError, WireReader};

pub(super) fn read_event<'a>(reader: &mut WireReader<'a>) -> Result<Event<'a>, DecodeError> {
    match reader.string()? {
        "TOPOLOGY_CHANGE" => {
            let change = read_word(reader, &TopologyChange::ALL, TopologyChange::name, "Change")?;
            Ok(Event::TopologyChange {
                change,
                node: reader.inet()?,
            })
        }
        "STATUS_CHANGE" => {
            let status = read_word(reader, &StatusChange::ALL, StatusChange::name, "Status")?;
            Ok(Event::StatusChange {
                status,
                node: reader.inet()?,
            })
        }
        "SCHEMA_CHANGE" => read_schema_change(reader).map(Event::SchemaChange),
        "GRACEFUL_DISCONNECT" => Ok(Event::GracefulDisconnect),
        other => Err(DecodeError::UnknownName {
            value: other.into(),
            kind: "Type",
        }),
    }
}

pub(super) fn read_schema_change<'a>(reader: &mut WireReader<'a>) -> Result<SchemaChange<'a>, DecodeError> {
    let change = read_word(reader, &SchemaChangeKind::ALL, SchemaChangeKind::name, "Change")?;
    let target = reader.string()?;
    let keyspace = reader.string()?;
    let target = match target {
        "KEYSPACE" => SchemaTarget::Keyspace,
        "TABLE" => SchemaTarget::Table(reader.string()?),
        "TYPE" => SchemaTarget::Type(reader.string()?),
        "FUNCTION" => SchemaTarget::Function {
            name: reader.string()?,
            argument_types: StringList::decode(reader)?.iter().collect(),
        },
        "AGGREGATE" => SchemaTarget::Aggregate {
            name: reader.string()?,
            argument_types: StringList::decode(reader)?.iter().collect(),
        },
        other => {
            return Err(DecodeError::UnknownName {
                value: other.into(),
                kind: "Target",
            });
        }
    };
    Ok(SchemaChange {
        change,
        keyspace,
        target,
    })
}

fn read_word<T: Copy>(
    reader: &mut WireReader<'_>,
    words: &[T],
    name: fn(T) -> &'static str,
    kind: &'static str,
) -> Result<T, DecodeError> {
    let text = reader.string()?;
    let found = words.iter().find(|word| name(**word) == text);
    found.copied().ok_or_else(|| DecodeError::UnknownName {
        value: text.into(),
        kind,
    })
}
