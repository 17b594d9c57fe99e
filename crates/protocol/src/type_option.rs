//! How a type is named in metadata: the `[option]` of native_protocol_v5.spec, section 4.2.5.2.

use std::sync::Arc;

use helenus_types::{CqlType, UserType};

use crate::version::ProtocolVersion;
use crate::wire::{DecodeError, WireReader, put_short, put_string};

const CUSTOM: u16 = 0x0000;
const LIST: u16 = 0x0020;
const MAP: u16 = 0x0021;
const SET: u16 = 0x0022;
const USER_DEFINED: u16 = 0x0030;
const TUPLE: u16 = 0x0031;

/// Types nest by recursion, so bytes that nest without end must be refused; CQL itself has no limit, but a real type
/// has a handful of levels.
const NESTING_MAX: usize = 64;

/// The number of a type without parts, and the first version that knows it; older ones see it as a custom type.
fn native_option(data_type: &CqlType) -> Option<(u16, ProtocolVersion)> {
    use ProtocolVersion::{V3, V4, V5};
    Some(match data_type {
        CqlType::Ascii => (0x0001, V3),
        CqlType::Bigint => (0x0002, V3),
        CqlType::Blob => (0x0003, V3),
        CqlType::Boolean => (0x0004, V3),
        CqlType::Counter => (0x0005, V3),
        CqlType::Decimal => (0x0006, V3),
        CqlType::Double => (0x0007, V3),
        CqlType::Float => (0x0008, V3),
        CqlType::Int => (0x0009, V3),
        CqlType::Timestamp => (0x000B, V3),
        CqlType::Uuid => (0x000C, V3),
        // 0x000A was `text` before v3; since then text is `varchar`.
        CqlType::Text => (0x000D, V3),
        CqlType::Varint => (0x000E, V3),
        CqlType::Timeuuid => (0x000F, V3),
        CqlType::Inet => (0x0010, V3),
        CqlType::Date => (0x0011, V4),
        CqlType::Time => (0x0012, V4),
        CqlType::Smallint => (0x0013, V4),
        CqlType::Tinyint => (0x0014, V4),
        CqlType::Duration => (0x0015, V5),
        _ => return None,
    })
}

fn native_type(option: u16) -> Option<CqlType> {
    Some(match option {
        0x0001 => CqlType::Ascii,
        0x0002 => CqlType::Bigint,
        0x0003 => CqlType::Blob,
        0x0004 => CqlType::Boolean,
        0x0005 => CqlType::Counter,
        0x0006 => CqlType::Decimal,
        0x0007 => CqlType::Double,
        0x0008 => CqlType::Float,
        0x0009 => CqlType::Int,
        0x000A | 0x000D => CqlType::Text,
        0x000B => CqlType::Timestamp,
        0x000C => CqlType::Uuid,
        0x000E => CqlType::Varint,
        0x000F => CqlType::Timeuuid,
        0x0010 => CqlType::Inet,
        0x0011 => CqlType::Date,
        0x0012 => CqlType::Time,
        0x0013 => CqlType::Smallint,
        0x0014 => CqlType::Tinyint,
        0x0015 => CqlType::Duration,
        _ => return None,
    })
}

/// Appends the option of a type as `version` knows it.
pub fn put_type(out: &mut Vec<u8>, version: ProtocolVersion, data_type: &CqlType) {
    match data_type {
        CqlType::List { element, .. } => {
            put_short(out, LIST);
            put_type(out, version, element);
        }
        CqlType::Set { element, .. } => {
            put_short(out, SET);
            put_type(out, version, element);
        }
        CqlType::Map { key, value, .. } => {
            put_short(out, MAP);
            put_type(out, version, key);
            put_type(out, version, value);
        }
        CqlType::Tuple(elements) => {
            put_short(out, TUPLE);
            put_short(out, part_count(elements.len()));
            for element in elements.iter() {
                put_type(out, version, element);
            }
        }
        CqlType::UserDefined { definition, .. } => put_user_type(out, version, definition),
        CqlType::Custom(class) => {
            put_short(out, CUSTOM);
            put_string(out, class);
        }
        other => match native_option(other) {
            Some((option, since)) if version >= since => put_short(out, option),
            _ => {
                put_short(out, CUSTOM);
                put_string(out, &other.to_marshal_class());
            }
        },
    }
}

