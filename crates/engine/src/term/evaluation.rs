//! Evaluating expressions: bound values, rows and constants in, serialized values out.

use std::borrow::Cow;
use std::cmp::Ordering;

use helenus_protocol::request::Value;
use helenus_types::CqlType;
use helenus_types::value::collection::collection_count;
use helenus_types::value::vector::write_vector_element;
use helenus_types::value::{
    CollectionElements, MapEntries, TupleComponents, write_collection, write_component,
};

use super::expression::JsonColumn;
use super::{BoundValues, Expression};
use crate::CqlError;
use crate::functions::{Clock, NativeFunction};

/// The value of an expression: borrowed from the request, the row or the plan where it can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluated<'e> {
    Null,
    Unset,
    Bytes(Cow<'e, [u8]>),
}

/// Context in which an expression is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationContext<'e> {
    pub values: &'e BoundValues<'e>,
    pub clock: Clock,
    /// In a select clause, the row.
    pub row: Option<FetchedRow<'e>>,
    /// In a select clause, the finished aggregates.
    pub aggregates: &'e [Option<Vec<u8>>],
}

/// A row as a shard sent it: each fetched value as an i32 length and its bytes, -1 for null.
#[derive(Clone, Copy, Debug)]
pub struct FetchedRow<'e> {
    bytes: &'e [u8],
}

impl<'e> FetchedRow<'e> {
    pub fn new(bytes: &'e [u8]) -> Self {
        FetchedRow { bytes }
    }

    pub fn value(&self, index: usize) -> Option<&'e [u8]> {
        TupleComponents::new(self.bytes).nth(index).flatten()
    }

    pub fn values(&self) -> impl Iterator<Item = Option<&'e [u8]>> {
        TupleComponents::new(self.bytes)
    }

    pub fn as_bytes(&self) -> &'e [u8] {
        self.bytes
    }
}

impl<'e> Evaluated<'e> {
    pub fn owned(bytes: Vec<u8>) -> Self {
        Evaluated::Bytes(Cow::Owned(bytes))
    }

    pub fn borrowed(bytes: &'e [u8]) -> Self {
        Evaluated::Bytes(Cow::Borrowed(bytes))
    }

    pub(crate) fn from_option(bytes: Option<&'e [u8]>) -> Self {
        bytes.map_or(Evaluated::Null, Evaluated::borrowed)
    }

    /// The bytes; none if null or unset.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Evaluated::Bytes(bytes) => Some(bytes),
            Evaluated::Null | Evaluated::Unset => None,
        }
    }

    pub(crate) fn into_option(self) -> Option<Cow<'e, [u8]>> {
        match self {
            Evaluated::Bytes(bytes) => Some(bytes),
            Evaluated::Null | Evaluated::Unset => None,
        }
    }

    pub(crate) fn is_unset(&self) -> bool {
        *self == Evaluated::Unset
    }
}

impl Expression {
    pub fn evaluate<'e>(&'e self, context: &EvaluationContext<'e>) -> Result<Evaluated<'e>, CqlError> {
        match self {
            Expression::Constant(bytes) => Ok(Evaluated::from_option(bytes.as_deref())),
            Expression::Marker { index, cql_type } => marker_value(context.values.value(*index), cql_type),
            Expression::Column(slot) => Ok(Evaluated::from_option(
                context.row.and_then(|row| row.value(*slot)),
            )),
            Expression::Aggregate(index) => Ok(Evaluated::from_option(
                context.aggregates.get(*index).and_then(|value| value.as_deref()),
            )),
            Expression::Call { function, arguments } => call_value(function, arguments, context),
            Expression::List(_)
            | Expression::Set { .. }
            | Expression::Map { .. }
            | Expression::Tuple(_)
            | Expression::Vector { .. } => self.evaluate_literal(context),
            Expression::Element { .. }
            | Expression::Slice { .. }
            | Expression::Field { .. }
            | Expression::ParallelElement { .. }
            | Expression::ParallelSlice { .. }
            | Expression::ListEntry { .. }
            | Expression::ListMaximum(_) => self.evaluate_part(context),
            Expression::JsonRow(columns) => json_row(columns, context),
            Expression::Decoded { from_end } => {
                let index = context.values.len().checked_sub(*from_end);
                Ok(match index.map(|index| context.values.value(index)) {
                    Some(Value::Bytes(bytes)) => Evaluated::borrowed(bytes),
                    Some(Value::Null) => Evaluated::Null,
                    Some(Value::Unset) | None => Evaluated::Unset,
                })
            }
        }
    }

