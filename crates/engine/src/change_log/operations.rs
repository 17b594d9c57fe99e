//! A write as a log tells of it: taken apart by the times and the times to live of what it writes.

use std::borrow::Cow;

use helenus_rows::clustering::Side;
use helenus_rows::row::{CellRef, Entry, RowRef};
use helenus_rows::update::{BoundRef, Update, UpdateItem};
use helenus_schema::ColumnId;
use helenus_types::value::collection::{write_collection, write_value};

use super::plan::{ChangeLogPlan, Form, LoggedColumn};

/// `cdc$operation`, under ScyllaDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum Operation {
    /// The row's time was over: no client has deleted it.
    RowExpiry = -3,
    Preimage = 0,
    RowUpdate = 1,
    RowInsert = 2,
    RowDelete = 3,
    PartitionDelete = 4,
    RangeStartInclusive = 5,
    RangeStartExclusive = 6,
    RangeEndInclusive = 7,
    RangeEndExclusive = 8,
    Postimage = 9,
}

/// Why something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Client,
    /// The time of rows is over.
    Expiry,
}

/// A cell of a row of the log.
pub(super) type LoggedCell<'u> = (ColumnId, Cow<'u, [u8]>);

/// One row of the log, but for its key.
#[derive(Debug)]
pub(super) struct LoggedRow<'u> {
    pub operation: Operation,
    /// Seconds; 0 for none.
    pub ttl_s: u32,
    /// The clustering, or the first components of it; `None` for what is about no row of one.
    pub clustering: Option<&'u [u8]>,
    pub cells: Vec<LoggedCell<'u>>,
}

/// All that was written under one timestamp.
#[derive(Debug)]
pub(super) struct Group<'u> {
    pub timestamp_us: i64,
    pub rows: Vec<LoggedRow<'u>>,
}

/// Operations of a write, each with its timestamp, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Operations<'u>(Vec<(i64, LoggedRow<'u>)>);

/// All that a row is given under one timestamp and with one time to live.
struct Part<'u> {
    timestamp_us: i64,
    ttl_s: u32,
    is_insert: bool,
    cells: Vec<LoggedCell<'u>>,
    elements: Vec<Elements<'u>>,
}

/// Cells of a column that has several.
struct Elements<'u> {
    column: ColumnId,
    added: Vec<(&'u [u8], &'u [u8])>,
    deleted: Vec<&'u [u8]>,
}

const TRUE: &[u8] = &[1];

impl<'u> Operations<'u> {
    pub fn of(plan: &ChangeLogPlan, update: &Update<'u>, cause: Cause) -> Self {
        let mut operations = Operations::default();
        if !update.deletion.is_live() {
            let all = LoggedRow::of(Operation::PartitionDelete, None);
            operations.push(update.deletion.timestamp_us, all);
        }
        for item in update.items() {
            match item {
                UpdateItem::StaticRow(row) => operations.row(plan, None, row, cause),
                UpdateItem::Row { clustering, row } => operations.row(plan, Some(clustering), row, cause),
                UpdateItem::RangeTombstone { start, end, deletion } => {
                    let [start, end] = range_operations(start, end);
                    operations.push(deletion.timestamp_us, start);
                    operations.push(deletion.timestamp_us, end);
                }
            }
        }
        operations
    }

    /// Brings them into the order of their times.
    pub fn into_groups(self) -> Vec<Group<'u>> {
        let mut rows = self.0;
        rows.sort_by_key(|(timestamp_us, _)| *timestamp_us);
        let mut groups: Vec<Group<'u>> = Vec::new();
        for (timestamp_us, row) in rows {
            match groups.last_mut().filter(|last| last.timestamp_us == timestamp_us) {
                Some(group) => group.rows.push(row),
                None => groups.push(Group {
                    timestamp_us,
                    rows: vec![row],
                }),
            }
        }
        groups
    }

    fn push(&mut self, timestamp_us: i64, row: LoggedRow<'u>) {
        self.0.push((timestamp_us, row));
    }

    fn row(&mut self, plan: &ChangeLogPlan, clustering: Option<&'u [u8]>, row: RowRef<'u>, cause: Cause) {
        let (liveness, deletion, entries) = row.open();
        if !deletion.is_live() {
            let operation = match cause {
                Cause::Client => Operation::RowDelete,
                Cause::Expiry => Operation::RowExpiry,
            };
            self.push(deletion.timestamp_us, LoggedRow::of(operation, clustering));
        }
        let mut parts: Vec<Part<'u>> = Vec::new();
        if !liveness.is_none() {
            part_of(&mut parts, liveness.timestamp_us, liveness.ttl_s).is_insert = true;
        }
        let mut overwritten: Vec<(&LoggedColumn, i64)> = Vec::new();
        for entry in entries {
            // A column that has gone since is in no log.
            let Some(column) = plan.column(entry.column()) else {
                continue;
            };
            match entry {
                // What is written over a collection is one microsecond newer than what takes the collection away.
                Entry::ComplexDeletion { deletion, .. } => {
                    overwritten.push((column, deletion.timestamp_us.saturating_add(1)));
                }
                Entry::Cell(cell) => cell_of(&mut parts, column, &cell),
            }
        }
        for (column, timestamp_us) in overwritten {
            let with_cells = parts.iter_mut().find(|part| {
                let mut elements = part.elements.iter();
                part.timestamp_us == timestamp_us && elements.any(|elements| elements.column == column.base)
            });
            let part = match with_cells {
                Some(part) => part,
                None => part_of(&mut parts, timestamp_us, 0),
            };
            part.cells.push((column.deleted, TRUE.into()));
        }
        parts.sort_by_key(|part| (part.timestamp_us, part.ttl_s));
        for part in parts {
            let (timestamp_us, row) = part.into_row(plan, clustering);
            self.push(timestamp_us, row);
        }
    }
}

