//! Limits from which on Cassandra warns, by its names and in its words; here those on what an SSTable gets to hold.

use std::path::Path;

use helenus_schema::TableMetadata;
use helenus_types::partition_key::partition_key_components;

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
}

/// What was written of a partition.
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
        }
    }
}

impl PartitionGuardrails {
    /// Lines for the log.
    pub fn check(
        &self,
        table: &TableMetadata,
        key: &[u8],
        sstable: &Path,
        extent: PartitionExtent,
    ) -> Vec<String> {
        let name = || {
            format!(
                "{}.{}:{} on sstable {}",
                table.keyspace,
                table.name,
                key_text(table, key),
                sstable.display()
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
            params: TableParams::default(),
        }
    }

    #[test]
    fn a_line_names_the_table_and_the_key() {
        let guardrails = PartitionGuardrails {
            size: Threshold { warn: 10, fail: 20 },
            tombstones: Threshold { warn: 1, fail: 2 },
        };
        let table = table();
        let lines = |bytes, tombstones| {
            let extent = PartitionExtent { bytes, tombstones };
            guardrails.check(&table, b"me", Path::new("/d/nb-1-big-Data.db"), extent)
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
