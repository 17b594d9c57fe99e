//! JSON to values.

use std::cmp::Ordering;

use super::error::JsonError;
use super::number::JsonNumber;
use super::value::{JsonKind, JsonValue};
use crate::cql_type::{CqlType, UserType};
use crate::value::blob::hex_decode;
use crate::value::tuple::write_component;
use crate::value::varint::{parse_varint, varint_of_big};
use crate::value::vector::write_vector_element;
use crate::value::write_collection;

type Decoded = Result<Vec<u8>, JsonError>;

impl CqlType {
    /// Decodes a value that is not null. Numbers, booleans, collections, tuples and user types may also come as strings, which
    /// then are JSON by themselves. `now_ms` is what the timestamp `now` stands for.
    pub fn decode_json(&self, value: JsonValue<'_>, now_ms: i64) -> Decoded {
        match value.kind() {
            JsonKind::String => self.decode_json_string(&value.string(), now_ms),
            _ => self.decode_json_literal(value, now_ms),
        }
    }

    /// Decodes a string, or the key of an object.
    fn decode_json_string(&self, text: &str, now_ms: i64) -> Decoded {
        match self {
            CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::UserDefined { .. }
            | CqlType::Vector { .. } => {
                let value = JsonValue::parse(text).map_err(JsonError::Nested)?;
                self.decode_json_literal(value, now_ms)
            }
            CqlType::Custom(_) if let Some(native) = self.native_form() => {
                native.decode_json_string(text, now_ms)
            }
            CqlType::Blob | CqlType::Custom(_) => blob_of(text),
            CqlType::Varint => varint_of(text),
            CqlType::Decimal => self.from_text(text, now_ms).map_err(|_| JsonError::NotNumber {
                value: super::shown(text).to_owned(),
                type_name: "decimal",
            }),
            CqlType::Duration => duration_of(text),
            CqlType::Counter => Err(JsonError::Unsupported("counter")),
            _ => self.from_text(text, now_ms).map_err(JsonError::Text),
        }
    }

    fn decode_json_literal(&self, value: JsonValue<'_>, now_ms: i64) -> Decoded {
        match self {
            CqlType::List { element, .. } => {
                let elements = array_of(element, value, now_ms, "a list", "element in list")?;
                Ok(collection_of(elements))
            }
            CqlType::Set { element, .. } => {
                let mut elements = array_of(
                    element,
                    value,
                    now_ms,
                    "a list (representing a set)",
                    "element in set",
                )?;
                elements.sort_by(|left, right| element.compare(left, right));
                elements.dedup_by(|later, first| element.compare(later, first) == Ordering::Equal);
                Ok(collection_of(elements))
            }
            CqlType::Map { key, value: of, .. } => map_of(key, of, value, now_ms),
            CqlType::Tuple(types) => tuple_of(types, value, now_ms),
            CqlType::UserDefined { definition, .. } => user_type_of(definition, value, now_ms),
            CqlType::Vector { element, dimension } => vector_of(element, *dimension, value, now_ms),
            CqlType::Custom(_) if let Some(native) = self.native_form() => {
                native.decode_json_literal(value, now_ms)
            }
            _ => self.native_of(value, now_ms),
        }
    }

