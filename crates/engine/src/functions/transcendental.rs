//! Exponentials and logarithms of decimals, to as many digits as wanted: fixed-point arithmetic on big integers.

use helenus_types::value::Decimal;
use num_bigint::{BigInt, Sign};

use super::number::{digit_count, power_of_ten};
use super::operation::{Rounding, divide_at_scale};

/// Digits computed beyond those wanted, for rounding and for what the series lose.
const GUARD_DIGITS: u64 = 12;

/// Results beyond this many digits before the point are refused: nothing stored is that large.
const EXPONENT_MAX: f64 = 20_000.0;

/// `e^x` to `precision` significant digits; none if it is too large or too small to be written out.
pub(super) fn exponential(x: &Decimal, precision: u64) -> Option<Decimal> {
    let approximate: f64 = format!("{}e{}", x.unscaled, -i64::from(x.scale)).parse().ok()?;
    if approximate.abs() > EXPONENT_MAX {
        return None;
    }
    // The digits before the point of the result, or zeros behind it, come on top.
    let places = precision + GUARD_DIGITS + (approximate.abs() / std::f64::consts::LN_10) as u64;
    let one = power_of_ten(places);
    let x = fixed(x, places)?;
    let halvings = natural_logarithm_of_two(places);
    let power: BigInt = &x / &halvings;
    let rest = &x - &power * &halvings;
    let mut term = one.clone();
    let mut sum = one;
    let mut index = 1_u32;
    while term.sign() != Sign::NoSign {
        term = term * &rest / power_of_ten(places) / index;
        sum += &term;
        index += 1;
    }
    let power = i64::try_from(&power).ok()?;
    let shifted = match u64::try_from(power) {
        Ok(power) => sum << power,
        Err(_) => sum >> power.unsigned_abs(),
    };
    rounded(shifted, places, precision)
}

/// The natural logarithm of a positive number.
pub(super) fn natural_logarithm(x: &Decimal, precision: u64) -> Option<Decimal> {
    let places = precision + 2 * GUARD_DIGITS;
    rounded(fixed_logarithm(x, places)?, places, precision)
}

pub(super) fn decimal_logarithm(x: &Decimal, precision: u64) -> Option<Decimal> {
    let places = precision + 2 * GUARD_DIGITS;
    let ten = Decimal {
        unscaled: BigInt::from(10),
        scale: 0,
    };
    let quotient = fixed_logarithm(x, places)? * power_of_ten(places) / fixed_logarithm(&ten, places)?;
    rounded(quotient, places, precision)
}

/// ln(m * 10^e) = ln(m) + e ln(10), with m between 0.1 and 10 brought near 1 by halving.
fn fixed_logarithm(x: &Decimal, places: u64) -> Option<BigInt> {
    let digits = digit_count(&x.unscaled);
    let exponent = digits - 1 - i64::from(x.scale);
    let mantissa = Decimal {
        unscaled: x.unscaled.clone(),
        scale: i32::try_from(digits - 1).ok()?,
    };
    let two = natural_logarithm_of_two(places);
    let near_one =
        |value: BigInt, halvings: u32| inverse_hyperbolic(&(value >> halvings), places) + &two * halvings;
    // 10 / 8 = 1.25, and any mantissa below 10 is below 2 after three halvings.
    let ten = near_one(power_of_ten(places) * 10, 3);
    let value = fixed(&mantissa, places)?;
    let halvings = (0..3)
        .find(|halvings| (&value >> *halvings) < power_of_ten(places) * 3 / 2)
        .unwrap_or(3);
    Some(near_one(value, halvings) + ten * exponent)
}

fn natural_logarithm_of_two(places: u64) -> BigInt {
    inverse_hyperbolic(&(power_of_ten(places) * 2), places)
}

/// ln(v) = 2 artanh((v - 1) / (v + 1)), a series that is quick near 1.
fn inverse_hyperbolic(value: &BigInt, places: u64) -> BigInt {
    let one = power_of_ten(places);
    let ratio = (value - &one) * &one / (value + &one);
    let square = &ratio * &ratio / &one;
    let mut power = ratio.clone();
    let mut sum = ratio;
    let mut index = 3_u32;
    while power.sign() != Sign::NoSign {
        power = power * &square / &one;
        sum += &power / index;
        index += 2;
    }
    sum * 2
}

fn fixed(x: &Decimal, places: u64) -> Option<BigInt> {
    let one = Decimal {
        unscaled: BigInt::from(1),
        scale: 0,
    };
    let scale = i64::try_from(places).ok()?;
    divide_at_scale(x, &one, scale, Rounding::HalfEven)
        .ok()
        .map(|fixed| fixed.unscaled)
}

fn rounded(fixed: BigInt, places: u64, precision: u64) -> Option<Decimal> {
    let (digits, places) = (digit_count(&fixed), i64::try_from(places).ok()?);
    let value = Decimal {
        unscaled: fixed,
        scale: i32::try_from(places).ok()?,
    };
    let one = Decimal {
        unscaled: BigInt::from(1),
        scale: 0,
    };
    let scale = i64::try_from(precision).ok()? - (digits - places);
    divide_at_scale(&value, &one, scale, Rounding::HalfEven).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn known_constants_come_out_to_the_last_digit() {
        let e = exponential(&decimal("1"), 32).unwrap();
        assert_eq!(e.to_string(), "2.7182818284590452353602874713527");
        let inverse = exponential(&decimal("-1"), 32).unwrap();
        assert_eq!(inverse.to_string(), "0.36787944117144232159552377016146");
        let two = natural_logarithm(&decimal("2"), 32).unwrap();
        assert_eq!(two.to_string(), "0.69314718055994530941723212145818");
        let ten = natural_logarithm(&decimal("10"), 32).unwrap();
        assert_eq!(ten.to_string(), "2.3025850929940456840179914546844");
        let two = decimal_logarithm(&decimal("2"), 32).unwrap();
        assert_eq!(two.to_string(), "0.30102999566398119521373889472449");
        assert_eq!(
            natural_logarithm(&decimal("0.5"), 32).unwrap().unscaled.sign(),
            Sign::Minus
        );
        assert!(exponential(&decimal("1e9"), 32).is_none());
    }
}
