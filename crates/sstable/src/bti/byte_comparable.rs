//! Keys as strings of bytes whose plain order is the order of the keys: what tries are made of.
//!
//! This is the translation that Cassandra 5.0 calls OSS50; that of values is [`helenus_types::byte_comparable`]. See
//! `docs/formats/byte-comparable.md`.

use helenus_schema::ClusteringOrder;
use helenus_types::byte_comparable::{
    NEXT_COMPONENT, NanForm, TERMINATOR, is_escaped, push_escaped, push_sign_flipped, push_value,
};
use helenus_types::value::{CollectionElements, TupleComponents, VectorElements};
use helenus_types::{CqlType, Token};

use helenus_rows::clustering::{ClusteringComparator, Components, Side};
use helenus_rows::partition_range::PartitionBound;

/// A clustering component without bytes whose type has another form for values, ascending.
const NEXT_COMPONENT_EMPTY: u8 = 0x3f;
/// The same, descending: after all other values.
const NEXT_COMPONENT_EMPTY_REVERSED: u8 = 0x41;
/// Ends a bound that lies before whatever has its prefix.
const BEFORE_PREFIX: u8 = 0x20;
/// Ends a bound that lies after whatever has its prefix.
const AFTER_PREFIX: u8 = 0x60;

/// Appends a partition key under its token.
pub(super) fn push_partition_key(out: &mut Vec<u8>, token: Token, key: &[u8]) {
    push_token(out, token);
    out.push(NEXT_COMPONENT);
    push_escaped(out, key);
    out.push(TERMINATOR);
}

/// Appends a place between partitions.
pub(super) fn push_partition_bound(out: &mut Vec<u8>, bound: &PartitionBound<'_>) {
    push_token(out, bound.token);
    if let Some(key) = bound.key {
        out.push(NEXT_COMPONENT);
        push_escaped(out, key);
    }
    out.push(side_terminator(bound.side));
}

/// Appends a packed clustering key (no side) or the bound on a side of a packed prefix.
pub(super) fn push_clustering(
    out: &mut Vec<u8>,
    comparator: &ClusteringComparator,
    packed: &[u8],
    side: Option<Side>,
) {
    for ((cql_type, order), value) in comparator.components().iter().zip(Components::new(packed)) {
        let separator = out.len();
        out.push(NEXT_COMPONENT);
        let is_there = push_value(out, cql_type, value, NanForm::AsStored);
        let translated = out.get_mut(separator..).unwrap_or_default();
        match (order, translated) {
            (ClusteringOrder::Ascending, [separator, ..]) if !is_there => *separator = NEXT_COMPONENT_EMPTY,
            (ClusteringOrder::Descending, [separator, ..]) if !is_there => {
                *separator = NEXT_COMPONENT_EMPTY_REVERSED;
            }
            (ClusteringOrder::Descending, [_, value @ ..]) => {
                value.iter_mut().for_each(|byte| *byte = !*byte);
            }
            _ => {}
        }
    }
    out.push(side.map_or(TERMINATOR, side_terminator));
}

/// Returns whether the translations of all keys of a table sort as the keys do. Not where a tuple, collection or vector has
/// elements of a type whose empty value and null translate alike, though they are two places in the table.
pub(super) fn keeps_order(comparator: &ClusteringComparator) -> bool {
    comparator
        .components()
        .iter()
        .all(|(cql_type, _)| values_keep_order(cql_type))
}

/// Returns whether a place may sort otherwise among those of a table than its translation does among theirs: it holds a null, or
/// an element without bytes, both of which translate alike. A place without any sorts as its translation does.
pub(super) fn may_change_place(comparator: &ClusteringComparator, packed: &[u8]) -> bool {
    let components = comparator.components().iter().zip(Components::new(packed));
    components
        .filter(|((cql_type, _), _)| !values_keep_order(cql_type))
        .any(|((cql_type, _), value)| has_null_or_empty(cql_type, Some(value)))
}

