//! LIMIT and PER PARTITION LIMIT.

use crate::CqlError;
use crate::term::{Evaluated, EvaluationContext, Expression};

/// LIMIT or PER PARTITION LIMIT; `u32::MAX` for none.
pub(super) fn limit_value(
    limit: Option<&Expression>,
    context: &EvaluationContext<'_>,
) -> Result<u32, CqlError> {
    let Some(limit) = limit else { return Ok(u32::MAX) };
    match limit.evaluate(context)? {
        Evaluated::Null => Err(invalid!("Invalid null value of limit")),
        Evaluated::Unset => Ok(u32::MAX),
        Evaluated::Bytes(bytes) => {
            let limit = (*bytes)
                .try_into()
                .map(i32::from_be_bytes)
                .map_err(|_| invalid!("Invalid limit value"))?;
            match u32::try_from(limit) {
                Ok(limit @ 1..) => Ok(limit),
                _ => Err(invalid!("LIMIT must be strictly positive")),
            }
        }
    }
}
