//! JSON: values to text, and text to values, as `SELECT JSON`, `INSERT JSON`, `to_json` and `from_json` have them.
//!
//! A text is read twice and never made into a tree. First [`parse`] sees to it that it is well formed, in the words of
//! the library that Cassandra reads it with (Jackson 2.13); then [`JsonValue`]s, which are parts of the text, are decoded by
//! the type that is wanted. Both take time in proportion to the text, times the depth of the type for the latter, and memory
//! for what is decoded only.
//!
//! [`parse`]: JsonValue::parse

mod decode;
mod encode;
mod error;
mod java_text;
mod number;
mod source;
mod syntax;
mod value;

pub use encode::JsonNumberTooLong;
pub use encode::{quoted_json_name, write_json_string};
pub use error::{JsonError, JsonSyntaxError, shown};
pub use value::{JsonObject, JsonValue, MapParsed, unquoted_name};

#[cfg(test)]
mod tests;
