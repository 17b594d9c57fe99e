//! Validation of serialized values: what Cassandra checks of every value that is written or bound.

use crate::cql_type::{CqlType, UserType};
use crate::marshal_error::MarshalError;
use crate::utf8::from_utf8;
use crate::value::collection::{CollectionElements, SIZE_BYTES};
use crate::value::duration::Duration;
use crate::value::tuple::TupleComponents;
use crate::value::vector::VectorElements;

impl CqlType {
    /// Checks a serialized value, all of its parts included.
    pub fn validate(&self, bytes: &[u8]) -> Result<(), MarshalError> {
        match self {
            CqlType::Int => fixed_or_empty(bytes, 4, "Expected 4 or 0 byte int"),
            CqlType::Bigint | CqlType::Counter => fixed_or_empty(bytes, 8, "Expected 8 or 0 byte long"),
            CqlType::Text => validate_text(bytes),
            CqlType::Custom(_) => self.native_form().map_or(Ok(()), |native| native.validate(bytes)),
            CqlType::Blob | CqlType::Varint => Ok(()),
            CqlType::Timestamp => fixed_or_empty(bytes, 8, "Expected 8 or 0 byte long for date"),
            CqlType::Uuid => fixed_or_empty(bytes, 16, "UUID should be 16 or 0 bytes"),
            CqlType::Timeuuid => validate_timeuuid(bytes),
            CqlType::Double => fixed_or_empty(bytes, 8, "Expected 8 or 0 byte value for a double"),
            CqlType::Float => fixed_or_empty(bytes, 4, "Expected 4 or 0 byte value for a float"),
            CqlType::Boolean => fixed_or_empty(bytes, 1, "Expected 1 or 0 byte value"),
            CqlType::Tinyint => fixed(bytes, 1, "Expected 1 byte for a tinyint"),
            CqlType::Smallint => fixed(bytes, 2, "Expected 2 bytes for a smallint"),
            CqlType::Date => fixed(bytes, 4, "Expected 4 byte long for date"),
            CqlType::Time => fixed(bytes, 8, "Expected 8 byte long for time"),
            CqlType::Decimal => match bytes.len() {
                0 | 4.. => Ok(()),
                found => Err(MarshalError::Length {
                    wanted: "Expected 0 or at least 4 bytes",
                    found,
                }),
            },
            CqlType::Duration => Duration::from_bytes(bytes).map(drop),
            CqlType::Inet => match bytes.len() {
                0 | 4 | 16 => Ok(()),
                _ => Err(MarshalError::InetLength(bytes.into())),
            },
            CqlType::Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
                None => Ok(()),
                Some(byte) => Err(MarshalError::NotAscii(byte.cast_signed())),
            },
            CqlType::Empty if bytes.is_empty() => Ok(()),
            CqlType::Empty => Err(MarshalError::NotEmpty),
            CqlType::List { element, .. } => validate_elements(bytes, "list", &[element]),
            CqlType::Set { element, .. } => validate_elements(bytes, "set", &[element]),
            CqlType::Map { key, value, .. } => validate_elements(bytes, "map", &[key, value]),
            CqlType::Tuple(components) => validate_tuple(bytes, components),
            CqlType::UserDefined { definition, .. } => validate_user_type(bytes, definition),
            CqlType::Vector { element, dimension } => validate_vector(bytes, self, element, *dimension),
        }
    }
}

fn fixed(bytes: &[u8], length: usize, wanted: &'static str) -> Result<(), MarshalError> {
    if bytes.len() == length {
        return Ok(());
    }
    let found = bytes.len();
    Err(MarshalError::Length { wanted, found })
}

fn fixed_or_empty(bytes: &[u8], length: usize, wanted: &'static str) -> Result<(), MarshalError> {
    if bytes.is_empty() {
        return Ok(());
    }
    fixed(bytes, length, wanted)
}

fn validate_timeuuid(bytes: &[u8]) -> Result<(), MarshalError> {
    fixed_or_empty(bytes, 16, "UUID should be 16 or 0 bytes")?;
    match (bytes.first(), bytes.get(6)) {
        (Some(first), Some(version)) if version >> 4 != 1 => Err(MarshalError::TimeuuidVersion(first >> 4)),
        _ => Ok(()),
    }
}

fn validate_text(bytes: &[u8]) -> Result<(), MarshalError> {
    match from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(offset) if is_cassandra_utf8(&bytes[offset..]) => Ok(()),
        Err(_) => Err(MarshalError::NotUtf8),
    }
}

