//! CQL types, values, comparators and tokens.
//!
//! Values travel through Helenus as the bytes of Cassandra's serialized form; this crate is the one place that
//! knows what those bytes mean. It does no I/O, holds no clock and knows no table.
//!
//! Bytes may come from a peer or a disk: nothing here panics on them, and no length found in them is trusted before
//! it is compared with what is there. Recursion follows the type, never the bytes; types that come from text are
//! parsed to at most [`TYPE_DEPTH_MAX`] levels, and those that a schema declares have [`ExtentBounds`].

pub mod compatibility;
pub mod cql_type;
pub mod extent;
pub mod identifier;
pub mod marshal_class;
pub mod type_name;

pub mod byte_comparable;
pub mod compare;
pub mod marshal_error;
pub mod validate;

pub mod from_text;
pub mod json;
pub mod literal;
pub mod utf8;
pub mod value;

pub mod partition_key;
pub mod token;

pub use cql_type::{CqlType, TYPE_DEPTH_MAX, UserType};
pub use extent::{ExtentBounds, TypeExtent, TypeTooLarge};
pub use identifier::{is_reserved_word, quoted_identifier};
pub use marshal_class::{ClassNameError, ParsedClass};
pub use marshal_error::MarshalError;
pub use token::{ShardId, Token, shard_of, token_of};
