//! Limits from which on Cassandra warns, by its names and in its words; here those on what an SSTable gets to hold.

use std::path::PathBuf;

use helenus_schema::{ColumnId, TableMetadata};
use helenus_types::partition_key::partition_key_components;

use crate::clustering::Components;
use crate::row::{Entry, RowRef};

/// From where on there is a warning, and from where on a failure. A value at a threshold is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    pub warn: u64,
    pub fail: u64,
}

/// Which threshold a value is above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    Warn(u64),
    Fail(u64),
}

/// On a partition of one SSTable, looked at when it is flushed or compacted. What is there cannot be refused any more:
/// both thresholds lead to a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionGuardrails {
    /// `partition_size_warn_threshold` and `partition_size_fail_threshold`, in uncompressed bytes.
    pub size: Threshold,
    /// `partition_tombstones_warn_threshold` and `partition_tombstones_fail_threshold`.
    pub tombstones: Threshold,
    /// `collection_size_warn_threshold` and `collection_size_fail_threshold`, in bytes: of a collection that is not
    /// frozen, as it is after the merge of what was written to it. Of frozen ones a write tells.
    pub collection_size: Threshold,
    /// `items_per_collection_warn_threshold` and `items_per_collection_fail_threshold`, likewise.
    pub items_per_collection: Threshold,
}

/// Bytes of a collection's element beyond its key and its value, as Cassandra counts: timestamp, time to live and local
/// deletion time.
pub const COLLECTION_CELL_BYTES: u64 = 8 + 4 + 8;
/// Bytes that Cassandra adds for the deletion of a whole collection, also where there is none.
const COLLECTION_DELETION_BYTES: u64 = 12;

/// Size and tombstones of a partition that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionExtent {
    pub bytes: u64,
    /// Deletions of the partition, of rows, ranges and collections, and cells deleted or to expire.
    pub tombstones: u64,
}

impl Threshold {
    /// Cassandra writes -1, or no size at all.
    pub const DISABLED: Threshold = Threshold {
        warn: u64::MAX,
        fail: u64::MAX,
    };

    pub fn exceeded_by(&self, value: u64) -> Option<Exceeded> {
        if value > self.fail {
            Some(Exceeded::Fail(self.fail))
        } else if value > self.warn {
            Some(Exceeded::Warn(self.warn))
        } else {
            None
        }
    }
}

impl Default for PartitionGuardrails {
    fn default() -> Self {
        PartitionGuardrails {
            size: Threshold::DISABLED,
            tombstones: Threshold::DISABLED,
            collection_size: Threshold::DISABLED,
            items_per_collection: Threshold::DISABLED,
        }
    }
}

impl PartitionGuardrails {
    /// Returns whether the rows of a table have to be looked at.
    pub fn are_on_rows_of(&self, table: &TableMetadata) -> bool {
        let is_guarded = |column: &helenus_schema::ColumnMetadata| {
            column.cql_type.is_collection() && column.cql_type.is_multi_cell()
        };
        let thresholds = [self.collection_size, self.items_per_collection];
        thresholds
            .iter()
            .any(|threshold| *threshold != Threshold::DISABLED)
            && table.columns.iter().any(is_guarded)
    }

    /// Lines for the log, of the collections of a row; a static row has no clustering.
    pub fn check_row(
        &self,
        table: &TableMetadata,
        key: &[u8],
        clustering: Option<&[u8]>,
        row: RowRef<'_>,
        now_s: u32,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let mut current: Option<Collection> = None;
        // The cells of a column come together.
        for entry in row.entries() {
            let Entry::Cell(cell) = entry else { continue };
            if cell.path.is_none() || !cell.is_live(now_s) {
                continue;
            }
            if let Some(before) = current.take_if(|collection| collection.column != cell.column) {
                self.check_collection(table, key, clustering, &before, &mut lines);
            }
            let collection = current.get_or_insert(Collection {
                column: cell.column,
                items: 0,
                bytes: COLLECTION_DELETION_BYTES,
            });
            collection.items += 1;
            collection.bytes +=
                COLLECTION_CELL_BYTES + (cell.value.len() + cell.path.map_or(0, <[u8]>::len)) as u64;
        }
        if let Some(last) = current {
            self.check_collection(table, key, clustering, &last, &mut lines);
        }
        lines
    }

