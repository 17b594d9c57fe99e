//! Faults of writing values.

use helenus_types::json::JsonNumberTooLong;
use thiserror::Error;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ArrowError {
    /// A varint or decimal, which are written as text.
    #[error(transparent)]
    Number(#[from] JsonNumberTooLong),
    /// Offsets have 32 bits.
    #[error("A column of more than 2 GiB is too long for a record batch; ask for smaller pages")]
    ColumnTooLong,
}
