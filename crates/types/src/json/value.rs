//! Parts of a JSON text that is known to be well formed.

use std::borrow::Cow;

use super::error::JsonSyntaxError;
use super::syntax::{self, MAP_DEPTH_MAX, VALUE_DEPTH_MAX};

/// A value in a well-formed text, which goes on behind it.
#[derive(Clone, Copy, Debug)]
pub struct JsonValue<'a> {
    /// Begins with the value's first byte.
    text: &'a str,
}

/// Kind of a value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    Null,
    Boolean(bool),
    Number,
    String,
    Array,
    Object,
}

/// An object in a well-formed text.
#[derive(Clone, Copy, Debug)]
pub struct JsonObject<'a> {
    /// Begins behind its brace.
    text: &'a str,
}

/// A text that was to be an object.
#[derive(Debug)]
pub enum MapParsed<'a> {
    Null,
    Object(JsonObject<'a>),
}

impl<'a> JsonValue<'a> {
    /// Reads the first value of a text; as in Cassandra, what follows it does not matter.
    pub fn parse(text: &'a str) -> Result<JsonValue<'a>, JsonSyntaxError> {
        let start = syntax::check_value(text, VALUE_DEPTH_MAX)?;
        Ok(JsonValue::at(text, start))
    }

    /// As [`parse`](Self::parse), where only an object is wanted, or `null`.
    pub fn parse_map(text: &'a str) -> Result<MapParsed<'a>, JsonSyntaxError> {
        let start = syntax::check_map(text, MAP_DEPTH_MAX)?;
        let value = JsonValue::at(text, start);
        Ok(match value.as_object() {
            Some(object) => MapParsed::Object(object),
            None => MapParsed::Null,
        })
    }

    fn at(text: &'a str, start: usize) -> JsonValue<'a> {
        JsonValue {
            text: text.get(start..).unwrap_or_default(),
        }
    }

    pub(super) fn kind(&self) -> JsonKind {
        match self.text.as_bytes().first() {
            Some(b'n') | None => JsonKind::Null,
            Some(b't') => JsonKind::Boolean(true),
            Some(b'f') => JsonKind::Boolean(false),
            Some(b'"') => JsonKind::String,
            Some(b'[') => JsonKind::Array,
            Some(b'{') => JsonKind::Object,
            Some(_) => JsonKind::Number,
        }
    }

    pub fn is_null(&self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// The digits, sign, point and exponent of a number.
    pub(super) fn number_text(&self) -> &'a str {
        let length = literal_length(self.text.as_bytes());
        self.text.get(..length).unwrap_or_default()
    }

    /// From the value on.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// A string without its quotes and escapes; nothing for other values.
    pub(super) fn string(&self) -> Cow<'a, str> {
        unescaped(self.text).0
    }

    pub(super) fn elements(&self) -> Elements<'a> {
        let inside = match self.kind() {
            JsonKind::Array => self.text.get(1..).unwrap_or_default(),
            _ => "",
        };
        Elements {
            rest: inside,
            last: None,
        }
    }

    pub fn as_object(&self) -> Option<JsonObject<'a>> {
        match self.kind() {
            JsonKind::Object => Some(JsonObject {
                text: self.text.get(1..).unwrap_or_default(),
            }),
            _ => None,
        }
    }

    /// Text behind the value.
    fn behind(&self) -> &'a str {
        self.text.get(length(self.text)..).unwrap_or_default()
    }
}

impl<'a> JsonObject<'a> {
    /// Names with their values, as written; a name may come more than once.
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            rest: self.text,
            last: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Elements<'a> {
    rest: &'a str,
    /// Gone past when the next one is wanted.
    last: Option<JsonValue<'a>>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = JsonValue<'a>;

    fn next(&mut self) -> Option<JsonValue<'a>> {
        if let Some(last) = self.last.take() {
            self.rest = last.behind();
        }
        let value = JsonValue {
            text: next_part(self.rest)?,
        };
        self.last = Some(value);
        Some(value)
    }
}

