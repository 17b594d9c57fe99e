//! Rows and range tombstone markers, from the bytes of Data.db.

use helenus_schema::ColumnId;

use crate::decode::{ByteReader, DecodeError};
use crate::meta::encoding_stats::EncodingStats;
use crate::meta::header::{Header, RowColumns, StoredColumn};
use crate::rows::clustering_codec::{
    KIND_EXCLUSIVE_END, KIND_EXCLUSIVE_END_INCLUSIVE_START, KIND_INCLUSIVE_END,
    KIND_INCLUSIVE_END_EXCLUSIVE_START, side_of_kind,
};
use crate::rows::deletion_codec::deletion_time_of_stored;
use crate::rows::row_encoder::{
    CELL_HAS_EMPTY_VALUE, CELL_IS_DELETED, CELL_IS_EXPIRING, CELL_USES_ROW_TIMESTAMP, CELL_USES_ROW_TTL,
    COLUMN_MASK_COLUMNS_MAX, END_OF_PARTITION, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION,
    HAS_EXTENDED_FLAGS, HAS_SHADOWABLE_DELETION, HAS_TIMESTAMP, HAS_TTL, IS_MARKER, IS_STATIC,
};
use crate::version::Version;
use helenus_rows::clustering::Side;
use helenus_rows::deletion::{DeletionTime, NEVER_S, NO_TIMESTAMP};
use helenus_rows::row::{CellRef, Entry, Liveness, RowBuilder, RowRef};

/// Item at a position of a partition, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// The clustering and the packed row are in the item.
    Row,
    /// The bound's prefix is in the item's clustering.
    Marker {
        side: Side,
        before: DeletionTime,
        after: DeletionTime,
    },
    EndOfPartition,
}

/// Buffers that an item is decoded into.
#[derive(Debug, Default)]
pub(crate) struct Item {
    /// Packed.
    pub clustering: Vec<u8>,
    /// Packed; empty for a marker.
    pub row: Vec<u8>,
}

/// Decodes items one after the other; keeps what it needs between them.
#[derive(Debug, Default)]
pub(crate) struct RowDecoder {
    cells: Vec<DecodedEntry>,
    present: Vec<usize>,
}

/// Heap memory of a reader of rows.
#[derive(Debug, Default)]
pub(crate) struct RowBuffers {
    pub decoder: RowDecoder,
    pub item: Item,
    pub static_row: Vec<u8>,
}

impl RowBuffers {
    pub fn bytes(&self) -> usize {
        let cells = self.decoder.cells.capacity() * size_of::<DecodedEntry>();
        let present = self.decoder.present.capacity() * size_of::<usize>();
        let item = self.item.clustering.capacity() + self.item.row.capacity();
        cells + present + item + self.static_row.capacity()
    }
}

/// A cell or collection deletion whose parts still lie in the file's bytes.
#[derive(Clone, Copy, Debug)]
struct DecodedEntry {
    column: ColumnId,
    is_complex_deletion: bool,
    timestamp_us: i64,
    ttl_s: u32,
    local_deletion_s: u32,
    /// Start and end within the row's body.
    path: Option<(usize, usize)>,
    value: (usize, usize),
}

