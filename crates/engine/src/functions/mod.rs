//! Native functions: their signatures, how a call finds one, and what each computes.
//!
//! Signatures are made when a call is resolved, not kept in a table: `+` alone has a hundred.

mod argument_types;
mod clock;
mod kinds;
mod native;
mod resolve;
mod signature;

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

pub(crate) use aggregate::Accumulator;
pub use argument_types::ArgumentTypes;
pub(crate) use cast::is_cast_target;
pub use clock::Clock;
pub(crate) use clock::next_timeuuid;
pub(crate) use json::{check_selected, decoded_if_long};
pub(crate) use operation::{addition_of, subtraction_of};
pub use resolve::{FunctionCallName, resolve};
pub(crate) use resolve::{is_inferred, resolve_cast};
pub use signature::{AggregateKind, FunctionKind, NativeFunction, ScalarKind};
