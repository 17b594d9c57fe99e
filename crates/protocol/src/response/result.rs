//! RESULT in its five kinds.

use super::event::{SchemaChange, put_schema_change};
use super::metadata::{BindMetadata, MetadataFlags, ResultMetadata};
use crate::version::ProtocolVersion;
use crate::wire::{put_int, put_short_bytes, put_string};

/// The first word of a RESULT's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum ResultKind {
    Void = 1,
    Rows = 2,
    SetKeyspace = 3,
    Prepared = 4,
    SchemaChange = 5,
}

impl ResultKind {
    pub fn from_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Void),
            2 => Some(Self::Rows),
            3 => Some(Self::SetKeyspace),
            4 => Some(Self::Prepared),
            5 => Some(Self::SchemaChange),
            _ => None,
        }
    }
}

#[inline]
pub fn write_void(out: &mut Vec<u8>) {
    put_int(out, ResultKind::Void as i32);
}

pub fn write_set_keyspace(out: &mut Vec<u8>, keyspace: &str) {
    put_int(out, ResultKind::SetKeyspace as i32);
    put_string(out, keyspace);
}

pub fn write_schema_change(out: &mut Vec<u8>, version: ProtocolVersion, change: &SchemaChange<'_>) {
    put_int(out, ResultKind::SchemaChange as i32);
    put_schema_change(out, version, change);
}

/// PREPARED. `result_metadata_id` travels in v5 only.
pub fn write_prepared(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    statement_id: &[u8; 16],
    result_metadata_id: &[u8; 16],
    markers: &BindMetadata,
    result: &ResultMetadata,
) {
    put_int(out, ResultKind::Prepared as i32);
    put_short_bytes(out, statement_id);
    if version >= ProtocolVersion::V5 {
        put_short_bytes(out, result_metadata_id);
    }
    markers.put(out);
    result.put(out);
}

/// How much of its metadata a result carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataForm<'a> {
    /// The columns.
    Full,
    /// Only how many columns there are: the client said it has the rest.
    Skipped,
    /// v5: the client's metadata is out of date; this is the new id, and the columns follow.
    Changed { new_id: &'a [u8; 16] },
}

/// Writes a RESULT of rows: metadata, then rows appended value by value, then the count and paging state patched in.
#[derive(Debug)]
#[must_use]
pub struct RowsWriter {
    flags_at: usize,
    flags: MetadataFlags,
    row_count_at: usize,
    row_count: u32,
}

impl RowsWriter {
    #[inline]
    pub fn begin(out: &mut Vec<u8>, metadata: &ResultMetadata, form: MetadataForm<'_>) -> Self {
        put_int(out, ResultKind::Rows as i32);
        let flags_at = out.len();
        let flags = match form {
            MetadataForm::Full => metadata.flags,
            MetadataForm::Skipped => metadata.flags.with(MetadataFlags::NO_METADATA),
            MetadataForm::Changed { .. } => metadata.flags.with(MetadataFlags::METADATA_CHANGED),
        };
        put_int(out, flags.0);
        put_int(out, metadata.column_count);
        match form {
            MetadataForm::Full => out.extend_from_slice(&metadata.columns),
            MetadataForm::Skipped => {}
            MetadataForm::Changed { new_id } => {
                put_short_bytes(out, new_id);
                out.extend_from_slice(&metadata.columns);
            }
        }
        let row_count_at = out.len();
        put_int(out, 0);
        RowsWriter {
            flags_at,
            flags,
            row_count_at,
            row_count: 0,
        }
    }

    /// Appends one value of the current row; `None` is null.
    #[inline]
    pub fn value(&self, out: &mut Vec<u8>, value: Option<&[u8]>) {
        crate::wire::put_bytes(out, value);
    }

    /// A row's values have all been appended.
    #[inline]
    pub fn end_row(&mut self) {
        self.row_count += 1;
    }

    #[inline]
    pub fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Ends the result. A paging state says that there are more pages; its place is in front of the rows, which
    /// move back to make room.
    #[inline]
    pub fn finish(self, out: &mut Vec<u8>, paging_state: Option<&[u8]>) {
        // A row takes at least one byte of a body below 2 GiB, or has no columns and is counted by the executor.
        let row_count = self.row_count.min(i32::MAX.cast_unsigned());
        out[self.row_count_at..self.row_count_at + 4].copy_from_slice(&row_count.to_be_bytes());
        if let Some(paging_state) = paging_state {
            self.insert_paging_state(out, paging_state);
        }
    }

    fn insert_paging_state(&self, out: &mut Vec<u8>, paging_state: &[u8]) {
        let flags = self.flags.with(MetadataFlags::HAS_MORE_PAGES);
        out[self.flags_at..self.flags_at + 4].copy_from_slice(&flags.0.to_be_bytes());
        // Behind the flags and the column count.
        let at = self.flags_at + 8;
        let rows_end = out.len();
        crate::wire::put_bytes(out, Some(paging_state));
        let inserted = out.len() - rows_end;
        out[at..].rotate_right(inserted);
    }
}
