//! Values as JSON, by Cassandra's rules (`AbstractType.toJSONString`).

use helenus_types::CqlType;
use helenus_types::value::blob::write_hex;
use helenus_types::value::collection::CollectionElements;
use helenus_types::value::timestamp::format_timestamp_json;
use helenus_types::value::tuple::TupleComponents;
use helenus_types::value::vector::VectorElements;

use super::json_printer::{push_escaped, push_quoted};

/// Appends a value. Bytes that are no value of the type are shown in hexadecimal.
pub(crate) fn write_json_value(out: &mut String, cql_type: &CqlType, bytes: &[u8]) {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            out.push('[');
            let elements = CollectionElements::new(bytes, 1).into_iter().flatten();
            for (index, value) in elements.enumerate() {
                separate(out, index);
                write_nullable(out, element, value);
            }
            out.push(']');
        }
        CqlType::Map { key, value, .. } => write_map(out, key, value, bytes),
        CqlType::Tuple(components) => {
            out.push('[');
            let mut values = TupleComponents::new(bytes);
            for (index, component) in components.iter().enumerate() {
                separate(out, index);
                write_nullable(out, component, values.next().flatten());
            }
            out.push(']');
        }
        CqlType::UserDefined { definition, .. } => {
            out.push('{');
            let mut values = TupleComponents::new(bytes);
            for (index, (name, field)) in definition.fields.iter().enumerate() {
                separate(out, index);
                out.push('"');
                if name.to_lowercase() == **name {
                    push_escaped(out, name);
                } else {
                    push_escaped(out, &format!("\"{name}\""));
                }
                out.push_str("\": ");
                write_nullable(out, field, values.next().flatten());
            }
            out.push('}');
        }
        CqlType::Vector { element, dimension } => {
            out.push('[');
            for (index, value) in VectorElements::new(element, *dimension, bytes).enumerate() {
                separate(out, index);
                write_json_value(out, element, value);
            }
            out.push(']');
        }
        _ => write_native(out, cql_type, bytes),
    }
}

fn write_map(out: &mut String, key: &CqlType, value: &CqlType, bytes: &[u8]) {
    out.push('{');
    let mut elements = CollectionElements::new(bytes, 2).into_iter().flatten();
    let mut index = 0;
    while let (Some(key_bytes), Some(value_bytes)) = (elements.next(), elements.next()) {
        separate(out, index);
        index += 1;
        let mut text = String::new();
        write_nullable(&mut text, key, key_bytes);
        // Keys are strings in JSON; what is none becomes one.
        if text.starts_with('"') {
            out.push_str(&text);
        } else {
            push_quoted(out, &text);
        }
        out.push_str(": ");
        write_nullable(out, value, value_bytes);
    }
    out.push('}');
}

fn write_nullable(out: &mut String, cql_type: &CqlType, value: Option<&[u8]>) {
    match value {
        Some(value) => write_json_value(out, cql_type, value),
        None => out.push_str("null"),
    }
}

fn write_native(out: &mut String, cql_type: &CqlType, bytes: &[u8]) {
    match cql_type {
        CqlType::Blob | CqlType::Custom(_) => write_blob(out, bytes),
        CqlType::Counter => write_counter(out, bytes),
        CqlType::Text | CqlType::Ascii => push_quoted(out, &String::from_utf8_lossy(bytes)),
        _ if bytes.is_empty() => out.push_str("\"\""),
        CqlType::Timestamp => match <[u8; 8]>::try_from(bytes) {
            Ok(ms) => push_quoted(out, &format_timestamp_json(i64::from_be_bytes(ms))),
            Err(_) => write_blob(out, bytes),
        },
        CqlType::Float | CqlType::Double => match cql_type.to_text(bytes) {
            Ok(text) if text.ends_with(['y', 'N']) => out.push_str("null"),
            Ok(text) => out.push_str(&text),
            Err(_) => write_blob(out, bytes),
        },
        CqlType::Boolean
        | CqlType::Tinyint
        | CqlType::Smallint
        | CqlType::Int
        | CqlType::Bigint
        | CqlType::Varint
        | CqlType::Decimal => match cql_type.to_text(bytes) {
            Ok(text) => out.push_str(&text),
            Err(_) => write_blob(out, bytes),
        },
        _ => match cql_type.to_text(bytes) {
            Ok(text) => push_quoted(out, &text),
            Err(_) => write_blob(out, bytes),
        },
    }
}

/// Cassandra's tool reads a counter's context as a number: its first eight bytes.
fn write_counter(out: &mut String, context: &[u8]) {
    match context.first_chunk::<8>() {
        Some(first) => out.push_str(&i64::from_be_bytes(*first).to_string()),
        None => write_blob(out, context),
    }
}

fn write_blob(out: &mut String, bytes: &[u8]) {
    out.push_str("\"0x");
    write_hex(out, bytes);
    out.push('"');
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push_str(", ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(cql_type: &CqlType, bytes: &[u8]) -> String {
        let mut out = String::new();
        write_json_value(&mut out, cql_type, bytes);
        out
    }

    #[test]
    fn what_json_has_no_word_for() {
        assert_eq!(json(&CqlType::Double, &f64::NAN.to_be_bytes()), "null");
        assert_eq!(json(&CqlType::Float, &f32::NEG_INFINITY.to_be_bytes()), "null");
        assert_eq!(json(&CqlType::Int, &[]), "\"\"");
        assert_eq!(json(&CqlType::Int, &[1]), "\"0x01\"");
        assert_eq!(json(&CqlType::Text, b"a\"\x01\n"), "\"a\\\"\\u0001\\n\"");
        let map = CqlType::map(CqlType::Int, CqlType::Boolean, true);
        let bytes = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 1, 1];
        assert_eq!(json(&map, &bytes), "{\"9\": true}");
    }
}
