//! Arithmetic: `+ - * / %` and negation, with Cassandra's rules for the type of the result.

use std::sync::OnceLock;

use helenus_types::CqlType;
use helenus_types::value::{Decimal, Duration};
use num_bigint::{BigInt, Sign};

use super::kinds::OperationKind;
use super::number::{DECIMAL_DIGITS_MAX, NUMERIC_TYPES, Number, digit_count, power_of_ten};
use super::signature::{NativeFunction, ScalarKind};
use super::time::{add_duration, date_of_ms, ms_of};
use crate::CqlError;
use crate::error::FunctionFailure;

/// The functions behind an operator, made once: there are some eighty of each.
pub(super) fn overloads(kind: OperationKind) -> &'static [NativeFunction] {
    static OVERLOADS: [OnceLock<Vec<NativeFunction>>; 5] = [const { OnceLock::new() }; 5];
    OVERLOADS[kind as usize].get_or_init(|| make_overloads(kind))
}

/// The addition of two values of a type other than counters that gives another one.
pub(crate) fn addition_of(cql_type: &CqlType) -> Option<NativeFunction> {
    operation_of(OperationKind::Add, cql_type)
}

/// Likewise the subtraction.
pub(crate) fn subtraction_of(cql_type: &CqlType) -> Option<NativeFunction> {
    operation_of(OperationKind::Subtract, cql_type)
}

fn operation_of(kind: OperationKind, cql_type: &CqlType) -> Option<NativeFunction> {
    let is_of_type = |function: &&NativeFunction| {
        function.return_type == *cql_type
            && function
                .argument_types
                .iter()
                .all(|argument| argument == cql_type)
    };
    overloads(kind).iter().find(is_of_type).cloned()
}

fn make_overloads(kind: OperationKind) -> Vec<NativeFunction> {
    let function = |left: &CqlType, right: &CqlType, result: CqlType| {
        let arguments = [left.clone(), right.clone()];
        NativeFunction::scalar(
            kind.function_name(),
            ScalarKind::Operation(kind),
            arguments,
            result,
        )
    };
    let mut overloads = Vec::new();
    for left in &NUMERIC_TYPES {
        for right in &NUMERIC_TYPES {
            overloads.push(function(left, right, result_type(left, right)));
        }
    }
    if matches!(kind, OperationKind::Add | OperationKind::Subtract) {
        for temporal in [CqlType::Timestamp, CqlType::Date] {
            overloads.push(function(&temporal, &CqlType::Duration, temporal.clone()));
        }
    }
    if kind == OperationKind::Add {
        let (text, ascii) = (CqlType::Text, CqlType::Ascii);
        overloads.push(function(&text, &text, CqlType::Text));
        overloads.push(function(&ascii, &ascii, CqlType::Ascii));
        overloads.push(function(&ascii, &text, CqlType::Text));
        overloads.push(function(&text, &ascii, CqlType::Text));
    }
    overloads
}

pub(super) fn negations() -> Vec<NativeFunction> {
    let function = |numeric: &CqlType| {
        NativeFunction::scalar(
            "_negate",
            ScalarKind::Negation,
            [numeric.clone()],
            numeric.clone(),
        )
    };
    NUMERIC_TYPES.iter().map(function).collect()
}

/// The wider of two types; floating point wins over integers of its size.
fn result_type(left: &CqlType, right: &CqlType) -> CqlType {
    let is_floating =
        |numeric: &CqlType| matches!(numeric, CqlType::Float | CqlType::Double | CqlType::Decimal);
    let size = size(left).max(size(right));
    match (is_floating(left) || is_floating(right), size) {
        (true, ..=4) => CqlType::Float,
        (true, 8) => CqlType::Double,
        (true, _) => CqlType::Decimal,
        (false, 1) => CqlType::Tinyint,
        (false, 2) => CqlType::Smallint,
        (false, 4) => CqlType::Int,
        (false, 8) => CqlType::Bigint,
        (false, _) => CqlType::Varint,
    }
}

fn size(numeric: &CqlType) -> u32 {
    match numeric {
        CqlType::Tinyint => 1,
        CqlType::Smallint => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::Bigint | CqlType::Counter | CqlType::Double => 8,
        _ => u32::MAX,
    }
}

