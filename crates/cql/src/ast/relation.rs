//! The relations of a `WHERE` clause.

use super::{Marker, QualifiedName, Term};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `c = v`, `c < v`, ..., `c LIKE v`, `c CONTAINS v`, `c CONTAINS KEY v`
    Column {
        column: String,
        operator: Operator,
        value: Term,
    },
    /// `c IN (a, b)`, `c IN ?`
    In { column: String, values: InValues },
    /// `c IS NOT NULL`
    IsNotNull { column: String },
    /// `m[k] = v`
    Element {
        column: String,
        key: Term,
        operator: Operator,
        value: Term,
    },
    /// `token(a, b) > v`
    Token {
        columns: Vec<String>,
        operator: Operator,
        value: Term,
    },
    /// `(a, b) > (1, 2)`, `(a, b) > ?`
    Tuple {
        columns: Vec<String>,
        operator: Operator,
        value: TupleValue,
    },
    /// `(a, b) IN ((1, 2), (3, 4))`
    TupleIn {
        columns: Vec<String>,
        values: TupleInValues,
    },
    /// `expr(index, value)`
    Expression { index: QualifiedName, value: Term },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
    ContainsKey,
    Like,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InValues {
    Marker(Marker),
    List(Vec<Term>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TupleValue {
    Marker(Marker),
    Tuple(Vec<Term>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TupleInValues {
    /// `IN ?`: one marker for the whole list.
    Marker(Marker),
    /// `IN ((1, 2), (3, 4))`; empty for `IN ()`.
    Tuples(Vec<Vec<Term>>),
    /// `IN (?, ?)`: one marker for each tuple.
    Markers(Vec<Marker>),
}