impl RowDecoder {
    /// Decodes what the bytes begin with; returns it and its length. [`DecodeError::Truncated`] asks for more bytes.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        header: &Header,
        item: &mut Item,
    ) -> Result<(Decoded, usize), DecodeError> {
        item.clustering.clear();
        item.row.clear();
        let mut reader = ByteReader::new(bytes);
        let flags = reader.u8()?;
        if flags & END_OF_PARTITION != 0 {
            return Ok((Decoded::EndOfPartition, reader.position()));
        }
        if flags & IS_MARKER != 0 {
            let marker = decode_marker(&mut reader, header, item)?;
            return Ok((marker, reader.position()));
        }
        let mut is_shadowable = false;
        if flags & HAS_EXTENDED_FLAGS != 0 {
            let extended = reader.u8()?;
            if extended & IS_STATIC != 0 {
                return Err(DecodeError::malformed(0, "a regular row", "a static one"));
            }
            is_shadowable = extended & HAS_SHADOWABLE_DELETION != 0;
        }
        header.clustering.read_values(
            &mut reader,
            header.clustering.component_count(),
            &mut item.clustering,
        )?;
        self.body(&mut reader, flags, header, &header.regulars, &mut item.row)?;
        if is_shadowable && flags & HAS_DELETION != 0 {
            make_shadowable(&mut item.row);
        }
        Ok((Decoded::Row, reader.position()))
    }

    /// Decodes the static row that a partition of a table with static columns begins with; returns its length.
    pub fn decode_static(
        &mut self,
        bytes: &[u8],
        header: &Header,
        row: &mut Vec<u8>,
    ) -> Result<usize, DecodeError> {
        row.clear();
        let mut reader = ByteReader::new(bytes);
        let flags = reader.u8()?;
        let extended = if flags & HAS_EXTENDED_FLAGS != 0 {
            reader.u8()?
        } else {
            0
        };
        if flags & (END_OF_PARTITION | IS_MARKER) != 0 || extended & IS_STATIC == 0 {
            return Err(DecodeError::malformed(
                0,
                "a static row",
                format!("flags {flags:02x} {extended:02x}"),
            ));
        }
        self.body(&mut reader, flags, header, &header.statics, row)?;
        Ok(reader.position())
    }

    fn body(
        &mut self,
        reader: &mut ByteReader<'_>,
        flags: u8,
        header: &Header,
        columns: &RowColumns,
        row: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let bytes = reader.bytes_after_vint()?;
        let body_at = reader.position() - bytes.len();
        let mut body = Body {
            reader: ByteReader::new(bytes),
            stats: header.stats,
            version: header.version,
        };
        self.body_parts(&mut body, bytes, flags, columns, row)
            .map_err(|error| error.within_part(body_at))
    }

    fn body_parts(
        &mut self,
        body: &mut Body<'_>,
        bytes: &[u8],
        flags: u8,
        columns: &RowColumns,
        row: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let _previous_length = body.reader.unsigned_vint()?;
        let mut liveness = Liveness::NONE;
        if flags & HAS_TIMESTAMP != 0 {
            liveness.timestamp_us = body.timestamp()?;
            if flags & HAS_TTL != 0 {
                liveness.ttl_s = body.ttl()?;
                liveness.expires_at_s = body.local_deletion()?;
            }
        }
        let deletion = if flags & HAS_DELETION != 0 {
            body.deletion()?
        } else {
            DeletionTime::LIVE
        };
        self.present.clear();
        if flags & HAS_ALL_COLUMNS != 0 {
            self.present.extend(0..columns.columns.len());
        } else {
            read_column_subset(&mut body.reader, columns.columns.len(), &mut self.present)?;
        }
        let has_complex_deletion = flags & HAS_COMPLEX_DELETION != 0;
        if columns.is_plain && !has_complex_deletion {
            let mut builder = RowBuilder::new(row, liveness, deletion);
            for index in &self.present {
                let column = &columns.columns[*index];
                let cell = body.cell(column, liveness)?;
                let column = column.id.unwrap_or(cell.column);
                builder.push(DecodedEntry { column, ..cell }.entry(bytes));
            }
            return body.reader.finish();
        }
        self.cells.clear();
        for index in 0..self.present.len() {
            let column = &columns.columns[self.present[index]];
            self.column(body, column, liveness, has_complex_deletion)?;
        }
        body.reader.finish()?;
        if !self.cells.is_sorted_by_key(|cell| cell.column) {
            // Stable: the order of cells within a column stays.
            self.cells.sort_by_key(|cell| cell.column);
        }
        let mut builder = RowBuilder::new(row, liveness, deletion);
        for cell in &self.cells {
            builder.push(cell.entry(bytes));
        }
        Ok(())
    }

    fn column(
        &mut self,
        body: &mut Body<'_>,
        column: &StoredColumn,
        liveness: Liveness,
        has_complex_deletion: bool,
    ) -> Result<(), DecodeError> {
        if !column.is_multi_cell {
            let cell = body.cell(column, liveness)?;
            self.keep(column, cell);
            return Ok(());
        }
        if has_complex_deletion {
            let deletion = body.deletion()?;
            // A column without one has the deletion that hides nothing.
            if deletion.timestamp_us != NO_TIMESTAMP {
                let DeletionTime {
                    timestamp_us,
                    local_s,
                } = deletion;
                let entry = DecodedEntry {
                    column: ColumnId(0),
                    is_complex_deletion: true,
                    timestamp_us,
                    ttl_s: 0,
                    local_deletion_s: local_s,
                    path: None,
                    value: (0, 0),
                };
                self.keep(column, entry);
            }
        }
        // A cell takes at least its flags and the length of its path.
        let count = body.reader.count_vint(2)?;
        for _ in 0..count {
            let cell = body.cell(column, liveness)?;
            self.keep(column, cell);
        }
        Ok(())
    }

    /// Unless the column was dropped after the entry was written.
    fn keep(&mut self, column: &StoredColumn, entry: DecodedEntry) {
        let is_dropped = column
            .dropped_at_us
            .is_some_and(|dropped_at_us| entry.timestamp_us <= dropped_at_us);
        if let Some(id) = column.id
            && !is_dropped
        {
            self.cells.push(DecodedEntry { column: id, ..entry });
        }
    }
}

