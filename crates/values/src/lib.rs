//! Rust values to and from the bytes of CQL values.

#![deny(missing_docs)]

mod bind;
mod column;
mod row;

pub use bind::{BindError, BindValue, BindValues, BoundValues, Unset};
pub use column::{ColumnError, FromColumn};
pub use row::{FromRow, Row, RowError};
