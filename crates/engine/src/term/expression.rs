//! A typed term or selector: part of an immutable plan.

use helenus_types::CqlType;

use crate::functions::NativeFunction;

/// What computes one value from bound values and, in a select clause, from a row and finished aggregates.
#[derive(Clone, Debug)]
pub enum Expression {
    /// `None` is null.
    Constant(Option<Box<[u8]>>),
    /// A bound value, checked against the type when it is used.
    Marker {
        index: usize,
        cql_type: CqlType,
    },
    Call {
        function: Box<NativeFunction>,
        arguments: Vec<Expression>,
    },
    List(Vec<Expression>),
    Set {
        element: CqlType,
        elements: Vec<Expression>,
    },
    Map {
        key: CqlType,
        entries: Vec<(Expression, Expression)>,
    },
    /// A tuple or a value of a user type: components in order, which may be null.
    Tuple(Vec<Expression>),
    Vector {
        element: CqlType,
        elements: Vec<Expression>,
    },
    /// The value fetched into this place of the row.
    Column(usize),
    /// The result of the aggregate with this number.
    Aggregate(usize),
    /// `of[key]` of a set or map type.
    Element {
        of: Box<Expression>,
        key: Box<Expression>,
        collection: CqlType,
        text: String,
    },
    /// `of[from..to]`
    Slice {
        of: Box<Expression>,
        from: Option<Box<Expression>>,
        to: Option<Box<Expression>>,
        collection: CqlType,
        text: String,
    },
    /// A component of a tuple or user type.
    Field {
        of: Box<Expression>,
        index: usize,
    },
    /// The entry, for the element `key`, of a list that runs parallel to the elements of a collection: how the write
    /// times of single elements are found.
    ParallelElement {
        list: Box<Expression>,
        of: Box<Expression>,
        key: Box<Expression>,
        collection: CqlType,
    },
    ParallelSlice {
        list: Box<Expression>,
        of: Box<Expression>,
        from: Option<Box<Expression>>,
        to: Option<Box<Expression>>,
        collection: CqlType,
    },
    /// An entry of a list by position.
    ListEntry {
        list: Box<Expression>,
        index: usize,
    },
    /// The greatest bigint of a list.
    ListMaximum(Box<Expression>),
}

impl Expression {
    pub const NULL: Expression = Expression::Constant(None);

    pub fn is_constant(&self) -> bool {
        matches!(self, Expression::Constant(_))
    }

    /// The marker this expression is, if it is nothing but a marker.
    pub fn as_marker(&self) -> Option<usize> {
        match self {
            Expression::Marker { index, .. } => Some(*index),
            _ => None,
        }
    }
}
