//! Checks that a text begins with a JSON value: the rules, messages and places of Jackson 2.13, which Cassandra reads JSON with.

use super::error::JsonSyntaxError;
use super::source::{described, is_currency_or_connector, is_identifier_part, source_at};

/// Arrays and objects within each other; one more is refused, as by Cassandra.
pub(super) const VALUE_DEPTH_MAX: usize = 1_002;

/// Nesting depth at most of a text that is to be an object, which does not count itself.
pub(super) const MAP_DEPTH_MAX: usize = VALUE_DEPTH_MAX + 1;

/// The unknown word that a message shows.
const TOKEN_SHOWN_MAX: usize = 256;

const VALUES: &str = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')";
const MAP_CLASS: &str = "java.util.LinkedHashMap<java.lang.Object,java.lang.Object>";

const PARSE: &str = "com.fasterxml.jackson.core.JsonParseException";
const END: &str = "com.fasterxml.jackson.core.io.JsonEOFException";
const MISMATCHED: &str = "com.fasterxml.jackson.databind.exc.MismatchedInputException";
const FORMAT: &str = "com.fasterxml.jackson.databind.exc.InvalidFormatException";

type Checked<T> = Result<T, Box<JsonSyntaxError>>;

/// Checks the value that the text begins with. Returns where it starts.
pub(super) fn check_value(text: &str, depth_max: usize) -> Result<usize, JsonSyntaxError> {
    let mut scanner = Scanner::new(text, depth_max);
    scanner.document().map_err(|error| *error)
}

