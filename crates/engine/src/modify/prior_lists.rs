//! Reading lists before they are changed by position or by value.

use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_schema::{ColumnId, TableMetadata};
use helenus_storage::clustering::{ClusteringBound, Side, Slice};
use helenus_storage::read::{PartitionRange, ReadCommand, RowSink};
use helenus_storage::row::{Entry, RowRef};
use helenus_types::Token;

use crate::CqlError;
use crate::execute::{RowStore, read_failure};

/// The elements of a list as they are now: each cell's path and value, in order.
pub type ListCells = Vec<(Vec<u8>, Vec<u8>)>;

/// Where an executing statement finds lists.
pub trait PriorLists {
    /// The list in the row with that clustering, or in the static row if there is none.
    fn list(
        &mut self,
        token: Token,
        key: &[u8],
        clustering: Option<&[u8]>,
        column: ColumnId,
    ) -> Result<ListCells, CqlError>;
}

/// For statements that need none.
pub struct NoPriorLists;

impl PriorLists for NoPriorLists {
    fn list(&mut self, _: Token, _: &[u8], _: Option<&[u8]>, _: ColumnId) -> Result<ListCells, CqlError> {
        Err(CqlError::server(format_args!(
            "a statement that reads lists was executed where there are none"
        )))
    }
}

pub struct StoredLists<'s, R> {
    pub store: &'s mut R,
    pub table: &'s Arc<TableMetadata>,
    pub now_s: u32,
}

impl<R: RowStore> PriorLists for StoredLists<'_, R> {
    fn list(
        &mut self,
        token: Token,
        key: &[u8],
        clustering: Option<&[u8]>,
        column: ColumnId,
    ) -> Result<ListCells, CqlError> {
        let slices: Vec<Slice> = clustering
            .map(|clustering| Slice {
                start: ClusteringBound {
                    prefix: clustering.into(),
                    side: Side::Before,
                },
                end: ClusteringBound {
                    prefix: clustering.into(),
                    side: Side::After,
                },
            })
            .into_iter()
            .collect();
        let command = ReadCommand {
            table: self.table,
            partitions: PartitionRange::One { token, key },
            slices: &slices,
            reversed: false,
            now_s: self.now_s,
        };
        let mut sink = ListSink {
            column,
            cells: Vec::new(),
        };
        self.store.read(&command, &mut sink).map_err(read_failure)?;
        Ok(sink.cells)
    }
}

struct ListSink {
    column: ColumnId,
    cells: ListCells,
}

impl ListSink {
    fn take(&mut self, row: RowRef<'_>) {
        for entry in row.entries() {
            if let Entry::Cell(cell) = entry
                && cell.column == self.column
                && let Some(path) = cell.path
            {
                self.cells.push((path.to_vec(), cell.value.to_vec()));
            }
        }
    }
}

impl RowSink for ListSink {
    fn partition(&mut self, _: Token, _: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        self.take(static_row);
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        self.take(row);
        ControlFlow::Continue(())
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
