//! The serialized forms of values: how each kind of value is laid out in bytes, and how those bytes are read.
//!
//! Lengths inside values are big-endian i32, as native protocol v3 and later and SSTables have them; vectors of
//! variable-length elements and durations use [`vint`]s.

pub mod blob;
pub mod vint;

pub mod collection;
pub mod tuple;
pub mod vector;

pub mod decimal;
pub mod floating;
pub mod varint;

pub mod calendar;
pub mod date;
pub mod duration;
mod scan;
pub mod time;
pub mod timestamp;

pub mod inet;
pub mod timeuuid;
pub mod uuid;

pub use collection::{CollectionElements, MapEntries, write_collection};
pub use decimal::Decimal;
pub use duration::Duration;
pub use timeuuid::TimeuuidGenerator;
pub use tuple::{TupleComponents, write_component};
pub use vector::VectorElements;
