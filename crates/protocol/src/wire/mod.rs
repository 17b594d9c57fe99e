//! The notations of the specification's section 3, read from and written to byte slices.

mod decode_error;
mod reader;
mod writer;

pub use decode_error::DecodeError;
pub use reader::WireReader;
pub use writer::*;
