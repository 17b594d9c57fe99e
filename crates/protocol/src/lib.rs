//! The CQL native protocol, v3 to v5: bytes to messages and back. No I/O.
//!
//! A server reads requests with a [`frame::FrameReader`] and [`request::Request::decode`], and writes responses with
//! a [`frame::FrameWriter`] and the encoders of [`response`]. A client does the same with the roles swapped.
//! Requests and responses are views of the bytes they arrived in; encoders append to a buffer the caller owns.

mod consistency;
mod error_code;
mod opcode;
mod version;

pub mod extensions;
pub mod frame;
pub mod request;
pub mod response;
pub mod type_option;
pub mod wire;

pub use consistency::Consistency;
pub use error_code::{ErrorCode, FailureReason, WriteType};
pub use opcode::{Direction, Opcode};
pub use version::ProtocolVersion;