pub(super) fn execute(
    kind: OperationKind,
    function: &NativeFunction,
    arguments: &[&[u8]],
) -> Result<Option<Vec<u8>>, CqlError> {
    let (&[left, right], [left_type, right_type]) = (arguments, function.argument_types.as_slice()) else {
        return Ok(None);
    };
    let result = match &function.return_type {
        CqlType::Text | CqlType::Ascii => Ok(Some([left, right].concat())),
        CqlType::Timestamp | CqlType::Date => temporal(kind, &function.return_type, left, right),
        result_type => match (
            Number::from_bytes(left_type, left),
            Number::from_bytes(right_type, right),
        ) {
            (Some(left), Some(right)) => {
                numeric(kind, result_type, &left, &right).map(|result| result.to_bytes(result_type))
            }
            _ => Ok(None),
        },
    };
    result.map_err(|cause| failure(kind, function, &cause))
}

/// An operation fails as a function does, with the words Cassandra has for it.
fn failure(kind: OperationKind, function: &NativeFunction, cause: &str) -> CqlError {
    let argument_types: Vec<String> = function.argument_types.iter().map(ToString::to_string).collect();
    let detail = format!(
        "the operation '{}' failed: {cause}",
        argument_types.join(&format!(" {} ", kind.symbol()))
    );
    CqlError::FunctionFailure(Box::new(FunctionFailure {
        keyspace: "system".to_owned(),
        function: kind.function_name().to_owned(),
        argument_types,
        detail,
        is_detail_alone: true,
    }))
}

fn numeric(
    kind: OperationKind,
    result_type: &CqlType,
    left: &Number,
    right: &Number,
) -> Result<Number, String> {
    match result_type {
        CqlType::Float => {
            let (left, right) = (left.to_f32(), right.to_f32());
            Ok(Number::Float(match kind {
                OperationKind::Add => left + right,
                OperationKind::Subtract => left - right,
                OperationKind::Multiply => left * right,
                OperationKind::Divide => left / right,
                OperationKind::Modulo => left % right,
            }))
        }
        CqlType::Double => {
            let (left, right) = (left.to_f64(), right.to_f64());
            Ok(Number::Double(match kind {
                OperationKind::Add => left + right,
                OperationKind::Subtract => left - right,
                OperationKind::Multiply => left * right,
                OperationKind::Divide => left / right,
                OperationKind::Modulo => left % right,
            }))
        }
        CqlType::Varint => varint(kind, &left.to_big(), &right.to_big()).map(Number::Varint),
        CqlType::Decimal => {
            decimal(kind, &decimal_operand(left)?, &decimal_operand(right)?).map(Number::Decimal)
        }
        _ => integer(kind, left.to_i64(), right.to_i64()).map(Number::Integer),
    }
}

/// Narrower results are cut from the same bits by whoever writes them.
fn integer(kind: OperationKind, left: i64, right: i64) -> Result<i64, String> {
    let by_zero = || "/ by zero".to_owned();
    Ok(match kind {
        OperationKind::Add => left.wrapping_add(right),
        OperationKind::Subtract => left.wrapping_sub(right),
        OperationKind::Multiply => left.wrapping_mul(right),
        OperationKind::Divide if right == 0 => return Err(by_zero()),
        OperationKind::Divide => left.wrapping_div(right),
        OperationKind::Modulo if right == 0 => return Err(by_zero()),
        OperationKind::Modulo => left.wrapping_rem(right),
    })
}

fn varint(kind: OperationKind, left: &BigInt, right: &BigInt) -> Result<BigInt, String> {
    if right.sign() == Sign::NoSign && matches!(kind, OperationKind::Divide | OperationKind::Modulo) {
        return Err("BigInteger divide by zero".to_owned());
    }
    Ok(match kind {
        OperationKind::Add => left + right,
        OperationKind::Subtract => left - right,
        OperationKind::Multiply => left * right,
        OperationKind::Divide => left / right,
        OperationKind::Modulo => left % right,
    })
}

fn decimal_operand(number: &Number) -> Result<Decimal, String> {
    number
        .to_decimal_operand()
        .ok_or_else(|| match number.to_f64().is_nan() {
            true => "A NaN cannot be converted into a decimal".to_owned(),
            false => "An infinite number cannot be converted into a decimal".to_owned(),
        })
}

