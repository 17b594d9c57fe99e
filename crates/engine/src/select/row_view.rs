//! One row of a read, and the values in it: key columns, cells, and collections put together from their cells.

use std::borrow::Cow;

use helenus_rows::clustering::Components;
use helenus_rows::row::{CellRef, Entries, Entry, RowRef, counter};
use helenus_schema::{ColumnId, ColumnKind, ColumnMetadata};
use helenus_types::CqlType;
use helenus_types::partition_key::partition_key_components;
use helenus_types::value::collection::SIZE_BYTES;
use helenus_types::value::{write_collection, write_component};

/// Parts of a row of the result, as they lie in the store.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    pub partition_key: &'a [u8],
    pub partition_key_count: usize,
    pub static_row: RowRef<'a>,
    /// None for a partition that has nothing but its static row.
    pub clustering: Option<&'a [u8]>,
    pub row: RowRef<'a>,
}

/// The value of a column of one row, or something about its cells; what a select clause fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetched {
    Value(ColumnId),
    /// A bigint in microseconds; of a multi-cell column a list of them, one for each element.
    WriteTime(ColumnId),
    /// An int in seconds that the cell has left; likewise.
    Ttl(ColumnId),
}

impl<'a> RowView<'a> {
    pub fn value(&self, column: &ColumnMetadata) -> Option<Cow<'a, [u8]>> {
        let position = usize::from(column.position);
        match column.kind {
            ColumnKind::PartitionKey => {
                partition_key_components(self.partition_key, self.partition_key_count)
                    .nth(position)
                    .map(Cow::Borrowed)
            }
            ColumnKind::Clustering => Components::new(self.clustering?).nth(position).map(Cow::Borrowed),
            ColumnKind::Static => cell_value(self.static_row, column),
            ColumnKind::Regular => cell_value(self.row, column),
        }
    }

    /// Appends a fetched value as an i32 length and its bytes, -1 for null.
    pub fn write(&self, out: &mut Vec<u8>, column: &ColumnMetadata, fetched: Fetched, now_s: u32) {
        match fetched {
            Fetched::Value(_) => write_component(out, self.value(column).as_deref()),
            Fetched::WriteTime(_) => {
                self.write_times(out, column, &|cell| Some(cell.timestamp_us.to_be_bytes()))
            }
            Fetched::Ttl(_) => self.write_times(out, column, &|cell| {
                let left = i64::from(cell.local_deletion_s) - i64::from(now_s);
                let left = i32::try_from(left).unwrap_or(i32::MAX);
                (cell.ttl_s != 0 && left >= 0).then(|| left.to_be_bytes())
            }),
        }
    }

    fn write_times<const N: usize>(
        &self,
        out: &mut Vec<u8>,
        column: &ColumnMetadata,
        time: &dyn Fn(&CellRef<'_>) -> Option<[u8; N]>,
    ) {
        let row = match column.kind {
            ColumnKind::Static => self.static_row,
            _ => self.row,
        };
        let mut cells = column_cells(row, column).peekable();
        if cells.peek().is_none() {
            return write_component(out, None);
        }
        if !column.cql_type.is_multi_cell() {
            let time = cells.next().and_then(|cell| time(&cell));
            return write_component(out, time.as_ref().map(<[u8; N]>::as_slice));
        }
        let length_at = out.len();
        out.extend_from_slice(&[0; 2 * SIZE_BYTES]);
        let mut count = 0_i32;
        match &column.cql_type {
            // A field of a user type that has no cell has no time either, but keeps its place.
            CqlType::UserDefined { definition, .. } => {
                let cells: Vec<CellRef<'_>> = cells.collect();
                for index in 0..definition.fields.len() {
                    let cell = cells.iter().find(|cell| field_index(cell) == Some(index));
                    let time = cell.and_then(time);
                    write_component(out, time.as_ref().map(<[u8; N]>::as_slice));
                    count += 1;
                }
            }
            _ => {
                for cell in cells {
                    write_component(out, time(&cell).as_ref().map(<[u8; N]>::as_slice));
                    count += 1;
                }
            }
        }
        let length = (out.len() - length_at - SIZE_BYTES) as i32;
        out[length_at..length_at + SIZE_BYTES].copy_from_slice(&length.to_be_bytes());
        out[length_at + SIZE_BYTES..length_at + 2 * SIZE_BYTES].copy_from_slice(&count.to_be_bytes());
    }
}

/// Finds the values of simple columns in one walk over a row, as long as they are asked for in the order of their ids,
/// which is nearly that of `SELECT *`; any other order starts again from the front.
#[derive(Clone, Debug)]
pub struct SimpleCells<'a> {
    row: RowRef<'a>,
    rest: Entries<'a>,
    /// The first entry that no column asked for yet.
    current: Option<Entry<'a>>,
}