    /// Puts a collection, tuple or vector together.
    fn evaluate_literal<'e>(&'e self, context: &EvaluationContext<'e>) -> Result<Evaluated<'e>, CqlError> {
        match self {
            Expression::List(elements) => collection_value(elements, context, |values| {
                let mut out = Vec::new();
                write_collection(&mut out, 1, values.iter().map(|value| &**value));
                out
            }),
            Expression::Set { element, elements } => collection_value(elements, context, |mut values| {
                values.sort_by(|left, right| element.compare(left, right));
                values.dedup_by(|left, right| element.compare(left, right) == Ordering::Equal);
                let mut out = Vec::new();
                write_collection(&mut out, 1, values.iter().map(|value| &**value));
                out
            }),
            Expression::Map { key, entries } => map_value(key, entries, context),
            Expression::Tuple(components) => {
                let mut out = Vec::new();
                for (index, component) in components.iter().enumerate() {
                    let value = component.evaluate(context)?;
                    if value.is_unset() {
                        return Err(invalid!("Invalid unset value for tuple field number {index}"));
                    }
                    write_component(&mut out, value.bytes());
                }
                Ok(Evaluated::owned(out))
            }
            Expression::Vector { element, elements } => {
                let mut out = Vec::new();
                for value in elements {
                    match value.evaluate(context)?.bytes() {
                        Some(value) => write_vector_element(&mut out, element, value),
                        None => return Err(invalid!("null is not supported inside vectors")),
                    }
                }
                Ok(Evaluated::owned(out))
            }
            _ => Ok(Evaluated::Null),
        }
    }
}

fn json_row<'e>(
    columns: &'e [JsonColumn],
    context: &EvaluationContext<'e>,
) -> Result<Evaluated<'e>, CqlError> {
    let mut out = String::from("{");
    for (index, column) in columns.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        out.push_str(&column.name);
        out.push_str(": ");
        match column.value.evaluate(context)?.bytes() {
            Some(bytes) => {
                let written = column.cql_type.write_json(&mut out, bytes);
                written.map_err(|error| invalid!("{error}"))?;
            }
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(Evaluated::owned(out.into_bytes()))
}

fn call_value<'e>(
    function: &NativeFunction,
    arguments: &'e [Expression],
    context: &EvaluationContext<'e>,
) -> Result<Evaluated<'e>, CqlError> {
    let mut evaluated = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let value = argument.evaluate(context)?;
        if value.is_unset() {
            let name = function.name;
            return Err(invalid!(
                "Invalid unset value for argument in call to function {name}"
            ));
        }
        evaluated.push(value);
    }
    let arguments: Vec<Option<&[u8]>> = evaluated.iter().map(Evaluated::bytes).collect();
    let result = function.execute(&arguments, context.clock)?;
    Ok(result.map_or(Evaluated::Null, Evaluated::owned))
}

/// Checks a bound value against its type. Sets and maps are put in order, as Cassandra stores them.
#[inline]
fn marker_value<'e>(value: Value<'e>, cql_type: &CqlType) -> Result<Evaluated<'e>, CqlError> {
    let bytes = match value {
        Value::Null => return Ok(Evaluated::Null),
        Value::Unset => return Ok(Evaluated::Unset),
        Value::Bytes(bytes) => bytes,
    };
    cql_type.validate(bytes).map_err(|error| invalid!("{error}"))?;
    let kind = match cql_type {
        CqlType::List { .. } => "list",
        CqlType::Set { .. } => "set",
        CqlType::Map { .. } => "map",
        _ => return Ok(Evaluated::borrowed(bytes)),
    };
    if collection_count(bytes).is_some_and(|count| count < 0) {
        return Err(invalid!("The data cannot be deserialized as a {kind}"));
    }
    Ok(Evaluated::Bytes(in_key_order(cql_type, bytes)))
}

/// A collection with its sets and maps, at any depth, in order and without repetitions; of equal map keys the last
/// one counts.
fn in_key_order<'e>(collection: &CqlType, bytes: &'e [u8]) -> Cow<'e, [u8]> {
    let is_nested = match collection {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => has_key_order(element),
        CqlType::Map { key, value, .. } => has_key_order(key) || has_key_order(value),
        _ => return Cow::Borrowed(bytes),
    };
    if !is_nested {
        return in_own_key_order(collection, bytes);
    }
    let parts = entries_of(collection, bytes).map(|(key, value)| match collection {
        CqlType::Map {
            key: key_type,
            value: value_type,
            ..
        } => (in_key_order(key_type, key), in_key_order(value_type, value)),
        _ => (in_key_order(key_type(collection), key), Cow::Borrowed(value)),
    });
    let parts: Vec<(Cow<'_, _>, Cow<'_, _>)> = parts.collect();
    let rebuilt = write_entries(collection, parts.iter().map(|(key, value)| (&**key, &**value)));
    Cow::Owned(in_own_key_order(collection, &rebuilt).into_owned())
}

