//! Rows of CQL values as Arrow's IPC streaming format (Arrow Columnar Format 1.5, "Serialization and Interprocess Communication"):
//! a message with the schema, one record batch after the other, and the end of the stream.
//!
//! Nothing of Arrow is needed but what is written here: the metadata of messages are FlatBuffers (`flatbuffer`) of three tables.

mod array;
mod error;
mod flatbuffer;
mod record_batch;
mod schema;

pub use error::ArrowError;
pub use record_batch::RecordBatch;
pub use schema::schema_message;

/// Behind the last record batch.
pub const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Media type of a stream.
pub const MEDIA_TYPE: &str = "application/vnd.apache.arrow.stream";

/// Where buffers and messages begin.
const ALIGNMENT: usize = 8;

/// `MetadataVersion.V5`.
const METADATA_VERSION: i16 = 4;

/// Kinds of `MessageHeader`.
#[derive(Clone, Copy)]
enum Header {
    Schema = 1,
    RecordBatch = 3,
}

/// A message: a mark, the length of the metadata, the metadata, and the buffers that it tells of.
fn message(kind: Header, header: flatbuffer::Table, body: &[u8]) -> Vec<u8> {
    const MARK_AND_LENGTH: usize = 8;
    let table = flatbuffer::Table::default()
        .short(0, METADATA_VERSION)
        .union(1, kind as u8, header)
        .long(3, body.len() as i64);
    let metadata = table.finish();
    let metadata_bytes = metadata.len().next_multiple_of(ALIGNMENT);
    let mut out = Vec::with_capacity(MARK_AND_LENGTH + metadata_bytes + body.len());
    out.extend([0xff; 4]);
    // A schema of 65,535 columns with names of 64 KiB is longer than any answer.
    out.extend((metadata_bytes as u32).to_le_bytes());
    out.extend(metadata);
    out.resize(MARK_AND_LENGTH + metadata_bytes, 0);
    out.extend(body);
    out
}