/// As [`check_value`], where only an object or `null` is wanted: anything else is refused once it is seen.
pub(super) fn check_map(text: &str, depth_max: usize) -> Result<usize, JsonSyntaxError> {
    let mut scanner = Scanner::new(text, depth_max);
    let start = scanner.start().map_err(|error| *error)?;
    if scanner.peek() == Some(b'{') {
        return scanner.document().map_err(|error| *error);
    }
    scanner.no_map(start).map_err(|error| *error)?;
    Ok(start)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

/// Part that is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Value,
    /// The first of a container's parts, or its end.
    FirstOrEnd,
    /// The comma behind one of its parts, or its end.
    CommaOrEnd,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    open: Vec<(Container, usize)>,
    depth_max: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, depth_max: usize) -> Self {
        Scanner {
            text,
            at: 0,
            open: Vec::new(),
            depth_max,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn character_at(&self, at: usize) -> Option<char> {
        self.text.get(at..)?.chars().next()
    }

    fn type_name(&self) -> &'static str {
        match self.open.last() {
            None => "root",
            Some((Container::Array, _)) => "Array",
            Some((Container::Object, _)) => "Object",
        }
    }

    /// Goes to the first byte of the text's value.
    fn start(&mut self) -> Checked<usize> {
        match self.skip_blanks()? {
            Some(_) => Ok(self.at),
            None => Err(Box::new(JsonSyntaxError {
                class: MISMATCHED,
                message: "No content to map due to end-of-input".to_owned(),
                location: source_at(self.text, 1, 0),
            })),
        }
    }

    /// Reads the value. Returns where it started.
    fn document(&mut self) -> Checked<usize> {
        let start = self.start()?;
        let mut wanted = Wanted::Value;
        loop {
            wanted = match wanted {
                Wanted::Value => self.value()?,
                Wanted::FirstOrEnd => self.first_or_end()?,
                Wanted::CommaOrEnd => self.comma_or_end()?,
            };
            if self.open.is_empty() {
                return Ok(start);
            }
        }
    }

    fn first_or_end(&mut self) -> Checked<Wanted> {
        match self.skip_blanks()? {
            None => Err(self.unclosed()),
            Some(byte @ (b']' | b'}')) => self.close(byte),
            Some(_) => self.part(),
        }
    }

    fn comma_or_end(&mut self) -> Checked<Wanted> {
        match self.skip_blanks()? {
            None => Err(self.unclosed()),
            Some(byte @ (b']' | b'}')) => self.close(byte),
            Some(b',') => {
                self.at += 1;
                if self.skip_blanks()?.is_none() {
                    let kind = self.type_name();
                    let message = format!("Unexpected end-of-input within/between {kind} entries");
                    return Err(self.error(PARSE, message, self.text.len(), 0));
                }
                self.part()
            }
            Some(_) => {
                let wanted = format!("was expecting comma to separate {} entries", self.type_name());
                Err(self.unexpected(self.at, &wanted))
            }
        }
    }

    /// One element, or one name with its value.
    fn part(&mut self) -> Checked<Wanted> {
        if matches!(self.open.last(), Some((Container::Object, _))) {
            match self.peek() {
                Some(b'"') => self.string("name", " in field name")?,
                _ => return Err(self.unexpected(self.at, "was expecting double-quote to start field name")),
            }
            self.colon()?;
        }
        self.value()
    }

    fn colon(&mut self) -> Checked<()> {
        for has_colon in [false, true] {
            match self.skip_blanks()? {
                None => {
                    return Err(self.end(" within/between Object entries"));
                }
                Some(b':') if !has_colon => self.at += 1,
                Some(_) if !has_colon => {
                    return Err(
                        self.unexpected(self.at, "was expecting a colon to separate field name and value")
                    );
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A whole value, or the beginning of an array or object.
    fn value(&mut self) -> Checked<Wanted> {
        match self.peek() {
            Some(byte @ (b'[' | b'{')) => {
                if self.open.len() >= self.depth_max {
                    let message = "JSON is too deeply nested.".to_owned();
                    return Err(self.error(PARSE, message, self.at, 1));
                }
                let container = if byte == b'[' {
                    Container::Array
                } else {
                    Container::Object
                };
                self.open.push((container, self.at));
                self.at += 1;
                return Ok(Wanted::FirstOrEnd);
            }
            Some(b'}') => return Err(self.unexpected(self.at, "expected a value")),
            Some(b'"') => {
                self.string("string value", ": was expecting closing quote for a string value")?;
            }
            Some(b't') => self.word("true", 1)?,
            Some(b'f') => self.word("false", 1)?,
            Some(b'n') => self.word("null", 1)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'N') => return self.no_number("NaN", 1),
            Some(b'I') => return self.no_number("Infinity", 1),
            Some(b'+') => return self.no_digits(self.at + 1, false),
            _ => return self.odd_value(),
        }
        Ok(Wanted::CommaOrEnd)
    }

    fn odd_value(&mut self) -> Checked<Wanted> {
        let first = self.character_at(self.at).unwrap_or_default();
        let begins_word = first.is_alphabetic() || is_currency_or_connector(first);
        if begins_word && first.len_utf16() == 1 {
            return Err(self.unknown_word(self.at, self.at + first.len_utf8()));
        }
        Err(self.unexpected(self.at, &format!("expected a valid value {VALUES}")))
    }

    fn close(&mut self, byte: u8) -> Checked<Wanted> {
        let closes = if byte == b']' {
            Container::Array
        } else {
            Container::Object
        };
        match self.open.last() {
            Some((container, _)) if *container == closes => {
                self.open.pop();
                self.at += 1;
                Ok(Wanted::CommaOrEnd)
            }
            _ => Err(self.wrong_close(byte)),
        }
    }

    fn wrong_close(&self, byte: u8) -> Box<JsonSyntaxError> {
        let expected = if byte == b']' { '}' } else { ']' };
        let begun = match self.open.last() {
            Some((_, start)) => self.location(*start, 0),
            None => source_at(self.text, 1, 0),
        };
        let message = format!(
            "Unexpected close marker '{}': expected '{expected}' (for {} starting at {begun})",
            char::from(byte),
            self.type_name(),
        );
        self.error(PARSE, message, self.at, 1)
    }

    fn unclosed(&self) -> Box<JsonSyntaxError> {
        let begun = self
            .open
            .last()
            .map(|(_, start)| self.location(*start, 0))
            .unwrap_or_default();
        let wanted = format!(
            ": expected close marker for {} (start marker at {begun})",
            self.type_name()
        );
        self.end(&wanted)
    }

    /// Goes to the next byte that is no blank.
    fn skip_blanks(&mut self) -> Checked<Option<u8>> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'/') => {
                    let wanted = "maybe a (non-standard) comment? (not recognized as one since Feature \
                                  'ALLOW_COMMENTS' not enabled for parser)";
                    return Err(self.unexpected(self.at, wanted));
                }
                Some(byte @ 0..=0x1f) => {
                    let message = format!(
                        "Illegal character ({}): only regular white space (\\r, \\n, \\t) is allowed between tokens",
                        described(char::from(byte))
                    );
                    return Err(self.error(PARSE, message, self.at, 1));
                }
                other => return Ok(other),
            }
        }
    }

    fn string(&mut self, place: &str, unclosed: &str) -> Checked<()> {
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.end(unclosed)),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(byte @ 0..=0x1f) => {
                    let message = format!(
                        "Illegal unquoted character ({}): has to be escaped using backslash to be included in {place}",
                        described(char::from(byte))
                    );
                    return Err(self.error(PARSE, message, self.at, 1));
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Checked<()> {
        const END_WITHIN: &str = " in character escape sequence";
        self.at += 1;
        match self.character_at(self.at) {
            None => return Err(self.end(END_WITHIN)),
            Some('b' | 't' | 'n' | 'f' | 'r' | '"' | '/' | '\\') => {}
            Some('u') => {
                for digit in 1..=4 {
                    match self.character_at(self.at + digit) {
                        None => return Err(self.end(END_WITHIN)),
                        Some(character) if character.is_ascii_hexdigit() => {}
                        Some(_) => {
                            let wanted = "expected a hex-digit for character escape sequence";
                            return Err(self.unexpected(self.at + digit, wanted));
                        }
                    }
                }
                self.at += 4;
            }
            Some(other) => {
                let message = format!("Unrecognized character escape {}", described(other));
                return Err(self.error(PARSE, message, self.at, 1));
            }
        }
        self.at += 1;
        Ok(())
    }

    /// A word of which so many letters are known to be there.
    fn word(&mut self, word: &str, known: usize) -> Checked<()> {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        let matching = word
            .bytes()
            .zip(rest)
            .take_while(|(wanted, found)| wanted == *found);
        let matching = matching.count().max(known);
        let behind = self.character_at(start + matching);
        if matching < word.len() || behind.is_some_and(is_identifier_part) {
            return Err(self.unknown_word(start, start + matching));
        }
        self.at = start + matching;
        Ok(())
    }

    /// A name of a number that JSON does not have.
    fn no_number(&mut self, word: &str, known: usize) -> Checked<Wanted> {
        self.word(word, known)?;
        let message = format!(
            "Non-standard token '{word}': enable JsonParser.Feature.ALLOW_NON_NUMERIC_NUMBERS to allow"
        );
        Err(self.error(PARSE, message, self.at, 0))
    }

    /// Behind a sign something else than a digit is.
    fn no_digits(&mut self, behind: usize, is_negative: bool) -> Checked<Wanted> {
        match self.character_at(behind) {
            None if is_negative => Err(self.end("No digit following minus sign")),
            None => Err(self.end(" in a Number value")),
            Some('I') => {
                let words = match (self.character_at(behind + 1), is_negative) {
                    (None, _) => return Err(self.end(" in a Number value")),
                    (Some('N'), true) => Some("-INF"),
                    (Some('N'), false) => Some("+INF"),
                    (Some('n'), true) => Some("-Infinity"),
                    (Some('n'), false) => Some("+Infinity"),
                    _ => None,
                };
                match words {
                    Some(word) => self.no_number(word, 3),
                    None => Err(self.not_numeric(behind + 1, 1, MINUS)),
                }
            }
            Some(_) => Err(self.not_numeric(behind, 1, MINUS)),
        }
    }

    fn digits_from(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// Jackson reads a number in a fast way, and again in a slow one if it starts with a zero or the text ends with it. The two
    /// differ in where they say that a digit is missing.
    fn number(&mut self) -> Checked<()> {
        let digits = self.at + usize::from(self.peek() == Some(b'-'));
        let bytes = self.text.as_bytes();
        let behind_digits = self.digits_from(digits);
        if behind_digits == digits {
            return self.no_digits(digits, true).map(drop);
        }
        let has_zero = bytes[digits] == b'0';
        if has_zero && behind_digits > digits + 1 {
            let message = "Invalid numeric value: Leading zeroes not allowed".to_owned();
            return Err(self.error(PARSE, message, digits + 1, 0));
        }
        let mut end = behind_digits;
        let mut first_mark = None;
        if bytes.get(end) == Some(&b'.') {
            first_mark = Some(end);
            let behind = self.digits_from(end + 1);
            if behind == end + 1 {
                return Err(match bytes.get(behind) {
                    None => self.not_numeric_as(behind - 1, behind, FRACTION),
                    Some(_) if has_zero => self.not_numeric(behind, 1, FRACTION),
                    Some(_) => self.not_numeric(behind, 0, FRACTION),
                });
            }
            end = behind;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let first_mark = *first_mark.get_or_insert(end);
            let has_sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
            let exponent = end + 1 + usize::from(has_sign);
            end = self.digits_from(exponent);
            if end == exponent {
                return Err(match bytes.get(end) {
                    None => self.end("expected a digit for number exponent"),
                    Some(_) if has_zero => self.not_numeric(end, 1, EXPONENT),
                    Some(_) => self.not_numeric_as(end, first_mark + 1, EXPONENT),
                });
            }
        }
        let is_divided = matches!(bytes.get(end), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
        if self.open.is_empty() && !is_divided {
            return Err(self.unexpected(end, "Expected space separating root-level values"));
        }
        self.at = end;
        Ok(())
    }

    /// Makes the error of the character at this place, so many units of which were read.
    fn not_numeric(&self, at: usize, units: usize, wanted: &str) -> Box<JsonSyntaxError> {
        let character = self.character_at(at).unwrap_or_default();
        let message = format!(
            "Unexpected character ({}) in numeric value: {wanted}",
            described(character)
        );
        self.error(PARSE, message, at, units)
    }

    /// As [`not_numeric`](Self::not_numeric), where Jackson names another place.
    fn not_numeric_as(&self, at: usize, read: usize, wanted: &str) -> Box<JsonSyntaxError> {
        let mut error = self.not_numeric(at, 0, wanted);
        error.location = self.location_read(read, 0);
        error
    }

    /// A word that is none of JSON's, known up to `known`.
    fn unknown_word(&self, start: usize, known: usize) -> Box<JsonSyntaxError> {
        let mut shown = self.text.get(start..known).unwrap_or_default().to_owned();
        let mut end = known;
        for character in self.text.get(known..).unwrap_or_default().chars() {
            if !is_identifier_part(character) {
                break;
            }
            shown.push(character);
            end += character.len_utf8();
            if shown.chars().count() >= TOKEN_SHOWN_MAX {
                shown.push_str("...");
                break;
            }
        }
        let message = format!("Unrecognized token '{shown}': was expecting {VALUES}");
        self.error(PARSE, message, end, 0)
    }

    fn unexpected(&self, at: usize, wanted: &str) -> Box<JsonSyntaxError> {
        let character = self.character_at(at).unwrap_or_default();
        let message = format!("Unexpected character ({}): {wanted}", described(character));
        self.error(PARSE, message, at, 1)
    }

    fn end(&self, what: &str) -> Box<JsonSyntaxError> {
        let message = format!("Unexpected end-of-input{what}");
        self.error(END, message, self.text.len(), 0)
    }

    /// Something else than an object.
    fn no_map(&mut self, start: usize) -> Checked<()> {
        let (kind, token) = match self.peek() {
            Some(b'[') => ("Array value", "START_ARRAY"),
            Some(b'"') => return Err(self.string_for_map(start)?),
            Some(byte @ (b']' | b'}')) => return Err(self.wrong_close(byte)),
            byte => {
                self.value()?;
                match byte {
                    Some(b'n') => return Ok(()),
                    Some(b't') => ("Boolean value", "VALUE_TRUE"),
                    Some(b'f') => ("Boolean value", "VALUE_FALSE"),
                    _ if self
                        .text
                        .get(start..self.at)
                        .unwrap_or_default()
                        .contains(['.', 'e', 'E']) =>
                    {
                        ("Floating-point value", "VALUE_NUMBER_FLOAT")
                    }
                    _ => ("Integer value", "VALUE_NUMBER_INT"),
                }
            }
        };
        let message =
            format!("Cannot deserialize value of type `{MAP_CLASS}` from {kind} (token `JsonToken.{token}`)");
        Err(self
            .error(MISMATCHED, message, start, 1)
            .moved_to(self.location(start, 0)))
    }

    fn string_for_map(&mut self, start: usize) -> Checked<Box<JsonSyntaxError>> {
        self.value()?;
        let value = super::value::unescaped(self.text.get(start..).unwrap_or_default()).0;
        let (class, message) = match value.trim().is_empty() {
            true => (
                FORMAT,
                format!(
                    "Cannot coerce empty String (\"\") to element of `{MAP_CLASS}` (but could if coercion was enabled \
                     using `CoercionConfig`)"
                ),
            ),
            false => (
                MISMATCHED,
                format!(
                    "Cannot construct instance of `java.util.LinkedHashMap` (although at least one Creator exists): no \
                     String-argument constructor/factory method to deserialize from String value ('{}')",
                    super::error::shown(&value)
                ),
            ),
        };
        Ok(self
            .error(class, message, start, 1)
            .moved_to(self.location(start, 0)))
    }

    /// `read` bytes, and so many UTF-16 units of what follows, were read when the error was noticed.
    fn error(&self, class: &'static str, message: String, read: usize, units: usize) -> Box<JsonSyntaxError> {
        Box::new(JsonSyntaxError {
            class,
            message,
            location: self.location_read(read, units),
        })
    }

    /// The place of the character that begins at this byte.
    fn location(&self, at: usize, units: usize) -> String {
        self.location_read(at, units)
    }

    fn location_read(&self, read: usize, units: usize) -> String {
        let before = self.text.get(..read).unwrap_or(self.text);
        let line_start = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
        let breaks =
            before.matches('\n').count() + before.matches('\r').count() - before.matches("\r\n").count();
        let column = before[line_start..].encode_utf16().count() + units + 1;
        source_at(self.text, breaks + 1, column)
    }
}

const MINUS: &str = "expected digit (0-9) to follow minus sign, for valid numeric value";
const FRACTION: &str = "Decimal point not followed by a digit";
const EXPONENT: &str = "Exponent indicator not followed by a digit";

impl JsonSyntaxError {
    fn moved_to(mut self: Box<Self>, location: String) -> Box<Self> {
        self.location = location;
        self
    }
}