/// The row's deletion gives way to a newer marker; at once, if the row has one.
#[cold]
fn make_shadowable(row: &mut Vec<u8>) {
    let (liveness, deletion, entries) = RowRef::new(row).open();
    let is_shadowed = liveness.timestamp_us > deletion.timestamp_us;
    let mut made = Vec::with_capacity(row.len());
    let mut builder = match is_shadowed {
        true => RowBuilder::new(&mut made, liveness, DeletionTime::LIVE),
        false => RowBuilder::new(&mut made, liveness, deletion),
    };
    if !is_shadowed {
        builder.shadowable();
    }
    entries.for_each(|entry| builder.push(entry));
    *row = made;
}

impl DecodedEntry {
    fn entry<'a>(&self, body: &'a [u8]) -> Entry<'a> {
        let part = |(start, end): (usize, usize)| body.get(start..end).unwrap_or_default();
        if self.is_complex_deletion {
            let deletion = DeletionTime {
                timestamp_us: self.timestamp_us,
                local_s: self.local_deletion_s,
            };
            return Entry::ComplexDeletion {
                column: self.column,
                deletion,
            };
        }
        Entry::Cell(CellRef {
            column: self.column,
            timestamp_us: self.timestamp_us,
            ttl_s: self.ttl_s,
            local_deletion_s: self.local_deletion_s,
            path: self.path.map(part),
            value: part(self.value),
        })
    }
}

/// A row's or marker's body: times are differences to the header's smallest ones.
struct Body<'a> {
    reader: ByteReader<'a>,
    stats: EncodingStats,
    version: Version,
}

