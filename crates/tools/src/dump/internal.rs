//! One line of text for each row, as Cassandra prints its own objects.

use std::fmt::Write as _;
use std::io::Write;

use helenus_rows::clustering::{Components, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::counter::total;
use helenus_rows::row::{CellRef, Entry, Liveness, RowRef};
use helenus_schema::{ColumnId, TableMetadata};
use helenus_sstable::SsTableCursor;
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_types::CqlType;
use helenus_types::value::blob::to_hex;

use super::DumpError;
use super::keys::key_text;
use super::partition::element;

pub fn write(
    out: &mut dyn Write,
    table: &TableMetadata,
    key: &[u8],
    cursor: &mut SsTableCursor<'_>,
) -> Result<(), DumpError> {
    let key = key_text(table, key);
    let start = cursor.rows_position();
    if !cursor.deletion().is_live() {
        writeln!(out, "[{key}]@{start} {}", deletion_text(cursor.deletion()))?;
    }
    if !cursor.static_row().is_empty() {
        let row = row_text(table, "STATIC", cursor.static_row());
        writeln!(out, "[{key}]@{start} {row}")?;
    }
    let mut before = DeletionTime::LIVE;
    while cursor.advance()? {
        let position = cursor.position();
        let text = match cursor.current() {
            Unfiltered::Row { clustering, row } => {
                let values: Vec<String> = Components::new(clustering)
                    .zip(table.clustering())
                    .map(|(value, column)| column.cql_type.to_cql_literal(value))
                    .collect();
                row_text(table, &values.join(", "), row)
            }
            Unfiltered::Marker { bound, deletion } => {
                let text = marker_text(table, bound.prefix, bound.side, before, deletion);
                before = deletion;
                text
            }
        };
        writeln!(out, "[{key}]@{position} {text}")?;
    }
    Ok(())
}

fn deletion_text(deletion: DeletionTime) -> String {
    format!(
        "deletedAt={}, localDeletion={}",
        deletion.timestamp_us, deletion.local_s
    )
}

fn liveness_text(liveness: &Liveness) -> String {
    if liveness.ttl_s == 0 {
        format!("[ts={}]", liveness.timestamp_us)
    } else {
        format!(
            "[ts={} ttl={}, let={}]",
            liveness.timestamp_us, liveness.ttl_s, liveness.expires_at_s
        )
    }
}

fn marker_text(
    table: &TableMetadata,
    prefix: &[u8],
    side: Side,
    before: DeletionTime,
    after: DeletionTime,
) -> String {
    let kind = match (before.is_live(), after.is_live(), side) {
        (true, _, Side::Before) => "INCL_START_BOUND",
        (true, _, Side::After) => "EXCL_START_BOUND",
        (_, true, Side::Before) => "EXCL_END_BOUND",
        (_, true, Side::After) => "INCL_END_BOUND",
        (_, _, Side::Before) => "EXCL_END_INCL_START_BOUNDARY",
        (_, _, Side::After) => "INCL_END_EXCL_START_BOUNDARY",
    };
    let values: Vec<String> = Components::new(prefix)
        .zip(table.clustering())
        .map(|(value, column)| text_of(&column.cql_type, value))
        .collect();
    let times: Vec<String> = [before, after]
        .iter()
        .filter(|deletion| !deletion.is_live())
        .map(|deletion| format!("{}/{}", deletion.timestamp_us, deletion.local_s))
        .collect();
    format!("Marker {kind}({})@{}", values.join(", "), times.join("-"))
}

fn row_text(table: &TableMetadata, clustering: &str, row: RowRef<'_>) -> String {
    let (liveness, deletion, entries) = row.open();
    let mut text = format!("Row[info={}", liveness_text(&liveness));
    if !deletion.is_live() {
        push(&mut text, format_args!(" del={}", deletion_text(deletion)));
    }
    push(&mut text, format_args!(" ]: {clustering} | "));
    let mut last: Option<ColumnId> = None;
    for entry in entries {
        let Some(column) = table.column_by_id(entry.column()) else {
            continue;
        };
        let is_new = last != Some(column.id);
        if is_new && last.is_some() {
            text.push_str(", ");
        }
        last = Some(column.id);
        match entry {
            Entry::ComplexDeletion { deletion, .. } => {
                push(
                    &mut text,
                    format_args!("del({})={}", column.name, deletion_text(deletion)),
                );
            }
            Entry::Cell(cell) => {
                if cell.path.is_some() {
                    text.push_str(", ");
                }
                text.push_str(&cell_text(&column.name, &column.cql_type, &cell));
            }
        }
    }
    text
}

fn cell_text(name: &str, cql_type: &CqlType, cell: &CellRef<'_>) -> String {
    if *cql_type == CqlType::Counter && !cell.is_tombstone() {
        return format!("[{name}={} ts={}]", total(cell.value), cell.timestamp_us);
    }
    let times = if cell.ttl_s != 0 {
        format!(
            "ts={} ttl={} ldt={}",
            cell.timestamp_us, cell.ttl_s, cell.local_deletion_s
        )
    } else if cell.is_tombstone() {
        format!("ts={} ldt={}", cell.timestamp_us, cell.local_deletion_s)
    } else {
        format!("ts={}", cell.timestamp_us)
    };
    let (element, value_type) = match cell.path {
        None => (String::new(), cql_type.clone()),
        Some(path) => {
            let (element, value_type) = element(cql_type, path);
            (format!("[{element}]"), value_type)
        }
    };
    let value = if cell.is_tombstone() {
        "<tombstone>".to_owned()
    } else {
        text_of(&value_type, cell.value)
    };
    format!("[{name}{element}={value} {times}]")
}

fn text_of(cql_type: &CqlType, value: &[u8]) -> String {
    cql_type
        .to_text(value)
        .unwrap_or_else(|_| format!("0x{}", to_hex(value)))
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(arguments);
}
