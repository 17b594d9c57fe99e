//! Rules of a WHERE clause for vectors, and beside an ordering by similarity.

use helenus_schema::{ColumnMetadata, TableMetadata};

use super::restriction::{RestrictedColumn, Restriction};
use super::statement_kind::StatementKind;
use super::where_clause::{WhereClause, WhereRules};
use crate::CqlError;

impl WhereClause {
    /// Checks what stands beside an ordering by similarity, and that vectors with an index are asked for by that only.
    pub(crate) fn check_vectors(&self, table: &TableMetadata, rules: WhereRules) -> Result<(), CqlError> {
        if rules.kind != StatementKind::Select {
            return Ok(());
        }
        let has_index = |column: &ColumnMetadata| table.indexes_of(column.id).next().is_some();
        let columns = |restrictions: &'_ [Restriction]| -> Vec<RestrictedColumn> {
            let columns = restrictions.iter().flat_map(|restriction| &restriction.columns);
            columns.cloned().collect()
        };
        let others = columns(&self.others);
        let Some(nearest) = rules.nearest else {
            let is_vector = |restricted: &&RestrictedColumn| restricted.column.cql_type.is_vector();
            let vector = others.iter().find(is_vector);
            return match vector.is_some_and(|vector| has_index(&vector.column)) {
                true => Err(invalid!("Vector indexes only support ANN queries")),
                false => Ok(()),
            };
        };
        let clustering = columns(&self.clustering);
        if let Some(twice) = others
            .iter()
            .chain(&clustering)
            .find(|restricted| restricted.column.id == nearest.column)
        {
            return Err(invalid!(
                "{} cannot be restricted by more than one relation if it includes an Equal",
                twice.name()
            ));
        }
        let is_in_partition =
            self.partition.len() == table.partition_key().len() && self.is_clustering_prefix();
        let unindexed_clustering = clustering.iter().any(|restricted| !has_index(&restricted.column));
        let unindexed_others = others.iter().any(|restricted| !has_index(&restricted.column));
        match unindexed_others || (unindexed_clustering && !is_in_partition) {
            true => Err(invalid!(
                "ANN ordering by vector requires all restricted column(s) to be indexed"
            )),
            false => Ok(()),
        }
    }
}
