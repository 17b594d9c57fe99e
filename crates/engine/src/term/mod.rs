//! Terms: everything in a statement that stands for a value.
//!
//! A term as written ([`ast`](helenus_cql::ast)) is first taken over into a [`RawTerm`], which terms and selectors
//! share; typing it against its receiver makes an [`Expression`], part of an immutable plan; evaluating that with
//! the bound values (and, in a select clause, a row) gives the bytes of a value.

mod raw_term;
mod receiver;
mod type_name;

mod assignability;
mod assignment;
mod call_types;
mod literal;
mod typing;

mod cell_attributes;
mod select_clause;

mod bound_values;
mod evaluation;
mod expression;
mod parts;

mod reference;
mod reference_planning;

pub use call_types::CallTypes;

pub use bound_values::{BoundValues, OwnedValues};
pub use evaluation::{Evaluated, EvaluationContext, FetchedRow};
pub use expression::{Expression, JsonColumn};
pub use raw_term::RawTerm;
pub use receiver::{BindMarkers, ColumnSpec, Receiver, StatementScope};
pub use reference::{LetRow, ReferencePlan, References};
pub use type_name::native_type;
pub use typing::{AggregateCall, SelectionScope, Typing};

pub use assignability::Assignability;
pub(crate) use assignability::type_assignment;
