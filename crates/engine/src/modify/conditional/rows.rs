//! The rows that a conditional request looks at.

use std::ops::{ControlFlow, Range};
use std::rc::Rc;

use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::{ColumnId, ColumnMetadata};
use helenus_storage::read::RowSink;
use helenus_types::Token;

use crate::CqlError;
use crate::modify::list_view::StoredList;
use crate::modify::prior_lists::PriorLists;
use crate::select::RowView;

/// Longest buffer, in bytes, that a shard keeps for the next request: rows of nearly all requests are smaller.
const BUFFER_BYTES_MAX: usize = 64 << 10;
const BUFFER_ROWS_MAX: usize = 512;

/// Which columns are read. A row that has nothing in them is none, unless an INSERT has written it.
#[derive(Clone, Debug, Default)]
pub struct ReadColumns {
    pub all_regular: bool,
    /// `None` for all.
    pub statics: Option<Vec<ColumnId>>,
}

impl ReadColumns {
    pub fn reads_static(&self, column: &ColumnMetadata) -> bool {
        self.statics
            .as_ref()
            .is_none_or(|statics| statics.contains(&column.id))
    }

    fn has_static(&self, row: RowRef<'_>) -> bool {
        match &self.statics {
            None => !row.is_empty(),
            Some(statics) => row.entries().any(|entry| statics.contains(&entry.column())),
        }
    }
}

/// Where rows that were read lie; it is used again by the next request.
#[derive(Debug, Default)]
pub struct ReadBuffers {
    bytes: Vec<u8>,
    /// Place of the static row in `bytes`, only if it has something in the columns that are read.
    static_row: Option<Range<usize>>,
    /// In their order.
    rows: Vec<RowPlace>,
}

/// A row's clustering and, behind it, the row.
#[derive(Clone, Copy, Debug)]
struct RowPlace {
    start: usize,
    clustering_end: usize,
    end: usize,
}

/// Rows that were read of the partition.
#[derive(Debug)]
pub struct RowsRead<'r> {
    columns: &'r ReadColumns,
    comparator: &'r ClusteringComparator,
    rows_max: usize,
    now_s: u32,
    buffers: ReadBuffers,
    /// The newest timestamp of the static row, also if it is not kept.
    newest_static_us: i64,
}

impl<'r> RowsRead<'r> {
    pub fn new(
        columns: &'r ReadColumns,
        comparator: &'r ClusteringComparator,
        rows_max: usize,
        now_s: u32,
        buffers: ReadBuffers,
    ) -> Self {
        RowsRead {
            buffers: buffers.emptied(),
            columns,
            comparator,
            rows_max,
            now_s,
            newest_static_us: i64::MIN,
        }
    }

    pub fn columns(&self) -> &'r ReadColumns {
        self.columns
    }

    /// The newest of all timestamps.
    pub fn newest_us(&self) -> i64 {
        let rows = self.buffers.rows.iter();
        rows.map(|place| newest_us(self.buffers.row_at(place)))
            .fold(self.newest_static_us, i64::max)
    }

    pub fn static_row(&self) -> Option<RowRef<'_>> {
        let place = self.buffers.static_row.clone()?;
        Some(RowRef::new(&self.buffers.bytes[place]))
    }

    pub fn row(&self, clustering: &[u8]) -> Option<RowRef<'_>> {
        let compare = |place: &RowPlace| {
            self.comparator
                .compare(self.buffers.clustering_at(place), clustering)
        };
        let found = self.buffers.rows.binary_search_by(compare).ok()?;
        Some(self.buffers.row_at(&self.buffers.rows[found]))
    }

    /// The row as conditions see it; the static row where no clustering is named.
    pub fn view<'v>(&'v self, clustering: Option<&'v [u8]>) -> Option<RowView<'v>> {
        let (static_row, row) = match clustering {
            None => (self.static_row()?, RowRef::EMPTY),
            Some(clustering) => (RowRef::EMPTY, self.row(clustering)?),
        };
        Some(RowView {
            partition_key: &[],
            partition_key_count: 0,
            static_row,
            clustering,
            row,
        })
    }

    /// Returns what the client is shown: the rows, or the static row if it is alone.
    pub fn shown(&self) -> impl Iterator<Item = (Option<&[u8]>, RowRef<'_>)> {
        let buffers = &self.buffers;
        let alone = buffers.static_row.iter().filter(|_| buffers.rows.is_empty());
        let rows = buffers
            .rows
            .iter()
            .map(|place| (Some(buffers.clustering_at(place)), buffers.row_at(place)));
        alone.map(|_| (None, RowRef::EMPTY)).chain(rows)
    }

    pub fn has_nothing_to_show(&self) -> bool {
        self.buffers.rows.is_empty() && self.buffers.static_row.is_none()
    }

    pub fn into_buffers(self) -> ReadBuffers {
        self.buffers
    }

    fn place(&self, clustering: Option<&[u8]>) -> Option<RowRef<'_>> {
        match clustering {
            Some(clustering) => self.row(clustering),
            None => self.static_row(),
        }
    }
}

