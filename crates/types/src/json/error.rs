//! Why a text is no JSON, or not of the type that is wanted, in Cassandra's words.

use std::fmt;

use thiserror::Error;

use crate::marshal_error::MarshalError;

/// Bytes shown at most of a text or value that a message quotes: a message of the protocol has 64 KiB at most.
pub(crate) const TEXT_SHOWN_BYTES_MAX: usize = 16 << 10;

/// The beginning of a text that a message quotes.
pub fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_SHOWN_BYTES_MAX))
        .unwrap_or(text)
}

/// A text that is no JSON, or no JSON object where one is wanted. Prints the message of Java's exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonSyntaxError {
    pub(super) class: &'static str,
    pub(super) message: String,
    /// Where in the source, with the source's beginning.
    pub(super) location: String,
}

impl fmt::Display for JsonSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n at {}", self.message, self.location)
    }
}

impl JsonSyntaxError {
    /// The exception as Java prints it: its class before its message.
    pub fn with_class(&self) -> String {
        format!("{}: {self}", self.class)
    }
}

/// A well-formed JSON value that is not one of the type that is wanted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonError {
    #[error("Expected {expected}, but got {article}{kind}: {value}")]
    Unexpected {
        expected: &'static str,
        /// "a " before the name of a Java class.
        article: &'static str,
        kind: &'static str,
        value: String,
    },
    /// A value that is to be read by its text, which is no number of the type.
    #[error("Value '{value}' is not a valid representation of a {type_name} value")]
    NotNumber { value: String, type_name: &'static str },
    #[error("Value '{value}' is not a valid blob representation: {cause}")]
    NotBlob { value: String, cause: String },
    #[error("{0}")]
    Text(MarshalError),
    /// Durations fail in another way than all others, so that nobody says which column it was.
    #[error("{0}")]
    Duration(MarshalError),
    #[error("Error decoding JSON string: {0}")]
    Nested(JsonSyntaxError),
    /// `place` is "element in list" and the like.
    #[error("Invalid null {place}")]
    Null { place: &'static str },
    #[error("Tuple {problem} items (expected {expected}): {value}")]
    TupleLength {
        problem: &'static str,
        expected: usize,
        value: String,
    },
    #[error("List had incorrect size: expected {expected} but given {given}; {value}")]
    VectorLength {
        expected: u32,
        given: usize,
        value: String,
    },
    #[error("Unknown field '{field}' in value of user defined type {type_name}")]
    UnknownField { field: String, type_name: String },
    #[error("JSON values of type {0} are not supported")]
    Unsupported(&'static str),
}