fn decimal(kind: OperationKind, left: &Decimal, right: &Decimal) -> Result<Decimal, String> {
    match kind {
        OperationKind::Add | OperationKind::Subtract => {
            let right = match kind {
                OperationKind::Subtract => Decimal {
                    unscaled: -&right.unscaled,
                    scale: right.scale,
                },
                _ => right.clone(),
            };
            let (left, right, scale) = aligned(left, &right)?;
            Ok(Decimal {
                unscaled: left + right,
                scale,
            })
        }
        OperationKind::Multiply => {
            let scale = left.scale.checked_add(right.scale).ok_or("Overflow")?;
            Ok(Decimal {
                unscaled: &left.unscaled * &right.unscaled,
                scale,
            })
        }
        OperationKind::Divide => divide_decimals(left, right),
        OperationKind::Modulo => {
            if right.unscaled.sign() == Sign::NoSign {
                return Err("Division by zero".to_owned());
            }
            let (left, right, scale) = aligned(left, right)?;
            Ok(Decimal {
                unscaled: left % right,
                scale,
            })
        }
    }
}

/// Both numbers as integers of the finer scale.
pub(super) fn aligned(left: &Decimal, right: &Decimal) -> Result<(BigInt, BigInt, i32), String> {
    let scale = left.scale.max(right.scale);
    let scaled = |decimal: &Decimal| {
        let shift = i64::from(scale) - i64::from(decimal.scale);
        if shift > DECIMAL_DIGITS_MAX {
            return Err("Overflow".to_owned());
        }
        Ok(&decimal.unscaled * power_of_ten(shift.unsigned_abs()))
    };
    Ok((scaled(left)?, scaled(right)?, scale))
}

/// At least 32 significant digits and 32 places, at most 1,000 places, rounded half up, without trailing zeros.
fn divide_decimals(left: &Decimal, right: &Decimal) -> Result<Decimal, String> {
    const DIGITS_MIN: i64 = 32;
    const SCALE_MAX: i64 = 1_000;
    if right.unscaled.sign() == Sign::NoSign {
        return Err("BigInteger divide by zero".to_owned());
    }
    let first_digit = |decimal: &Decimal| digit_count(&decimal.unscaled) - i64::from(decimal.scale);
    let scale = (DIGITS_MIN - (first_digit(left) - first_digit(right)))
        .max(i64::from(left.scale))
        .max(i64::from(right.scale))
        .clamp(DIGITS_MIN, SCALE_MAX);
    divide_at_scale(left, right, scale, Rounding::HalfUp).map(strip_trailing_zeros)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    HalfUp,
    HalfEven,
}

/// `left / right` with `scale` places.
pub(super) fn divide_at_scale(
    left: &Decimal,
    right: &Decimal,
    scale: i64,
    rounding: Rounding,
) -> Result<Decimal, String> {
    let shift = scale - i64::from(left.scale) + i64::from(right.scale);
    if shift.abs() > 4 * DECIMAL_DIGITS_MAX {
        return Err("Overflow".to_owned());
    }
    let factor = power_of_ten(shift.unsigned_abs());
    let (dividend, divisor) = match shift >= 0 {
        true => (&left.unscaled * factor, right.unscaled.clone()),
        false => (left.unscaled.clone(), &right.unscaled * factor),
    };
    let (quotient, remainder) = (&dividend / &divisor, &dividend % &divisor);
    let twice = remainder.magnitude() * 2_u32;
    let rounds_away = match twice.cmp(divisor.magnitude()) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => rounding == Rounding::HalfUp || quotient.bit(0),
        std::cmp::Ordering::Less => false,
    };
    let is_negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    let away = match (rounds_away, is_negative) {
        (false, _) => 0,
        (true, true) => -1,
        (true, false) => 1,
    };
    let scale = i32::try_from(scale).map_err(|_| "Overflow".to_owned())?;
    Ok(Decimal {
        unscaled: quotient + away,
        scale,
    })
}

fn strip_trailing_zeros(decimal: Decimal) -> Decimal {
    let Decimal {
        mut unscaled,
        mut scale,
    } = decimal;
    if unscaled.sign() == Sign::NoSign {
        return Decimal { unscaled, scale: 0 };
    }
    let ten = BigInt::from(10);
    while (&unscaled % &ten).sign() == Sign::NoSign {
        unscaled /= &ten;
        scale -= 1;
    }
    Decimal { unscaled, scale }
}

