//! Rows, as tuples of Rust values.

use helenus_types::CqlType;

use crate::column::{ColumnError, FromColumn};

/// A row cannot be read as what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// The number of columns is not that of the tuple, or there is no column at the index asked for.
    #[error("rows of {found} columns cannot be read as {wanted}")]
    ColumnCount {
        /// Columns that the tuple has, or that the index needs at least.
        wanted: usize,
        /// Columns of the row.
        found: usize,
    },
    /// A column's value cannot be read as its Rust type.
    #[error("column {index}: {source}")]
    Column {
        /// Place of the column, from 0.
        index: usize,
        /// Cause, which names both types.
        source: ColumnError,
    },
    /// The answer has no rows: it is not one of a SELECT.
    #[error("the statement returned no rows")]
    NoRows,
    /// One row was asked for, and the page has none.
    #[error("there is no row")]
    Empty,
}

/// One row: the types of its columns and their serialized values.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Types of the columns, in the order of the result.
    pub types: &'a [CqlType],
    /// Serialized value of each column; `None` is null.
    pub values: &'a [Option<&'a [u8]>],
}

impl<'a> Row<'a> {
    /// Returns the number of columns.
    pub fn column_count(&self) -> usize {
        self.values.len()
    }

    /// The column at `index` as a Rust value.
    pub fn column<T: FromColumn<'a>>(&self, index: usize) -> Result<T, RowError> {
        let (Some(data_type), Some(value)) = (self.types.get(index), self.values.get(index)) else {
            return Err(RowError::ColumnCount {
                wanted: index + 1,
                found: self.values.len(),
            });
        };
        T::from_column(data_type, *value).map_err(|source| RowError::Column { index, source })
    }
}

/// Type that a row can be read as. The values must own what they need: the row's bytes are gone with its page.
pub trait FromRow: Sized {
    /// Reads the columns in their order; a tuple takes exactly as many as it has fields.
    fn from_row(row: Row<'_>) -> Result<Self, RowError>;
}

macro_rules! row_tuple {
    ($count:literal; $($name:ident $index:tt),+) => {
        impl<$($name: for<'a> FromColumn<'a>),+> FromRow for ($($name,)+) {
            fn from_row(row: Row<'_>) -> Result<Self, RowError> {
                if row.column_count() != $count {
                    return Err(RowError::ColumnCount { wanted: $count, found: row.column_count() });
                }
                Ok(($(row.column::<$name>($index)?,)+))
            }
        }
    };
}

row_tuple!(1; A 0);
row_tuple!(2; A 0, B 1);
row_tuple!(3; A 0, B 1, C 2);
row_tuple!(4; A 0, B 1, C 2, D 3);
row_tuple!(5; A 0, B 1, C 2, D 3, E 4);
row_tuple!(6; A 0, B 1, C 2, D 3, E 4, F 5);
row_tuple!(7; A 0, B 1, C 2, D 3, E 4, F 5, G 6);
row_tuple!(8; A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
