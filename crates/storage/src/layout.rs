//! What storage must know of a table to order and merge its rows; derived once per schema version.

use std::sync::Arc;

use helenus_schema::TableMetadata;

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
}
