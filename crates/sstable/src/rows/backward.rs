//! Walking a partition from its end: a block is decoded whole and given out from its last item on.

use crate::error::ReadError;
use crate::index::entry::BlockSpan;
use crate::rows::partition_reader::PartitionReader;
use crate::rows::row_decoder::Decoded;
use crate::rows::stored_block::Backward;
use helenus_rows::deletion::DeletionTime;

/// The largest request backwards: with the rest of its first page no more than one forwards.
const PREFETCH_BYTES_MAX: u64 = 124 * 1024;

impl Backward {
    /// Reads a block whole, or all of a partition without an index; returns the range deletion in force at its end. A
    /// block is bounded by the index's block size and one row, as its writer was.
    pub fn load(
        &mut self,
        reader: &mut PartitionReader<'_>,
        span: Option<BlockSpan>,
    ) -> Result<DeletionTime, ReadError> {
        let mut open = DeletionTime::LIVE;
        match &span {
            None => reader.seek(0),
            Some(block) => {
                // What continues backwards asks for twice as much each time, as scans do forwards.
                let wanted = self.prefetched.saturating_mul(2).min(PREFETCH_BYTES_MAX);
                let start = block.end.saturating_sub(wanted).min(block.start);
                if !reader.holds(block.start, block.end) {
                    reader.prefetch(start, block.end)?;
                    self.prefetched = block.end.saturating_sub(start);
                }
                open = block.open_before;
                enter(reader, block)?;
            }
        }
        self.is_loaded = false;
        self.block.clear();
        loop {
            let decoded = reader.peek()?;
            if let Decoded::Marker { before, after, .. } = decoded {
                if before != open {
                    return Err(wrong_marker(reader, open, before));
                }
                open = after;
            }
            if decoded == Decoded::EndOfPartition {
                break;
            }
            self.block.push(decoded, &reader.item);
            reader.pass();
            if span.as_ref().is_some_and(|block| reader.offset() >= block.end) {
                break;
            }
        }
        self.left = self.block.len();
        self.span = span;
        self.is_loaded = true;
        Ok(open)
    }
}

/// Moves to the start of a block, whose first item must be where the index says.
pub(crate) fn enter(reader: &mut PartitionReader<'_>, block: &BlockSpan) -> Result<(), ReadError> {
    reader.seek(block.start);
    let decoded = reader.peek()?;
    let side = match decoded {
        Decoded::Marker { side, .. } => Some(side),
        Decoded::Row | Decoded::EndOfPartition => None,
    };
    let is_wanted = block
        .first
        .as_ref()
        .is_none_or(|first| side == first.side && reader.item.clustering == *first.prefix);
    let is_first = decoded != Decoded::EndOfPartition && is_wanted;
    if !is_first {
        return Err(ReadError::Corrupt {
            file: reader.path().to_path_buf(),
            offset: block.start,
            wanted: "the row that the index says begins a block",
            found: "another one".to_owned(),
        });
    }
    Ok(())
}

pub(crate) fn wrong_marker(
    reader: &PartitionReader<'_>,
    open: DeletionTime,
    before: DeletionTime,
) -> ReadError {
    ReadError::Corrupt {
        file: reader.path().to_path_buf(),
        offset: reader.offset(),
        wanted: "a marker that ends the range deletion in force",
        found: format!("the end of {before:?} within {open:?}"),
    }
}