    /// A value of a native type, from what is not a string.
    fn native_of(&self, value: JsonValue<'_>, now_ms: i64) -> Decoded {
        let number = match value.kind() {
            JsonKind::Number => Some(JsonNumber::of(value.number_text())),
            _ => None,
        };
        let whole = number.and_then(|number| number.as_i64());
        match (self, number) {
            (CqlType::Boolean, _) if let JsonKind::Boolean(value) = value.kind() => Ok(vec![u8::from(value)]),
            (CqlType::Int, _) if let Some(Ok(whole)) = whole.map(i32::try_from) => {
                Ok(whole.to_be_bytes().to_vec())
            }
            (CqlType::Bigint, _) if let Some(whole) = whole => Ok(whole.to_be_bytes().to_vec()),
            (CqlType::Timestamp, Some(JsonNumber::Long(time_ms))) => Ok(time_ms.to_be_bytes().to_vec()),
            (CqlType::Float, Some(number)) => Ok(number.as_f32().to_be_bytes().to_vec()),
            (CqlType::Double, Some(number)) => Ok(number.as_f64().to_be_bytes().to_vec()),
            (CqlType::Tinyint | CqlType::Smallint, Some(number)) => {
                self.from_text(&number.text(), now_ms).map_err(JsonError::Text)
            }
            (CqlType::Decimal | CqlType::Varint, Some(number)) => {
                self.decode_json_string(&number.text(), now_ms)
            }
            (CqlType::Decimal | CqlType::Varint, None) => self.decode_json_string(&value.java_text(), now_ms),
            (CqlType::Blob | CqlType::Custom(_), _) => {
                let class = value.class();
                let module = "module java.base of loader 'bootstrap'";
                Err(JsonError::NotBlob {
                    value: value.java_text(),
                    cause: format!(
                        "class {class} cannot be cast to class java.lang.String ({class} and java.lang.String are in \
                         {module})"
                    ),
                })
            }
            (CqlType::Counter, _) => Err(JsonError::Unsupported("counter")),
            _ => Err(unexpected(self.json_expected(), value)),
        }
    }

    /// Returns the words for the expected form in messages.
    fn json_expected(&self) -> &'static str {
        match self {
            CqlType::Ascii => "an ascii string",
            CqlType::Text => "a UTF-8 string",
            CqlType::Boolean => "a boolean value",
            CqlType::Tinyint => "a byte value",
            CqlType::Smallint => "a short value",
            CqlType::Int => "an int value",
            CqlType::Bigint => "a bigint value",
            CqlType::Float => "a float value",
            CqlType::Double => "a double value",
            CqlType::Timestamp => "a long or a datestring representation of a timestamp value",
            CqlType::Date => "a string representation of a date value",
            CqlType::Time => "a string representation of a time value",
            CqlType::Duration => "a string representation of a duration",
            CqlType::Timeuuid => "a string representation of a timeuuid",
            CqlType::Inet => "a string representation of an inet value",
            CqlType::Empty => "an empty string",
            _ => "a string representation of a uuid",
        }
    }
}

fn unexpected(expected: &'static str, value: JsonValue<'_>) -> JsonError {
    JsonError::Unexpected {
        expected,
        article: if value.is_null() { "" } else { "a " },
        kind: value.class_name(),
        value: value.java_text(),
    }
}

fn blob_of(text: &str) -> Decoded {
    let not_blob = |cause: String| JsonError::NotBlob {
        value: super::shown(text).to_owned(),
        cause,
    };
    let Some(digits) = text.strip_prefix("0x") else {
        let text = super::shown(text);
        return Err(not_blob(format!(
            "String representation of blob is missing 0x prefix: {text}"
        )));
    };
    hex_decode(digits).ok_or_else(|| {
        let digits = super::shown(digits);
        not_blob(format!("cannot parse '{digits}' as hex bytes"))
    })
}

fn varint_of(text: &str) -> Decoded {
    match parse_varint(text) {
        Some(value) => Ok(varint_of_big(&value)),
        None => Err(JsonError::NotNumber {
            value: super::shown(text).to_owned(),
            type_name: "varint",
        }),
    }
}

fn duration_of(text: &str) -> Decoded {
    let duration = crate::value::Duration::parse(text).map_err(JsonError::Duration)?;
    Ok(duration.to_bytes())
}

fn collection_of(elements: Vec<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    write_collection(&mut out, 1, elements.iter().map(Vec::as_slice));
    out
}

/// The decoded elements of an array.
fn array_of(
    element_type: &CqlType,
    value: JsonValue<'_>,
    now_ms: i64,
    expected: &'static str,
    place: &'static str,
) -> Result<Vec<Vec<u8>>, JsonError> {
    if value.kind() != JsonKind::Array {
        return Err(unexpected(expected, value));
    }
    let decoded = value.elements().map(|element| match element.is_null() {
        true => Err(JsonError::Null { place }),
        false => element_type.decode_json(element, now_ms),
    });
    decoded.collect()
}

