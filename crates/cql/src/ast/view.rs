//! `CREATE`, `ALTER` and `DROP MATERIALIZED VIEW`.

use super::{PrimaryKey, Properties, QualifiedName, Relation, Selection, TableOptions};

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropView {
    pub if_exists: bool,
    pub view: QualifiedName,
}
