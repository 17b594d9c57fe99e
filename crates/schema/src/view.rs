//! Materialized views.

use std::sync::Arc;

use crate::TableId;

/// Definition of a materialized view. Its columns, options and id are those of the keyspace's table of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMetadata {
    pub name: Arc<str>,
    /// The table that it is a view of, in the same keyspace.
    pub base: Arc<str>,
    pub base_id: TableId,
    /// True if it was made with `SELECT *`: then it has the columns that its base is given later.
    pub includes_all_columns: bool,
    /// Conditions behind WHERE, as CQL.
    pub conditions: Arc<str>,
}
