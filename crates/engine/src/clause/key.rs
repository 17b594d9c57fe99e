//! Keys of statements that compare each column with one value.

use std::borrow::Cow;

use helenus_rows::clustering::push_component;

use super::restriction::{Restriction, RestrictionKind, TupleTerm};
use super::slices::{KEY_BYTES_MAX, key_too_long};
use crate::CqlError;
use crate::term::{Evaluated, EvaluationContext};

/// Appends the partition key if every column of it is given one value by itself; false leaves it to the general way.
#[inline]
pub fn append_single_key(
    out: &mut Vec<u8>,
    restrictions: &[Restriction],
    context: &EvaluationContext<'_>,
) -> Result<bool, CqlError> {
    let is_composite = restrictions.len() > 1;
    for restriction in restrictions {
        let Some(value) = single_value(restriction, context)? else {
            return Ok(false);
        };
        let bytes = value.bytes().unwrap_or_default();
        if !is_composite {
            out.extend_from_slice(bytes);
            continue;
        }
        let length = u16::try_from(bytes.len()).map_err(|_| key_too_long(bytes.len()))?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(bytes);
        out.push(0);
    }
    match out.len() {
        0 => Ok(false),
        length if length > KEY_BYTES_MAX => Err(key_too_long(length)),
        _ => Ok(true),
    }
}

/// The key of a table with one partition key column, as it lies among the values; none where that takes more.
pub fn borrowed_key<'e>(
    restrictions: &'e [Restriction],
    context: &EvaluationContext<'e>,
) -> Result<Option<Cow<'e, [u8]>>, CqlError> {
    let [restriction] = restrictions else {
        return Ok(None);
    };
    Ok(match single_value(restriction, context)? {
        Some(Evaluated::Bytes(key)) if (1..=KEY_BYTES_MAX).contains(&key.len()) => Some(key),
        _ => None,
    })
}

/// Appends the clustering key if every restriction gives one column one value; false leaves it to the general way.
#[inline]
pub fn append_single_clustering(
    out: &mut Vec<u8>,
    restrictions: &[Restriction],
    context: &EvaluationContext<'_>,
) -> Result<bool, CqlError> {
    for restriction in restrictions {
        let Some(value) = single_value(restriction, context)? else {
            return Ok(false);
        };
        let bytes = value.bytes().unwrap_or_default();
        if bytes.len() > KEY_BYTES_MAX {
            return Err(key_too_long(bytes.len()));
        }
        push_component(out, bytes);
    }
    Ok(true)
}

/// The one value an equality on one column gives, which is never null.
#[inline]
fn single_value<'e>(
    restriction: &'e Restriction,
    context: &EvaluationContext<'e>,
) -> Result<Option<Evaluated<'e>>, CqlError> {
    let RestrictionKind::Equal(TupleTerm::Single(term)) = &restriction.kind else {
        return Ok(None);
    };
    let value = term.evaluate(context)?;
    let name = restriction.first().name();
    match value {
        Evaluated::Null => Err(invalid!("Invalid null value in condition for column {name}")),
        Evaluated::Unset => Err(invalid!("Invalid unset value for column {name}")),
        value => Ok(Some(value)),
    }
}
