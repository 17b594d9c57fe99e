//! `CREATE`, `ALTER` and `DROP TABLE`.

use super::{FunctionName, OrderDirection, Properties, QualifiedName, Term, TypeName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    pub if_not_exists: bool,
    pub table: QualifiedName,
    pub columns: Vec<ColumnDefinition>,
    /// Every primary key written, inline or as a clause, in order. Exactly one is valid; the engine says so.
    pub primary_keys: Vec<PrimaryKey>,
    pub options: TableOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: String,
    pub type_name: TypeName,
    pub is_static: bool,
    /// `TTL`, ScyllaDB's: the column says when its row expires.
    pub is_expiration: bool,
    pub mask: Option<ColumnMask>,
}

/// `MASKED WITH ...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnMask {
    /// `MASKED WITH DEFAULT`
    Default,
    Function {
        name: FunctionName,
        arguments: Vec<Term>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    pub partition: Vec<String>,
    pub clustering: Vec<String>,
}

/// The `WITH` clause of a table or materialized view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    pub properties: Properties,
    pub compact_storage: bool,
    pub clustering_order: Vec<ClusteringOrder>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringOrder {
    pub column: String,
    pub direction: OrderDirection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    pub if_exists: bool,
    pub table: QualifiedName,
    pub action: AlterTableAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTableAction {
    /// `ALTER c TYPE t`, which Cassandra parses in order to refuse it.
    ChangeType {
        column: String,
        type_name: TypeName,
    },
    /// `ALTER [IF EXISTS] c MASKED WITH f` and `ALTER [IF EXISTS] c DROP MASKED` (no mask).
    ChangeMask {
        if_exists: bool,
        column: String,
        mask: Option<ColumnMask>,
    },
    Add {
        if_not_exists: bool,
        columns: Vec<ColumnDefinition>,
    },
    /// The timestamp is in microseconds.
    Drop {
        if_exists: bool,
        columns: Vec<String>,
        timestamp: Option<i64>,
    },
    Rename {
        if_exists: bool,
        renames: Vec<(String, String)>,
    },
    DropCompactStorage,
    With(Properties),
    /// `TTL c` and `TTL NULL`, ScyllaDB's: which column says when its row expires.
    Expire(Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTable {
    pub if_exists: bool,
    pub table: QualifiedName,
}