#[derive(Debug)]
pub struct Entries<'a> {
    rest: &'a str,
    /// Gone past when the next one is wanted.
    last: Option<JsonValue<'a>>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Cow<'a, str>, JsonValue<'a>);

    fn next(&mut self) -> Option<(Cow<'a, str>, JsonValue<'a>)> {
        if let Some(last) = self.last.take() {
            self.rest = last.behind();
        }
        let text = next_part(self.rest)?;
        let (name, length) = unescaped(text);
        let behind = text.get(length..)?;
        let value = JsonValue {
            text: behind.trim_start_matches([' ', '\t', '\r', '\n', ':']),
        };
        self.last = Some(value);
        Some((name, value))
    }
}

/// From the next element or name on; none at the end of its array or object.
fn next_part(rest: &str) -> Option<&str> {
    let text = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
    match text.as_bytes().first() {
        None | Some(b']' | b'}') => None,
        Some(_) => Some(text),
    }
}

/// The bytes of the value that a text begins with.
fn length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at += string_length(&bytes[at..]),
            b'[' | b'{' => {
                depth += 1;
                at += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            _ => at += literal_length(&bytes[at..]),
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The bytes of the number or word that begins here.
pub(super) fn literal_length(bytes: &[u8]) -> usize {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    bytes.iter().take_while(is_part).count().max(1)
}

/// The bytes of the string that begins here, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The string that a text begins with, and how many bytes of the text it takes.
pub(super) fn unescaped(text: &str) -> (Cow<'_, str>, usize) {
    if !text.starts_with('"') {
        return (Cow::Borrowed(""), 0);
    }
    let length = string_length(text.as_bytes());
    let inside = text.get(1..length.saturating_sub(1)).unwrap_or_default();
    match inside.contains('\\') {
        true => (Cow::Owned(without_escapes(inside)), length),
        false => (Cow::Borrowed(inside), length),
    }
}

fn without_escapes(inside: &str) -> String {
    let mut out = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let (character, taken) = escaped_character(escape);
        out.push(character);
        rest = escape.get(taken..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The character that an escape stands for, and the bytes of it behind the backslash. Half of a surrogate pair alone is a
/// question mark, as where Java encodes it.
fn escaped_character(escape: &str) -> (char, usize) {
    let simple = match escape.as_bytes().first() {
        Some(b'b') => '\u{8}',
        Some(b't') => '\t',
        Some(b'n') => '\n',
        Some(b'f') => '\u{c}',
        Some(b'r') => '\r',
        Some(b'u') => {
            let unit = unit_at(escape, 1);
            if let Some(character) = char::from_u32(unit) {
                return (character, 5);
            }
            let low = match escape.get(5..7) {
                Some("\\u") if unit < 0xdc00 => unit_at(escape, 7),
                _ => 0,
            };
            return match low {
                0xdc00..=0xdfff => {
                    let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    (char::from_u32(code).unwrap_or('?'), 11)
                }
                _ => ('?', 5),
            };
        }
        Some(byte) => char::from(*byte),
        None => return ('?', 0),
    };
    (simple, 1)
}

/// The four hex digits at this place.
fn unit_at(text: &str, at: usize) -> u32 {
    let digits = text.get(at..at + 4).unwrap_or_default();
    u32::from_str_radix(digits, 16).unwrap_or(0)
}

/// The name of the column or field that a name in JSON means: as it is within quotes of its own, else in lower case.
pub fn unquoted_name<'n>(name: &'n str) -> Cow<'n, str> {
    let inside = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inside {
        Some(inside) => Cow::Borrowed(inside),
        None if name
            .bytes()
            .any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) =>
        {
            Cow::Owned(name.to_lowercase())
        }
        None => Cow::Borrowed(name),
    }
}
