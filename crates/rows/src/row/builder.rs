//! Writing a packed row at the end of a buffer.

use helenus_schema::ColumnId;

use super::{
    CELL_EXPIRES, CELL_HAS_PATH, CELL_IS_TOMBSTONE, CELL_USES_ROW_TIMESTAMP, CellRef, Entry,
    IS_COMPLEX_DELETION, Liveness, ROW_DELETION_IS_SHADOWABLE, ROW_EXPIRES, ROW_HAS_DELETION,
    ROW_HAS_LIVENESS, ROW_HAS_MORTAL_ENTRIES,
};
use crate::deletion::DeletionTime;

/// Appends one packed row to `out`. Entries are pushed in the row's order: by column id, a column's deletion before
/// its cells, cells by path; the builder writes what it is given.
#[derive(Debug)]
pub struct RowBuilder<'b> {
    out: &'b mut Vec<u8>,
    /// Where in `out` the row's flags are.
    flags_at: usize,
    row_timestamp_us: i64,
}

impl<'b> RowBuilder<'b> {
    pub fn new(out: &'b mut Vec<u8>, liveness: Liveness, deletion: DeletionTime) -> Self {
        let has_liveness = !liveness.is_none();
        let expires = has_liveness && liveness.ttl_s != 0;
        let flags = if has_liveness { ROW_HAS_LIVENESS } else { 0 }
            | if expires { ROW_EXPIRES } else { 0 }
            | if deletion.is_live() { 0 } else { ROW_HAS_DELETION };
        let flags_at = out.len();
        out.push(flags);
        if has_liveness {
            out.extend_from_slice(&liveness.timestamp_us.to_le_bytes());
        }
        if expires {
            out.extend_from_slice(&liveness.ttl_s.to_le_bytes());
            out.extend_from_slice(&liveness.expires_at_s.to_le_bytes());
        }
        if !deletion.is_live() {
            out.extend_from_slice(&deletion.timestamp_us.to_le_bytes());
            out.extend_from_slice(&deletion.local_s.to_le_bytes());
        }
        RowBuilder {
            out,
            flags_at,
            row_timestamp_us: liveness.timestamp_us,
        }
    }

    /// The row deletion gives way to a newer marker.
    pub fn shadowable(&mut self) {
        self.out[self.flags_at] |= ROW_DELETION_IS_SHADOWABLE;
    }

    pub fn push(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::ComplexDeletion { column, deletion } => self.complex_deletion(column, deletion),
            Entry::Cell(cell) => self.cell(cell),
        }
    }

    pub fn complex_deletion(&mut self, column: ColumnId, deletion: DeletionTime) {
        self.out[self.flags_at] |= ROW_HAS_MORTAL_ENTRIES;
        self.out.extend_from_slice(&column.0.to_le_bytes());
        self.out.push(IS_COMPLEX_DELETION);
        self.out.extend_from_slice(&deletion.timestamp_us.to_le_bytes());
        self.out.extend_from_slice(&deletion.local_s.to_le_bytes());
    }

    #[inline]
    pub fn cell(&mut self, cell: CellRef<'_>) {
        let is_tombstone = cell.is_tombstone();
        let uses_row_timestamp = cell.timestamp_us == self.row_timestamp_us;
        if uses_row_timestamp && cell.ttl_s == 0 && !is_tombstone && cell.path.is_none() {
            return self.plain_cell(cell.column, cell.value);
        }
        let flags = if uses_row_timestamp {
            CELL_USES_ROW_TIMESTAMP
        } else {
            0
        } | if cell.ttl_s != 0 { CELL_EXPIRES } else { 0 }
            | if is_tombstone { CELL_IS_TOMBSTONE } else { 0 }
            | if cell.path.is_some() { CELL_HAS_PATH } else { 0 };
        if cell.ttl_s != 0 || is_tombstone {
            self.out[self.flags_at] |= ROW_HAS_MORTAL_ENTRIES;
        }
        self.out.extend_from_slice(&cell.column.0.to_le_bytes());
        self.out.push(flags);
        if !uses_row_timestamp {
            self.out.extend_from_slice(&cell.timestamp_us.to_le_bytes());
        }
        if cell.ttl_s != 0 {
            self.out.extend_from_slice(&cell.ttl_s.to_le_bytes());
        }
        if cell.ttl_s != 0 || is_tombstone {
            self.out.extend_from_slice(&cell.local_deletion_s.to_le_bytes());
        }
        if let Some(path) = cell.path {
            self.sized(path);
        }
        if !is_tombstone {
            self.sized(cell.value);
        }
    }

    /// One as old as its row that stays.
    #[inline]
    fn plain_cell(&mut self, column: ColumnId, value: &[u8]) {
        let [low, high] = column.0.to_le_bytes();
        let [l0, l1, l2, l3] = (value.len() as u32).to_le_bytes();
        let head = [low, high, CELL_USES_ROW_TIMESTAMP, l0, l1, l2, l3];
        self.out.reserve(head.len() + value.len());
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(value);
    }

    /// Lengths fit: a value is at most one frame (256 MiB) long, which the protocol checked.
    fn sized(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.out.extend_from_slice(bytes);
    }
}
