//! `CREATE`, `ALTER` and `DROP MATERIALIZED VIEW`.

use super::{PrimaryKey, Properties, QualifiedName, Relation, Selection, TableOptions, Term};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateView {
    pub if_not_exists: bool,
    pub view: QualifiedName,
    pub selection: Selection,
    pub base_table: QualifiedName,
    pub relations: Vec<Relation>,
    pub primary_key: PrimaryKey,
    pub options: TableOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    pub if_exists: bool,
    pub view: QualifiedName,
    pub properties: Properties,
}

/// `PRUNE MATERIALIZED VIEW`, an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    pub view: QualifiedName,
    pub relations: Vec<Relation>,
    /// An integer literal or a marker.
    pub concurrency: Option<Term>,
    /// A duration literal or a marker.
    pub timeout: Option<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropView {
    pub if_exists: bool,
    pub view: QualifiedName,
}
