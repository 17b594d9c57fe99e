//! The log of acknowledged writes that are not in SSTables yet.

mod position;

pub use position::LogPosition;
