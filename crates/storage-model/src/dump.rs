//! Expected output of `sstabledump -t` for a table's contents.

use std::fmt::Write as _;

use helenus_rows::clustering::{Components, Side};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{CellRef, Entry, Liveness, RowRef};
use helenus_schema::{ColumnMetadata, TableMetadata};
use helenus_types::partition_key::partition_key_components;
use helenus_types::{CqlType, quoted_identifier};

use crate::json::{json_string, json_value};
use crate::partition::{Item, Partition, Partitions};

/// The JSON of all partitions, without places in the file and without blanks: compare with [`without_layout`].
/// `now_s` decides what has expired.
pub fn dump(table: &TableMetadata, partitions: &Partitions, now_s: u32) -> String {
    let mut dump = Dump {
        table,
        now_s,
        out: String::from("["),
    };
    for (index, ((_, key), partition)) in partitions.iter().enumerate() {
        if index > 0 {
            dump.out.push(',');
        }
        dump.partition(key, partition);
    }
    dump.out.push(']');
    without_layout(&dump.out)
}

/// Removes blanks between tokens, and each `"position" : number` with its comma: where things are in a file is no
/// part of the model.
pub fn without_layout(json: &str) -> String {
    const POSITION: &str = ",\"position\":";
    let mut out = String::with_capacity(json.len());
    let mut in_string = false;
    let mut is_escaped = false;
    let mut is_position = false;
    for character in json.chars() {
        if in_string {
            out.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        if character.is_ascii_whitespace() || (is_position && character.is_ascii_digit()) {
            continue;
        }
        is_position = false;
        in_string = character == '"';
        out.push(character);
        if character == ':' && out.ends_with(POSITION) {
            out.truncate(out.len() - POSITION.len());
            is_position = true;
        }
    }
    out
}

struct Dump<'a> {
    table: &'a TableMetadata,
    now_s: u32,
    out: String,
}