    fn check_collection(
        &self,
        table: &TableMetadata,
        key: &[u8],
        clustering: Option<&[u8]>,
        collection: &Collection,
        lines: &mut Vec<String>,
    ) {
        let Some(column) = table.column_by_id(collection.column) else {
            return;
        };
        if !column.cql_type.is_collection() {
            return;
        }
        let name = || {
            format!(
                "{} in row {} in table {}.{}",
                column.name,
                primary_key_literal(table, key, clustering.unwrap_or_default()),
                table.keyspace,
                table.name
            )
        };
        if let Some(exceeded) = self.collection_size.exceeded_by(collection.bytes) {
            lines.push(format!(
                "Guardrail collection_size violated: Detected collection {} of size {}, this exceeds {exceeded}.",
                name(),
                collection.bytes
            ));
        }
        if let Some(exceeded) = self.items_per_collection.exceeded_by(collection.items) {
            lines.push(format!(
                "Guardrail items_per_collection violated: Detected collection {} with {} items, this exceeds \
                 {exceeded}.",
                name(),
                collection.items
            ));
        }
    }

    /// Lines for the log.
    pub fn check(
        &self,
        table: &TableMetadata,
        key: &[u8],
        sstable: impl Fn() -> PathBuf,
        extent: PartitionExtent,
    ) -> Vec<String> {
        let name = || {
            format!(
                "{}.{}:{} on sstable {}",
                table.keyspace,
                table.name,
                key_text(table, key),
                sstable().display()
            )
        };
        let mut lines = Vec::new();
        if let Some(exceeded) = self.size.exceeded_by(extent.bytes) {
            lines.push(format!(
                "Guardrail partition_size violated: Partition {} has size {}, this exceeds {exceeded}. Too large \
                 partitions can cause performance problems.",
                name(),
                extent.bytes
            ));
        }
        if let Some(exceeded) = self.tombstones.exceeded_by(extent.tombstones) {
            lines.push(format!(
                "Guardrail partition_tombstones violated: Partition {} has {} tombstones, this exceeds {exceeded}. \
                 Partitions with too many tombstones can cause performance problems.",
                name(),
                extent.tombstones
            ));
        }
        lines
    }
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exceeded::Warn(threshold) => write!(formatter, "the warning threshold of {threshold}"),
            Exceeded::Fail(threshold) => write!(formatter, "the failure threshold of {threshold}"),
        }
    }
}

/// The live part of a collection that is not frozen.
struct Collection {
    column: ColumnId,
    items: u64,
    bytes: u64,
}

/// In parentheses where there is more than one column.
fn primary_key_literal(table: &TableMetadata, key: &[u8], clustering: &[u8]) -> String {
    let columns = table.partition_key();
    let components = partition_key_components(key, columns.len());
    let keys = columns.iter().zip(components);
    let rest = table.clustering().iter().zip(Components::new(clustering));
    let literals: Vec<String> = keys
        .chain(rest)
        .map(|(column, component)| column.cql_type.to_cql_literal(component).to_string())
        .collect();
    match literals.as_slice() {
        [single] => single.clone(),
        several => format!("({})", several.join(", ")),
    }
}

