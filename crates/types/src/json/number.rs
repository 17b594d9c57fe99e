//! Numbers of a JSON text, as the Java objects that they become.

use std::borrow::Cow;

use crate::value::floating::{format_double, parse_double};

/// A number, by the Java class that holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum JsonNumber<'a> {
    Integer(i32),
    Long(i64),
    /// Whole, and too large for a long.
    Big(&'a str),
    Double(f64),
}

impl<'a> JsonNumber<'a> {
    pub fn of(text: &'a str) -> JsonNumber<'a> {
        if text.contains(['.', 'e', 'E']) {
            return JsonNumber::Double(parse_double(text).unwrap_or(f64::NAN));
        }
        match (text.parse::<i32>(), text.parse::<i64>()) {
            (Ok(number), _) => JsonNumber::Integer(number),
            (_, Ok(number)) => JsonNumber::Long(number),
            _ => JsonNumber::Big(text),
        }
    }

    pub fn class_name(&self) -> &'static str {
        match self {
            JsonNumber::Integer(_) => "Integer",
            JsonNumber::Long(_) => "Long",
            JsonNumber::Big(_) => "BigInteger",
            JsonNumber::Double(_) => "Double",
        }
    }

    /// As Java prints it.
    pub fn text(&self) -> Cow<'a, str> {
        match *self {
            JsonNumber::Integer(number) => Cow::Owned(number.to_string()),
            JsonNumber::Long(number) => Cow::Owned(number.to_string()),
            JsonNumber::Big(text) => Cow::Borrowed(text),
            JsonNumber::Double(number) => Cow::Owned(format_double(number)),
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            JsonNumber::Integer(number) => Some(i64::from(number)),
            JsonNumber::Long(number) => Some(number),
            JsonNumber::Big(_) | JsonNumber::Double(_) => None,
        }
    }

    pub fn as_f64(&self) -> f64 {
        match *self {
            JsonNumber::Integer(number) => f64::from(number),
            JsonNumber::Long(number) => number as f64,
            JsonNumber::Big(text) => text.parse().unwrap_or(f64::NAN),
            JsonNumber::Double(number) => number,
        }
    }

    /// A fraction is rounded to a double first.
    pub fn as_f32(&self) -> f32 {
        match *self {
            JsonNumber::Integer(number) => number as f32,
            JsonNumber::Long(number) => number as f32,
            JsonNumber::Big(text) => text.parse().unwrap_or(f32::NAN),
            JsonNumber::Double(number) => number as f32,
        }
    }
}
