use std::sync::Arc;

use super::*;
use crate::cql_type::{CqlType, UserType};
use crate::value::{write_collection, write_component};

fn json(cql_type: &CqlType, bytes: &[u8]) -> String {
    let mut out = String::new();
    cql_type.write_json(&mut out, bytes).unwrap();
    out
}

fn decoded(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, String> {
    let value = JsonValue::parse(text).map_err(|error| error.with_class())?;
    cql_type.decode_json(value, 0).map_err(|error| error.to_string())
}

fn user_type() -> CqlType {
    let fields = vec![
        ("a".into(), CqlType::Int),
        ("Mixed".into(), CqlType::list(CqlType::Text, true)),
    ];
    CqlType::user_defined(
        Arc::new(UserType {
            keyspace: "ks".into(),
            name: "u".into(),
            fields,
        }),
        true,
    )
}

/// A small generator of numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }

    fn text(&mut self) -> String {
        const CHARACTERS: [char; 16] = [
            'a', 'Z', '"', '\\', '/', '\n', '\t', '\u{1}', '\u{7f}', 'ä', '€', '😀', '{', ']', ':', ' ',
        ];
        (0..self.below(12))
            .map(|_| CHARACTERS[self.below(CHARACTERS.len())])
            .collect()
    }

    /// No decimals: as in Cassandra, those that JSON has as numbers are read as doubles.
    fn cql_type(&mut self, depth: usize) -> CqlType {
        let natives = [
            CqlType::Ascii,
            CqlType::Bigint,
            CqlType::Blob,
            CqlType::Boolean,
            CqlType::Date,
            CqlType::Double,
            CqlType::Duration,
            CqlType::Float,
            CqlType::Inet,
            CqlType::Int,
            CqlType::Smallint,
            CqlType::Text,
            CqlType::Time,
            CqlType::Timestamp,
            CqlType::Timeuuid,
            CqlType::Tinyint,
            CqlType::Uuid,
            CqlType::Varint,
        ];
        if depth == 0 || self.below(3) > 0 {
            return natives[self.below(natives.len())].clone();
        }
        match self.below(6) {
            0 => CqlType::list(self.cql_type(depth - 1), true),
            1 => CqlType::set(self.cql_type(depth - 1), true),
            2 => CqlType::map(self.cql_type(depth - 1), self.cql_type(depth - 1), true),
            3 => CqlType::tuple([self.cql_type(depth - 1), self.cql_type(depth - 1)]),
            4 => CqlType::vector(self.cql_type(depth - 1), 2),
            _ => user_type(),
        }
    }

    /// A value in the one form that decoding makes of it.
    fn value(&mut self, cql_type: &CqlType) -> Vec<u8> {
        match cql_type {
            CqlType::Ascii => self
                .text()
                .replace(|character: char| !character.is_ascii(), "?")
                .into_bytes(),
            CqlType::Text => self.text().into_bytes(),
            CqlType::Blob => {
                let count = self.below(6);
                self.bytes(count)
            }
            CqlType::Boolean => vec![self.below(2) as u8],
            CqlType::Tinyint => self.bytes(1),
            CqlType::Smallint => self.bytes(2),
            CqlType::Int => self.bytes(4),
            CqlType::Date => (self.below(3_000_000) as u32)
                .wrapping_add(0x8000_0000 - 1_000_000)
                .to_be_bytes()
                .to_vec(),
            CqlType::Float => ((self.below(2_000_001) as f32 - 1e6) / 64.0)
                .to_be_bytes()
                .to_vec(),
            CqlType::Double => ((self.below(2_000_001) as f64 - 1e6) / 1024.0)
                .to_be_bytes()
                .to_vec(),
            CqlType::Bigint => self.bytes(8),
            CqlType::Timestamp => (self.below(usize::MAX) as i64 % 4_000_000_000_000)
                .to_be_bytes()
                .to_vec(),
            CqlType::Time => (self.below(86_400) as i64 * 1_000_000_007 % 86_400_000_000_000)
                .to_be_bytes()
                .to_vec(),
            CqlType::Uuid => self.bytes(16),
            CqlType::Timeuuid => {
                let mut uuid = self.bytes(16);
                uuid[6] = uuid[6] & 0xf | 0x10;
                uuid
            }
            CqlType::Inet if self.below(2) == 0 => self.bytes(4),
            CqlType::Inet => self.bytes(16),
            CqlType::Varint | CqlType::Decimal => {
                let text = format!("{}{}", self.below(1 << 30), self.below(1 << 30));
                let text = match cql_type {
                    CqlType::Decimal => format!("-{text}E{}", self.below(40) as i64 - 20),
                    _ => text,
                };
                cql_type.from_text(&text, 0).unwrap()
            }
            CqlType::Duration => {
                let text = format!(
                    "{}mo{}d{}ns",
                    self.below(100) + 1,
                    self.below(100),
                    self.below(1 << 30)
                );
                cql_type.from_text(&text, 0).unwrap()
            }
            _ => self.compound(cql_type),
        }
    }

    fn compound(&mut self, cql_type: &CqlType) -> Vec<u8> {
        let mut out = Vec::new();
        match cql_type {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let mut elements: Vec<_> = (0..self.below(4)).map(|_| self.value(element)).collect();
                if matches!(cql_type, CqlType::Set { .. }) {
                    elements.sort_by(|left, right| element.compare(left, right));
                    elements.dedup_by(|left, right| element.compare(left, right).is_eq());
                }
                write_collection(&mut out, 1, elements.iter().map(Vec::as_slice));
            }
            CqlType::Map { key, value, .. } => {
                let mut entries: Vec<_> = (0..self.below(4))
                    .map(|_| (self.value(key), self.value(value)))
                    .collect();
                entries.sort_by(|left, right| key.compare(&left.0, &right.0));
                entries.dedup_by(|left, right| key.compare(&left.0, &right.0).is_eq());
                let parts = entries.iter().flat_map(|(key, value)| [key.as_slice(), value]);
                write_collection(&mut out, 2, parts);
            }
            CqlType::Vector { element, .. } => {
                for _ in 0..2 {
                    let value = self.value(element);
                    crate::value::vector::write_vector_element(&mut out, element, &value);
                }
            }
            other => {
                for part in other.sub_types() {
                    let value = (self.below(4) > 0).then(|| self.value(part));
                    write_component(&mut out, value.as_deref());
                }
            }
        }
        out
    }
}

