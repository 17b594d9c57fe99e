//! Values of keys that are others each time that they are computed: `uuid()` and `now()`.
//!
//! Statements that read before they write (conditions, lists, transactions) compute their keys several times, on several shards. Such
//! values are computed once for them, where the statement comes in, and put into a plan of its own.

use super::restriction::{InTerm, Restriction, RestrictionKind, TupleTerm};
use crate::CqlError;
use crate::functions::NativeFunction;
use crate::term::{EvaluationContext, Expression};

/// Returns whether a value in the restrictions is another one each time.
pub(crate) fn has_made_values(restrictions: &mut [Restriction]) -> bool {
    let mut expressions = restrictions.iter_mut().flat_map(expressions_mut);
    expressions.any(|expression| expression.is_made())
}

/// Puts the values of this time in the place of what computes them.
pub(crate) fn make_values(
    restrictions: &mut [Restriction],
    context: &EvaluationContext<'_>,
) -> Result<(), CqlError> {
    let mut expressions = restrictions.iter_mut().flat_map(expressions_mut);
    expressions.try_for_each(|expression| expression.make(context))
}

fn expressions_mut(restriction: &mut Restriction) -> Vec<&mut Expression> {
    match &mut restriction.kind {
        RestrictionKind::Equal(tuple) => of_tuple(tuple),
        RestrictionKind::In(InTerm::Values(tuples)) => tuples.iter_mut().flat_map(of_tuple).collect(),
        RestrictionKind::In(InTerm::Marker(marker)) => vec![marker],
        RestrictionKind::Slice { start, end } => {
            let bounds = start.iter_mut().chain(end);
            bounds.flat_map(|bound| of_tuple(&mut bound.value)).collect()
        }
        RestrictionKind::Contains { .. } => Vec::new(),
    }
}

fn of_tuple(tuple: &mut TupleTerm) -> Vec<&mut Expression> {
    match tuple {
        TupleTerm::Single(expression) | TupleTerm::Marker(expression) => vec![expression],
        TupleTerm::Components(expressions) => expressions.iter_mut().collect(),
    }
}

impl Expression {
    /// Returns whether a call in it gives another value each time.
    fn is_made(&self) -> bool {
        self.calls(NativeFunction::is_made)
    }

    /// Puts the value of this time in the place of such an expression.
    fn make(&mut self, context: &EvaluationContext<'_>) -> Result<(), CqlError> {
        if self.is_made() {
            let value = self.evaluate(context)?.bytes().map(Into::into);
            *self = Expression::Constant(value);
        }
        Ok(())
    }
}