fn newest_us(row: RowRef<'_>) -> i64 {
    let (liveness, _, entries) = row.open();
    let entries = entries.map(|entry| entry.timestamp_us());
    entries.fold(liveness.timestamp_us, i64::max)
}

impl ReadBuffers {
    fn emptied(mut self) -> Self {
        if self.bytes.capacity() > BUFFER_BYTES_MAX || self.rows.capacity() > BUFFER_ROWS_MAX {
            return ReadBuffers::default();
        }
        self.bytes.clear();
        self.rows.clear();
        self.static_row = None;
        self
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn clustering_at(&self, place: &RowPlace) -> &[u8] {
        &self.bytes[place.start..place.clustering_end]
    }

    fn row_at(&self, place: &RowPlace) -> RowRef<'_> {
        RowRef::new(&self.bytes[place.clustering_end..place.end])
    }
}

impl RowSink for RowsRead<'_> {
    fn partition(&mut self, _: Token, _: &[u8], static_row: RowRef<'_>) -> ControlFlow<()> {
        if !static_row.is_empty() {
            self.newest_static_us = newest_us(static_row);
        }
        if self.columns.has_static(static_row) {
            self.buffers.static_row = Some(self.buffers.append(static_row.as_bytes()));
        }
        ControlFlow::Continue(())
    }

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()> {
        if !self.columns.all_regular && !row.liveness().is_live(self.now_s) {
            return ControlFlow::Continue(());
        }
        let clustering = self.buffers.append(clustering);
        let row = self.buffers.append(row.as_bytes());
        self.buffers.rows.push(RowPlace {
            start: clustering.start,
            clustering_end: clustering.end,
            end: row.end,
        });
        match self.buffers.rows.len() < self.rows_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn partition_end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Statements that change what was read see it as it was before the request.
pub struct RowsBefore<'b>(pub &'b RowsRead<'b>);

impl PriorLists for RowsBefore<'_> {
    fn list(
        &mut self,
        _: Token,
        _: &[u8],
        clustering: Option<&[u8]>,
        column: ColumnId,
    ) -> Result<Rc<StoredList>, CqlError> {
        let entries = self.0.place(clustering).into_iter().flat_map(|row| row.entries());
        let cells = entries.filter_map(|entry| match entry {
            Entry::Cell(cell) if cell.column == column => Some((cell.path?.to_vec(), cell.value.to_vec())),
            _ => None,
        });
        Ok(Rc::new(StoredList::new(cells.collect())))
    }

    fn value(&mut self, clustering: Option<&[u8]>, column: ColumnId) -> Result<Option<Vec<u8>>, CqlError> {
        let mut entries = self.0.place(clustering).into_iter().flat_map(|row| row.entries());
        Ok(entries.find_map(|entry| match entry {
            Entry::Cell(cell) if cell.column == column => Some(cell.value.to_vec()),
            _ => None,
        }))
    }
}
