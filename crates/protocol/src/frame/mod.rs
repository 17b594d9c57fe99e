//! Envelopes and frames: how messages are cut out of a byte stream and put back into one.
//!
//! An *envelope* is a 9-byte header and a message body. Until STARTUP is answered, and for ever in v3 and v4,
//! envelopes follow each other directly. From then on v5 packs them into checksummed *segments* (the specification
//! calls them frames), each carrying whole envelopes or one piece of a large one.

pub mod checksum;
mod compression;
mod error;
mod first;
mod header;
mod reader;
mod receive_buffer;
mod segment;
mod writer;

pub use compression::{Compression, CompressionError};
pub use error::{FrameError, Recovery};
pub use first::{FirstMessage, first_message, is_one_message};
pub use header::{ENVELOPE_HEADER_BYTES, EnvelopeFlags, EnvelopeHeader};
pub use reader::{Envelope, FrameLimits, FrameReader};
pub use receive_buffer::ReceiveBuffer;
pub use segment::SEGMENT_PAYLOAD_BYTES_MAX;
pub use writer::{EnvelopeMark, FrameWriter, ResponseTooBig};
