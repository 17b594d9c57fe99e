//! The order of values of each type, as Cassandra sorts clustering keys, set elements and map keys.
//!
//! Stored values have been validated, so lengths are right; where they are not, the order is still total enough not
//! to panic, with what is cut short or empty first.

use std::cmp::Ordering;

use crate::cql_type::CqlType;
use crate::value::collection::{CollectionElements, collection_count};
use crate::value::decimal::compare_decimals;
use crate::value::tuple::TupleComponents;
use crate::value::varint::compare_varints;
use crate::value::vector::VectorElements;

impl CqlType {
    /// Orders two serialized values. Empty values come before all others.
    #[inline]
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            CqlType::Int => compare_fixed(left, right, i32::from_be_bytes),
            // A counter is compared by its total.
            CqlType::Bigint | CqlType::Counter | CqlType::Timestamp => {
                compare_fixed(left, right, i64::from_be_bytes)
            }
            CqlType::Text
            | CqlType::Ascii
            | CqlType::Blob
            | CqlType::Inet
            | CqlType::Date
            | CqlType::Time
            | CqlType::Duration
            | CqlType::Custom(_) => left.cmp(right),
            CqlType::Timeuuid => compare_fixed(left, right, timeuuid_order),
            CqlType::Uuid => compare_fixed(left, right, uuid_order),
            _ => self.compare_others(left, right),
        }
    }

    fn compare_others(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            CqlType::Tinyint => compare_fixed(left, right, i8::from_be_bytes),
            CqlType::Smallint => compare_fixed(left, right, i16::from_be_bytes),
            CqlType::Boolean => compare_fixed(left, right, |[byte]| byte != 0),
            CqlType::Float => compare_fixed(left, right, |bytes| float_order(f32::from_be_bytes(bytes))),
            CqlType::Double => compare_fixed(left, right, |bytes| double_order(f64::from_be_bytes(bytes))),
            CqlType::Varint => compare_varints(left, right),
            CqlType::Decimal => compare_decimals(left, right),
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                compare_elements(left, right, 1, |_| element)
            }
            CqlType::Map { key, value, .. } => {
                compare_elements(left, right, 2, |index| if index % 2 == 0 { key } else { value })
            }
            CqlType::Tuple(_) | CqlType::UserDefined { .. } => {
                compare_components(left, right, self.sub_types())
            }
            CqlType::Vector { element, dimension } => compare_vectors(left, right, element, *dimension),
            CqlType::Empty => Ordering::Equal,
            // The others have been compared before.
            _ => left.cmp(right),
        }
    }
}

/// Compares values of `N` bytes by a key; other lengths come first, shortest foremost.
#[inline]
fn compare_fixed<const N: usize, K: Ord>(left: &[u8], right: &[u8], key: impl Fn([u8; N]) -> K) -> Ordering {
    match (<[u8; N]>::try_from(left), <[u8; N]>::try_from(right)) {
        (Ok(left), Ok(right)) => key(left).cmp(&key(right)),
        (Ok(_), Err(_)) => Ordering::Greater,
        (Err(_), Ok(_)) => Ordering::Less,
        (Err(_), Err(_)) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
    }
}

/// Time first, then the lower eight bytes, each taken as signed.
#[inline]
fn timeuuid_order(bytes: [u8; 16]) -> (u64, u64) {
    let word = u128::from_be_bytes(bytes);
    // Time comes before the version in these bits, so the versions, all 1, do not matter.
    (
        time_first((word >> 64) as u64),
        word as u64 ^ 0x8080_8080_8080_8080,
    )
}

/// Version first; version 1 by time, the others by their bytes. The lower eight bytes are unsigned, unlike those of a
/// timeuuid.
#[inline]
fn uuid_order(bytes: [u8; 16]) -> (u8, u64, u64) {
    let word = u128::from_be_bytes(bytes);
    let high = (word >> 64) as u64;
    let version = bytes[6] >> 4;
    let first = if version == 1 { time_first(high) } else { high };
    (version, first, word as u64)
}