impl Dump<'_> {
    fn partition(&mut self, key: &[u8], partition: &Partition) {
        let columns = self.table.partition_key();
        let components: Vec<_> = columns
            .iter()
            .zip(partition_key_components(key, columns.len()))
            .map(|(column, value)| json_string(&column.cql_type.to_text(value).unwrap_or_default()))
            .collect();
        self.out
            .push_str("{\"table kind\":\"REGULAR\",\"partition\":{\"key\":[");
        self.out.push_str(&components.join(","));
        self.out.push(']');
        if !partition.deletion.is_live() {
            self.deletion(partition.deletion);
        }
        self.out.push_str("},\"rows\":[");
        let mut is_first = true;
        let mut separate = |out: &mut String| {
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
        };
        if !RowRef::new(&partition.static_row).is_empty() {
            separate(&mut self.out);
            self.out.push_str("{\"type\":\"static_block\"");
            self.row(&partition.static_row);
        }
        let mut in_force = DeletionTime::LIVE;
        for item in &partition.items {
            separate(&mut self.out);
            match item {
                Item::Row { clustering, row } => {
                    self.out.push_str("{\"type\":\"row\"");
                    self.clustering(clustering);
                    self.row(row);
                }
                Item::Marker {
                    prefix,
                    side,
                    deletion,
                } => {
                    self.marker(prefix, *side, in_force, *deletion);
                    in_force = *deletion;
                }
            }
        }
        self.out.push_str("]}");
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        let DeletionTime {
            timestamp_us,
            local_s,
        } = deletion;
        self.text(format_args!(
            ",\"deletion_info\":{{\"marked_deleted\":\"{timestamp_us}\",\"local_delete_time\":\"{local_s}\"}}"
        ));
    }

    fn clustering(&mut self, packed: &[u8]) {
        let mut components = Components::new(packed);
        let values: Vec<_> = self
            .table
            .clustering()
            .iter()
            .map(|column| match components.next() {
                Some(value) => json_value(&column.cql_type, value),
                None => "\"*\"".to_owned(),
            })
            .collect();
        if !packed.is_empty() {
            self.text(format_args!(",\"clustering\":[{}]", values.join(",")));
        }
    }

    fn marker(&mut self, prefix: &[u8], side: Side, before: DeletionTime, after: DeletionTime) {
        let is_boundary = !before.is_live() && !after.is_live();
        self.out.push_str(if is_boundary {
            "{\"type\":\"range_tombstone_boundary\""
        } else {
            "{\"type\":\"range_tombstone_bound\""
        });
        if !after.is_live() {
            self.bound("start", prefix, side == Side::Before, after);
        }
        if !before.is_live() {
            self.bound("end", prefix, side == Side::After, before);
        }
        self.out.push('}');
    }

    fn bound(&mut self, name: &str, prefix: &[u8], is_inclusive: bool, deletion: DeletionTime) {
        let kind = if is_inclusive { "inclusive" } else { "exclusive" };
        self.text(format_args!(",\"{name}\":{{\"type\":\"{kind}\""));
        self.clustering(prefix);
        self.deletion(deletion);
        self.out.push('}');
    }

    /// All of a row but its type and key, and the brace that ends it.
    fn row(&mut self, row: &[u8]) {
        let (liveness, deletion, entries) = RowRef::new(row).open();
        if !liveness.is_none() {
            self.liveness(liveness);
        }
        if !deletion.is_live() {
            self.deletion(deletion);
        }
        self.out.push_str(",\"cells\":[");
        let mut entries: Vec<(&ColumnMetadata, Entry<'_>)> = entries
            .filter_map(|entry| Some((self.table.column_by_id(entry.column())?, entry)))
            .collect();
        // Columns with a cell per element come after the others, each kind by name: `ColumnMetadata.compareTo`.
        entries.sort_by_key(|(column, _)| (column.cql_type.is_multi_cell(), column.name.clone()));
        for (index, (column, entry)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            let name = json_string(&quoted_identifier(&column.name));
            self.text(format_args!("{{\"name\":{name}"));
            match entry {
                Entry::ComplexDeletion { deletion, .. } => self.deletion(deletion),
                Entry::Cell(cell) => self.cell(column, cell, liveness),
            }
            self.out.push('}');
        }
        self.out.push_str("]}");
    }

    fn liveness(&mut self, liveness: Liveness) {
        let Liveness {
            timestamp_us,
            ttl_s,
            expires_at_s,
        } = liveness;
        self.text(format_args!(",\"liveness_info\":{{\"tstamp\":\"{timestamp_us}\""));
        if ttl_s != 0 {
            self.expiry(ttl_s, expires_at_s);
        }
        self.out.push('}');
    }

    fn expiry(&mut self, ttl_s: u32, expires_at_s: u32) {
        let expired = expires_at_s <= self.now_s;
        self.text(format_args!(
            ",\"ttl\":{ttl_s},\"expires_at\":\"{expires_at_s}\",\"expired\":{expired}"
        ));
    }

    fn cell(&mut self, column: &ColumnMetadata, cell: CellRef<'_>, liveness: Liveness) {
        let (path, value_type) = element(&column.cql_type, cell.path.unwrap_or_default());
        if let Some(path) = path {
            self.text(format_args!(",\"path\":[{}]", json_string(&path)));
        }
        if cell.is_tombstone() {
            let local_s = cell.local_deletion_s;
            self.text(format_args!(
                ",\"deletion_info\":{{\"local_delete_time\":\"{local_s}\"}}"
            ));
        } else {
            self.text(format_args!(",\"value\":{}", json_value(&value_type, cell.value)));
        }
        if cell.timestamp_us != liveness.timestamp_us {
            self.text(format_args!(",\"tstamp\":\"{}\"", cell.timestamp_us));
        }
        let is_as_row = !liveness.is_none() && cell.ttl_s == liveness.ttl_s;
        if cell.ttl_s != 0 && !is_as_row {
            self.expiry(cell.ttl_s, cell.local_deletion_s);
        }
    }

    fn text(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(text);
    }
}

/// The text of a cell's path, if it has one, and the type of its value.
fn element(cql_type: &CqlType, path: &[u8]) -> (Option<String>, CqlType) {
    let text = |path_type: &CqlType| Some(path_type.to_text(path).unwrap_or_default());
    match cql_type {
        CqlType::List {
            element,
            frozen: false,
        } => (text(&CqlType::Timeuuid), CqlType::clone(element)),
        CqlType::Set {
            element,
            frozen: false,
        } => (text(element), CqlType::Empty),
        CqlType::Map {
            key,
            value,
            frozen: false,
        } => (text(key), CqlType::clone(value)),
        CqlType::UserDefined {
            definition,
            frozen: false,
        } => {
            let index = path.first_chunk().map_or(0, |index| u16::from_be_bytes(*index));
            match definition.fields.get(usize::from(index)) {
                Some((name, field)) => (Some(name.to_string()), field.clone()),
                None => (Some(String::new()), CqlType::Empty),
            }
        }
        _ => (None, cql_type.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_blanks_and_positions_outside_strings() {
        let json = "{ \"a\" : [ \"x \\\" y\" , 1 ],\n \"position\" : 123,\"b\":\"p \" }";
        assert_eq!(without_layout(json), "{\"a\":[\"x \\\" y\",1],\"b\":\"p \"}");
    }
}
