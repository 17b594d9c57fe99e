//! Values as JSON, as Cassandra's types print them.

use helenus_types::CqlType;
use helenus_types::value::collection::CollectionElements;
use helenus_types::value::timestamp::format_timestamp_json;
use helenus_types::value::tuple::TupleComponents;
use helenus_types::value::vector::VectorElements;

/// The value's JSON in `AbstractType.toJSONString`'s form; blanks between tokens are of no meaning.
pub(crate) fn json_value(cql_type: &CqlType, bytes: &[u8]) -> String {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let elements = CollectionElements::new(bytes, 1).into_iter().flatten();
            array(elements.map(|value| nullable(element, value)))
        }
        CqlType::Map { key, value, .. } => map(key, value, bytes),
        CqlType::Tuple(components) => {
            let mut values = TupleComponents::new(bytes);
            array(
                components
                    .iter()
                    .map(|component| nullable(component, values.next().flatten())),
            )
        }
        CqlType::UserDefined { definition, .. } => {
            let mut values = TupleComponents::new(bytes);
            object(definition.fields.iter().map(|(name, field)| {
                let quoted = if name.chars().any(char::is_uppercase) {
                    format!("\"{name}\"")
                } else {
                    name.to_string()
                };
                (json_string(&quoted), nullable(field, values.next().flatten()))
            }))
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorElements::new(element, *dimension, bytes);
            array(elements.map(|value| json_value(element, value)))
        }
        _ => native(cql_type, bytes),
    }
}

fn native(cql_type: &CqlType, bytes: &[u8]) -> String {
    let text = || cql_type.to_text(bytes).unwrap_or_default();
    match cql_type {
        CqlType::Text | CqlType::Ascii => json_string(&String::from_utf8_lossy(bytes)),
        CqlType::Blob | CqlType::Custom(_) => format!("\"0x{}\"", text()),
        CqlType::Timestamp => match <[u8; 8]>::try_from(bytes) {
            Ok(bytes) => format!("\"{}\"", format_timestamp_json(i64::from_be_bytes(bytes))),
            Err(_) => "\"\"".to_owned(),
        },
        // Cassandra's tool prints the first eight bytes of the counter's context.
        CqlType::Counter => match bytes.first_chunk() {
            Some(first) => i64::from_be_bytes(*first).to_string(),
            None => "null".to_owned(),
        },
        CqlType::Boolean
        | CqlType::Tinyint
        | CqlType::Smallint
        | CqlType::Int
        | CqlType::Bigint
        | CqlType::Varint
        | CqlType::Decimal
            if !bytes.is_empty() =>
        {
            text()
        }
        CqlType::Float | CqlType::Double if !bytes.is_empty() => match text().as_str() {
            "NaN" | "Infinity" | "-Infinity" => "null".to_owned(),
            number => number.to_owned(),
        },
        _ => format!("\"{}\"", text()),
    }
}

fn nullable(cql_type: &CqlType, value: Option<&[u8]>) -> String {
    match value {
        Some(value) => json_value(cql_type, value),
        None => "null".to_owned(),
    }
}

/// Keys that are not strings are printed inside one.
fn map(key_type: &CqlType, value_type: &CqlType, bytes: &[u8]) -> String {
    let mut elements = CollectionElements::new(bytes, 2).into_iter().flatten();
    let mut entries = Vec::new();
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        let key = nullable(key_type, key);
        let key = if key.starts_with('"') {
            key
        } else {
            json_string(&key)
        };
        entries.push((key, nullable(value_type, value)));
    }
    object(entries)
}

fn array(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<_> = values.into_iter().collect();
    format!("[{}]", values.join(", "))
}

/// Keys are JSON strings already.
fn object(entries: impl IntoIterator<Item = (String, String)>) -> String {
    let entries: Vec<_> = entries
        .into_iter()
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// A string with its quotes, escaped as Jackson escapes it.
pub(crate) fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04X}", character as u32)),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}
