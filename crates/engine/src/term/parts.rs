//! Parts of values: elements and slices of collections, fields, and what runs parallel to them.

use std::borrow::Cow;
use std::cmp::Ordering;

use helenus_types::CqlType;
use helenus_types::value::collection::write_value;
use helenus_types::value::{CollectionElements, TupleComponents};

use super::evaluation::{entries_of, key_type, write_entries};
use super::{Evaluated, EvaluationContext, Expression};
use crate::CqlError;

impl Expression {
    /// Evaluates an expression that selects part of another one's value.
    pub(super) fn evaluate_part<'e>(
        &'e self,
        context: &EvaluationContext<'e>,
    ) -> Result<Evaluated<'e>, CqlError> {
        match self {
            Expression::Field { of, index } => {
                let value = of.evaluate(context)?;
                Ok(project(value, |bytes| {
                    TupleComponents::new(bytes).nth(*index).flatten()
                }))
            }
            Expression::Element {
                of,
                key,
                collection,
                text,
            } => element(of, key, collection, text, context),
            Expression::Slice {
                of,
                from,
                to,
                collection,
                text,
            } => {
                let bounds = SliceBounds::evaluate(from, to, text, context)?;
                let value = of.evaluate(context)?;
                Ok(match value.bytes() {
                    Some(bytes) => Evaluated::owned(slice_value(collection, bytes, &bounds)),
                    None => Evaluated::Null,
                })
            }
            Expression::ListEntry { list, index } => {
                let value = list.evaluate(context)?;
                Ok(project(value, |bytes| list_entry(bytes, *index)))
            }
            Expression::ListMaximum(list) => Ok(project(list.evaluate(context)?, list_maximum)),
            Expression::ParallelElement {
                list,
                of,
                key,
                collection,
            } => {
                let (key, value) = (key.evaluate(context)?, of.evaluate(context)?);
                let Some(position) = position_of(&key, &value, collection) else {
                    return Ok(Evaluated::Null);
                };
                let entries = list.evaluate(context)?;
                Ok(project(entries, |bytes| list_entry(bytes, position)))
            }
            Expression::ParallelSlice {
                list,
                of,
                from,
                to,
                collection,
            } => {
                let bounds = SliceBounds::evaluate(from, to, "", context)?;
                parallel_slice(
                    &list.evaluate(context)?,
                    &of.evaluate(context)?,
                    &bounds,
                    collection,
                )
            }
            _ => Ok(Evaluated::Null),
        }
    }
}

fn list_maximum(bytes: &[u8]) -> Option<&[u8]> {
    CollectionElements::new(bytes, 1)?
        .flatten()
        .max_by(|left, right| CqlType::Bigint.compare(left, right))
}

/// Where in a collection the entry of this key stands.
fn position_of(key: &Evaluated<'_>, value: &Evaluated<'_>, collection: &CqlType) -> Option<usize> {
    let (wanted, bytes) = (key.bytes()?, value.bytes()?);
    entries_of(collection, bytes)
        .position(|(key, _)| key_type(collection).compare(key, wanted) == Ordering::Equal)
}

fn element<'e>(
    of: &'e Expression,
    key: &'e Expression,
    collection: &CqlType,
    text: &str,
    context: &EvaluationContext<'e>,
) -> Result<Evaluated<'e>, CqlError> {
    let key = key.evaluate(context)?;
    let wanted = match &key {
        Evaluated::Null => return Err(invalid!("Invalid null value for element selection on {text}")),
        Evaluated::Unset => return Err(invalid!("Invalid unset value for element selection on {text}")),
        Evaluated::Bytes(key) => key,
    };
    let value = of.evaluate(context)?;
    Ok(project(value, |bytes| {
        entries_of(collection, bytes)
            .find(|(key, _)| key_type(collection).compare(key, wanted) == Ordering::Equal)
            .map(|(_, value)| value)
    }))
}

/// The entries of a list whose counterparts in the collection lie within the bounds; null if there are none.
fn parallel_slice<'e>(
    list: &Evaluated<'_>,
    of: &Evaluated<'_>,
    bounds: &SliceBounds<'_>,
    collection: &CqlType,
) -> Result<Evaluated<'e>, CqlError> {
    let (Some(entries), Some(bytes)) = (list.bytes(), of.bytes()) else {
        return Ok(Evaluated::Null);
    };
    let inside = entries_of(collection, bytes).map(|(key, _)| bounds.contain(key_type(collection), key));
    let entries = CollectionElements::new(entries, 1)
        .into_iter()
        .flatten()
        .zip(inside);
    let kept: Vec<Option<&[u8]>> = entries
        .filter(|(_, is_inside)| *is_inside)
        .map(|(entry, _)| entry)
        .collect();
    if kept.is_empty() {
        return Ok(Evaluated::Null);
    }
    // At most as many as the collection has, whose count is an i32.
    let mut out = (kept.len() as i32).to_be_bytes().to_vec();
    kept.iter().for_each(|entry| write_value(&mut out, *entry));
    Ok(Evaluated::owned(out))
}

fn list_entry(bytes: &[u8], index: usize) -> Option<&[u8]> {
    CollectionElements::new(bytes, 1)?.nth(index).flatten()
}

/// The bounds of `of[from..to]`; both included, either may be left out.
struct SliceBounds<'e> {
    from: Option<Cow<'e, [u8]>>,
    to: Option<Cow<'e, [u8]>>,
}

impl<'e> SliceBounds<'e> {
    fn evaluate(
        from: &'e Option<Box<Expression>>,
        to: &'e Option<Box<Expression>>,
        text: &str,
        context: &EvaluationContext<'e>,
    ) -> Result<Self, CqlError> {
        let bound = |bound: &'e Option<Box<Expression>>| {
            let Some(bound) = bound else { return Ok(None) };
            match bound.evaluate(context)? {
                Evaluated::Null => Err(invalid!("Invalid null value for slice selection on {text}")),
                Evaluated::Unset => Ok(None),
                Evaluated::Bytes(bytes) => Ok(Some(bytes)),
            }
        };
        Ok(SliceBounds {
            from: bound(from)?,
            to: bound(to)?,
        })
    }

    fn contain(&self, key_type: &CqlType, key: &[u8]) -> bool {
        self.from
            .as_ref()
            .is_none_or(|from| key_type.compare(from, key) != Ordering::Greater)
            && self
                .to
                .as_ref()
                .is_none_or(|to| key_type.compare(key, to) != Ordering::Greater)
    }
}

fn slice_value(collection: &CqlType, bytes: &[u8], bounds: &SliceBounds<'_>) -> Vec<u8> {
    let key = key_type(collection);
    write_entries(
        collection,
        entries_of(collection, bytes).filter(|(candidate, _)| bounds.contain(key, candidate)),
    )
}

/// A part of a value, borrowed where the value is.
fn project<'e>(value: Evaluated<'e>, part: impl for<'b> Fn(&'b [u8]) -> Option<&'b [u8]>) -> Evaluated<'e> {
    match value {
        Evaluated::Bytes(Cow::Borrowed(bytes)) => Evaluated::from_option(part(bytes)),
        Evaluated::Bytes(Cow::Owned(bytes)) => {
            part(&bytes).map_or(Evaluated::Null, |part| Evaluated::owned(part.to_vec()))
        }
        Evaluated::Null | Evaluated::Unset => Evaluated::Null,
    }
}
