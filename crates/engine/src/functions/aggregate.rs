//! Aggregates: what is kept while rows are added, and the result.

use std::cmp::Ordering;

use helenus_types::CqlType;
use helenus_types::value::Decimal;
use num_bigint::BigInt;

use super::number::{DECIMAL_DIGITS_MAX, NUMBER_BYTES_MAX, Number, check_number};
use super::operation::{Rounding, aligned, divide_at_scale};
use super::signature::AggregateKind;
use crate::CqlError;

/// One aggregate in progress.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    cql_type: CqlType,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    CountRows(i64),
    Count(i64),
    Extreme {
        value: Option<Vec<u8>>,
        replaced_by: Ordering,
    },
    IntegerSum(i64),
    VarintSum(BigInt),
    DecimalSum(Decimal),
    FloatSum(CompensatedSum),
    IntegerAverage {
        sum: BigInt,
        count: i64,
    },
    DecimalAverage {
        average: Decimal,
        count: i64,
    },
    FloatAverage {
        sum: CompensatedSum,
        count: i64,
    },
}

/// A sum of doubles that keeps what rounding loses.
#[derive(Clone, Copy, Debug, Default)]
struct CompensatedSum {
    sum: f64,
    compensation: f64,
    /// Without compensation: infinities survive in it.
    simple: f64,
}

impl Accumulator {
    /// `cql_type` is the type of the argument, which for all but counts is that of the result.
    pub fn new(kind: AggregateKind, cql_type: &CqlType) -> Self {
        let zero = || Decimal {
            unscaled: BigInt::ZERO,
            scale: 0,
        };
        let state = match (kind, cql_type) {
            (AggregateKind::CountRows, _) => State::CountRows(0),
            (AggregateKind::Count, _) => State::Count(0),
            (AggregateKind::Minimum, _) => State::Extreme {
                value: None,
                replaced_by: Ordering::Less,
            },
            (AggregateKind::Maximum, _) => State::Extreme {
                value: None,
                replaced_by: Ordering::Greater,
            },
            (AggregateKind::Sum, CqlType::Varint) => State::VarintSum(BigInt::ZERO),
            (AggregateKind::Sum, CqlType::Decimal) => State::DecimalSum(zero()),
            (AggregateKind::Sum, CqlType::Float | CqlType::Double) => {
                State::FloatSum(CompensatedSum::default())
            }
            (AggregateKind::Sum, _) => State::IntegerSum(0),
            (AggregateKind::Average, CqlType::Decimal) => State::DecimalAverage {
                average: zero(),
                count: 0,
            },
            (AggregateKind::Average, CqlType::Float | CqlType::Double) => State::FloatAverage {
                sum: CompensatedSum::default(),
                count: 0,
            },
            (AggregateKind::Average, _) => State::IntegerAverage {
                sum: BigInt::ZERO,
                count: 0,
            },
        };
        Accumulator {
            cql_type: cql_type.clone(),
            state,
        }
    }

    pub fn add(&mut self, value: Option<&[u8]>) -> Result<(), CqlError> {
        if let State::CountRows(count) = &mut self.state {
            *count += 1;
            return Ok(());
        }
        let Some(bytes) = value else { return Ok(()) };
        match &mut self.state {
            State::CountRows(count) | State::Count(count) => *count += 1,
            State::Extreme { value, replaced_by } => {
                let replaces = value
                    .as_deref()
                    .is_none_or(|kept| self.cql_type.compare(bytes, kept) == *replaced_by);
                if replaces {
                    *value = Some(bytes.to_vec());
                }
            }
            _ => {
                check_number(&self.cql_type, bytes)?;
                if let Some(number) = Number::from_bytes(&self.cql_type, bytes) {
                    self.add_number(&number)?;
                }
            }
        }
        Ok(())
    }

    fn add_number(&mut self, number: &Number) -> Result<(), CqlError> {
        match &mut self.state {
            State::CountRows(_) | State::Count(_) | State::Extreme { .. } => {}
            State::IntegerSum(sum) => *sum = sum.wrapping_add(number.to_i64()),
            State::VarintSum(sum) => *sum += number.to_big(),
            State::DecimalSum(sum) => {
                if let Some(decimal) = number.to_decimal() {
                    *sum = add_decimals(sum, &decimal)?;
                }
            }
            State::FloatSum(sum) => sum.add(number.to_f64()),
            State::IntegerAverage { sum, count } => {
                *count += 1;
                *sum += number.to_big();
            }
            State::DecimalAverage { average, count } => {
                let Some(decimal) = number.to_decimal() else {
                    return Ok(());
                };
                *count += 1;
                let negated = Decimal {
                    unscaled: -&average.unscaled,
                    scale: average.scale,
                };
                let difference = add_decimals(&decimal, &negated)?;
                let count = Decimal {
                    unscaled: BigInt::from(*count),
                    scale: 0,
                };
                let scale = i64::from(difference.scale);
                if let Ok(step) = divide_at_scale(&difference, &count, scale, Rounding::HalfEven) {
                    *average = add_decimals(average, &step)?;
                }
            }
            State::FloatAverage { sum, count } => {
                *count += 1;
                sum.add(number.to_f64());
            }
        }
        Ok(())
    }

