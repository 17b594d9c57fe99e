//! Why a statement was refused or could not be executed: the one error type of everything in this crate.
//!
//! The kinds are those of the protocol's ERROR message. Refusals that an overloaded node makes by the hundred
//! thousand carry numbers only; nothing is formatted before the response is written.

mod cql_error;

mod failure;
mod message;

mod to_protocol;

pub use cql_error::CqlError;
pub use failure::{AlreadyExists, FunctionFailure, PreparedId, ReplicaFailure};
pub use message::Message;

#[cfg(test)]
mod page;
