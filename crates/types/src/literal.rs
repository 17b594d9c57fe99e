//! Values to text: as CQL literals, and as the plain text that casts and messages use.

use std::fmt::Write as _;

use crate::cql_type::CqlType;
use crate::identifier::quoted_identifier;
use crate::marshal_error::MarshalError;
use crate::value::blob::write_hex;
use crate::value::collection::CollectionElements;
use crate::value::date::format_date;
use crate::value::decimal::Decimal;
use crate::value::duration::Duration;
use crate::value::floating::{format_double, format_float};
use crate::value::inet::format_inet;
use crate::value::time::format_time;
use crate::value::timestamp::format_timestamp;
use crate::value::tuple::TupleComponents;
use crate::value::uuid::format_uuid;
use crate::value::varint::{varint_to_big, varint_to_i64};
use crate::value::vector::VectorElements;

impl CqlType {
    /// The value as a CQL literal. Empty values of types whose empty value means nothing are `null`; bytes that are no
    /// value of the type are printed as a blob.
    pub fn to_cql_literal(&self, bytes: &[u8]) -> String {
        let mut out = String::new();
        self.write_cql_literal(&mut out, bytes);
        out
    }

    pub(crate) fn write_cql_literal(&self, out: &mut String, bytes: &[u8]) {
        match self {
            CqlType::List { element, .. } => {
                out.push('[');
                write_elements(out, bytes, &[element]);
                out.push(']');
            }
            CqlType::Set { element, .. } => {
                out.push('{');
                write_elements(out, bytes, &[element]);
                out.push('}');
            }
            CqlType::Map { key, value, .. } => {
                out.push('{');
                write_elements(out, bytes, &[key, value]);
                out.push('}');
            }
            CqlType::Tuple(components) => {
                out.push('(');
                for (index, (component, value)) in
                    components.iter().zip(TupleComponents::new(bytes)).enumerate()
                {
                    separate(out, index);
                    component.write_nullable_literal(out, value);
                }
                out.push(')');
            }
            CqlType::UserDefined { definition, .. } => {
                out.push('{');
                let fields = definition.fields.iter().zip(TupleComponents::new(bytes));
                for (index, ((name, field), value)) in fields.enumerate() {
                    separate(out, index);
                    out.push_str(&quoted_identifier(name));
                    out.push_str(": ");
                    field.write_nullable_literal(out, value);
                }
                out.push('}');
            }
            CqlType::Vector { element, dimension } => {
                out.push('[');
                for (index, value) in VectorElements::new(element, *dimension, bytes).enumerate() {
                    separate(out, index);
                    element.write_cql_literal(out, value);
                }
                out.push(']');
            }
            _ => self.write_native_literal(out, bytes),
        }
    }

    /// The value as plain text: strings as they are, blobs and collections as hex, tuples and UDTs as `a:b`.
    pub fn to_text(&self, bytes: &[u8]) -> Result<String, MarshalError> {
        let mut out = String::new();
        match self {
            CqlType::Tuple(_) | CqlType::UserDefined { .. } => self.write_tuple_text(&mut out, bytes)?,
            CqlType::Blob
            | CqlType::Custom(_)
            | CqlType::Counter
            | CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Vector { .. } => write_hex(&mut out, bytes),
            CqlType::Empty => {}
            _ => {
                self.validate(bytes)?;
                self.write_native_text(&mut out, bytes);
            }
        }
        Ok(out)
    }

    fn write_nullable_literal(&self, out: &mut String, value: Option<&[u8]>) {
        match value {
            Some(value) => self.write_cql_literal(out, value),
            None => out.push_str("null"),
        }
    }

