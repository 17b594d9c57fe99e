//! Torn ends of logs: telling what an interrupted write leaves from damage.
//!
//! A write that the power or the process was lost in reached the file as a beginning of it, or some of its sectors are as they were:
//! behind the end of what was written before, zeros, which a file that was made ahead has there and one that grows gets. What was written at all and is wrong was changed afterwards.

use super::format::{HEADER_BYTES, RECORD_HEAD_BYTES, end_by_head};

/// Bytes that a disk writes as one: none has smaller sectors.
const SECTOR_BYTES: usize = 512;

pub(super) fn is_header_torn(bytes: &[u8]) -> bool {
    is_torn(bytes, 0, HEADER_BYTES)
}

/// Returns whether a record is torn, at a place without an undamaged one.
pub(super) fn is_record_torn(bytes: &[u8], segment: u64, offset: usize) -> bool {
    is_torn(bytes, offset, offset + RECORD_HEAD_BYTES)
        || end_by_head(bytes, segment, offset).is_some_and(|end| is_torn(bytes, offset, end))
}

/// Returns whether the file ends before `end`, or a sector between has nothing of what would be there.
fn is_torn(bytes: &[u8], start: usize, end: usize) -> bool {
    let Some(written) = bytes.get(start..end) else {
        return true;
    };
    let in_first = (SECTOR_BYTES - start % SECTOR_BYTES).min(written.len());
    let (first, rest) = written.split_at(in_first);
    std::iter::once(first)
        .chain(rest.chunks(SECTOR_BYTES))
        .any(|sector| sector.iter().all(|byte| *byte == 0))
}
