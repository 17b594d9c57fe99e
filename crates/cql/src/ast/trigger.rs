//! `CREATE` and `DROP TRIGGER`.

use super::QualifiedName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTrigger {
    pub if_not_exists: bool,
    pub trigger: String,
    pub table: QualifiedName,
    pub class: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTrigger {
    pub if_exists: bool,
    pub trigger: String,
    pub table: QualifiedName,
}
