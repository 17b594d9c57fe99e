//! A typed term or selector: part of an immutable plan.

use helenus_types::CqlType;

use crate::functions::NativeFunction;
use crate::heap_bytes::HeapBytes;

/// Computation of one value from bound values and, in a select clause, from a row and finished aggregates.
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
    /// A row of `SELECT JSON`.
    JsonRow(Vec<JsonColumn>),
    /// A value that was decoded for the statement and put behind the bound ones, so many from their end. It is of its type;
    /// the one at 0 is unset.
    Decoded {
        from_end: usize,
    },
}

/// A column of `SELECT JSON`.
#[derive(Clone, Debug)]
pub struct JsonColumn {
    /// With its quotes.
    pub name: Box<str>,
    pub cql_type: CqlType,
    pub value: Expression,
}

impl Expression {
    pub const NULL: Expression = Expression::Constant(None);
    pub const UNSET: Expression = Expression::Decoded { from_end: 0 };

    /// How many values are computed, more or less.
    pub(crate) fn value_count(&self) -> usize {
        match self {
            Expression::JsonRow(columns) => columns.len(),
            _ => 1,
        }
    }

    /// Returns whether a value becomes JSON in it.
    pub(crate) fn writes_json(&self) -> bool {
        matches!(self, Expression::JsonRow(_)) || self.calls(NativeFunction::is_to_json)
    }

    /// Returns whether such a function is called in it; not in what is selected of a value, elements and fields.
    pub(crate) fn calls(&self, is_such: fn(&NativeFunction) -> bool) -> bool {
        let any = |elements: &[Expression]| elements.iter().any(|element| element.calls(is_such));
        match self {
            Expression::Call { function, arguments } => is_such(function) || any(arguments),
            Expression::List(elements)
            | Expression::Set { elements, .. }
            | Expression::Tuple(elements)
            | Expression::Vector { elements, .. } => any(elements),
            Expression::Map { entries, .. } => {
                let mut entries = entries.iter();
                entries.any(|(key, value)| key.calls(is_such) || value.calls(is_such))
            }
            _ => false,
        }
    }

    pub fn is_constant(&self) -> bool {
        matches!(self, Expression::Constant(_))
    }

    /// The marker this expression is, if it is nothing but a marker.
    pub(crate) fn as_marker(&self) -> Option<usize> {
        match self {
            Expression::Marker { index, .. } => Some(*index),
            _ => None,
        }
    }
}

impl HeapBytes for Expression {
    fn heap_bytes(&self) -> usize {
        match self {
            Expression::Constant(value) => value.heap_bytes(),
            Expression::Marker { .. }
            | Expression::Column(_)
            | Expression::Aggregate(_)
            | Expression::Decoded { .. } => 0,
            Expression::JsonRow(columns) => columns.heap_bytes(),
            Expression::Call { function, arguments } => function.heap_bytes() + arguments.heap_bytes(),
            Expression::List(elements)
            | Expression::Set { elements, .. }
            | Expression::Tuple(elements)
            | Expression::Vector { elements, .. } => elements.heap_bytes(),
            Expression::Map { entries, .. } => entries.heap_bytes(),
            Expression::Element { of, key, text, .. } => {
                of.heap_bytes() + key.heap_bytes() + text.heap_bytes()
            }
            Expression::Slice {
                of, from, to, text, ..
            } => of.heap_bytes() + from.heap_bytes() + to.heap_bytes() + text.heap_bytes(),
            Expression::Field { of, .. } => of.heap_bytes(),
            Expression::ParallelElement { list, of, key, .. } => {
                list.heap_bytes() + of.heap_bytes() + key.heap_bytes()
            }
            Expression::ParallelSlice {
                list, of, from, to, ..
            } => list.heap_bytes() + of.heap_bytes() + from.heap_bytes() + to.heap_bytes(),
            Expression::ListEntry { list, .. } | Expression::ListMaximum(list) => list.heap_bytes(),
        }
    }
}

impl HeapBytes for JsonColumn {
    fn heap_bytes(&self) -> usize {
        self.name.len() + self.value.heap_bytes()
    }
}