impl Body<'_> {
    fn timestamp(&mut self) -> Result<i64, DecodeError> {
        Ok(self
            .stats
            .timestamp_us_min
            .wrapping_add(self.reader.unsigned_vint()?.cast_signed()))
    }

    /// Cassandra 5.0 writes "never" as -1, earlier ones as the largest 32-bit number.
    fn local_deletion(&mut self) -> Result<u32, DecodeError> {
        let stored = self
            .stats
            .local_deletion_s_min
            .wrapping_add(self.reader.unsigned_vint()? as u32);
        Ok(deletion_time_of_stored(self.version, stored))
    }

    fn ttl(&mut self) -> Result<u32, DecodeError> {
        let offset = self.reader.position();
        let ttl_s = self
            .stats
            .ttl_s_min
            .wrapping_add(self.reader.unsigned_vint()? as u32);
        if ttl_s == 0 || ttl_s.cast_signed() < 0 {
            return Err(DecodeError::malformed(offset, "a TTL", ttl_s));
        }
        Ok(ttl_s)
    }

    fn deletion(&mut self) -> Result<DeletionTime, DecodeError> {
        Ok(DeletionTime {
            timestamp_us: self.timestamp()?,
            local_s: self.local_deletion()?,
        })
    }

    /// With a column that the caller fills in.
    fn cell(&mut self, column: &StoredColumn, liveness: Liveness) -> Result<DecodedEntry, DecodeError> {
        let offset = self.reader.position();
        let flags = self.reader.u8()?;
        let is_deleted = flags & CELL_IS_DELETED != 0;
        let is_expiring = flags & CELL_IS_EXPIRING != 0;
        let uses_row_ttl = flags & CELL_USES_ROW_TTL != 0;
        let known = CELL_IS_DELETED
            | CELL_IS_EXPIRING
            | CELL_HAS_EMPTY_VALUE
            | CELL_USES_ROW_TIMESTAMP
            | CELL_USES_ROW_TTL;
        let lacks_row_time = (flags & CELL_USES_ROW_TIMESTAMP != 0 && liveness.is_none())
            || (uses_row_ttl && (!is_expiring || liveness.ttl_s == 0));
        if flags & !known != 0 || (is_deleted && is_expiring) || lacks_row_time {
            return Err(DecodeError::malformed(
                offset,
                "the flags of a cell",
                format!("{flags:02x}"),
            ));
        }
        let timestamp_us = if flags & CELL_USES_ROW_TIMESTAMP != 0 {
            liveness.timestamp_us
        } else {
            self.timestamp()?
        };
        let (mut ttl_s, mut local_deletion_s) = (0, NEVER_S);
        if uses_row_ttl {
            (ttl_s, local_deletion_s) = (liveness.ttl_s, liveness.expires_at_s);
        } else if is_deleted || is_expiring {
            local_deletion_s = self.local_deletion()?;
            if is_expiring {
                ttl_s = self.ttl()?;
            }
        }
        let path = if column.is_multi_cell {
            Some(self.sized()?)
        } else {
            None
        };
        let value = match (flags & CELL_HAS_EMPTY_VALUE != 0, column.fixed_length) {
            (true, _) => (0, 0),
            (false, None) => self.sized()?,
            (false, Some(length)) => {
                self.reader.bytes(length)?;
                (self.reader.position() - length, self.reader.position())
            }
        };
        Ok(DecodedEntry {
            column: ColumnId(0),
            is_complex_deletion: false,
            timestamp_us,
            ttl_s,
            local_deletion_s,
            path,
            value,
        })
    }

    fn sized(&mut self) -> Result<(usize, usize), DecodeError> {
        let length = self.reader.bytes_after_vint()?.len();
        Ok((self.reader.position() - length, self.reader.position()))
    }
}

fn decode_marker(
    reader: &mut ByteReader<'_>,
    header: &Header,
    item: &mut Item,
) -> Result<Decoded, DecodeError> {
    let kind_at = reader.position();
    let kind = reader.u8()?;
    let side = side_of_kind(kind).ok_or_else(|| DecodeError::malformed(kind_at, "a bound kind", kind))?;
    header
        .clustering
        .read_bound_values(reader, &mut item.clustering)?;
    let bytes = reader.bytes_after_vint()?;
    let body_at = reader.position() - bytes.len();
    let mut body = Body {
        reader: ByteReader::new(bytes),
        stats: header.stats,
        version: header.version,
    };
    let mut parts = || {
        let _previous_length = body.reader.unsigned_vint()?;
        let first = body.deletion()?;
        let deletions = match kind {
            KIND_EXCLUSIVE_END_INCLUSIVE_START | KIND_INCLUSIVE_END_EXCLUSIVE_START => {
                (first, body.deletion()?)
            }
            KIND_EXCLUSIVE_END | KIND_INCLUSIVE_END => (first, DeletionTime::LIVE),
            _ => (DeletionTime::LIVE, first),
        };
        body.reader.finish()?;
        Ok(deletions)
    };
    let (before, after) = parts().map_err(|error: DecodeError| error.within_part(body_at))?;
    Ok(Decoded::Marker { side, before, after })
}

