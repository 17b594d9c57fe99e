//! `DESCRIBE`.

use super::{FunctionName, QualifiedName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeStatement {
    pub target: DescribeTarget,
    pub with_internals: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeTarget {
    Cluster,
    Schema {
        full: bool,
    },
    Keyspaces,
    /// The session's keyspace when none is named; `only` leaves out what the keyspace contains.
    Keyspace {
        keyspace: Option<String>,
        only: bool,
    },
    Tables,
    Table(QualifiedName),
    Index(QualifiedName),
    View(QualifiedName),
    Types,
    Type(QualifiedName),
    Functions,
    Function(FunctionName),
    Aggregates,
    Aggregate(FunctionName),
    /// A bare name: whatever it turns out to be.
    Generic(QualifiedName),
}
