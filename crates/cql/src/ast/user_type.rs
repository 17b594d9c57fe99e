//! `CREATE`, `ALTER` and `DROP TYPE`.

use super::{QualifiedName, TypeName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateType {
    pub if_not_exists: bool,
    pub name: QualifiedName,
    pub fields: Vec<FieldDefinition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDefinition {
    pub name: String,
    pub type_name: TypeName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterType {
    pub if_exists: bool,
    pub name: QualifiedName,
    pub action: AlterTypeAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTypeAction {
    /// `ALTER f TYPE t`, which Cassandra parses in order to refuse it.
    ChangeType(FieldDefinition),
    Add {
        if_not_exists: bool,
        field: FieldDefinition,
    },
    Rename {
        if_exists: bool,
        renames: Vec<(String, String)>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropType {
    pub if_exists: bool,
    pub name: QualifiedName,
}