fn read_column_subset(
    reader: &mut ByteReader<'_>,
    column_count: usize,
    present: &mut Vec<usize>,
) -> Result<(), DecodeError> {
    let offset = reader.position();
    let encoded = reader.unsigned_vint()?;
    let wrong = || DecodeError::malformed(offset, "a subset of the columns", encoded);
    if encoded == 0 {
        present.extend(0..column_count);
        return Ok(());
    }
    if column_count <= COLUMN_MASK_COLUMNS_MAX {
        if encoded >> column_count != 0 {
            return Err(wrong());
        }
        present.extend((0..column_count).filter(|index| encoded & (1 << index) == 0));
        return Ok(());
    }
    let missing_count = usize::try_from(encoded)
        .ok()
        .filter(|count| *count <= column_count)
        .ok_or_else(wrong)?;
    let present_count = column_count - missing_count;
    let lists_present = present_count < column_count / 2;
    let listed_count = if lists_present {
        present_count
    } else {
        missing_count
    };
    let mut next = 0;
    for _ in 0..listed_count {
        let index = usize::try_from(reader.unsigned_vint()?).unwrap_or(usize::MAX);
        if index < next || index >= column_count {
            return Err(wrong());
        }
        if lists_present {
            present.push(index);
        } else {
            present.extend(next..index);
        }
        next = index + 1;
    }
    if !lists_present {
        present.extend(next..column_count);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_of_few_columns_are_masks_of_the_missing() {
        let subset = |encoded: &[u8], count| {
            let mut present = Vec::new();
            read_column_subset(&mut ByteReader::new(encoded), count, &mut present).map(|()| present)
        };
        assert_eq!(subset(&[0], 3), Ok(vec![0, 1, 2]));
        assert_eq!(subset(&[0b101], 3), Ok(vec![1]));
        assert!(subset(&[0b1000], 3).is_err(), "a column that is not there");
    }

    #[test]
    fn subsets_of_many_columns_list_the_fewer() {
        let subset = |encoded: &[u8]| {
            let mut present = Vec::new();
            read_column_subset(&mut ByteReader::new(encoded), 64, &mut present).map(|()| present)
        };
        assert_eq!(
            subset(&[62, 5, 9]),
            Ok(vec![5, 9]),
            "62 are missing, two are listed"
        );
        let most = subset(&[2, 0, 63]).unwrap();
        assert_eq!((most.len(), most[0], most[61]), (62, 1, 62));
        assert!(subset(&[62, 9, 5]).is_err(), "out of order");
        assert!(subset(&[62, 5, 64]).is_err(), "beyond the last");
        assert!(subset(&[65]).is_err(), "more missing than there are");
    }

    #[test]
    fn cells_that_refer_to_a_row_without_times_are_refused() {
        let stats = EncodingStats::default();
        let column = StoredColumn {
            name: "v".into(),
            id: Some(ColumnId(0)),
            is_multi_cell: false,
            fixed_length: None,
            dropped_at_us: None,
        };
        for flags in [
            CELL_USES_ROW_TIMESTAMP | CELL_HAS_EMPTY_VALUE,
            CELL_IS_EXPIRING | CELL_USES_ROW_TTL | CELL_HAS_EMPTY_VALUE,
            CELL_IS_EXPIRING | CELL_IS_DELETED,
            0x20,
        ] {
            let bytes = [flags, 0, 0, 0, 0];
            let mut body = Body {
                reader: ByteReader::new(&bytes),
                stats,
                version: Version::Nb,
            };
            assert!(body.cell(&column, Liveness::NONE).is_err(), "{flags:02x}");
        }
    }
}
