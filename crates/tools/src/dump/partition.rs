//! One partition as JSON.

use std::io;

use helenus_rows::clustering::{Components, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{CellRef, Entry, Liveness, RowRef};
use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_sstable::SsTableCursor;
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_types::{CqlType, quoted_identifier};

use super::json_printer::JsonPrinter;
use super::keys::key_parts;
use super::value::write_json_value;
use super::{DumpError, DumpOptions};
use crate::times::instant;

pub fn write(
    json: &mut JsonPrinter<'_>,
    table: &TableMetadata,
    options: &DumpOptions,
    key: &[u8],
    cursor: &mut SsTableCursor<'_>,
) -> Result<(), DumpError> {
    let mut writer = PartitionWriter { json, table, options };
    let start = cursor.rows_position();
    writer.json.begin_object()?;
    writer.json.text_field("table kind", "REGULAR")?;
    writer.json.field("partition")?;
    writer.json.begin_object()?;
    writer.json.field("key")?;
    write_key(writer.json, table, key)?;
    writer.json.raw_field("position", start)?;
    if !cursor.deletion().is_live() {
        writer.deletion(cursor.deletion())?;
    }
    writer.json.end_object()?;
    writer.json.field("rows")?;
    writer.json.begin_array()?;
    if !cursor.static_row().is_empty() {
        writer.row(None, start, cursor.static_row())?;
    }
    let mut before = DeletionTime::LIVE;
    while cursor.advance()? {
        let position = cursor.position();
        match cursor.current() {
            Unfiltered::Row { clustering, row } => writer.row(Some(clustering), position, row)?,
            Unfiltered::Marker { bound, deletion } => {
                writer.marker(bound.prefix, bound.side, before, deletion)?;
                before = deletion;
            }
        }
    }
    writer.json.end_array()?;
    writer.json.end_object()?;
    Ok(())
}

pub fn write_key(json: &mut JsonPrinter<'_>, table: &TableMetadata, key: &[u8]) -> io::Result<()> {
    json.compact_objects = true;
    json.compact_arrays = true;
    json.begin_array()?;
    for part in key_parts(table, key) {
        json.text(&part)?;
    }
    json.end_array()?;
    json.compact_objects = false;
    json.compact_arrays = false;
    Ok(())
}

struct PartitionWriter<'w, 'j> {
    json: &'w mut JsonPrinter<'j>,
    table: &'w TableMetadata,
    options: &'w DumpOptions,
}

impl PartitionWriter<'_, '_> {
    /// A static row has no clustering.
    fn row(&mut self, clustering: Option<&[u8]>, position: u64, row: RowRef<'_>) -> io::Result<()> {
        let (liveness, deletion, entries) = row.open();
        self.json.begin_object()?;
        let kind = if clustering.is_none() {
            "static_block"
        } else {
            "row"
        };
        self.json.text_field("type", kind)?;
        self.json.raw_field("position", position)?;
        if let Some(clustering) = clustering {
            self.clustering(clustering)?;
        }
        if !liveness.is_none() {
            self.liveness(&liveness)?;
        }
        if !deletion.is_live() {
            self.deletion(deletion)?;
        }
        self.json.field("cells")?;
        self.json.begin_array()?;
        for entry in entries {
            let Some(column) = self.table.column_by_id(entry.column()) else {
                continue;
            };
            match entry {
                Entry::ComplexDeletion { deletion, .. } => self.complex_deletion(column, deletion)?,
                Entry::Cell(cell) => self.cell(column, &cell, &liveness)?,
            }
        }
        self.json.end_array()?;
        self.json.end_object()
    }

    fn liveness(&mut self, liveness: &Liveness) -> io::Result<()> {
        self.json.compact_objects = false;
        self.json.field("liveness_info")?;
        self.json.compact_objects = true;
        self.json.begin_object()?;
        self.json
            .text_field("tstamp", &self.options.time_of_us(liveness.timestamp_us))?;
        if liveness.ttl_s != 0 {
            self.expiration(liveness.ttl_s, liveness.expires_at_s)?;
        }
        self.json.end_object()?;
        self.json.compact_objects = false;
        Ok(())
    }

    fn expiration(&mut self, ttl_s: u32, expires_at_s: u32) -> io::Result<()> {
        self.json.raw_field("ttl", ttl_s)?;
        self.json
            .text_field("expires_at", &self.options.time_of_s(expires_at_s))?;
        self.json.raw_field("expired", expires_at_s <= self.options.now_s)
    }

    fn marker(
        &mut self,
        prefix: &[u8],
        side: Side,
        before: DeletionTime,
        after: DeletionTime,
    ) -> io::Result<()> {
        self.json.begin_object()?;
        let is_boundary = !before.is_live() && !after.is_live();
        let kind = if is_boundary {
            "range_tombstone_boundary"
        } else {
            "range_tombstone_bound"
        };
        self.json.text_field("type", kind)?;
        if !after.is_live() {
            self.bound("start", side == Side::Before, prefix, after)?;
        }
        if !before.is_live() {
            self.bound("end", side == Side::After, prefix, before)?;
        }
        self.json.end_object()?;
        self.json.compact_objects = false;
        Ok(())
    }

    fn bound(
        &mut self,
        which: &str,
        is_inclusive: bool,
        prefix: &[u8],
        deletion: DeletionTime,
    ) -> io::Result<()> {
        self.json.field(which)?;
        self.json.begin_object()?;
        let kind = if is_inclusive { "inclusive" } else { "exclusive" };
        self.json.text_field("type", kind)?;
        self.clustering(prefix)?;
        self.deletion(deletion)?;
        self.json.end_object()
    }

    /// Prints the values of a prefix; a column that it leaves open is a star.
    fn clustering(&mut self, prefix: &[u8]) -> io::Result<()> {
        if prefix.is_empty() {
            return Ok(());
        }
        self.json.field("clustering")?;
        self.json.compact_objects = true;
        self.json.begin_array()?;
        self.json.compact_arrays = true;
        let mut components = Components::new(prefix);
        for column in self.table.clustering() {
            match components.next() {
                Some(component) => {
                    let mut value = String::new();
                    write_json_value(&mut value, &column.cql_type, component);
                    self.json.raw(&value)?;
                }
                None => self.json.text("*")?,
            }
        }
        self.json.end_array()?;
        self.json.compact_objects = false;
        self.json.compact_arrays = false;
        Ok(())
    }

    fn deletion(&mut self, deletion: DeletionTime) -> io::Result<()> {
        self.json.field("deletion_info")?;
        self.json.compact_objects = true;
        self.json.begin_object()?;
        self.json
            .text_field("marked_deleted", &self.options.time_of_us(deletion.timestamp_us))?;
        self.json
            .text_field("local_delete_time", &self.options.time_of_s(deletion.local_s))?;
        self.json.end_object()?;
        self.json.compact_objects = false;
        Ok(())
    }

    fn complex_deletion(&mut self, column: &ColumnMetadata, deletion: DeletionTime) -> io::Result<()> {
        self.json.compact_objects = true;
        self.json.begin_object()?;
        self.json.text_field("name", &quoted_identifier(&column.name))?;
        self.deletion(deletion)?;
        self.json.compact_objects = true;
        self.json.end_object()?;
        self.json.compact_objects = false;
        Ok(())
    }

    fn cell(&mut self, column: &ColumnMetadata, cell: &CellRef<'_>, liveness: &Liveness) -> io::Result<()> {
        self.json.begin_object()?;
        self.json.compact_objects = true;
        self.json.text_field("name", &quoted_identifier(&column.name))?;
        let value_type = self.path(&column.cql_type, cell.path)?;
        if cell.is_tombstone() {
            self.json.field("deletion_info")?;
            self.json.compact_objects = true;
            self.json.begin_object()?;
            self.json.text_field(
                "local_delete_time",
                &self.options.time_of_s(cell.local_deletion_s),
            )?;
            self.json.end_object()?;
            self.json.compact_objects = false;
        } else {
            let mut value = String::new();
            write_json_value(&mut value, &value_type, cell.value);
            self.json.raw_field("value", value)?;
        }
        if liveness.is_none() || cell.timestamp_us != liveness.timestamp_us {
            self.json
                .text_field("tstamp", &self.options.time_of_us(cell.timestamp_us))?;
        }
        if cell.ttl_s != 0 && (liveness.is_none() || cell.ttl_s != liveness.ttl_s) {
            self.expiration(cell.ttl_s, cell.local_deletion_s)?;
        }
        self.json.end_object()?;
        self.json.compact_objects = false;
        Ok(())
    }

    /// Writes which element a cell is of; returns the type of the cell's value.
    fn path(&mut self, cql_type: &CqlType, path: Option<&[u8]>) -> io::Result<CqlType> {
        let Some(path) = path else {
            return Ok(cql_type.clone());
        };
        let (text, value_type) = element(cql_type, path);
        self.json.field("path")?;
        self.json.compact_arrays = true;
        self.json.begin_array()?;
        self.json.text(&text)?;
        self.json.end_array()?;
        self.json.compact_arrays = false;
        Ok(value_type)
    }
}

/// The name of an element of a multi-cell column, and the type of its value.
pub(super) fn element(cql_type: &CqlType, path: &[u8]) -> (String, CqlType) {
    let text = |key: &CqlType| {
        key.to_text(path)
            .unwrap_or_else(|_| helenus_types::value::blob::to_hex(path))
    };
    match cql_type {
        CqlType::List { element, .. } => (text(&CqlType::Timeuuid), CqlType::clone(element)),
        CqlType::Set { element, .. } => (text(element), CqlType::Empty),
        CqlType::Map { key, value, .. } => (text(key), CqlType::clone(value)),
        CqlType::UserDefined { definition, .. } => {
            let index = path.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes));
            match index.and_then(|index| definition.fields.get(usize::from(index))) {
                Some((name, field)) => (name.to_string(), field.clone()),
                None => (text(&CqlType::Blob), CqlType::Blob),
            }
        }
        other => (text(&CqlType::Blob), other.clone()),
    }
}

impl DumpOptions {
    /// As Java's TimeUnit divides: seconds towards zero, the fraction from zero up.
    fn time_of_us(&self, us: i64) -> String {
        if self.raw_times {
            return us.to_string();
        }
        let nanos = us.saturating_mul(1000).rem_euclid(1_000_000_000);
        instant(us / 1_000_000, u32::try_from(nanos).unwrap_or(0))
    }

    fn time_of_s(&self, s: u32) -> String {
        if self.raw_times {
            return s.to_string();
        }
        instant(i64::from(s), 0)
    }
}