fn key_text(table: &TableMetadata, key: &[u8]) -> String {
    let columns = table.partition_key();
    let components = partition_key_components(key, columns.len());
    let texts = columns.iter().zip(components).map(|(column, component)| {
        let literal = column.cql_type.to_cql_literal(component);
        literal.trim_matches('\'').to_owned()
    });
    texts.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use helenus_schema::{
        ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableId, TableKind, TableParams,
    };
    use helenus_types::CqlType;

    use super::*;
    use crate::clustering::push_component;
    use crate::deletion::{DeletionTime, NEVER_S};
    use crate::row::{CellRef, Liveness, RowBuilder};

    fn table() -> TableMetadata {
        let key = ColumnMetadata {
            id: ColumnId(0),
            name: "p".into(),
            kind: ColumnKind::PartitionKey,
            position: 0,
            cql_type: CqlType::Text,
            order: ClusteringOrder::Ascending,
        };
        TableMetadata {
            keyspace: "k".into(),
            name: "t".into(),
            id: TableId(uuid::Uuid::nil()),
            kind: TableKind::Regular,
            columns: vec![key],
            partition_key_count: 1,
            clustering_count: 0,
            static_count: 0,
            next_column_id: ColumnId(1),
            dropped_columns: Vec::new(),
            indexes: Vec::new(),
            expiration_column: None,
            params: TableParams::default(),
        }
    }

    /// With a clustering column and a set.
    fn table_of_sets() -> TableMetadata {
        let mut table = table();
        let column = |id, name: &str, kind, cql_type| ColumnMetadata {
            id: ColumnId(id),
            name: name.into(),
            kind,
            position: 0,
            cql_type,
            order: ClusteringOrder::Ascending,
        };
        let set = CqlType::Set {
            element: CqlType::Int.into(),
            frozen: false,
        };
        table
            .columns
            .push(column(1, "c", ColumnKind::Clustering, CqlType::Int));
        table.columns.push(column(2, "s", ColumnKind::Regular, set));
        table.clustering_count = 1;
        table.next_column_id = ColumnId(3);
        table
    }

    #[test]
    fn collections_are_looked_at_as_they_are_after_a_merge() {
        let table = table_of_sets();
        let guardrails = PartitionGuardrails {
            collection_size: Threshold { warn: 60, fail: 100 },
            items_per_collection: Threshold { warn: 1, fail: 2 },
            ..PartitionGuardrails::default()
        };
        assert!(guardrails.are_on_rows_of(&table));
        assert!(!PartitionGuardrails::default().are_on_rows_of(&table));
        let row = |items: u32| {
            let mut bytes = Vec::new();
            let mut builder = RowBuilder::new(&mut bytes, Liveness::NONE, DeletionTime::LIVE);
            for item in 0..items {
                builder.cell(CellRef {
                    column: ColumnId(2),
                    timestamp_us: 1,
                    // The last one has expired.
                    ttl_s: u32::from(item + 1 == items),
                    local_deletion_s: if item + 1 == items { 5 } else { NEVER_S },
                    value: &[],
                    path: Some(&item.to_be_bytes()),
                });
            }
            bytes
        };
        let mut clustering = Vec::new();
        push_component(&mut clustering, &7_i32.to_be_bytes());
        let lines = |items| {
            let row = row(items);
            guardrails.check_row(&table, b"me", Some(&clustering), RowRef::new(&row), 10)
        };
        assert_eq!(lines(2), Vec::<String>::new());
        assert_eq!(
            lines(4),
            [
                "Guardrail collection_size violated: Detected collection s in row ('me', 7) in table k.t of size 84, \
                 this exceeds the warning threshold of 60.",
                "Guardrail items_per_collection violated: Detected collection s in row ('me', 7) in table k.t with 3 \
                 items, this exceeds the failure threshold of 2.",
            ]
        );
    }

    #[test]
    fn a_line_names_the_table_and_the_key() {
        let guardrails = PartitionGuardrails {
            size: Threshold { warn: 10, fail: 20 },
            tombstones: Threshold { warn: 1, fail: 2 },
            ..PartitionGuardrails::default()
        };
        let table = table();
        let lines = |bytes, tombstones| {
            let extent = PartitionExtent { bytes, tombstones };
            guardrails.check(&table, b"me", || PathBuf::from("/d/nb-1-big-Data.db"), extent)
        };
        assert_eq!(lines(10, 1), Vec::<String>::new());
        assert_eq!(
            lines(11, 3),
            [
                "Guardrail partition_size violated: Partition k.t:me on sstable /d/nb-1-big-Data.db has size 11, this \
                 exceeds the warning threshold of 10. Too large partitions can cause performance problems.",
                "Guardrail partition_tombstones violated: Partition k.t:me on sstable /d/nb-1-big-Data.db has 3 \
                 tombstones, this exceeds the failure threshold of 2. Partitions with too many tombstones can cause \
                 performance problems.",
            ]
        );
    }
}
