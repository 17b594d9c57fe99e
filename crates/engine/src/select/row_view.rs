//! One row of a read, and the values in it: key columns, cells, and collections put together from their cells.

use std::borrow::Cow;

use helenus_rows::clustering::Components;
use helenus_rows::row::{CellRef, Entries, Entry, EntryValue, RowRef, counter};
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

    fn write(&self, out: &mut Vec<u8>, column: &ColumnMetadata, fetched: Fetched, now_s: u32) {
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

    /// Appends what is fetched of the row, each as an i32 length and its bytes, -1 for null.
    #[inline]
    pub fn write_all(&self, out: &mut Vec<u8>, columns: &[FetchedColumn], now_s: u32) {
        let mut cells = SimpleCells::new(self.row);
        for column in columns {
            match column.cell {
                Some(id) => write_component(out, cells.value(id)),
                None => self.write(out, &column.column, column.fetched, now_s),
            }
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

/// A column that a select clause fetches of each row.
#[derive(Clone, Debug)]
pub struct FetchedColumn {
    pub fetched: Fetched,
    pub column: ColumnMetadata,
    /// The value is that of the one regular cell of this column, as it is stored.
    cell: Option<ColumnId>,
}

impl FetchedColumn {
    pub fn new(fetched: Fetched, column: ColumnMetadata) -> Self {
        let is_cell = column.kind == ColumnKind::Regular && is_stored_as_returned(&column.cql_type);
        let cell = match fetched {
            Fetched::Value(id) if is_cell => Some(id),
            _ => None,
        };
        FetchedColumn {
            fetched,
            column,
            cell,
        }
    }

    pub fn is_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }
}

/// Finds the values of simple columns in one walk over a row, as long as they are asked for in the order of their ids,
/// which is nearly that of `SELECT *`; any other order starts again from the front.
struct SimpleCells<'a> {
    row: RowRef<'a>,
    rest: Entries<'a>,
    /// The first entry of the last column that was asked for, or behind it.
    current: Option<EntryValue<'a>>,
    asked: ColumnId,
}

impl<'a> SimpleCells<'a> {
    #[inline]
    fn new(row: RowRef<'a>) -> Self {
        let mut rest = row.entries();
        let current = rest.next_value();
        SimpleCells {
            row,
            rest,
            current,
            asked: ColumnId(0),
        }
    }

    #[inline]
    fn value(&mut self, id: ColumnId) -> Option<&'a [u8]> {
        if id < self.asked {
            *self = SimpleCells::new(self.row);
        }
        self.asked = id;
        while self.current.is_some_and(|entry| entry.column < id) {
            self.current = self.rest.next_value();
        }
        self.current.filter(|entry| entry.column == id)?.value
    }
}

/// Returns whether a column's value is the value of its one cell: not put together from several, nor from a counter's
/// shards.
pub(super) fn is_stored_as_returned(cql_type: &CqlType) -> bool {
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

    fn column(id: u16, cql_type: CqlType) -> ColumnMetadata {
        ColumnMetadata {
            id: ColumnId(id),
            name: "v".into(),
            kind: ColumnKind::Regular,
            position: 0,
            cql_type,
            order: ClusteringOrder::Ascending,
        }
    }

    /// Columns come in any order, several times, and may have no cell.
    #[test]
    fn cells_are_found_in_whatever_order_they_are_asked_for() {
        let mut row = Vec::new();
        let mut builder = RowBuilder::new(&mut row, Liveness::NONE, DeletionTime::LIVE);
        for id in [1_u16, 2, 5] {
            builder.cell(CellRef {
                column: ColumnId(id),
                timestamp_us: 1,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                path: None,
                value: &id.to_be_bytes(),
            });
        }
        let view = RowView {
            partition_key: &[],
            partition_key_count: 1,
            static_row: RowRef::EMPTY,
            clustering: None,
            row: RowRef::new(&row),
        };
        for code in 0..7_u32.pow(4) {
            let ids = (0..4).map(|place| (code / 7_u32.pow(place) % 7) as u16);
            let fetched = |id| FetchedColumn::new(Fetched::Value(ColumnId(id)), column(id, CqlType::Blob));
            let columns: Vec<FetchedColumn> = ids.clone().map(fetched).collect();
            let (mut written, mut wanted) = (Vec::new(), Vec::new());
            view.write_all(&mut written, &columns, 0);
            for id in ids {
                let value = id.to_be_bytes();
                write_component(&mut wanted, [1, 2, 5].contains(&id).then_some(&value[..]));
            }
            assert_eq!(written, wanted, "{code}");
        }
    }

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
        let column = column(0, CqlType::Counter);
        let value = cell_value(RowRef::new(&row), &column).unwrap();
        assert_eq!(value.as_ref(), 42_i64.to_be_bytes());
        assert!(!is_stored_as_returned(&column.cql_type));
    }
}
