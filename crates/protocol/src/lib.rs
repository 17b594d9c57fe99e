//! The CQL native protocol, v3 to v5: bytes to messages and back. No I/O.
//!
//! A server reads requests with a [`frame::FrameReader`] and [`request::Request::decode`], and writes responses with
//! a [`frame::FrameWriter`] and the encoders of [`response`]. A client does the same with the roles swapped.
//! Requests and responses are views of the bytes they arrived in; encoders append to a buffer the caller owns.
//!
//! One turn of a server's connection, between a read and a write of its socket:
//!
//! ```
//! use helenus_protocol::frame::{EnvelopeFlags, FrameLimits, FrameReader, FrameWriter, ReceiveBuffer};
//! use helenus_protocol::request::Request;
//! use helenus_protocol::{Direction, Opcode, response};
//!
//! let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
//! let mut writer = FrameWriter::new();
//! let (mut received, mut out) = (ReceiveBuffer::new(), Vec::new());
//!
//! // What a read of the socket would append: STARTUP with CQL_VERSION 3.4.7.
//! received.feed(b"\x04\0\0\x01\x01\0\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.4.7");
//! while let Some(envelope) = reader.next_envelope(&mut received)? {
//!     let (version, stream) = (envelope.header.version, envelope.header.stream);
//!     let (request, _payload) = Request::decode(&envelope)?;
//!     if let Request::Startup(startup) = request {
//!         let compression = startup.negotiate(version)?;
//!         let mark = writer.begin(&mut out, version, EnvelopeFlags::NONE, stream, Opcode::Ready);
//!         response::write_ready(&mut out);
//!         writer.finish(&mut out, mark)?;
//!         writer.startup_answered(version, compression);
//!         reader.startup_answered(version, compression);
//!         reader.ready();
//!     }
//! }
//! writer.flush(&mut out);
//! assert_eq!(out, b"\x84\0\0\x01\x02\0\0\0\0");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