/// Cassandra's own notion of UTF-8, looser than the standard: surrogates, Java's two-byte zero, code points beyond
/// U+10FFFF and some wrong second bytes pass. What Cassandra stores must be accepted here too.
fn is_cassandra_utf8(bytes: &[u8]) -> bool {
    let is_continuation = |byte: u8| byte & 0xc0 == 0x80;
    let mut rest = bytes.iter().copied();
    while let Some(first) = rest.next() {
        let mut next = |is_right: &dyn Fn(u8) -> bool| rest.next().is_some_and(is_right);
        let is_right = match first {
            0..=0x7f => true,
            0xc0 => next(&|byte| byte == 0x80),
            0xc2..=0xdf => next(&is_continuation),
            0xe0 => next(&|byte| byte & 0xe0 != 0x80) && next(&is_continuation),
            0xe1..=0xef => next(&is_continuation) && next(&is_continuation),
            0xf0 => next(&|byte| byte & 0x30 != 0) && next(&is_continuation) && next(&is_continuation),
            0xf1..=0xf7 => next(&is_continuation) && next(&is_continuation) && next(&is_continuation),
            _ => false,
        };
        if !is_right {
            return false;
        }
    }
    true
}

/// `types` are those of one entry's values, in turn.
fn validate_elements(bytes: &[u8], kind: &'static str, types: &[&CqlType]) -> Result<(), MarshalError> {
    let truncated = || MarshalError::CollectionTruncated { kind };
    let mut elements = CollectionElements::new(bytes, types.len()).ok_or_else(truncated)?;
    for (element, element_type) in elements.by_ref().zip(types.iter().cycle()) {
        element_type.validate(element.ok_or(MarshalError::NullElement)?)?;
    }
    if elements.remaining() > 0 {
        return Err(truncated());
    }
    if elements.is_complete() {
        Ok(())
    } else {
        Err(MarshalError::CollectionTrailing { kind })
    }
}

fn validate_tuple(bytes: &[u8], types: &[CqlType]) -> Result<(), MarshalError> {
    let mut components = TupleComponents::new(bytes);
    for (index, component_type) in types.iter().enumerate() {
        match components.next() {
            Some(Some(component)) => component_type.validate(component)?,
            Some(None) => {}
            None if components.rest().is_empty() => return Ok(()),
            None if components.rest().len() < SIZE_BYTES => {
                return Err(MarshalError::TupleSizeTruncated(index));
            }
            None => return Err(MarshalError::TupleTruncated(index)),
        }
    }
    if components.rest().is_empty() {
        Ok(())
    } else {
        Err(MarshalError::TupleTrailing)
    }
}

fn validate_user_type(bytes: &[u8], definition: &UserType) -> Result<(), MarshalError> {
    let mut components = TupleComponents::new(bytes);
    for (index, (name, field_type)) in definition.fields.iter().enumerate() {
        let field = || name.to_string();
        match components.next() {
            Some(Some(component)) => field_type
                .validate(component)
                .map_err(|cause| MarshalError::Field {
                    index,
                    field: field(),
                    cause: Box::new(cause),
                })?,
            Some(None) => {}
            None if components.rest().is_empty() => return Ok(()),
            None if components.rest().len() < SIZE_BYTES => {
                return Err(MarshalError::FieldSizeTruncated {
                    index,
                    field: field(),
                });
            }
            None => {
                return Err(MarshalError::FieldTruncated {
                    index,
                    field: field(),
                });
            }
        }
    }
    if components.rest().is_empty() {
        Ok(())
    } else {
        Err(MarshalError::UserTypeTrailing)
    }
}

fn validate_vector(
    bytes: &[u8],
    vector: &CqlType,
    element_type: &CqlType,
    dimension: u32,
) -> Result<(), MarshalError> {
    if bytes.is_empty() {
        return Err(MarshalError::EmptyVector);
    }
    let truncated = || MarshalError::VectorTruncated(vector.clone());
    if vector
        .value_length_if_fixed()
        .is_some_and(|length| bytes.len() < length)
    {
        return Err(truncated());
    }
    let mut elements = VectorElements::new(element_type, dimension, bytes);
    for element in elements.by_ref() {
        element_type.validate(element)?;
    }
    if elements.remaining() > 0 {
        return Err(truncated());
    }
    match elements.rest().len() {
        0 => Ok(()),
        bytes => Err(MarshalError::VectorTrailing {
            bytes,
            vector: vector.clone(),
        }),
    }
}
