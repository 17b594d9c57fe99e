//! Native functions: their signatures, how a call finds one, and what each computes.
//!
//! Signatures are made when a call is resolved, not kept in a table: `+` alone has a hundred.

mod native;
mod resolve;

mod aggregate;

mod bytes;
mod cast;
mod collection;
mod json;
mod mask;
mod math;
mod number;
mod operation;
mod time;
mod transcendental;
mod vector;

pub use aggregate::Accumulator;
pub use cast::{cast_function, is_cast_target, overloads as casts_to};
pub use json::{check_selected, decoded_if_long};
pub use native::{AggregateKind, Clock, FunctionKind, NativeFunction, ScalarKind, next_timeuuid};
pub use operation::{addition_of, subtraction_of};
pub use resolve::{FunctionCallName, is_inferred, resolve, unmatched};
