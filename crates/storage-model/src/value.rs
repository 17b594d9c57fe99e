//! Random values, valid and in canonical form, of any type.

use std::cmp::Ordering;

use helenus_types::CqlType;
use helenus_types::value::collection::{write_collection, write_value};
use helenus_types::value::decimal::Decimal;
use helenus_types::value::duration::Duration;
use helenus_types::value::tuple::write_component;
use helenus_types::value::varint::varint_of_big;
use helenus_types::value::vector::write_vector_element;
use num_bigint::BigInt;

use crate::chance::Chance;

/// Elements of a collection inside a value.
const ELEMENTS_MAX: usize = 4;

/// A value of the type, never null. Now and then an empty one where the type has it.
pub fn random_value(chance: &Chance, cql_type: &CqlType) -> Vec<u8> {
    if chance.one_in(24) && has_empty_value(cql_type) {
        return Vec::new();
    }
    full_value(chance, cql_type)
}

/// An element of a list, which may be empty unless the chance [fills lists](Chance::filling_lists).
pub fn element_of_list(chance: &Chance, element: &CqlType) -> Vec<u8> {
    match chance.fills_lists() {
        true => full_value(chance, element),
        false => random_value(chance, element),
    }
}

/// A value that is not empty unless it is text or a blob: the elements of vectors have no other.
fn full_value(chance: &Chance, cql_type: &CqlType) -> Vec<u8> {
    match cql_type {
        CqlType::Ascii => text(chance, b"abcXYZ 019'\"\\/\t"),
        CqlType::Text => unicode(chance),
        CqlType::Blob | CqlType::Custom(_) => chance.bytes(chance.count(20)),
        CqlType::Boolean => vec![chance.below(2) as u8],
        CqlType::Tinyint => chance.bytes(1),
        CqlType::Smallint => chance.bytes(2),
        CqlType::Int => small_or_any(chance, 4),
        CqlType::Bigint | CqlType::Counter => small_or_any(chance, 8),
        CqlType::Float => (float(chance) as f32).to_be_bytes().to_vec(),
        CqlType::Double => float(chance).to_be_bytes().to_vec(),
        CqlType::Decimal => Decimal {
            unscaled: big(chance),
            scale: chance.below(20) as i32 - 6,
        }
        .to_bytes(),
        CqlType::Varint => varint_of_big(&big(chance)),
        CqlType::Date => (0x8000_0000_u32.wrapping_add(chance.below(40_000) as u32))
            .wrapping_sub(10_000)
            .to_be_bytes()
            .to_vec(),
        CqlType::Time => chance.below(86_400_000_000_000).to_be_bytes().to_vec(),
        CqlType::Timestamp => (chance.below(4_000_000_000_000) as i64 - 1_000_000_000_000)
            .to_be_bytes()
            .to_vec(),
        CqlType::Duration => duration(chance),
        CqlType::Uuid => versioned(chance, *chance.pick(&[1, 4])),
        CqlType::Timeuuid => versioned(chance, 1),
        CqlType::Inet => chance.bytes(*chance.pick(&[4, 16])),
        CqlType::Empty => Vec::new(),
        CqlType::List { element, .. } => {
            let elements: Vec<_> = (0..chance.count(ELEMENTS_MAX))
                .map(|_| element_of_list(chance, element))
                .collect();
            collection(&elements)
        }
        CqlType::Set { element, .. } => collection(&distinct(chance, element, ELEMENTS_MAX)),
        CqlType::Map { key, value, .. } => {
            let keys = distinct(chance, key, ELEMENTS_MAX);
            let mut out = (keys.len() as u32).to_be_bytes().to_vec();
            for key in &keys {
                write_value(&mut out, Some(key));
                write_value(&mut out, Some(&random_value(chance, value)));
            }
            out
        }
        CqlType::Tuple(components) => components_of(chance, components.iter()),
        CqlType::UserDefined { definition, .. } => {
            components_of(chance, definition.fields.iter().map(|(_, field)| field))
        }
        CqlType::Vector { element, dimension } => {
            let mut out = Vec::new();
            for _ in 0..*dimension {
                write_vector_element(&mut out, element, &full_value(chance, element));
            }
            out
        }
    }
}

