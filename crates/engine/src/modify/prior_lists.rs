//! Reading lists before they are changed by position or by value.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::{ColumnId, TableId, TableMetadata};
use helenus_sstable::AbsentPages;
use helenus_storage::read::{ReadCommand, RowSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::Token;

use super::list_view::StoredList;
use crate::CqlError;
use crate::row_store::{RowStore, read_failure};

/// Pages of the rows whose lists one statement or batch reads: all of them are in memory at once, so that it is one turn.
const LIST_BYTES_MAX: usize = 32 << 20;

/// Where an executing statement finds lists.
pub trait PriorLists {
    /// The list in the row with that clustering, or in the static row if there is none.
    fn list(
        &mut self,
        token: Token,
        key: &[u8],
        clustering: Option<&[u8]>,
        column: ColumnId,
    ) -> Result<Rc<StoredList>, CqlError>;

    /// The value of a column of one cell, for a conditional statement that adds to it.
    fn value(&mut self, _clustering: Option<&[u8]>, _column: ColumnId) -> Result<Option<Vec<u8>>, CqlError> {
        Err(CqlError::server(format_args!(
            "a statement that reads values was executed where there are none"
        )))
    }
}

/// For statements that need none.
pub struct NoPriorLists;

impl PriorLists for NoPriorLists {
    fn list(
        &mut self,
        _: Token,
        _: &[u8],
        _: Option<&[u8]>,
        _: ColumnId,
    ) -> Result<Rc<StoredList>, CqlError> {
        Err(CqlError::server(format_args!(
            "a statement that reads lists was executed where there are none"
        )))
    }
}

/// State of a statement that reads lists, or of a batch of such, between its runs: the lists that were read, and the one that
/// is being read. Each run finds those again.
#[derive(Debug)]
pub struct ListReading {
    finished: HashMap<ListPlace, Rc<StoredList>>,
    /// Pins the pages of all lists.
    reading: ReadState,
    /// Pages that the last run lacked.
    absent: Option<Box<AbsentPages>>,
}

impl Default for ListReading {
    fn default() -> Self {
        ListReading {
            finished: HashMap::new(),
            reading: ReadState::of_several(),
            absent: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ListPlace {
    table: TableId,
    key: Vec<u8>,
    clustering: Option<Vec<u8>>,
    column: ColumnId,
}

impl ListReading {
    /// For a run that must see what is stored now, whatever earlier ones have read.
    pub fn begin_again(&mut self) {
        self.finished.clear();
        self.begin_run();
    }

    /// For a run that goes on with what earlier ones have read.
    pub fn begin_run(&mut self) {
        self.reading.begin_attempt();
    }

    /// Pins the pages that were brought for the last run.
    pub fn state(&self) -> &ReadState {
        &self.reading
    }

    /// The pages that the last run ended for, with the read that they are for. If there are any, the run's error is none.
    pub fn take_absent(&mut self) -> Option<(Box<AbsentPages>, &ReadState)> {
        Some((self.absent.take()?, &self.reading))
    }
}

pub struct StoredLists<'s, R> {
    pub store: &'s mut R,
    pub reading: &'s mut ListReading,
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
    ) -> Result<Rc<StoredList>, CqlError> {
        let place = ListPlace {
            table: self.table.id,
            key: key.to_vec(),
            clustering: clustering.map(<[u8]>::to_vec),
            column,
        };
        if let Some(finished) = self.reading.finished.get(&place) {
            return Ok(finished.clone());
        }
        let slices: Vec<Slice> = clustering.map(Slice::covering).into_iter().collect();
        let command = ReadCommand {
            table: self.table,
            partitions: PartitionRange::One { token, key },
            slices: &slices,
            reversed: false,
            now_s: self.now_s,
            index: &[],
        };
        let mut sink = ListSink {
            column,
            cells: Vec::new(),
        };
        let ListReading { reading, absent, .. } = &mut *self.reading;
        reading.begin_again();
        loop {
            match self.store.read_step(&command, reading, &mut sink) {
                Ok(ReadProgress::Done) => {
                    let list = Rc::new(StoredList::new(sink.cells));
                    self.reading.finished.insert(place, list.clone());
                    return Ok(list);
                }
                // One row: nothing that a shard should be left for.
                Ok(ReadProgress::Yield) => {}
                Ok(ReadProgress::Absent(_)) if reading.pinned_bytes() > LIST_BYTES_MAX => {
                    return Err(CqlError::invalid(format_args!(
                        "The rows of lists that are changed by index or value are larger than {} MiB together; send fewer in a \
                         batch",
                        LIST_BYTES_MAX >> 20
                    )));
                }
                Ok(ReadProgress::Absent(pages)) => {
                    *absent = Some(pages);
                    return Err(CqlError::server(format_args!(
                        "pages of a list are not in memory"
                    )));
                }
                Err(error) => return Err(read_failure(error)),
            }
        }
    }
}

struct ListSink {
    column: ColumnId,
    /// Each cell's path and value, in order.
    cells: Vec<(Vec<u8>, Vec<u8>)>,
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
