//! Values of any type and size.

use helenus_storage_model::{Chance, element_of_list, random_value};
use helenus_types::CqlType;
use helenus_types::value::collection::write_collection;

use crate::value::{Piece, Value};

/// Lengths at which some encoding changes: vints, pages, chunks, blocks of the partition index, 16-bit lengths.
const EDGES: [usize; 14] = [
    0, 1, 127, 128, 255, 256, 4_095, 4_096, 16_383, 16_384, 65_534, 65_535, 65_536, 65_537,
];

/// Elements of a large collection: rows that a memtable keeps in parts have more than 8 KiB (`row::split`).
const ELEMENTS_MAX: usize = 600;

/// Common values of each type.
const COMMON_VALUES: u64 = 6;

/// How long the longest values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// From nothing to 1 MiB.
    Any,
    /// So that a whole batch is below `batch_size_fail_threshold`, mostly.
    Short,
}

/// For a static or regular column.
pub fn value(chance: &Chance, cql_type: &CqlType, size: Size) -> Value {
    match cql_type {
        CqlType::Blob | CqlType::Text | CqlType::Ascii if chance.one_in(2) => {
            Value(vec![filling(chance, cql_type, length(chance, size))])
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } if chance.one_in(8) => match **element {
            CqlType::Blob | CqlType::Text | CqlType::Ascii => one_element(chance, element, size),
            _ => plain(chance, cql_type),
        },
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. }
            if size == Size::Any && chance.one_in(12) =>
        {
            Value::literal(many_elements(chance, cql_type))
        }
        _ => plain(chance, cql_type),
    }
}

/// For a column of a primary key.
pub fn key(chance: &Chance, cql_type: &CqlType, may_be_long: bool) -> Value {
    match cql_type {
        CqlType::Blob | CqlType::Text | CqlType::Ascii if may_be_long && chance.one_in(2) => {
            let length = 100 + chance.count(1_200);
            Value(vec![filling(chance, cql_type, length)])
        }
        _ => plain(chance, cql_type),
    }
}

/// Half of the time one of a few of the type, so that conditions find something.
pub fn plain(chance: &Chance, cql_type: &CqlType) -> Value {
    let value = match chance.one_in(2) {
        true => {
            let common = Chance::new(chance.below(COMMON_VALUES)).filling_lists(chance.fills_lists());
            random_value(&common, cql_type)
        }
        false => random_value(chance, cql_type),
    };
    Value::literal(value)
}

fn length(chance: &Chance, size: Size) -> usize {
    if size == Size::Short {
        return chance.count(1_500);
    }
    match chance.below(300) {
        0..120 => chance.count(300),
        120..240 => 300 + chance.count(3_000),
        240..285 => *chance.pick(&EDGES),
        285..298 => 10_000 + chance.count(130_000),
        _ => 500_000 + chance.count(548_577),
    }
}

fn filling(chance: &Chance, cql_type: &CqlType, length: usize) -> Piece {
    // Short seeds are enough to tell values apart, and are easier on the reader.
    let seed = chance.below(1_000_000);
    match cql_type {
        CqlType::Blob => Piece::Bytes { seed, length },
        _ => Piece::Letters { seed, length },
    }
}

/// A list or set of one element of any length.
fn one_element(chance: &Chance, element: &CqlType, size: Size) -> Value {
    let length = length(chance, size);
    let mut head = 1_i32.to_be_bytes().to_vec();
    head.extend((length as i32).to_be_bytes());
    Value(vec![Piece::Literal(head), filling(chance, element, length)])
}

fn many_elements(chance: &Chance, cql_type: &CqlType) -> Vec<u8> {
    let mut out = Vec::new();
    let count = chance.count(ELEMENTS_MAX);
    let several =
        |element: &CqlType| -> Vec<Vec<u8>> { (0..count).map(|_| random_value(chance, element)).collect() };
    let distinct = |element: &CqlType| {
        let mut values = several(element);
        values.sort_by(|left, right| element.compare(left, right));
        values.dedup_by(|left, right| element.compare(left, right).is_eq());
        values
    };
    match cql_type {
        CqlType::List { element, .. } => {
            let elements = (0..count).map(|_| element_of_list(chance, element));
            let elements: Vec<Vec<u8>> = elements.collect();
            write_collection(&mut out, 1, elements.iter().map(Vec::as_slice));
        }
        CqlType::Set { element, .. } => {
            write_collection(&mut out, 1, distinct(element).iter().map(Vec::as_slice));
        }
        CqlType::Map { key, value, .. } => {
            let values = several(value);
            let keys = distinct(key);
            let entries = keys.iter().zip(&values);
            write_collection(
                &mut out,
                2,
                entries.flat_map(|(key, value)| [key.as_slice(), value]),
            );
        }
        _ => {}
    }
    out
}
