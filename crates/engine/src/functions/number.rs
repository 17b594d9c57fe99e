//! Numbers of CQL's numeric types, and Java's rules for turning one into another.

use helenus_types::CqlType;
use helenus_types::value::Decimal;
use helenus_types::value::floating::{format_double, format_float};
use helenus_types::value::varint::{varint_of_big, varint_to_big};
use num_bigint::{BigInt, Sign};

use crate::CqlError;

/// The numeric types, in the order overloads are listed.
pub(super) const NUMERIC_TYPES: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Varint,
    CqlType::Counter,
];

/// Digits before and after the point that a decimal operation may produce; Cassandra's limit on precision.
pub(super) const DECIMAL_DIGITS_MAX: i64 = 10_000;

/// The longest varint or decimal that functions, arithmetic and aggregates take, in bytes: 10,000 digits are 4,153, and a
/// decimal has a scale of four more. Text, quotients and products take the square of the digits' time: at this bound a
/// tenth of a millisecond, at 2 MB some seconds.
pub(super) const NUMBER_BYTES_MAX: usize = 4_160;

/// Refuses numbers that computing with would take too long.
pub(super) fn check_number(cql_type: &CqlType, bytes: &[u8]) -> Result<(), CqlError> {
    let is_unbounded = matches!(cql_type, CqlType::Varint | CqlType::Decimal);
    if !is_unbounded || bytes.len() <= NUMBER_BYTES_MAX {
        return Ok(());
    }
    Err(invalid!(
        "A {cql_type} of {} bytes has more than {DECIMAL_DIGITS_MAX} digits, which functions, arithmetic and casts do not          take; select it as it is",
        bytes.len()
    ))
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    /// tinyint, smallint, int, bigint, counter.
    Integer(i64),
    Float(f32),
    Double(f64),
    Varint(BigInt),
    Decimal(Decimal),
}

pub(super) fn is_numeric(cql_type: &CqlType) -> bool {
    NUMERIC_TYPES.contains(cql_type)
}

impl Number {
    /// None for the empty value, and for bytes that are not a value of the type.
    pub(super) fn from_bytes(cql_type: &CqlType, bytes: &[u8]) -> Option<Number> {
        Some(match cql_type {
            CqlType::Tinyint => Number::Integer(i64::from(i8::from_be_bytes(bytes.try_into().ok()?))),
            CqlType::Smallint => Number::Integer(i64::from(i16::from_be_bytes(bytes.try_into().ok()?))),
            CqlType::Int => Number::Integer(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
            CqlType::Bigint | CqlType::Counter => Number::Integer(i64::from_be_bytes(bytes.try_into().ok()?)),
            CqlType::Float => Number::Float(f32::from_be_bytes(bytes.try_into().ok()?)),
            CqlType::Double => Number::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
            CqlType::Varint if !bytes.is_empty() => Number::Varint(varint_to_big(bytes)),
            CqlType::Decimal => Number::Decimal(Decimal::from_bytes(bytes)?),
            _ => return None,
        })
    }

    /// The number as a value of the type, narrowed as Java narrows it. None where it has no such value: a decimal
    /// cannot be infinite.
    pub(super) fn to_bytes(&self, cql_type: &CqlType) -> Option<Vec<u8>> {
        Some(match cql_type {
            CqlType::Tinyint => (self.to_i32() as i8).to_be_bytes().to_vec(),
            CqlType::Smallint => (self.to_i32() as i16).to_be_bytes().to_vec(),
            CqlType::Int => self.to_i32().to_be_bytes().to_vec(),
            CqlType::Bigint | CqlType::Counter => self.to_i64().to_be_bytes().to_vec(),
            CqlType::Float => self.to_f32().to_be_bytes().to_vec(),
            CqlType::Double => self.to_f64().to_be_bytes().to_vec(),
            CqlType::Varint => varint_of_big(&self.to_big()),
            CqlType::Decimal => self.to_decimal()?.to_bytes(),
            _ => return None,
        })
    }

    /// `Number.intValue`: floating point saturates, integers keep their low bits.
    pub(super) fn to_i32(&self) -> i32 {
        match self {
            Number::Float(value) => *value as i32,
            Number::Double(value) => *value as i32,
            other => other.to_i64() as i32,
        }
    }

    /// `Number.longValue`.
    pub(super) fn to_i64(&self) -> i64 {
        match self {
            Number::Integer(value) => *value,
            Number::Float(value) => *value as i64,
            Number::Double(value) => *value as i64,
            Number::Varint(value) => low_bits(value),
            Number::Decimal(value) => whole_part(value).map_or(0, |whole| low_bits(&whole)),
        }
    }

    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Number::Integer(value) => *value as f64,
            Number::Float(value) => f64::from(*value),
            Number::Double(value) => *value,
            // Through text: the parser rounds correctly and knows overflow.
            Number::Varint(value) => value.to_string().parse().unwrap_or(f64::NAN),
            Number::Decimal(value) => decimal_text(value).parse().unwrap_or(f64::NAN),
        }
    }

    pub(super) fn to_f32(&self) -> f32 {
        match self {
            Number::Integer(value) => *value as f32,
            Number::Float(value) => *value,
            Number::Double(value) => *value as f32,
            Number::Varint(value) => value.to_string().parse().unwrap_or(f32::NAN),
            Number::Decimal(value) => decimal_text(value).parse().unwrap_or(f32::NAN),
        }
    }

    /// As arithmetic takes an operand for varint: everything else by way of a bigint.
    pub(super) fn to_big(&self) -> BigInt {
        match self {
            Number::Varint(value) => value.clone(),
            other => BigInt::from(other.to_i64()),
        }
    }

    /// The decimal with this number's shortest digits; none for what is not finite.
    pub(super) fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Number::Integer(value) => Some(Decimal {
                unscaled: BigInt::from(*value),
                scale: 0,
            }),
            Number::Float(value) if value.is_finite() => Decimal::parse(&format_float(*value)),
            Number::Double(value) if value.is_finite() => Decimal::parse(&format_double(*value)),
            Number::Float(_) | Number::Double(_) => None,
            Number::Varint(value) => Some(Decimal {
                unscaled: value.clone(),
                scale: 0,
            }),
            Number::Decimal(value) => Some(value.clone()),
        }
    }

    /// As arithmetic takes an operand for decimal: all but varints by way of a double.
    pub(super) fn to_decimal_operand(&self) -> Option<Decimal> {
        match self {
            Number::Decimal(_) | Number::Varint(_) => self.to_decimal(),
            other => Number::Double(other.to_f64()).to_decimal(),
        }
    }
}