fn temporal(
    kind: OperationKind,
    cql_type: &CqlType,
    left: &[u8],
    right: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    let Some(time_ms) = ms_of(cql_type, left) else {
        return Ok(None);
    };
    let duration = Duration::from_bytes(right).map_err(|error| error.to_string())?;
    let is_date = *cql_type == CqlType::Date;
    if is_date && duration.nanoseconds != 0 {
        return Err(format!("The duration must have a day precision. Was: {duration}"));
    }
    if !is_date && duration.nanoseconds % 1_000_000 != 0 {
        return Err(format!(
            "The duration must have a millisecond precision. Was: {duration}"
        ));
    }
    let duration = match kind {
        OperationKind::Subtract => Duration {
            months: duration.months.wrapping_neg(),
            days: duration.days.wrapping_neg(),
            nanoseconds: duration.nanoseconds.wrapping_neg(),
        },
        _ => duration,
    };
    let result = add_duration(time_ms, duration);
    Ok(Some(if is_date {
        date_of_ms(result)
    } else {
        result.to_be_bytes().to_vec()
    }))
}

pub(super) fn negate(function: &NativeFunction, arguments: &[&[u8]]) -> Option<Vec<u8>> {
    let number = Number::from_bytes(&function.return_type, arguments.first()?)?;
    let negated = match number {
        Number::Integer(value) => Number::Integer(value.wrapping_neg()),
        Number::Float(value) => Number::Float(-value),
        Number::Double(value) => Number::Double(-value),
        Number::Varint(value) => Number::Varint(-value),
        Number::Decimal(value) => Number::Decimal(Decimal {
            unscaled: -value.unscaled,
            scale: value.scale,
        }),
    };
    negated.to_bytes(&function.return_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(kind: OperationKind, left: (&CqlType, &str), right: (&CqlType, &str)) -> String {
        let function = overloads(kind)
            .iter()
            .find(|function| function.argument_types == [left.0.clone(), right.0.clone()])
            .unwrap();
        let bytes = |(cql_type, text): (&CqlType, &str)| cql_type.from_text(text, 0).unwrap();
        match execute(kind, function, &[&bytes(left), &bytes(right)]) {
            Ok(value) => format!(
                "{} {}",
                function.return_type,
                function.return_type.to_cql_literal(&value.unwrap())
            ),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn results_have_cassandras_types_and_digits() {
        use CqlType::{Bigint, Decimal, Double, Float, Int, Timestamp, Tinyint, Varint};
        use OperationKind::{Add, Divide, Modulo, Multiply, Subtract};
        let cases = [
            (Add, (&Int, "2147483647"), (&Int, "1"), "int -2147483648"),
            (Add, (&Tinyint, "1"), (&Bigint, "2"), "bigint 3"),
            (Multiply, (&Int, "3"), (&Float, "1.5"), "float 4.5"),
            (Subtract, (&Bigint, "3"), (&Float, "1.5"), "double 1.5"),
            (Divide, (&Int, "7"), (&Int, "2"), "int 3"),
            (Modulo, (&Int, "-7"), (&Int, "2"), "int -1"),
            (Divide, (&Varint, "7"), (&Bigint, "2"), "varint 3"),
            (
                Divide,
                (&Decimal, "1"),
                (&Decimal, "3"),
                "decimal 0.33333333333333333333333333333333",
            ),
            (Divide, (&Decimal, "6"), (&Decimal, "3"), "decimal 2"),
            (Add, (&Decimal, "1.10"), (&Int, "1"), "decimal 2.10"),
            (Add, (&Double, "0.5"), (&Decimal, "0.25"), "decimal 0.75"),
        ];
        for (kind, left, right, expected) in cases {
            assert_eq!(run(kind, left, right), expected, "{kind:?} {left:?} {right:?}");
        }
        assert!(
            run(Divide, (&Int, "1"), (&Int, "0")).contains("the operation 'int / int' failed: / by zero")
        );
        assert_eq!(
            run(
                Add,
                (&Timestamp, "2020-01-31 00:00:00+0000"),
                (&CqlType::Duration, "1mo")
            ),
            "timestamp '2020-02-29T00:00:00.000Z'"
        );
    }
}
