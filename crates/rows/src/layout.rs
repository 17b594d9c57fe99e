//! Layout of a table, by which storage orders and merges its rows; derived once per schema version.

use std::collections::HashSet;
use std::sync::Arc;

use helenus_schema::{ClusteringOrder, ColumnMetadata, DroppedColumn, Schema, TableMetadata};

use crate::clustering::ClusteringComparator;
use crate::row::RowShape;

#[derive(Clone, Debug)]
pub struct TableLayout {
    pub metadata: Arc<TableMetadata>,
    pub comparator: ClusteringComparator,
    pub shape: RowShape,
}

impl TableLayout {
    pub fn of(metadata: &Arc<TableMetadata>) -> Self {
        TableLayout {
            metadata: Arc::clone(metadata),
            comparator: ClusteringComparator::of(metadata),
            shape: RowShape::of(metadata),
        }
    }

    /// Layout of a table that may be a materialized view: what is one, the schema knows.
    pub fn in_schema(metadata: &Arc<TableMetadata>, schema: &Schema) -> Self {
        let layout = Self::of(metadata);
        match schema.has_strict_liveness(metadata) {
            true => TableLayout {
                shape: layout.shape.needing_markers(),
                ..layout
            },
            false => layout,
        }
    }

    /// The columns that the table has no more and can have again.
    pub fn absent_columns(&self) -> impl Iterator<Item = &DroppedColumn> {
        let dropped = self.metadata.dropped_columns.iter();
        let present: HashSet<&str> = match dropped.len() {
            0 => HashSet::new(),
            _ => self.metadata.columns.iter().map(|column| &*column.name).collect(),
        };
        dropped.filter(move |dropped| !present.contains(&*dropped.name))
    }

    /// The table with some of its [absent columns](Self::absent_columns), for an SSTable that has cells of them.
    pub fn with_columns<'d>(&self, absent: impl Iterator<Item = &'d DroppedColumn>) -> Arc<TableMetadata> {
        let absent: Vec<ColumnMetadata> = absent.map(as_before).collect();
        if absent.is_empty() {
            return Arc::clone(&self.metadata);
        }
        let mut table = TableMetadata::clone(&self.metadata);
        let mut columns = std::mem::take(&mut table.columns);
        columns.extend(absent);
        table.set_columns(columns);
        Arc::new(table)
    }
}

fn as_before(dropped: &DroppedColumn) -> ColumnMetadata {
    ColumnMetadata {
        id: dropped.id,
        name: Arc::clone(&dropped.name),
        kind: dropped.kind,
        position: 0,
        cql_type: dropped.cql_type.clone(),
        order: ClusteringOrder::Ascending,
    }
}