impl<'u> LoggedRow<'u> {
    fn of(operation: Operation, clustering: Option<&'u [u8]>) -> Self {
        LoggedRow {
            operation,
            ttl_s: 0,
            clustering,
            cells: Vec::new(),
        }
    }
}

fn range_operations<'u>(start: BoundRef<'u>, end: BoundRef<'u>) -> [LoggedRow<'u>; 2] {
    let place = |bound: BoundRef<'u>| (!bound.prefix.is_empty()).then_some(bound.prefix);
    let start_operation = match start.side {
        Side::Before => Operation::RangeStartInclusive,
        Side::After => Operation::RangeStartExclusive,
    };
    let end_operation = match end.side {
        Side::After => Operation::RangeEndInclusive,
        Side::Before => Operation::RangeEndExclusive,
    };
    [
        LoggedRow::of(start_operation, place(start)),
        LoggedRow::of(end_operation, place(end)),
    ]
}

fn part_of<'p, 'u>(parts: &'p mut Vec<Part<'u>>, timestamp_us: i64, ttl_s: u32) -> &'p mut Part<'u> {
    let is_it = |part: &Part<'u>| part.timestamp_us == timestamp_us && part.ttl_s == ttl_s;
    let place = parts.iter().position(is_it).unwrap_or_else(|| {
        parts.push(Part {
            timestamp_us,
            ttl_s,
            is_insert: false,
            cells: Vec::new(),
            elements: Vec::new(),
        });
        parts.len() - 1
    });
    &mut parts[place]
}

fn cell_of<'u>(parts: &mut Vec<Part<'u>>, column: &LoggedColumn, cell: &CellRef<'u>) {
    let is_tombstone = cell.is_tombstone();
    let part = part_of(
        parts,
        cell.timestamp_us,
        if is_tombstone { 0 } else { cell.ttl_s },
    );
    let Some(path) = cell.path else {
        part.cells.push(match is_tombstone {
            true => (column.deleted, TRUE.into()),
            false => (column.value, cell.value.into()),
        });
        return;
    };
    // Cells of a column stand together.
    if part.elements.last().is_none_or(|last| last.column != column.base) {
        part.elements.push(Elements {
            column: column.base,
            added: Vec::new(),
            deleted: Vec::new(),
        });
    }
    if let Some(elements) = part.elements.last_mut() {
        match is_tombstone {
            true => elements.deleted.push(path),
            false => elements.added.push((path, cell.value)),
        }
    }
}

impl<'u> Part<'u> {
    fn into_row(self, plan: &ChangeLogPlan, clustering: Option<&'u [u8]>) -> (i64, LoggedRow<'u>) {
        let mut cells = self.cells;
        for Elements {
            column,
            added,
            deleted,
        } in self.elements
        {
            let Some(column) = plan.column(column) else {
                continue;
            };
            if !added.is_empty() {
                cells.push((column.value, column.form.value_of(&added).into()));
            }
            if let Some(deleted_elements) = column.form.deleted_elements().filter(|_| !deleted.is_empty()) {
                let mut value = Vec::new();
                write_collection(&mut value, 1, deleted);
                cells.push((deleted_elements, value.into()));
            }
        }
        let row = LoggedRow {
            operation: match self.is_insert {
                true => Operation::RowInsert,
                false => Operation::RowUpdate,
            },
            ttl_s: self.ttl_s,
            clustering,
            cells,
        };
        (self.timestamp_us, row)
    }
}

impl Form {
    pub fn deleted_elements(self) -> Option<ColumnId> {
        match self {
            Form::Single => None,
            Form::Paths { deleted_elements }
            | Form::Map { deleted_elements }
            | Form::Fields { deleted_elements, .. } => Some(deleted_elements),
        }
    }

    /// The value that the log has for cells of a column, given by path and value in the order of their paths.
    pub fn value_of(self, cells: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut value = Vec::new();
        match self {
            Form::Single => {
                for (_, only) in cells {
                    value.extend_from_slice(only);
                }
            }
            Form::Paths { .. } => write_collection(&mut value, 1, cells.iter().map(|(path, _)| *path)),
            Form::Map { .. } => {
                let both = cells.iter().flat_map(|(path, value)| [*path, *value]);
                write_collection(&mut value, 2, both);
            }
            Form::Fields { count, .. } => {
                let place_of = |path: &[u8]| <[u8; 2]>::try_from(path).map(u16::from_be_bytes);
                for place in 0..count {
                    let mut cells = cells.iter();
                    let field = cells
                        .find(|(path, _)| place_of(path).is_ok_and(|of_path| usize::from(of_path) == place));
                    write_value(&mut value, field.map(|(_, value)| *value));
                }
            }
        }
        value
    }
}