fn low_bits(value: &BigInt) -> i64 {
    let magnitude = value.magnitude().iter_u64_digits().next().unwrap_or(0);
    let bits = magnitude.cast_signed();
    if value.sign() == Sign::Minus {
        bits.wrapping_neg()
    } else {
        bits
    }
}

/// The number without its fraction; none if it has more digits than anyone could want.
pub(super) fn whole_part(value: &Decimal) -> Option<BigInt> {
    let scale = i64::from(value.scale);
    if scale < -DECIMAL_DIGITS_MAX {
        return None;
    }
    if scale <= 0 {
        return Some(&value.unscaled * power_of_ten(scale.unsigned_abs()));
    }
    if scale > digit_count(&value.unscaled) {
        return Some(BigInt::ZERO);
    }
    Some(&value.unscaled / power_of_ten(scale.unsigned_abs()))
}

fn decimal_text(value: &Decimal) -> String {
    format!("{}e{}", value.unscaled, -i64::from(value.scale))
}

pub(super) fn power_of_ten(exponent: u64) -> BigInt {
    // Callers bound the exponent by DECIMAL_DIGITS_MAX and the digits they hold already.
    BigInt::from(10).pow(exponent as u32)
}

/// How many decimal digits; 1 for zero.
pub(super) fn digit_count(value: &BigInt) -> i64 {
    value.magnitude().to_string().len() as i64
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::Accumulator;
    use super::super::clock::Clock;
    use super::super::kinds::OperationKind;
    use super::super::signature::{AggregateKind, NativeFunction};
    use super::super::{cast, operation};
    use super::*;

    /// `CAST(v AS text)` of a varint of 2 MB took 2.7 s for each row, as did `d / 3.7`; 16 MB were let pass.
    #[test]
    fn numbers_of_too_many_digits_are_refused() {
        let largest = BigInt::from(10).pow(10_000) - 1;
        let varint = varint_of_big(&largest);
        let decimal = Decimal {
            unscaled: largest.clone(),
            scale: 3,
        };
        let too_long = varint_of_big(&(largest << 64));
        let too_long_decimal = [&[0; 4], too_long.as_slice()].concat();
        let mut casts = 0;
        for target in [
            CqlType::Text,
            CqlType::Double,
            CqlType::Int,
            CqlType::Decimal,
            CqlType::Varint,
        ] {
            for (from, good, bad) in [
                (CqlType::Varint, &varint, &too_long),
                (CqlType::Decimal, &decimal.to_bytes(), &too_long_decimal),
            ] {
                let Some(function) = cast::cast_function(&from, &target) else {
                    continue;
                };
                casts += 1;
                assert!(call(&function, &[good]).is_ok(), "{function}");
                let error = call(&function, &[bad]).unwrap_err();
                assert!(error.contains("more than 10000 digits"), "{function}: {error}");
            }
        }
        assert_eq!(casts, 8);
        for kind in [OperationKind::Add, OperationKind::Divide, OperationKind::Modulo] {
            let function = operation::overloads(kind)
                .iter()
                .find(|function| function.argument_types == [CqlType::Decimal, CqlType::Varint]);
            let function = function.unwrap();
            assert!(call(function, &[&decimal.to_bytes(), &varint]).is_ok());
            assert!(call(function, &[&too_long_decimal, &varint]).is_err());
            assert!(call(function, &[&decimal.to_bytes(), &too_long]).is_err());
        }
        let mut sum = Accumulator::new(AggregateKind::Sum, &CqlType::Varint);
        sum.add(Some(&varint)).unwrap();
        assert!(sum.add(Some(&too_long)).is_err());
        let mut maximum = Accumulator::new(AggregateKind::Maximum, &CqlType::Varint);
        maximum.add(Some(&too_long)).unwrap();
    }

    fn call(function: &NativeFunction, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, String> {
        let arguments: Vec<Option<&[u8]>> = arguments.iter().copied().map(Some).collect();
        function
            .execute(&arguments, Clock::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn sums_of_ever_finer_decimals_end() {
        let mut sum = Accumulator::new(AggregateKind::Sum, &CqlType::Decimal);
        let refused = (0..10).find(|index| {
            let decimal = Decimal {
                unscaled: BigInt::from(1),
                scale: 9_000 * index,
            };
            sum.add(Some(&decimal.to_bytes())).is_err()
        });
        assert_eq!(refused, Some(3));
    }
}
