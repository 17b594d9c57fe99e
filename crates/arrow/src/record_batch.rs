//! Rows to the columns of one record batch (`Message.fbs`).

use helenus_types::CqlType;

use crate::array::{Array, Layout};
use crate::flatbuffer::Table;
use crate::{ArrowError, Header, message};

/// Rows that are being put together, column by column.
pub struct RecordBatch {
    columns: Vec<Array>,
    rows: usize,
}

impl RecordBatch {
    pub fn new<'c>(types: impl Iterator<Item = &'c CqlType>) -> Self {
        RecordBatch {
            columns: types.map(Array::new).collect(),
            rows: 0,
        }
    }

    /// Adds a row of as many values as there are columns.
    pub fn push(&mut self, row: &[Option<&[u8]>]) -> Result<(), ArrowError> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(*value)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// The batch as a message of a stream whose schema has the same columns.
    pub fn message(&self) -> Vec<u8> {
        let mut layout = Layout::default();
        for column in &self.columns {
            column.lay_out(&mut layout);
        }
        let header = Table::default()
            .long(0, self.rows as i64)
            .pairs(1, layout.nodes)
            .pairs(2, layout.buffers);
        message(Header::RecordBatch, header, &layout.body)
    }
}