fn map_of(key_type: &CqlType, value_type: &CqlType, value: JsonValue<'_>, now_ms: i64) -> Decoded {
    let Some(object) = value.as_object() else {
        return Err(unexpected("a map", value));
    };
    let mut entries = Vec::new();
    for (key, value) in object.entries() {
        if value.is_null() {
            return Err(JsonError::Null {
                place: "value in map",
            });
        }
        let key = key_type.decode_json_string(&key, now_ms)?;
        entries.push((key, value_type.decode_json(value, now_ms)?));
    }
    // Of a key that comes twice the later value counts.
    entries.reverse();
    entries.sort_by(|left, right| key_type.compare(&left.0, &right.0));
    entries.dedup_by(|later, first| key_type.compare(&later.0, &first.0) == Ordering::Equal);
    let mut out = Vec::new();
    let parts = entries
        .iter()
        .flat_map(|(key, value)| [key.as_slice(), value.as_slice()]);
    write_collection(&mut out, 2, parts);
    Ok(out)
}

fn tuple_of(types: &[CqlType], value: JsonValue<'_>, now_ms: i64) -> Decoded {
    if value.kind() != JsonKind::Array {
        return Err(unexpected("a list representation of a tuple", value));
    }
    let given = value.elements().take(types.len() + 1).count();
    let problem = match given.cmp(&types.len()) {
        Ordering::Greater => Some("contains extra"),
        Ordering::Less => Some("is missing"),
        Ordering::Equal => None,
    };
    if let Some(problem) = problem {
        return Err(JsonError::TupleLength {
            problem,
            expected: types.len(),
            value: value.java_text(),
        });
    }
    let mut out = Vec::new();
    for (component, component_type) in value.elements().zip(types) {
        write_part(&mut out, component_type, component, now_ms)?;
    }
    Ok(out)
}

/// A component or field, which may be null.
fn write_part(
    out: &mut Vec<u8>,
    part_type: &CqlType,
    value: JsonValue<'_>,
    now_ms: i64,
) -> Result<(), JsonError> {
    match value.is_null() {
        true => write_component(out, None),
        false => write_component(out, Some(&part_type.decode_json(value, now_ms)?)),
    }
    Ok(())
}

fn vector_of(element_type: &CqlType, dimension: u32, value: JsonValue<'_>, now_ms: i64) -> Decoded {
    if value.kind() != JsonKind::Array {
        return Err(unexpected("a list", value));
    }
    let given = value.elements().count();
    if given != dimension as usize {
        return Err(JsonError::VectorLength {
            expected: dimension,
            given,
            value: value.java_text(),
        });
    }
    let mut out = Vec::new();
    for element in array_of(element_type, value, now_ms, "a list", "element in list")? {
        write_vector_element(&mut out, element_type, &element);
    }
    Ok(out)
}

fn user_type_of(definition: &UserType, value: JsonValue<'_>, now_ms: i64) -> Decoded {
    let Some(object) = value.as_object() else {
        return Err(unexpected("a map", value));
    };
    let mut given: Vec<Option<JsonValue<'_>>> = vec![None; definition.fields.len()];
    let mut unknown = None;
    for (name, value) in object.entries() {
        let name = super::value::unquoted_name(&name);
        match definition.field_position(&name) {
            Some(position) => given[position] = Some(value),
            None => unknown = unknown.or(Some(name.into_owned())),
        }
    }
    let mut out = Vec::new();
    for (value, (_, field_type)) in given.into_iter().zip(&definition.fields) {
        match value {
            Some(value) => write_part(&mut out, field_type, value, now_ms)?,
            None => write_component(&mut out, None),
        }
    }
    match unknown {
        Some(field) => Err(JsonError::UnknownField {
            field,
            type_name: definition.name.to_string(),
        }),
        None => Ok(out),
    }
}
