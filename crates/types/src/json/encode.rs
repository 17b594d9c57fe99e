//! Values to JSON.

use std::fmt::Write as _;

use thiserror::Error;

use crate::cql_type::{CqlType, UserType};
use crate::utf8::from_utf8;
use crate::value::blob::write_hex;
use crate::value::floating::{format_double, format_float};
use crate::value::timestamp::format_timestamp_json;
use crate::value::{CollectionElements, MapEntries, TupleComponents, VectorElements};

/// A varint or decimal that is longer takes too long to print: time goes with the square of its digits.
const NUMBER_BYTES_MAX: usize = 4_160;

/// A number of more digits than are printed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("A number of {0} bytes has too many digits for JSON; select it as it is")]
pub struct JsonNumberTooLong(pub usize);

type Written = Result<(), JsonNumberTooLong>;

impl CqlType {
    /// Appends a value as JSON. Empty values of types whose empty value means nothing are `""`.
    pub fn write_json(&self, out: &mut String, bytes: &[u8]) -> Written {
        match self {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let elements = CollectionElements::new(bytes, 1).into_iter().flatten();
                write_array(out, elements.map(|value| (&**element, value)))
            }
            CqlType::Vector { element, dimension } => {
                let elements = VectorElements::new(element, *dimension, bytes);
                write_array(out, elements.map(|value| (&**element, Some(value))))
            }
            CqlType::Tuple(types) => {
                let components = TupleComponents::new(bytes).chain(std::iter::repeat(None));
                write_array(out, types.iter().zip(components))
            }
            CqlType::Map { key, value, .. } => write_map(out, bytes, key, value),
            CqlType::UserDefined { definition, .. } => write_user_type(out, bytes, definition),
            CqlType::Custom(_) if let Some(native) = self.native_form() => native.write_json(out, bytes),
            _ => self.write_native_json(out, bytes),
        }
    }

    fn write_native_json(&self, out: &mut String, bytes: &[u8]) -> Written {
        match self {
            CqlType::Text | CqlType::Ascii => match from_utf8(bytes) {
                Ok(text) => write_json_string(out, text),
                Err(_) => write_json_string(out, &String::from_utf8_lossy(bytes)),
            },
            CqlType::Blob | CqlType::Custom(_) => {
                out.push_str("\"0x");
                write_hex(out, bytes);
                out.push('"');
            }
            _ if bytes.is_empty() => out.push_str("\"\""),
            CqlType::Float => match <[u8; 4]>::try_from(bytes).map(f32::from_be_bytes) {
                Ok(value) if value.is_finite() => out.push_str(&format_float(value)),
                _ => out.push_str("null"),
            },
            CqlType::Double => match <[u8; 8]>::try_from(bytes).map(f64::from_be_bytes) {
                Ok(value) if value.is_finite() => out.push_str(&format_double(value)),
                _ => out.push_str("null"),
            },
            CqlType::Timestamp => {
                let text = <[u8; 8]>::try_from(bytes).map(i64::from_be_bytes);
                // Writing to a String cannot fail.
                let _ = write!(out, "\"{}\"", text.map(format_timestamp_json).unwrap_or_default());
            }
            CqlType::Varint | CqlType::Decimal if bytes.len() > NUMBER_BYTES_MAX => {
                return Err(JsonNumberTooLong(bytes.len()));
            }
            CqlType::Boolean
            | CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Int
            | CqlType::Bigint
            | CqlType::Counter
            | CqlType::Varint
            | CqlType::Decimal => self.write_native_text(out, bytes),
            _ => {
                out.push('"');
                self.write_native_text(out, bytes);
                out.push('"');
            }
        }
        Ok(())
    }
}

fn write_array<'v>(
    out: &mut String,
    values: impl Iterator<Item = (&'v CqlType, Option<&'v [u8]>)>,
) -> Written {
    out.push('[');
    for (index, (cql_type, value)) in values.enumerate() {
        separate(out, index);
        write_nullable(out, cql_type, value)?;
    }
    out.push(']');
    Ok(())
}

fn write_map(out: &mut String, bytes: &[u8], key_type: &CqlType, value_type: &CqlType) -> Written {
    out.push('{');
    for (index, (key, value)) in MapEntries::new(bytes).into_iter().flatten().enumerate() {
        separate(out, index);
        write_key(out, key_type, key)?;
        out.push_str(": ");
        value_type.write_json(out, value)?;
    }
    out.push('}');
    Ok(())
}

/// A key is a string, whatever it would be by itself.
fn write_key(out: &mut String, key_type: &CqlType, key: &[u8]) -> Written {
    let start = out.len();
    key_type.write_json(out, key)?;
    let is_string = out.get(start..).is_some_and(|key| key.starts_with('"'));
    if !is_string {
        let key = out.split_off(start);
        write_json_string(out, &key);
    }
    Ok(())
}

fn write_user_type(out: &mut String, bytes: &[u8], definition: &UserType) -> Written {
    out.push('{');
    let components = TupleComponents::new(bytes).chain(std::iter::repeat(None));
    for (index, ((name, field), value)) in definition.fields.iter().zip(components).enumerate() {
        separate(out, index);
        out.push_str(&quoted_json_name(name));
        out.push_str(": ");
        write_nullable(out, field, value)?;
    }
    out.push('}');
    Ok(())
}

fn write_nullable(out: &mut String, cql_type: &CqlType, value: Option<&[u8]>) -> Written {
    match value {
        Some(value) => cql_type.write_json(out, value),
        None => {
            out.push_str("null");
            Ok(())
        }
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push_str(", ");
    }
}

/// The name of a column or field as JSON's: one that is not all lower case has quotes of its own inside.
pub fn quoted_json_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    match name.to_lowercase() == name {
        true => write_json_string(&mut out, name),
        false => write_json_string(&mut out, &format!("\"{name}\"")),
    }
    out
}

/// Appends a string with quotes, and backslashes before what needs them.
pub fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest
        .bytes()
        .position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        let (plain, escaped) = rest.split_at(at);
        out.push_str(plain);
        match escaped.as_bytes().first() {
            Some(0x8) => out.push_str("\\b"),
            Some(b'\t') => out.push_str("\\t"),
            Some(b'\n') => out.push_str("\\n"),
            Some(0xc) => out.push_str("\\f"),
            Some(b'\r') => out.push_str("\\r"),
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(byte) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{byte:04X}");
            }
            None => {}
        }
        rest = escaped.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    out.push('"');
}