fn has_null_or_empty(cql_type: &CqlType, value: Option<&[u8]>) -> bool {
    let Some(value) = value.filter(|value| !value.is_empty() || is_escaped(cql_type)) else {
        return true;
    };
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let mut elements = CollectionElements::new(value, 1).into_iter().flatten();
            elements.any(|value| has_null_or_empty(element, value))
        }
        CqlType::Map { key, value: of, .. } => {
            let elements = CollectionElements::new(value, 2).into_iter().flatten();
            let mut elements = [&**key, &**of].into_iter().cycle().zip(elements);
            elements.any(|(cql_type, value)| has_null_or_empty(cql_type, value))
        }
        CqlType::Tuple(types) => {
            let mut components = types.iter().zip(TupleComponents::new(value));
            components.any(|(cql_type, value)| has_null_or_empty(cql_type, value))
        }
        CqlType::UserDefined { definition, .. } => {
            let mut fields = definition.fields.iter().zip(TupleComponents::new(value));
            fields.any(|((_, cql_type), value)| has_null_or_empty(cql_type, value))
        }
        CqlType::Vector { element, dimension } => VectorElements::new(element, *dimension, value)
            .any(|value| has_null_or_empty(element, Some(value))),
        _ => false,
    }
}

fn values_keep_order(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => is_escaped(element),
        CqlType::Map { key, value, .. } => is_escaped(key) && is_escaped(value),
        CqlType::Tuple(types) => types.iter().all(is_escaped),
        CqlType::UserDefined { definition, .. } => {
            definition.fields.iter().all(|(_, field)| is_escaped(field))
        }
        // Its own elements are never null.
        CqlType::Vector { element, .. } => values_keep_order(element),
        _ => true,
    }
}

fn side_terminator(side: Side) -> u8 {
    match side {
        Side::Before => BEFORE_PREFIX,
        Side::After => AFTER_PREFIX,
    }
}

