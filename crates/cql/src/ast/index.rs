//! `CREATE` and `DROP INDEX`.

use super::{Properties, QualifiedName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    pub custom: bool,
    pub if_not_exists: bool,
    /// None when the engine is to make up a name.
    pub name: Option<String>,
    pub table: QualifiedName,
    pub targets: Vec<IndexTarget>,
    /// `USING 'class'`
    pub class: Option<String>,
    pub properties: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    pub column: String,
    pub kind: IndexTargetKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexTargetKind {
    /// The column by itself: its values when it is a collection.
    Simple,
    Values,
    Keys,
    Entries,
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIndex {
    pub if_exists: bool,
    pub index: QualifiedName,
}