    /// The result over what was added; null only for extremes of nothing.
    pub fn finish(&self) -> Option<Vec<u8>> {
        let number = match &self.state {
            State::CountRows(count) | State::Count(count) => return Some(count.to_be_bytes().to_vec()),
            State::Extreme { value, .. } => return value.clone(),
            State::IntegerSum(sum) => Number::Integer(*sum),
            State::VarintSum(sum) => Number::Varint(sum.clone()),
            State::DecimalSum(sum) => Number::Decimal(sum.clone()),
            State::FloatSum(sum) => Number::Double(sum.total()),
            State::IntegerAverage { count: 0, .. } => Number::Integer(0),
            State::IntegerAverage { sum, count } => Number::Varint(sum / count),
            State::DecimalAverage { average, .. } => Number::Decimal(average.clone()),
            State::FloatAverage { count: 0, .. } => Number::Double(0.0),
            State::FloatAverage { sum, count } => Number::Double(sum.total() / *count as f64),
        };
        // An average of varints is one already; elsewhere it has become too large for nobody.
        match (&number, &self.cql_type) {
            (Number::Integer(value), CqlType::Varint) => {
                Number::Varint(BigInt::from(*value)).to_bytes(&CqlType::Varint)
            }
            _ => number.to_bytes(&self.cql_type),
        }
    }
}

impl CompensatedSum {
    fn add(&mut self, value: f64) {
        self.simple += value;
        let compensated = value - self.compensation;
        let rounded = self.sum + compensated;
        self.compensation = (rounded - self.sum) - compensated;
        self.sum = rounded;
    }

    fn total(&self) -> f64 {
        let total = self.sum + self.compensation;
        if total.is_nan() && self.simple.is_infinite() {
            self.simple
        } else {
            total
        }
    }
}

/// The sum at the finer scale.
fn add_decimals(left: &Decimal, right: &Decimal) -> Result<Decimal, CqlError> {
    let (left, right, scale) = aligned(left, right).map_err(|_| sum_too_long())?;
    let unscaled = left + right;
    match unscaled.bits() > SUM_BITS_MAX {
        true => Err(sum_too_long()),
        false => Ok(Decimal { unscaled, scale }),
    }
}

/// Twice as many digits as the numbers may have that are summed up: decimals of ever finer scales make ever longer sums.
const SUM_BITS_MAX: u64 = 2 * 8 * NUMBER_BYTES_MAX as u64;

fn sum_too_long() -> CqlError {
    invalid!(
        "The sum or average of these decimals would have more than {} digits, which aggregates do not take; leave out          those of extreme scale",
        2 * DECIMAL_DIGITS_MAX
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(kind: AggregateKind, cql_type: &CqlType, values: &[&str]) -> Option<String> {
        let mut accumulator = Accumulator::new(kind, cql_type);
        for value in values {
            let bytes = cql_type.from_text(value, 0).unwrap();
            accumulator.add(Some(&bytes)).unwrap();
        }
        accumulator.add(None).unwrap();
        let result_type = match kind {
            AggregateKind::Count | AggregateKind::CountRows => &CqlType::Bigint,
            _ => cql_type,
        };
        accumulator
            .finish()
            .map(|bytes| result_type.to_cql_literal(&bytes))
    }

    #[test]
    fn aggregates_are_cassandras() {
        use AggregateKind::{Average, Count, CountRows, Maximum, Minimum, Sum};
        let cases = [
            (Count, CqlType::Int, &["1", "2"][..], Some("2")),
            (CountRows, CqlType::Int, &["1", "2"], Some("3")),
            (Sum, CqlType::Tinyint, &["100", "100"], Some("-56")),
            (Average, CqlType::Int, &["1", "2"], Some("1")),
            (Average, CqlType::Int, &[], Some("0")),
            (Average, CqlType::Double, &["1", "2"], Some("1.5")),
            (Average, CqlType::Decimal, &["1.0", "2.0"], Some("1.5")),
            (Average, CqlType::Varint, &["7", "-2"], Some("2")),
            (Sum, CqlType::Decimal, &["1.10", "2"], Some("3.10")),
            (Minimum, CqlType::Text, &["b", "a"], Some("'a'")),
            (Maximum, CqlType::Int, &[], None),
        ];
        for (kind, cql_type, values, expected) in cases {
            assert_eq!(
                run(kind, &cql_type, values).as_deref(),
                expected,
                "{kind:?} of {values:?}"
            );
        }
    }
}