fn put_user_type(out: &mut Vec<u8>, version: ProtocolVersion, definition: &UserType) {
    put_short(out, USER_DEFINED);
    put_string(out, &definition.keyspace);
    put_string(out, &definition.name);
    put_short(out, part_count(definition.fields.len()));
    for (name, data_type) in &definition.fields {
        put_string(out, name);
        put_type(out, version, data_type);
    }
}

/// The schema limits tuples and user types to 32,768 parts, as Cassandra does; more is a bug.
fn part_count(parts: usize) -> u16 {
    assert!(parts <= usize::from(u16::MAX), "a type of {parts} parts");
    parts as u16
}

/// Reads a type option. Collections and user types read as frozen: metadata does not say, and for the form of a
/// value it does not matter. A class of Cassandra's own, such as a vector's, reads as the type it names.
pub fn read_type(reader: &mut WireReader<'_>) -> Result<CqlType, DecodeError> {
    read_nested(reader, 0)
}

fn read_nested(reader: &mut WireReader<'_>, depth: usize) -> Result<CqlType, DecodeError> {
    if depth > NESTING_MAX {
        return Err(DecodeError::TypeTooDeep(NESTING_MAX));
    }
    let nested = |reader: &mut WireReader<'_>| read_nested(reader, depth + 1);
    let option = reader.short("a type option")?;
    Ok(match option {
        CUSTOM => custom_type(reader.string()?),
        LIST => CqlType::List {
            element: Arc::new(nested(reader)?),
            frozen: true,
        },
        SET => CqlType::Set {
            element: Arc::new(nested(reader)?),
            frozen: true,
        },
        MAP => {
            let key = Arc::new(nested(reader)?);
            CqlType::Map {
                key,
                value: Arc::new(nested(reader)?),
                frozen: true,
            }
        }
        TUPLE => {
            // A type is at least its 2-byte option.
            let count = reader.count("tuple elements", 2)?;
            let elements: Result<Vec<CqlType>, DecodeError> = (0..count).map(|_| nested(reader)).collect();
            CqlType::Tuple(elements?.into())
        }
        USER_DEFINED => {
            let keyspace = reader.string()?.into();
            let name = reader.string()?.into();
            // A field is at least an empty name (2 bytes) and a type (2 bytes).
            let count = reader.count("user type fields", 4)?;
            let fields: Result<Vec<(Arc<str>, CqlType)>, DecodeError> = (0..count)
                .map(|_| Ok((reader.string()?.into(), nested(reader)?)))
                .collect();
            let definition = Arc::new(UserType {
                keyspace,
                name,
                fields: fields?,
            });
            CqlType::UserDefined {
                definition,
                frozen: true,
            }
        }
        other => native_type(other).ok_or(DecodeError::UnknownTypeOption(other))?,
    })
}

/// The type a class names; a class that Cassandra does not ship, or whose name cannot be read, stays a name.
fn custom_type(class: &str) -> CqlType {
    match CqlType::from_marshal_class(class) {
        Ok(parsed) => parsed.cql_type,
        Err(_) => CqlType::Custom(class.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smoke run of the fuzz target `protocol_type`: random types and random damage to them.
    #[test]
    fn what_was_read_is_written_the_same_again() {
        // SplitMix64, as in `helenus_vfs::SeededRandom`, on which this crate does not depend.
        let mut state = 1_u64;
        let mut below = move |bound: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((u128::from(mixed ^ (mixed >> 31)) * u128::from(bound)) >> 64) as u64
        };
        let mut read = 0;
        for _ in 0..20_000 {
            // Ids of compound types are likely, so that they nest.
            let mut bytes = Vec::new();
            for _ in 0..1 + below(8) {
                let id = [0x0d, 0x09, 0x20, 0x21, 0x22, 0x30, 0x31, below(0x40) as u16][below(8) as usize];
                bytes.extend_from_slice(&id.to_be_bytes());
                if below(3) == 0 {
                    bytes.extend_from_slice(&[0, below(4) as u8]);
                }
            }
            let Ok(data_type) = read_type(&mut WireReader::new(&bytes)) else {
                continue;
            };
            read += 1;
            let mut written = Vec::new();
            put_type(&mut written, ProtocolVersion::V5, &data_type);
            let Ok(again) = read_type(&mut WireReader::new(&written)) else {
                continue;
            };
            let mut rewritten = Vec::new();
            put_type(&mut rewritten, ProtocolVersion::V5, &again);
            assert_eq!(rewritten, written);
        }
        assert!(read > 1000, "{read} types were read");
    }
}
