//! Limits on the values that a statement writes, by Cassandra's names and in its words.

use std::collections::BTreeMap;

use helenus_engine::CqlError;
use helenus_rows::guardrails::{COLLECTION_CELL_BYTES, Exceeded, Threshold};
use helenus_rows::row::{CellRef, Entry, RowRef};
use helenus_rows::update::{Update, UpdateItem};
use helenus_schema::{ColumnId, Schema, TableMetadata};

use super::violated;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueGuardrails {
    /// `column_value_size_warn_threshold` and `column_value_size_fail_threshold`, in bytes; of an element in a
    /// collection that is not frozen, and of its key.
    pub column_value_size: Threshold,
    /// `collection_size_warn_threshold` and `collection_size_fail_threshold`, in bytes. Only what is added counts.
    pub collection_size: Threshold,
    /// `items_per_collection_warn_threshold` and `items_per_collection_fail_threshold`. Only what is added counts.
    pub items_per_collection: Threshold,
}

/// The part of a collection that a row brings.
#[derive(Default)]
struct Added {
    items: u64,
    bytes: u64,
}

impl Default for ValueGuardrails {
    fn default() -> Self {
        ValueGuardrails {
            column_value_size: Threshold::DISABLED,
            collection_size: Threshold::DISABLED,
            items_per_collection: Threshold::DISABLED,
        }
    }
}

impl ValueGuardrails {
    pub fn is_enabled(&self) -> bool {
        *self != ValueGuardrails::default()
    }

    /// The warnings that a packed update deserves, or its refusal.
    pub fn check(&self, schema: &Schema, update: &[u8]) -> Result<Vec<String>, CqlError> {
        let mut warnings = Vec::new();
        let Some(update) = Update::decode_trusted(update) else {
            return Ok(warnings);
        };
        let Some(table) = schema.table_by_id(update.table) else {
            return Ok(warnings);
        };
        for item in update.items() {
            match item {
                UpdateItem::StaticRow(row) | UpdateItem::Row { row, .. } => {
                    self.check_row(table, row, &mut warnings)?;
                }
                UpdateItem::RangeTombstone { .. } => {}
            }
        }
        Ok(warnings)
    }

    fn check_row(
        &self,
        table: &TableMetadata,
        row: RowRef<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let mut collections: BTreeMap<ColumnId, Added> = BTreeMap::new();
        let cells = row.entries().filter_map(|entry| match entry {
            Entry::Cell(cell) if !cell.is_tombstone() => Some(cell),
            _ => None,
        });
        for cell in cells {
            let Some(column) = table.column_by_id(cell.column) else {
                continue;
            };
            for size in [Some(cell.value), cell.path]
                .into_iter()
                .flatten()
                .map(<[u8]>::len)
            {
                if let Some(exceeded) = self.column_value_size.exceeded_by(size as u64) {
                    let text = format!(
                        "Value of column '{}' has size {size}, this exceeds {exceeded}.",
                        column.name
                    );
                    tell("column_value_size", text, exceeded, warnings)?;
                }
            }
            if column.cql_type.is_collection() {
                let added = collections.entry(cell.column).or_default();
                added.items += items_of(&cell);
                added.bytes +=
                    COLLECTION_CELL_BYTES + cell.value.len() as u64 + cell.path.map_or(0, <[u8]>::len) as u64;
            }
        }
        for (column, Added { items, bytes }) in collections {
            let Some(column) = table.column_by_id(column) else {
                continue;
            };
            if let Some(exceeded) = self.items_per_collection.exceeded_by(items) {
                let text = format!(
                    "Detected collection {} with {items} items, this exceeds {exceeded}.",
                    column.name
                );
                tell("items_per_collection", text, exceeded, warnings)?;
            }
            if let Some(exceeded) = self.collection_size.exceeded_by(bytes) {
                let text = format!(
                    "Detected collection {} of size {bytes}, this exceeds {exceeded}.",
                    column.name
                );
                tell("collection_size", text, exceeded, warnings)?;
            }
        }
        Ok(())
    }
}

/// Counts the items of a cell: the value of a frozen collection begins with their number.
fn items_of(cell: &CellRef<'_>) -> u64 {
    match (cell.path, cell.value.first_chunk()) {
        (None, Some(count)) => u64::from(u32::from_be_bytes(*count)),
        _ => 1,
    }
}

fn tell(name: &str, text: String, exceeded: Exceeded, warnings: &mut Vec<String>) -> Result<(), CqlError> {
    match exceeded {
        Exceeded::Fail(_) => Err(violated(name, &text)),
        Exceeded::Warn(_) => {
            warnings.push(format!("Guardrail {name} violated: {text}"));
            Ok(())
        }
    }
}
