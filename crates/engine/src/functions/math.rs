//! `abs`, `exp`, `log`, `log10`, `round`, and the numeric aggregates' signatures.

use helenus_types::CqlType;
use helenus_types::value::Decimal;
use num_bigint::{BigInt, Sign};

use super::kinds::MathKind;
use super::number::{Number, digit_count, whole_part};
use super::operation::{Rounding, divide_at_scale};
use super::signature::{AggregateKind, NativeFunction, ScalarKind};
use super::transcendental::{decimal_logarithm, exponential, natural_logarithm};
use crate::CqlError;

/// The significant digits that exponentials and logarithms of decimals have at least.
const DIGITS_MIN: i64 = 32;

/// And at most: a thousand digits hold a shard up for about a millisecond. Cassandra goes on to 10,000.
const DIGITS_MAX: i64 = 1_000;

pub(super) fn overloads(name: &str) -> Vec<NativeFunction> {
    let (name, kind) = match name {
        "abs" => ("abs", MathKind::Absolute),
        "exp" => ("exp", MathKind::Exponential),
        "log" => ("log", MathKind::Logarithm),
        "log10" => ("log10", MathKind::Logarithm10),
        "round" => ("round", MathKind::Round),
        _ => return Vec::new(),
    };
    let function = |numeric: &CqlType| {
        NativeFunction::scalar(name, ScalarKind::Math(kind), [numeric.clone()], numeric.clone())
    };
    MATHEMATICAL_TYPES.iter().map(function).collect()
}

/// As [`AGGREGATED_TYPES`], for functions of one number.
const MATHEMATICAL_TYPES: [CqlType; 9] = [
    CqlType::Int,
    CqlType::Double,
    CqlType::Counter,
    CqlType::Smallint,
    CqlType::Decimal,
    CqlType::Tinyint,
    CqlType::Bigint,
    CqlType::Varint,
    CqlType::Float,
];

pub(super) fn aggregates(name: &'static str, kind: AggregateKind) -> Vec<NativeFunction> {
    let function =
        |numeric: &CqlType| NativeFunction::aggregate(name, kind, [numeric.clone()], numeric.clone());
    AGGREGATED_TYPES.iter().map(function).collect()
}

/// The numeric types in the order in which Cassandra's messages list the overloads of an aggregate: a hash table's.
const AGGREGATED_TYPES: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Double,
    CqlType::Counter,
    CqlType::Decimal,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Float,
    CqlType::Varint,
    CqlType::Smallint,
];

pub(super) fn execute(
    kind: MathKind,
    function: &NativeFunction,
    arguments: &[&[u8]],
) -> Result<Option<Vec<u8>>, CqlError> {
    let cql_type = &function.return_type;
    let Some(number) = arguments
        .first()
        .and_then(|bytes| Number::from_bytes(cql_type, bytes))
    else {
        return Ok(None);
    };
    let result = match number {
        Number::Varint(_) | Number::Decimal(_) => of_big(kind, &number)?,
        Number::Integer(value) => of_integer(kind, value, cql_type),
        // `Math.round` of a float is an int.
        Number::Float(value) if kind == MathKind::Round => {
            Number::Float(half_up(f64::from(value)) as i32 as f32)
        }
        Number::Float(value) => Number::Float(of_double(kind, f64::from(value)) as f32),
        Number::Double(value) => Number::Double(of_double(kind, value)),
    };
    Ok(result.to_bytes(cql_type))
}

fn of_integer(kind: MathKind, value: i64, cql_type: &CqlType) -> Number {
    match kind {
        MathKind::Absolute => Number::Integer(value.wrapping_abs()),
        MathKind::Round => Number::Integer(value),
        // Narrow results come out of an int, as in Java.
        _ if matches!(cql_type, CqlType::Bigint | CqlType::Counter) => {
            Number::Integer(of_double(kind, value as f64) as i64)
        }
        _ => Number::Integer(i64::from(of_double(kind, value as f64) as i32)),
    }
}

fn of_double(kind: MathKind, value: f64) -> f64 {
    match kind {
        MathKind::Absolute => value.abs(),
        MathKind::Exponential => value.exp(),
        MathKind::Logarithm => value.ln(),
        MathKind::Logarithm10 => value.log10(),
        // `Math.round` of a double is a long.
        MathKind::Round => half_up(value) as i64 as f64,
    }
}

/// Adds a half to no number: the sum may be another one's.
fn half_up(value: f64) -> f64 {
    let floor = value.floor();
    match value - floor >= 0.5 {
        true => floor + 1.0,
        false => floor,
    }
}

/// Computes functions of decimals and varints. Exponentials and logarithms have as many digits as the number, and at least
/// 32.
fn of_big(kind: MathKind, number: &Number) -> Result<Number, CqlError> {
    let Some(decimal) = number.to_decimal() else {
        return Ok(number.clone());
    };
    let precision = digit_count(&decimal.unscaled)
        .clamp(DIGITS_MIN, DIGITS_MAX)
        .unsigned_abs();
    let is_positive = decimal.unscaled.sign() == Sign::Plus;
    let result = match kind {
        MathKind::Absolute => Some(Decimal {
            unscaled: BigInt::from(decimal.unscaled.magnitude().clone()),
            ..decimal
        }),
        MathKind::Round => {
            let one = Decimal {
                unscaled: BigInt::from(1),
                scale: 0,
            };
            divide_at_scale(&decimal, &one, 0, Rounding::HalfUp).ok()
        }
        MathKind::Logarithm if !is_positive => return Err(invalid!("Natural log of number zero or less")),
        MathKind::Logarithm10 if !is_positive => return Err(invalid!("Log10 of number zero or less")),
        MathKind::Exponential => exponential(&decimal, precision),
        MathKind::Logarithm => natural_logarithm(&decimal, precision),
        MathKind::Logarithm10 => decimal_logarithm(&decimal, precision),
    };
    let result = result.ok_or_else(|| invalid!("Overflow"))?;
    Ok(match number {
        Number::Varint(_) => Number::Varint(whole_part(&result).unwrap_or_default()),
        _ => Number::Decimal(result),
    })
}