/// Values that differ by the type's order, ascending.
pub(crate) fn distinct(chance: &Chance, cql_type: &CqlType, count_max: usize) -> Vec<Vec<u8>> {
    let mut values: Vec<_> = (0..chance.count(count_max) + 1)
        .map(|_| random_value(chance, cql_type))
        .collect();
    values.sort_by(|left, right| cql_type.compare(left, right));
    values.dedup_by(|left, right| cql_type.compare(left, right) == Ordering::Equal);
    values
}

/// Types whose empty value Cassandra's tools can print: not that of a boolean.
fn has_empty_value(cql_type: &CqlType) -> bool {
    cql_type.allows_empty()
        && !matches!(
            cql_type,
            CqlType::Boolean | CqlType::Counter | CqlType::Tuple(_) | CqlType::UserDefined { .. }
        )
}

fn collection(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    write_collection(&mut out, 1, elements.iter().map(Vec::as_slice));
    out
}

fn components_of<'a>(chance: &Chance, types: impl Iterator<Item = &'a CqlType>) -> Vec<u8> {
    let mut out = Vec::new();
    for cql_type in types {
        let value = (!chance.one_in(5)).then(|| random_value(chance, cql_type));
        write_component(&mut out, value.as_deref());
    }
    out
}

fn text(chance: &Chance, alphabet: &[u8]) -> Vec<u8> {
    (0..chance.count(16)).map(|_| *chance.pick(alphabet)).collect()
}

fn unicode(chance: &Chance) -> Vec<u8> {
    let alphabet = ['a', 'z', 'Q', '"', '\\', '\n', '\u{1}', 'ä', '€', '𝛑', '/', ' '];
    (0..chance.count(16))
        .map(|_| *chance.pick(&alphabet))
        .collect::<String>()
        .into_bytes()
}

/// Small numbers, which collide and sort near each other, or any.
fn small_or_any(chance: &Chance, length: usize) -> Vec<u8> {
    if chance.one_in(3) {
        return chance.bytes(length);
    }
    let small = chance.below(200) as i64 - 50;
    small.to_be_bytes()[8 - length..].to_vec()
}

fn float(chance: &Chance) -> f64 {
    match chance.below(8) {
        0 => f64::NAN,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        // Of all bytes that are not a number one form: they are equal, and which of them a set or a map keeps is left open.
        3 => match f64::from(f32::from_bits(chance.bits() as u32)) {
            number if number.is_nan() => f64::NAN,
            number => number,
        },
        _ => chance.below(100_000) as f64 / 16.0 - 1000.0,
    }
}

fn big(chance: &Chance) -> BigInt {
    BigInt::from_signed_bytes_be(&chance.bytes(chance.count(20) + 1))
}

fn duration(chance: &Chance) -> Vec<u8> {
    let sign = if chance.one_in(3) { -1 } else { 1 };
    Duration {
        months: sign * chance.below(40) as i32,
        days: sign * chance.below(400) as i32,
        nanoseconds: i64::from(sign) * chance.below(1 << 50) as i64,
    }
    .to_bytes()
}

fn versioned(chance: &Chance, version: u8) -> Vec<u8> {
    let mut bytes = chance.bytes(16);
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::random_table;

    #[test]
    fn random_values_are_valid() {
        for seed in 0..200 {
            let chance = Chance::new(seed);
            let table = random_table(&chance, "t");
            for column in &table.metadata.columns {
                let value = random_value(&chance, &column.cql_type);
                assert!(
                    column.cql_type.is_multi_cell() || column.cql_type.validate(&value).is_ok(),
                    "seed {seed}: {} {value:?}",
                    column.cql_type
                );
            }
        }
    }
}