#[test]
fn what_is_written_as_json_reads_back() {
    let mut random = Random(1);
    for _ in 0..20_000 {
        let cql_type = random.cql_type(3);
        let value = random.value(&cql_type);
        let text = json(&cql_type, &value);
        assert_eq!(decoded(&cql_type, &text), Ok(value), "{cql_type} {text}");
    }
}

/// As keys of maps all values are strings; collections then are JSON within a string.
#[test]
fn keys_of_any_type_read_back() {
    let mut random = Random(2);
    for _ in 0..5_000 {
        let key = random.cql_type(2);
        let cql_type = CqlType::map(key, CqlType::Int, true);
        let value = random.value(&cql_type);
        let text = json(&cql_type, &value);
        assert_eq!(decoded(&cql_type, &text), Ok(value), "{cql_type} {text}");
    }
}

#[test]
fn texts_cut_or_changed_anywhere_are_refused_or_read_and_never_panic() {
    let text = r#" {"a": [1, -2.5e+3, true, null, "\u00e4\n\"😀"], "b": {"c": {}}, "d": "x"} "#;
    for end in 0..text.len() {
        let Some(cut) = text.get(..end) else { continue };
        let parsed = JsonValue::parse(cut);
        assert!(parsed.is_err() || cut.trim_end().ends_with('}'), "{cut}");
    }
    let mut random = Random(3);
    for _ in 0..20_000 {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = b"{}[]:,\"\\0-.eEtu \n\x01/+N"[random.below(21)];
        }
        let changed = String::from_utf8_lossy(&bytes);
        if let Ok(value) = JsonValue::parse(&changed) {
            let _shown = value.java_text();
            for cql_type in [CqlType::Int, CqlType::list(CqlType::Text, true), user_type()] {
                let _decoded = cql_type.decode_json(value, 0);
            }
        }
        let _map = JsonValue::parse_map(&changed);
    }
}

#[test]
fn the_deepest_text_is_refused_without_a_deep_stack() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(JsonValue::parse(&nested(1_002)).is_ok());
    let refused = JsonValue::parse(&nested(1_003)).unwrap_err();
    assert!(
        refused.to_string().starts_with("JSON is too deeply nested."),
        "{refused}"
    );
    assert!(JsonValue::parse(&"[{\"a\":".repeat(1 << 20)).is_err());
    let shown = JsonValue::parse(&nested(1_002)).unwrap().java_text();
    assert_eq!(shown, nested(1_002));
}

#[test]
fn a_message_shows_no_more_than_the_beginning_of_a_long_text() {
    let long = format!("[{}1]", "1, ".repeat(100_000));
    let message = decoded(&CqlType::Int, &long).unwrap_err();
    assert!(
        message.len() < super::error::TEXT_SHOWN_BYTES_MAX + 100,
        "{}",
        message.len()
    );
    let broken = format!("{long}x").replacen('1', "x", 1);
    assert!(JsonValue::parse(&broken).unwrap_err().with_class().len() < 1_000);
}

#[test]
fn numbers_become_what_java_makes_of_them() {
    let double =
        |text| decoded(&CqlType::Double, text).map(|bytes| f64::from_be_bytes(bytes.try_into().unwrap()));
    assert_eq!(double("1e400"), Ok(f64::INFINITY));
    assert_eq!(
        double("123456789012345678901234567890"),
        Ok(1.2345678901234568e29)
    );
    assert_eq!(
        decoded(&CqlType::Decimal, "1.50"),
        CqlType::Decimal.from_text("1.5", 0).map_err(|_| String::new())
    );
    let digits = "7".repeat(30_000);
    assert_eq!(
        decoded(&CqlType::Varint, &digits),
        CqlType::Varint.from_text(&digits, 0).map_err(|_| String::new())
    );
}

/// A stored number of millions of digits would be printed for minutes.
#[test]
fn numbers_too_long_to_print_are_refused() {
    let bytes = vec![0x55; 5_000];
    let mut out = String::new();
    assert_eq!(
        CqlType::Varint.write_json(&mut out, &bytes),
        Err(JsonNumberTooLong(5_000))
    );
}

#[test]
fn null_in_a_string_is_no_collection() {
    let message = decoded(&CqlType::list(CqlType::Int, true), "\"null\"").unwrap_err();
    assert_eq!(message, "Expected a list, but got null: null");
}
