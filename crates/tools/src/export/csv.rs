//! Rows as CSV, as cqlsh's COPY reads it: a line of names, an empty field for null, collections as CQL literals.

use std::io::Write;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::{CqlType, quoted_identifier};
use helenus_vfs::Disk;

use super::live_rows::{Value, for_each_row};
use super::{ExportError, Exported};
use crate::progress::{Progress, Unit};
use crate::target::Target;

/// Writes the live rows of SSTables of one table.
pub fn export_csv(
    disk: &dyn Disk,
    targets: &[Target],
    table: &Arc<TableMetadata>,
    now_s: u32,
    out: &mut dyn Write,
    progress: &dyn Progress,
) -> Result<Exported, ExportError> {
    let sstables = targets
        .iter()
        .map(|target| target.open(disk, table))
        .collect::<Result<Vec<_>, _>>()?;
    let total = sstables.iter().map(|sstable| sstable.statistics().rows).sum();
    progress.begin("exporting rows", Unit::Partitions, total);
    let mut exported = Exported::default();
    let names: Vec<String> = table.columns.iter().map(|column| field(&column.name)).collect();
    let mut line = names.join(",");
    line.push_str("\r\n");
    out.write_all(line.as_bytes())?;
    exported.bytes += line.len() as u64;
    let mut rows = 0;
    let counted = for_each_row(table, &sstables, now_s, |values| {
        let fields: Vec<String> = values
            .iter()
            .zip(&table.columns)
            .map(|(value, column)| field(&text_of(value, &column.cql_type)))
            .collect();
        let mut line = fields.join(",");
        line.push_str("\r\n");
        out.write_all(line.as_bytes())?;
        exported.bytes += line.len() as u64;
        rows += 1;
        progress.at(rows);
        Ok::<(), ExportError>(())
    })?;
    (exported.partitions, exported.rows) = counted;
    Ok(exported)
}

/// Text as it is; what holds several values as a CQL literal; null as nothing.
fn text_of(value: &Value, cql_type: &CqlType) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bytes(bytes) => match cql_type {
            CqlType::Text | CqlType::Ascii => String::from_utf8_lossy(bytes).into_owned(),
            CqlType::Inet | CqlType::Date | CqlType::Time | CqlType::Timestamp => {
                cql_type.to_text(bytes).unwrap_or_default()
            }
            _ if bytes.is_empty() => String::new(),
            _ => cql_type.to_cql_literal(bytes),
        },
        Value::Elements(elements) => elements_text(elements, cql_type),
    }
}

fn elements_text(elements: &[(Vec<u8>, Vec<u8>)], cql_type: &CqlType) -> String {
    let parts: Vec<String> = elements
        .iter()
        .map(|(path, value)| match cql_type {
            CqlType::List { element, .. } => element.to_cql_literal(value),
            CqlType::Set { element, .. } => element.to_cql_literal(path),
            CqlType::Map { key, value: of, .. } => {
                format!("{}: {}", key.to_cql_literal(path), of.to_cql_literal(value))
            }
            CqlType::UserDefined { definition, .. } => {
                let index = path
                    .first_chunk::<2>()
                    .map_or(0, |bytes| u16::from_be_bytes(*bytes));
                match definition.fields.get(usize::from(index)) {
                    Some((name, field)) => {
                        format!("{}: {}", quoted_identifier(name), field.to_cql_literal(value))
                    }
                    None => String::new(),
                }
            }
            other => other.to_cql_literal(value),
        })
        .collect();
    let joined = parts.join(", ");
    match cql_type {
        CqlType::List { .. } => format!("[{joined}]"),
        _ => format!("{{{joined}}}"),
    }
}

/// In quotes where it has to be; quotes in it are doubled.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