    fn write_native_literal(&self, out: &mut String, bytes: &[u8]) {
        let empty_is_value = matches!(
            self,
            CqlType::Text | CqlType::Ascii | CqlType::Blob | CqlType::Custom(_)
        );
        if bytes.is_empty() && !empty_is_value {
            out.push_str("null");
        } else if matches!(self, CqlType::Blob | CqlType::Custom(_)) || self.validate(bytes).is_err() {
            out.push_str("0x");
            write_hex(out, bytes);
        } else if matches!(self, CqlType::Text | CqlType::Ascii) {
            out.push('\'');
            out.push_str(&String::from_utf8_lossy(bytes).replace('\'', "''"));
            out.push('\'');
        } else if matches!(
            self,
            CqlType::Inet | CqlType::Date | CqlType::Time | CqlType::Timestamp
        ) {
            out.push('\'');
            self.write_native_text(out, bytes);
            out.push('\'');
        } else {
            self.write_native_text(out, bytes);
        }
    }

    /// The text of a valid value of a native type; nothing for an empty one.
    pub(crate) fn write_native_text(&self, out: &mut String, bytes: &[u8]) {
        match self {
            CqlType::Text | CqlType::Ascii => out.push_str(&String::from_utf8_lossy(bytes)),
            CqlType::Boolean => push(out, bytes, |[byte]| if byte == 0 { "false" } else { "true" }),
            CqlType::Tinyint => push(out, bytes, i8::from_be_bytes),
            CqlType::Smallint => push(out, bytes, i16::from_be_bytes),
            CqlType::Int => push(out, bytes, i32::from_be_bytes),
            CqlType::Bigint | CqlType::Counter => push(out, bytes, i64::from_be_bytes),
            CqlType::Float => push(out, bytes, |bytes| format_float(f32::from_be_bytes(bytes))),
            CqlType::Double => push(out, bytes, |bytes| format_double(f64::from_be_bytes(bytes))),
            CqlType::Uuid | CqlType::Timeuuid => push(out, bytes, format_uuid),
            CqlType::Date => push(out, bytes, |bytes| format_date(u32::from_be_bytes(bytes))),
            CqlType::Time => push(out, bytes, |bytes| format_time(i64::from_be_bytes(bytes))),
            CqlType::Timestamp => push(out, bytes, |bytes| format_timestamp(i64::from_be_bytes(bytes))),
            CqlType::Inet => out.push_str(&format_inet(bytes).unwrap_or_default()),
            CqlType::Varint => write_varint(out, bytes),
            CqlType::Decimal => {
                if let Some(decimal) = Decimal::from_bytes(bytes) {
                    append(out, decimal);
                }
            }
            CqlType::Duration => {
                if let Ok(duration) = Duration::from_bytes(bytes) {
                    append(out, duration);
                }
            }
            _ => {}
        }
    }

    fn write_tuple_text(&self, out: &mut String, bytes: &[u8]) -> Result<(), MarshalError> {
        let mut components = TupleComponents::new(bytes);
        for (index, component_type) in self.sub_types().enumerate() {
            let Some(component) = components.next() else {
                break;
            };
            if index > 0 {
                out.push(':');
            }
            match component {
                None => out.push('@'),
                Some(component) => {
                    let text = component_type.to_text(component)?;
                    out.push_str(&text.replace(':', "\\:").replace('@', "\\@"));
                }
            }
        }
        if components.rest().is_empty() {
            Ok(())
        } else {
            self.validate(bytes)
        }
    }
}

/// Pairs of types make `key: value`.
fn write_elements(out: &mut String, bytes: &[u8], types: &[&CqlType]) {
    let Some(elements) = CollectionElements::new(bytes, types.len()) else {
        return;
    };
    for (index, (element, element_type)) in elements.zip(types.iter().cycle()).enumerate() {
        if index % types.len() == 0 {
            separate(out, index);
        } else {
            out.push_str(": ");
        }
        element_type.write_nullable_literal(out, element);
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push_str(", ");
    }
}

fn write_varint(out: &mut String, bytes: &[u8]) {
    match varint_to_i64(bytes) {
        Some(value) => append(out, value),
        None if bytes.is_empty() => {}
        None => append(out, varint_to_big(bytes)),
    }
}

fn push<const N: usize, D: std::fmt::Display>(out: &mut String, bytes: &[u8], read: impl Fn([u8; N]) -> D) {
    if let Ok(bytes) = <[u8; N]>::try_from(bytes) {
        append(out, read(bytes));
    }
}

fn append(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}