/// Puts the parts of a version 1 UUID's time in order, most significant first, the version on top.
#[inline]
fn time_first(high: u64) -> u64 {
    high << 48 | (high << 16) & 0xffff_0000_0000 | high >> 32
}

/// Java's order of floats: -0.0 before 0.0 and NaN, all NaNs alike, after infinity.
#[inline]
fn float_order(value: f32) -> i32 {
    let bits = if value.is_nan() {
        f32::NAN.to_bits() & i32::MAX.cast_unsigned()
    } else {
        value.to_bits()
    };
    let bits = bits.cast_signed();
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

#[inline]
fn double_order(value: f64) -> i64 {
    let bits = if value.is_nan() {
        f64::NAN.to_bits() & i64::MAX.cast_unsigned()
    } else {
        value.to_bits()
    };
    let bits = bits.cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// Element by element, then by count. `type_of` says what the element of an index is.
fn compare_elements<'a>(
    left: &[u8],
    right: &[u8],
    values_per_entry: usize,
    type_of: impl Fn(usize) -> &'a CqlType,
) -> Ordering {
    let elements = |collection| CollectionElements::new(collection, values_per_entry);
    let (Some(left_elements), Some(right_elements)) = (elements(left), elements(right)) else {
        return (left.len() >= 4).cmp(&(right.len() >= 4));
    };
    let pairs = lexicographic(left_elements, right_elements, |index, left, right| {
        compare_nullable(type_of(index), left, right)
    });
    // A stored count may be negative, which holds no elements but sorts before none.
    pairs.then_with(|| collection_count(left).cmp(&collection_count(right)))
}

/// Component by component, null first; components missing at the end are null.
fn compare_components<'a>(left: &[u8], right: &[u8], types: impl Iterator<Item = &'a CqlType>) -> Ordering {
    if left.is_empty() || right.is_empty() {
        return right.is_empty().cmp(&left.is_empty());
    }
    let mut left = TupleComponents::new(left);
    let mut right = TupleComponents::new(right);
    for component in types {
        let (left, right) = (left.next(), right.next());
        if left.is_none() && right.is_none() {
            return Ordering::Equal;
        }
        let order = compare_nullable(component, left.flatten(), right.flatten());
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn compare_nullable(cql_type: &CqlType, left: Option<&[u8]>, right: Option<&[u8]>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => cql_type.compare(left, right),
        (left, right) => left.is_some().cmp(&right.is_some()),
    }
}

fn compare_vectors(left: &[u8], right: &[u8], element: &CqlType, dimension: u32) -> Ordering {
    if left.is_empty() || right.is_empty() {
        return right.is_empty().cmp(&left.is_empty());
    }
    let elements = |vector| VectorElements::new(element, dimension, vector);
    lexicographic(elements(left), elements(right), |_, left, right| {
        element.compare(left, right)
    })
}

/// Compares two sequences by the first elements that differ; a sequence that is the other's start comes first. Values
/// that end too early thereby keep a place in the order, which sorting relies on.
fn lexicographic<T>(
    mut left: impl Iterator<Item = T>,
    mut right: impl Iterator<Item = T>,
    compare: impl Fn(usize, T, T) -> Ordering,
) -> Ordering {
    for index in 0.. {
        let order = match (left.next(), right.next()) {
            (Some(left), Some(right)) => compare(index, left, right),
            (None, None) => break,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_order_as_in_java() {
        let ascending = [
            f64::NEG_INFINITY,
            -1.5,
            -1e-30,
            -0.0,
            0.0,
            1e-30,
            1.5,
            f64::INFINITY,
            f64::NAN,
        ];
        for (at, left) in ascending.iter().enumerate() {
            for (with, right) in ascending.iter().enumerate() {
                assert_eq!(
                    double_order(*left).cmp(&double_order(*right)),
                    at.cmp(&with),
                    "{left} {right}"
                );
                assert_eq!(
                    float_order(*left as f32).cmp(&float_order(*right as f32)),
                    at.cmp(&with)
                );
            }
        }
        assert_eq!(double_order(-f64::NAN), double_order(f64::NAN));
    }
}