/// Returns whether values of the type are, or hold, sets or maps. What is inside tuples is left as it came.
fn has_key_order(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Set { .. } | CqlType::Map { .. } => true,
        CqlType::List { element, .. } => has_key_order(element),
        _ => false,
    }
}

fn in_own_key_order<'e>(collection: &CqlType, bytes: &'e [u8]) -> Cow<'e, [u8]> {
    if matches!(collection, CqlType::List { .. }) {
        return Cow::Borrowed(bytes);
    }
    let key = key_type(collection);
    let mut previous: Option<&[u8]> = None;
    let is_sorted = entries_of(collection, bytes).all(|(current, _)| {
        let follows = previous.is_none_or(|previous| key.compare(previous, current) == Ordering::Less);
        previous = Some(current);
        follows
    });
    if is_sorted {
        return Cow::Borrowed(bytes);
    }
    let mut entries: Vec<(&[u8], &[u8])> = entries_of(collection, bytes).collect();
    entries.reverse();
    entries.sort_by(|left, right| key.compare(left.0, right.0));
    entries.dedup_by(|later, first| key.compare(later.0, first.0) == Ordering::Equal);
    Cow::Owned(write_entries(collection, entries.into_iter()))
}

/// The keys of a map with their values, or the elements of a set (or list) with nothing.
pub(super) fn entries_of<'b>(
    collection: &CqlType,
    bytes: &'b [u8],
) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
    let (map, elements) = match collection {
        CqlType::Map { .. } => (MapEntries::new(bytes), None),
        _ => (None, CollectionElements::new(bytes, 1)),
    };
    let elements = elements
        .into_iter()
        .flatten()
        .flatten()
        .map(|element| (element, element));
    map.into_iter().flatten().chain(elements)
}

pub(super) fn write_entries<'b>(
    collection: &CqlType,
    entries: impl Iterator<Item = (&'b [u8], &'b [u8])>,
) -> Vec<u8> {
    let mut out = Vec::new();
    match collection {
        CqlType::Map { .. } => write_collection(&mut out, 2, entries.flat_map(|(key, value)| [key, value])),
        _ => write_collection(&mut out, 1, entries.map(|(element, _)| element)),
    }
    out
}

pub(super) fn key_type(collection: &CqlType) -> &CqlType {
    match collection {
        CqlType::Map { key, .. } => key,
        CqlType::Set { element, .. } | CqlType::List { element, .. } => element,
        other => other,
    }
}

fn collection_value<'e>(
    elements: &'e [Expression],
    context: &EvaluationContext<'e>,
    write: impl FnOnce(Vec<Cow<'e, [u8]>>) -> Vec<u8>,
) -> Result<Evaluated<'e>, CqlError> {
    let mut values = Vec::with_capacity(elements.len());
    for element in elements {
        match element.evaluate(context)? {
            Evaluated::Null => return Err(invalid!("null is not supported inside collections")),
            Evaluated::Unset => return Ok(Evaluated::Unset),
            Evaluated::Bytes(bytes) => values.push(bytes),
        }
    }
    Ok(Evaluated::owned(write(values)))
}

fn map_value<'e>(
    key_type: &CqlType,
    entries: &'e [(Expression, Expression)],
    context: &EvaluationContext<'e>,
) -> Result<Evaluated<'e>, CqlError> {
    let mut values = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = match key.evaluate(context)? {
            Evaluated::Null => return Err(invalid!("null is not supported inside collections")),
            Evaluated::Unset => return Err(invalid!("unset value is not supported for map keys")),
            Evaluated::Bytes(key) => key,
        };
        match value.evaluate(context)? {
            Evaluated::Null => return Err(invalid!("null is not supported inside collections")),
            Evaluated::Unset => return Ok(Evaluated::Unset),
            Evaluated::Bytes(value) => values.push((key, value)),
        }
    }
    // Of equal keys (as 0 and 0.00 are) the first one stays, with the last one's value.
    values.sort_by(|left, right| key_type.compare(&left.0, &right.0));
    values.dedup_by(|later, first| {
        let is_equal = key_type.compare(&later.0, &first.0) == Ordering::Equal;
        if is_equal {
            std::mem::swap(&mut later.1, &mut first.1);
        }
        is_equal
    });
    let mut out = Vec::new();
    write_collection(
        &mut out,
        2,
        values.iter().flat_map(|(key, value)| [&**key, &**value]),
    );
    Ok(Evaluated::owned(out))
}
