//! Text to values: what a constant in CQL, a map key in JSON or a cast from text means for a type.

use crate::cql_type::CqlType;
use crate::marshal_error::MarshalError;
use crate::value::blob::hex_decode;
use crate::value::date::parse_date;
use crate::value::decimal::Decimal;
use crate::value::duration::Duration;
use crate::value::floating::{parse_double, parse_float};
use crate::value::inet::parse_inet;
use crate::value::time::parse_time;
use crate::value::timestamp::parse_timestamp;
use crate::value::tuple::write_component;
use crate::value::uuid::{parse_uuid, uuid_version};
use crate::value::varint::{parse_varint, varint_of_big};

impl CqlType {
    /// Reads text as `AbstractType.fromString` does. `now_ms` is what the timestamp `now` stands for, in milliseconds
    /// since 1970. For most types empty text is the empty value.
    pub fn from_text(&self, text: &str, now_ms: i64) -> Result<Vec<u8>, MarshalError> {
        let may_be_empty = !matches!(self, CqlType::Boolean | CqlType::Date | CqlType::Time);
        if text.is_empty() && may_be_empty {
            return Ok(Vec::new());
        }
        match self {
            CqlType::Text => Ok(text.as_bytes().to_vec()),
            CqlType::Ascii => ascii_from_text(text),
            CqlType::Int => number::<i32, 4>(text, "Unable to make int from '", i32::to_be_bytes),
            CqlType::Bigint => number::<i64, 8>(text, "Unable to make long from '", i64::to_be_bytes),
            CqlType::Smallint => number::<i16, 2>(text, "Unable to make short from '", i16::to_be_bytes),
            CqlType::Tinyint => number::<i8, 1>(text, "Unable to make byte from '", i8::to_be_bytes),
            CqlType::Varint => {
                let value = parse_varint(text).ok_or_else(|| quoted("unable to make int from '", text))?;
                Ok(varint_of_big(&value))
            }
            CqlType::Decimal => {
                let value =
                    Decimal::parse(text).ok_or_else(|| quoted("unable to make BigDecimal from '", text))?;
                Ok(value.to_bytes())
            }
            CqlType::Double => {
                let value = parse_double(text).ok_or_else(|| quoted("Unable to make double from '", text))?;
                Ok(value.to_be_bytes().to_vec())
            }
            CqlType::Float => {
                let value = parse_float(text).ok_or_else(|| quoted("Unable to make float from '", text))?;
                Ok(value.to_be_bytes().to_vec())
            }
            CqlType::Boolean => boolean_from_text(text),
            CqlType::Uuid => {
                let uuid = parse_uuid(text).ok_or_else(|| quoted("Unable to make UUID from '", text))?;
                Ok(uuid.to_vec())
            }
            CqlType::Timeuuid => timeuuid_from_text(text),
            CqlType::Inet => {
                parse_inet(text).ok_or_else(|| quoted("Unable to make inet address from '", text))
            }
            CqlType::Timestamp => Ok(parse_timestamp(text, now_ms)?.to_be_bytes().to_vec()),
            CqlType::Date => Ok(parse_date(text)?.to_be_bytes().to_vec()),
            CqlType::Time => Ok(parse_time(text)?.to_be_bytes().to_vec()),
            CqlType::Duration => Ok(Duration::parse(text)?.to_bytes()),
            CqlType::Empty => Err(MarshalError::Text {
                before: "'",
                text: text.to_owned(),
                after: "' is not empty",
            }),
            CqlType::Tuple(_) | CqlType::UserDefined { .. } => self.tuple_from_text(text, now_ms),
            CqlType::Custom(_) if let Some(native) = self.native_form() => native.from_text(text, now_ms),
            CqlType::Blob
            | CqlType::Counter
            | CqlType::Custom(_)
            | CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Vector { .. } => hex_decode(text).ok_or_else(|| MarshalError::Text {
                before: "cannot parse '",
                text: text.to_owned(),
                after: "' as hex bytes",
            }),
        }
    }

    /// Components are separated by `:`; a null is `@`; both are escaped by a backslash inside components.
    fn tuple_from_text(&self, text: &str, now_ms: i64) -> Result<Vec<u8>, MarshalError> {
        let wanted = self.sub_types().count();
        let found = split_components(text).count();
        if found > wanted {
            return Err(MarshalError::TupleTextTooLong {
                tuple: self.clone(),
                wanted,
                found,
            });
        }
        let mut out = Vec::new();
        for (component, component_type) in split_components(text).zip(self.sub_types()) {
            if component == "@" {
                write_component(&mut out, None);
                continue;
            }
            let component = component.replace("\\:", ":").replace("\\@", "@");
            write_component(&mut out, Some(&component_type.from_text(&component, now_ms)?));
        }
        Ok(out)
    }
}

fn number<T: std::str::FromStr, const N: usize>(
    text: &str,
    message: &'static str,
    to_bytes: impl Fn(T) -> [u8; N],
) -> Result<Vec<u8>, MarshalError> {
    let value = text.parse().map_err(|_| quoted(message, text))?;
    Ok(to_bytes(value).to_vec())
}

fn ascii_from_text(text: &str) -> Result<Vec<u8>, MarshalError> {
    let Some(character) = text.chars().find(|character| !character.is_ascii()) else {
        return Ok(text.as_bytes().to_vec());
    };
    Err(MarshalError::Text {
        before: "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = ",
        // Counted in the UTF-16 units that Java's strings are made of.
        text: character.len_utf16().to_string(),
        after: "",
    })
}

fn boolean_from_text(text: &str) -> Result<Vec<u8>, MarshalError> {
    if text.is_empty() || text.eq_ignore_ascii_case("false") {
        Ok(vec![0])
    } else if text.eq_ignore_ascii_case("true") {
        Ok(vec![1])
    } else {
        Err(quoted("Unable to make boolean from '", text))
    }
}

fn timeuuid_from_text(text: &str) -> Result<Vec<u8>, MarshalError> {
    let uuid = parse_uuid(text).ok_or_else(|| MarshalError::Text {
        before: "Unknown timeuuid representation: ",
        text: text.to_owned(),
        after: "",
    })?;
    if uuid_version(uuid) == 1 {
        Ok(uuid.to_vec())
    } else {
        Err(MarshalError::TimeuuidText)
    }
}

/// Splits at every colon that has no backslash right before it.
fn split_components(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    let mut is_done = false;
    std::iter::from_fn(move || {
        if is_done {
            return None;
        }
        let mut from = start;
        loop {
            let Some(colon) = text.get(from..)?.find(':').map(|at| at + from) else {
                is_done = true;
                return text.get(start..);
            };
            from = colon + 1;
            let is_escaped = colon > 0 && text.as_bytes()[colon - 1] == b'\\';
            if !is_escaped {
                let component = text.get(start..colon);
                start = from;
                return component;
            }
        }
    })
}

/// The message that ends by quoting the text.
fn quoted(before: &'static str, text: &str) -> MarshalError {
    MarshalError::Text {
        before,
        text: text.to_owned(),
        after: "'",
    }
}
