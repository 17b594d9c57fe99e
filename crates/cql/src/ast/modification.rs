//! `INSERT`, `UPDATE`, `DELETE` and `BATCH`.

use super::{InValues, Marker, Operator, QualifiedName, Relation, Term};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modification {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

/// `USING ...`. When an attribute is written twice the last one counts, as in Cassandra.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Using {
    /// Microseconds: an integer literal or a marker.
    pub timestamp: Option<Term>,
    /// Seconds: an integer literal or a marker.
    pub ttl: Option<Term>,
    /// An extension: a duration literal or a marker.
    pub timeout: Option<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    pub table: QualifiedName,
    pub source: InsertSource,
    pub if_not_exists: bool,
    pub using: Using,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertSource {
    /// The two lists may differ in length: saying so is the engine's business.
    Values {
        columns: Vec<String>,
        values: Vec<Term>,
    },
    Json {
        value: JsonValue,
        default: JsonDefault,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonValue {
    Text(String),
    Marker(Marker),
}

/// Value of the columns that the JSON text does not mention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum JsonDefault {
    #[default]
    Null,
    Unset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub table: QualifiedName,
    pub using: Using,
    pub assignments: Vec<Assignment>,
    pub relations: Vec<Relation>,
    pub conditions: Conditions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub column: String,
    pub operation: Operation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `c = v`
    Set(Term),
    /// `c[k] = v`
    SetElement { key: Term, value: Term },
    /// `c.field = v`
    SetField { field: String, value: Term },
    /// `c = c + v`, `c += v`
    Add(Term),
    /// `c = c - v`, `c -= v`
    Subtract(Term),
    /// `c = v + c`
    Prepend(Term),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    pub table: QualifiedName,
    /// Empty when whole rows are deleted.
    pub targets: Vec<DeletionTarget>,
    pub using: Using,
    pub relations: Vec<Relation>,
    pub conditions: Conditions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionTarget {
    Column(String),
    Element { column: String, key: Term },
    Field { column: String, field: String },
}

/// The `IF` clause of an `UPDATE` or `DELETE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    #[default]
    None,
    Exists,
    All(Vec<Condition>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub column: String,
    pub target: ConditionTarget,
    pub test: ConditionTest,
}

/// Which part of the column a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionTarget {
    Whole,
    Element(Term),
    Field(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionTest {
    Compare { operator: Operator, value: Term },
    In(InValues),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub kind: BatchKind,
    pub using: Using,
    pub statements: Vec<Modification>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}