impl<'a> SimpleCells<'a> {
    #[inline]
    pub fn new(row: RowRef<'a>) -> Self {
        let mut rest = row.entries();
        let current = rest.next();
        SimpleCells { row, rest, current }
    }

    #[inline]
    pub fn value(&mut self, id: ColumnId) -> Option<&'a [u8]> {
        if self.current.as_ref().is_none_or(|entry| entry.column() > id) {
            *self = SimpleCells::new(self.row);
        }
        while let Some(entry) = self.current {
            if entry.column() >= id {
                break;
            }
            self.current = self.rest.next();
        }
        match self.current {
            Some(Entry::Cell(cell)) if cell.column == id => Some(cell.value),
            _ => None,
        }
    }
}

/// Returns whether a column's value is the value of its one cell: not put together from several, nor from a counter's
/// shards.
#[inline]
pub fn is_stored_as_returned(cql_type: &CqlType) -> bool {
    !cql_type.is_multi_cell() && !matches!(cql_type, CqlType::Counter)
}

/// The cells of one column, in path order.
fn column_cells<'a>(row: RowRef<'a>, column: &ColumnMetadata) -> impl Iterator<Item = CellRef<'a>> + use<'a> {
    let id = column.id;
    row.entries()
        .skip_while(move |entry| entry.column() < id)
        .take_while(move |entry| entry.column() == id)
        .filter_map(|entry| match entry {
            Entry::Cell(cell) => Some(cell),
            Entry::ComplexDeletion { .. } => None,
        })
}

fn cell_value<'a>(row: RowRef<'a>, column: &ColumnMetadata) -> Option<Cow<'a, [u8]>> {
    if is_stored_as_returned(&column.cql_type) {
        let entry = row.entries().find(|entry| entry.column() >= column.id)?;
        return match entry {
            Entry::Cell(cell) if cell.column == column.id => Some(Cow::Borrowed(cell.value)),
            _ => None,
        };
    }
    let mut cells = column_cells(row, column).peekable();
    cells.peek()?;
    let mut out = Vec::new();
    match &column.cql_type {
        CqlType::Counter => out.extend(counter::total(cells.next()?.value).to_be_bytes()),
        CqlType::List { .. } => write_collection(&mut out, 1, cells.map(|cell| cell.value)),
        CqlType::Set { .. } => write_collection(&mut out, 1, cells.filter_map(|cell| cell.path)),
        CqlType::Map { .. } => {
            write_collection(
                &mut out,
                2,
                cells.flat_map(|cell| [cell.path.unwrap_or_default(), cell.value]),
            );
        }
        CqlType::UserDefined { definition, .. } => {
            let cells: Vec<CellRef<'_>> = cells.collect();
            for index in 0..definition.fields.len() {
                let cell = cells.iter().find(|cell| field_index(cell) == Some(index));
                write_component(&mut out, cell.map(|cell| cell.value));
            }
        }
        _ => return None,
    }
    Some(Cow::Owned(out))
}

/// The field of a user type that a cell holds: its path is the field's position, an i16.
fn field_index(cell: &CellRef<'_>) -> Option<usize> {
    let position: [u8; 2] = cell.path?.try_into().ok()?;
    usize::try_from(i16::from_be_bytes(position)).ok()
}

#[cfg(test)]
mod tests {
    use helenus_rows::deletion::{DeletionTime, NEVER_S};
    use helenus_rows::row::{Liveness, RowBuilder};
    use helenus_schema::ClusteringOrder;

    use super::*;

    /// Symptom: SELECT of an imported counter table returned the cell as it is stored, shards and all, not a bigint.
    #[test]
    fn a_counter_is_the_total_of_its_shards() {
        let (first, second) = (counter::global(&[1; 16], 1, 40), counter::global(&[2; 16], 1, 2));
        let mut both = Vec::new();
        counter::merge(&first, &second, &mut both);
        let mut row = Vec::new();
        let mut builder = RowBuilder::new(&mut row, Liveness::NONE, DeletionTime::LIVE);
        builder.push(Entry::Cell(CellRef {
            column: ColumnId(0),
            timestamp_us: 1,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            path: None,
            value: &both,
        }));
        let column = ColumnMetadata {
            id: ColumnId(0),
            name: "hits".into(),
            kind: ColumnKind::Regular,
            position: 0,
            cql_type: CqlType::Counter,
            order: ClusteringOrder::Ascending,
        };
        let value = cell_value(RowRef::new(&row), &column).unwrap();
        assert_eq!(value.as_ref(), 42_i64.to_be_bytes());
        assert!(!is_stored_as_returned(&column.cql_type));
    }
}