fn push_token(out: &mut Vec<u8>, token: Token) {
    out.push(NEXT_COMPONENT);
    push_sign_flipped(out, &token.0.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use helenus_types::token::token_of;
    use helenus_types::value::{Decimal, write_collection, write_component};

    use super::super::testing::Random;
    use super::*;
    use helenus_rows::clustering::push_component;

    fn translated(cql_type: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        push_value(&mut out, cql_type, value, NanForm::AsStored).then_some(out)
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(|char| !char.is_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
            .collect()
    }

    #[test]
    fn values_have_the_bytes_of_the_format() {
        let decimal = |text: &str| Decimal::parse(text).unwrap().to_bytes();
        let cases: Vec<(CqlType, Vec<u8>, &str)> = vec![
            (CqlType::Text, b"A\0\0B".to_vec(), "4100feff4200"),
            (CqlType::Text, b"A\0B\0".to_vec(), "4100ff4200fe"),
            (CqlType::Text, b"A\0".to_vec(), "4100fe"),
            (CqlType::Text, b"".to_vec(), "00"),
            (CqlType::Int, 5_i32.to_be_bytes().to_vec(), "80000005"),
            (CqlType::Int, (-1_i32).to_be_bytes().to_vec(), "7fffffff"),
            (CqlType::Bigint, 0_i64.to_be_bytes().to_vec(), "80"),
            (CqlType::Bigint, 63_i64.to_be_bytes().to_vec(), "bf"),
            (CqlType::Bigint, 64_i64.to_be_bytes().to_vec(), "c040"),
            (CqlType::Bigint, (-64_i64).to_be_bytes().to_vec(), "40"),
            (CqlType::Bigint, (-65_i64).to_be_bytes().to_vec(), "3fbf"),
            (CqlType::Bigint, (1_i64 << 20).to_be_bytes().to_vec(), "f0100000"),
            (
                CqlType::Bigint,
                i64::MAX.to_be_bytes().to_vec(),
                "ffffffffffffffffff",
            ),
            (
                CqlType::Bigint,
                i64::MIN.to_be_bytes().to_vec(),
                "000000000000000000",
            ),
            (CqlType::Float, (-1.0_f32).to_be_bytes().to_vec(), "407fffff"),
            (
                CqlType::Double,
                1.0_f64.to_be_bytes().to_vec(),
                "bff0000000000000",
            ),
            (CqlType::Varint, hex("00"), "80"),
            (CqlType::Varint, hex("0080"), "c080"),
            (CqlType::Varint, hex("01000000000000"), "ff0001000000000000"),
            (CqlType::Varint, hex("feffffffffffff"), "00fffeffffffffffff"),
            (CqlType::Decimal, decimal("0.00"), "80"),
            (CqlType::Decimal, decimal("1"), "c1018100"),
            (CqlType::Decimal, decimal("0.01"), "c08100"),
            (CqlType::Decimal, decimal("-1"), "3fff7f00"),
            (CqlType::Decimal, decimal("-1.5"), "3fff7eb200"),
            (CqlType::Decimal, decimal("1000"), "c1028a00"),
        ];
        for (cql_type, value, expected) in cases {
            assert_eq!(
                translated(&cql_type, &value),
                Some(hex(expected)),
                "{cql_type:?} {value:02x?}"
            );
        }
        assert_eq!(translated(&CqlType::Int, &[]), None);
    }

    #[test]
    fn clusterings_and_bounds_have_the_bytes_of_the_format() {
        let comparator = ClusteringComparator::of_components(vec![
            (CqlType::Text, ClusteringOrder::Ascending),
            (CqlType::Smallint, ClusteringOrder::Ascending),
        ]);
        let bytes = |components: &[&[u8]], side| {
            let mut packed = Vec::new();
            components
                .iter()
                .for_each(|component| push_component(&mut packed, component));
            let mut out = Vec::new();
            push_clustering(&mut out, &comparator, &packed, side);
            out
        };
        assert_eq!(bytes(&[b"A", &[0, 5]], None), hex("40 4100 40 8005 38"));
        assert_eq!(
            bytes(&[b"B", &[0, 6]], Some(Side::After)),
            hex("40 4200 40 8006 60")
        );
        assert_eq!(bytes(&[b"A"], Some(Side::After)), hex("40 4100 60"));
        assert_eq!(bytes(&[b"", b""], None), hex("40 00 3f 38"));
        assert_eq!(bytes(&[], Some(Side::Before)), hex("20"));
        let reversed = ClusteringComparator::of_components(vec![(CqlType::Int, ClusteringOrder::Descending)]);
        let mut out = Vec::new();
        push_clustering(&mut out, &reversed, &[0, 0], None);
        push_clustering(&mut out, &reversed, &[0, 4, 0, 0, 0, 1], None);
        assert_eq!(out, hex("41 38 40 7ffffffe 38"));
    }

    /// A value of a type; short and made of few different bytes, so that prefixes and equals are met.
    fn value(random: &mut Random, cql_type: &CqlType) -> Vec<u8> {
        let allows_empty = cql_type.allows_empty();
        if allows_empty && random.below(12) == 0 {
            return Vec::new();
        }
        match cql_type {
            CqlType::Text | CqlType::Ascii => random.bytes(4, &[0, 0, 1, b'a', 0x7f]),
            CqlType::Blob => random.bytes(5, &[0, 0, 0, 1, 0xfe, 0xff]),
            CqlType::Inet => {
                let length = if random.below(2) == 0 { 4 } else { 16 };
                random.bytes_exact(length, &[0, 0, 1, 0xff])
            }
            CqlType::Boolean => vec![random.below(2) as u8],
            CqlType::Tinyint => vec![random.next() as u8],
            CqlType::Smallint => (random.integer() as i16).to_be_bytes().to_vec(),
            CqlType::Int => (random.integer() as i32).to_be_bytes().to_vec(),
            CqlType::Date => (random.integer() as u32).to_be_bytes().to_vec(),
            CqlType::Bigint | CqlType::Timestamp => random.integer().to_be_bytes().to_vec(),
            CqlType::Time => (random.integer() & i64::MAX).to_be_bytes().to_vec(),
            CqlType::Float => (random.next() as u32).to_be_bytes().to_vec(),
            CqlType::Double => random.next().to_be_bytes().to_vec(),
            CqlType::Timeuuid | CqlType::Uuid => {
                let mut bytes = random.bytes_exact(16, &[0, 1, 0x7f, 0x80, 0xff, 0x3c]);
                let version = match cql_type {
                    CqlType::Timeuuid => 1,
                    _ => [1, 4, 7][random.below(3)],
                };
                bytes[6] = bytes[6] & 0xf | version << 4;
                bytes
            }
            CqlType::Varint => {
                let mut bytes = random.bytes(12, &[0, 1, 0x7f, 0x80, 0xff, 0x55]);
                bytes.push(random.next() as u8);
                // Shortest forms only: what BigInteger writes.
                while let [0, second, ..] | [0xff, second, ..] = bytes[..]
                    && (bytes[0] ^ second) & 0x80 == 0
                {
                    bytes.remove(0);
                }
                bytes
            }
            CqlType::Decimal => {
                let mut bytes = (random.below(13) as i32 - 6).to_be_bytes().to_vec();
                let unscaled = [0, 1, -1, 10, -10, 123, -123, 100, 99, -99, 1_000_000_007, -5];
                let unscaled: i64 = unscaled[random.below(unscaled.len())];
                bytes.extend(helenus_types::value::varint::varint_of(unscaled));
                bytes
            }
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let values: Vec<Vec<u8>> = (0..random.below(4)).map(|_| nested(random, element)).collect();
                let mut out = Vec::new();
                write_collection(&mut out, values.len(), values.iter().map(|value| &**value));
                out
            }
            CqlType::Map { key, value: of, .. } => {
                let count = random.below(3);
                let values: Vec<Vec<u8>> = (0..count)
                    .flat_map(|_| [nested(random, key), nested(random, of)])
                    .collect();
                let mut out = Vec::new();
                write_collection(&mut out, count, values.iter().map(|value| &**value));
                out
            }
            CqlType::Tuple(types) => {
                let mut out = Vec::new();
                let count = 1 + random.below(types.len());
                for of in &types[..count] {
                    let component = (random.below(4) > 0).then(|| nested(random, of));
                    write_component(&mut out, component.as_deref());
                }
                out
            }
            CqlType::Vector { element, dimension } => {
                let mut out = Vec::new();
                for _ in 0..*dimension {
                    let value = (random.integer() as i32).to_be_bytes();
                    helenus_types::value::vector::write_vector_element(&mut out, element, &value);
                }
                out
            }
            other => panic!("no values of {other:?} are made"),
        }
    }

    /// Not empty where that would translate as null does.
    fn nested(random: &mut Random, cql_type: &CqlType) -> Vec<u8> {
        loop {
            let value = value(random, cql_type);
            if !value.is_empty() || is_escaped(cql_type) {
                return value;
            }
        }
    }

    fn types() -> Vec<CqlType> {
        let scalars = vec![
            CqlType::Text,
            CqlType::Ascii,
            CqlType::Blob,
            CqlType::Inet,
            CqlType::Boolean,
            CqlType::Tinyint,
            CqlType::Smallint,
            CqlType::Int,
            CqlType::Bigint,
            CqlType::Date,
            CqlType::Time,
            CqlType::Timestamp,
            CqlType::Float,
            CqlType::Double,
            CqlType::Timeuuid,
            CqlType::Uuid,
            CqlType::Varint,
            CqlType::Decimal,
        ];
        let compound = vec![
            CqlType::list(CqlType::Text, true),
            CqlType::set(CqlType::Bigint, true),
            CqlType::map(CqlType::Varint, CqlType::Text, true),
            CqlType::tuple([CqlType::Blob, CqlType::Int, CqlType::Decimal]),
            CqlType::list(CqlType::tuple([CqlType::Text, CqlType::Boolean]), true),
            CqlType::vector(CqlType::Int, 3),
        ];
        scalars.into_iter().chain(compound).collect()
    }

    #[test]
    fn clusterings_sort_as_their_translations_do() {
        let mut random = Random::new(17);
        for cql_type in types() {
            for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
                let comparator = ClusteringComparator::of_components(vec![
                    (cql_type.clone(), order),
                    (CqlType::Text, ClusteringOrder::Ascending),
                ]);
                let keys: Vec<(Vec<u8>, Vec<u8>)> = (0..120)
                    .map(|_| {
                        let mut packed = Vec::new();
                        push_component(&mut packed, &value(&mut random, &cql_type));
                        push_component(&mut packed, &random.bytes(2, &[0, b'x']));
                        let mut bytes = Vec::new();
                        push_clustering(&mut bytes, &comparator, &packed, None);
                        (packed, bytes)
                    })
                    .collect();
                for (left, left_bytes) in &keys {
                    for (right, right_bytes) in &keys {
                        let expected = comparator.compare(left, right);
                        let found = left_bytes.cmp(right_bytes);
                        if is_nan_among(&cql_type, left, right) {
                            continue;
                        }
                        assert_eq!(
                            found, expected,
                            "{cql_type:?} {order:?} {left:02x?} {right:02x?} {left_bytes:02x?} {right_bytes:02x?}"
                        );
                        let is_prefix = left_bytes.starts_with(right_bytes);
                        assert!(found.is_eq() || !is_prefix, "{left_bytes:02x?}");
                    }
                }
            }
        }
    }

    /// NaNs of different bits are equal to the comparator only.
    fn is_nan_among(cql_type: &CqlType, left: &[u8], right: &[u8]) -> bool {
        [left, right].iter().any(|packed| {
            let value = Components::new(packed).next().unwrap_or_default();
            match cql_type {
                CqlType::Float => value
                    .try_into()
                    .is_ok_and(|bytes| f32::from_be_bytes(bytes).is_nan()),
                CqlType::Double => value
                    .try_into()
                    .is_ok_and(|bytes| f64::from_be_bytes(bytes).is_nan()),
                _ => false,
            }
        })
    }

    #[test]
    fn bounds_lie_around_the_keys_of_their_prefix() {
        let comparator = ClusteringComparator::of_components(vec![
            (CqlType::Text, ClusteringOrder::Descending),
            (CqlType::Varint, ClusteringOrder::Ascending),
        ]);
        let mut random = Random::new(23);
        for _ in 0..20_000 {
            let mut place = |complete: bool| {
                let mut packed = Vec::new();
                if complete || random.below(3) > 0 {
                    push_component(&mut packed, &random.bytes(2, &[0, b'a', 0xff]));
                    if complete || random.below(2) == 0 {
                        push_component(&mut packed, &value(&mut random, &CqlType::Varint));
                    }
                }
                let side = if random.below(2) == 0 {
                    Side::Before
                } else {
                    Side::After
                };
                (packed, side)
            };
            let (bound, side) = place(false);
            let (other, other_side) = place(false);
            let (key, _) = place(true);
            let bytes = |packed: &[u8], side| {
                let mut out = Vec::new();
                push_clustering(&mut out, &comparator, packed, side);
                out
            };
            assert_eq!(
                bytes(&key, None).cmp(&bytes(&bound, Some(side))),
                comparator.compare_to_place(&key, &bound, side)
            );
            assert_eq!(
                bytes(&bound, Some(side)).cmp(&bytes(&other, Some(other_side))),
                comparator.compare_bounds((&bound, side), (&other, other_side))
            );
        }
    }

    #[test]
    fn keys_of_one_token_sort_by_their_raw_bytes() {
        let mut random = Random::new(29);
        let bytes = |token, key: &[u8]| {
            let mut out = Vec::new();
            push_partition_key(&mut out, token, key);
            out
        };
        for _ in 0..20_000 {
            let key = random.bytes(4, &[0, 0, 1, 0xff]);
            let other = random.bytes(4, &[0, 0, 1, 0xff]);
            // Every other pair collides on its token.
            let token = token_of(&key);
            let other_token = if random.below(2) == 0 {
                token
            } else {
                token_of(&other)
            };
            assert_eq!(
                bytes(token, &key).cmp(&bytes(other_token, &other)),
                (token, &key).cmp(&(other_token, &other)),
            );
            for (side, expected) in [(Side::Before, Ordering::Less), (Side::After, Ordering::Greater)] {
                for of in [None, Some(&*key)] {
                    let mut bound = Vec::new();
                    push_partition_bound(&mut bound, &PartitionBound { token, key: of, side });
                    assert_eq!(bound.cmp(&bytes(token, &key)), expected);
                }
            }
        }
    }

    #[test]
    fn damaged_values_are_translated_without_a_panic() {
        let mut random = Random::new(31);
        let user_type = CqlType::user_defined(
            Arc::new(helenus_types::UserType {
                keyspace: "ks".into(),
                name: "t".into(),
                fields: vec![("a".into(), CqlType::Text), ("b".into(), CqlType::Uuid)],
            }),
            true,
        );
        for cql_type in types().into_iter().chain([user_type]) {
            for _ in 0..300 {
                let bytes = random.bytes(20, &[0, 0, 0, 1, 4, 0xff]);
                translated(&cql_type, &bytes);
            }
        }
    }
}
