//! Batches that travel from a shard to its log thread.

use super::{FlushedPositions, LogPosition};

/// All that was appended since the last batch.
#[derive(Debug, Default)]
pub struct LogBatch {
    pub(super) chunks: Vec<LogChunk>,
    /// To be made durable before any segment is discarded.
    pub(super) flushed: Option<FlushedPositions>,
    /// Segments before it hold nothing that is needed.
    pub(super) discard_before: u64,
}

/// A run of bytes of one segment.
#[derive(Debug)]
pub(super) struct LogChunk {
    pub segment: u64,
    /// Where in the segment the bytes go; 0 for a segment that begins here.
    pub offset: u32,
    pub bytes: Vec<u8>,
}

impl LogBatch {
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.len()).sum()
    }

    /// The position of the last record in it.
    pub fn end(&self) -> Option<LogPosition> {
        self.chunks.last().map(LogChunk::end)
    }
}

impl LogChunk {
    pub fn end(&self) -> LogPosition {
        LogPosition {
            segment: self.segment,
            offset: self.offset + self.bytes.len() as u32,
        }
    }
}
