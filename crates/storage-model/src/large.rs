//! One partition beyond 2 GiB: many small rows and a few huge values, made row by row so that it is never in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Components, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::{
    ClusteringOrder, ColumnId, ColumnKind, ColumnMetadata, TableId, TableMetadata, TableParams,
};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_sstable::{
    EncodingStats, PageCache, SsTable, SsTableFormat, SsTableId, SsTableInfo, SsTableWriter, WriteError,
    WriterOptions,
};
use helenus_types::CqlType;
use helenus_types::token::token_of;
use helenus_vfs::Disk;
use uuid::Uuid;

use crate::partition::{cell, live, packed_key, packed_row};
use crate::table::{RandomTable, metadata_of};

const PARTITION_KEY: &[u8] = b"large";
const TIMESTAMP_US: i64 = 1_700_000_000_000_000;
const VALUE: ColumnId = ColumnId(2);
const CACHE_BYTES: usize = 1 << 20;
/// Value bytes of a row that is not huge.
const SMALL_BYTES: usize = 64;

/// Content of the partition: each value is one byte, over and over.
#[derive(Clone, Copy, Debug)]
pub struct LargePartition {
    pub rows: u32,
    /// The first of so many rows has a huge value.
    pub huge_every: u32,
    pub huge_bytes: usize,
}

/// Findings of one walk over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeRead {
    pub rows: u32,
    pub value_bytes: u64,
    /// Rows that are not what was written, or not in order.
    pub wrong: u32,
}

impl LargePartition {
    pub fn table(&self, name: &str, compressor: Option<&str>) -> RandomTable {
        let column = |id, name: &str, kind, cql_type| ColumnMetadata {
            id: ColumnId(id),
            name: name.into(),
            kind,
            position: 0,
            cql_type,
            order: ClusteringOrder::Ascending,
        };
        let mut compression = BTreeMap::new();
        if let Some(class) = compressor {
            compression.insert(
                "class".to_owned(),
                format!("org.apache.cassandra.io.compress.{class}"),
            );
        }
        let params = TableParams {
            compression,
            ..TableParams::default()
        };
        let columns = vec![
            column(0, "id", ColumnKind::PartitionKey, CqlType::Text),
            column(1, "number", ColumnKind::Clustering, CqlType::Int),
            column(VALUE.0, "value", ColumnKind::Regular, CqlType::Blob),
        ];
        let id = TableId(Uuid::from_u128(0x6c61_7267_6500_4000_8000_0000_0000_0001));
        RandomTable {
            user_types: Vec::new(),
            metadata: metadata_of(name, id, columns, params),
        }
    }

    pub fn value_bytes(&self) -> u64 {
        (0..self.rows).map(|row| self.length(row) as u64).sum()
    }

    fn length(&self, row: u32) -> usize {
        if row.is_multiple_of(self.huge_every) {
            self.huge_bytes
        } else {
            SMALL_BYTES
        }
    }

    pub fn write(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        id: SsTableId,
        table: &TableMetadata,
        format: SsTableFormat,
    ) -> Result<SsTableInfo, WriteError> {
        disk.create_dir_all(folder).map_err(|source| WriteError::Io {
            file: folder.to_path_buf(),
            source,
        })?;
        let mut options = WriterOptions::of(table);
        options.format = format;
        options.partition_count_estimate = 1;
        options.encoding_stats = EncodingStats {
            timestamp_us_min: TIMESTAMP_US,
            ..EncodingStats::default()
        };
        let mut writer = SsTableWriter::new(Arc::clone(disk), folder, id, table, options)?;
        let token = token_of(PARTITION_KEY);
        writer.begin_partition(token, PARTITION_KEY, DeletionTime::LIVE, RowRef::EMPTY)?;
        for row in 0..self.rows {
            let value = vec![row as u8; self.length(row)];
            let packed = packed_row(
                live(TIMESTAMP_US),
                DeletionTime::LIVE,
                [Entry::Cell(cell(VALUE, TIMESTAMP_US, &value))],
            );
            writer.row(&clustering(row), RowRef::new(&packed))?;
        }
        writer.end_partition()?;
        writer.finish()
    }

    /// All rows, in either direction.
    pub fn read_all(&self, sstable: &SsTable, reversed: bool) -> Result<LargeRead, ReadError> {
        let last = self.rows.saturating_sub(1);
        self.read(sstable, &[Slice::all()], (0, last), reversed)
    }

    /// Some rows around each of a few places, each by a slice of its own.
    pub fn read_around(&self, sstable: &SsTable, first: u32, reversed: bool) -> Result<LargeRead, ReadError> {
        let last = first.saturating_add(2).min(self.rows.saturating_sub(1));
        let bound = |row, side| ClusteringBound {
            prefix: clustering(row).into(),
            side,
        };
        let slice = Slice {
            start: bound(first, Side::Before),
            end: bound(last, Side::After),
        };
        self.read(sstable, &[slice], (first, last), reversed)
    }

    fn read(
        &self,
        sstable: &SsTable,
        slices: &[Slice],
        (first, last): (u32, u32),
        reversed: bool,
    ) -> Result<LargeRead, ReadError> {
        let cache = PageCache::new(CACHE_BYTES);
        let mut read = LargeRead::default();
        let token = token_of(PARTITION_KEY);
        let Some(mut cursor) = sstable.partition(&cache, token, PARTITION_KEY, slices, reversed)? else {
            return Ok(read);
        };
        while cursor.advance()? {
            let expected = if reversed {
                last.checked_sub(read.rows)
            } else {
                first.checked_add(read.rows)
            };
            read.rows += 1;
            let is_right = match (cursor.current(), expected) {
                (Unfiltered::Row { clustering, row }, Some(expected)) => {
                    self.is_row(expected, clustering, row, &mut read.value_bytes)
                }
                _ => false,
            };
            read.wrong += u32::from(!is_right);
        }
        Ok(read)
    }

    fn is_row(&self, number: u32, clustering: &[u8], row: RowRef<'_>, value_bytes: &mut u64) -> bool {
        let Some(Entry::Cell(cell)) = row.entries().next() else {
            return false;
        };
        *value_bytes += cell.value.len() as u64;
        Components::new(clustering).eq([number.to_be_bytes().as_slice()])
            && cell.value.len() == self.length(number)
            && cell.value.iter().all(|byte| *byte == number as u8)
    }
}

fn clustering(row: u32) -> Vec<u8> {
    packed_key([row.to_be_bytes().as_slice()])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use helenus_vfs::MemoryDisk;

    use super::*;

    /// The large run is made by hand; that it would tell a wrong row is tested here.
    #[test]
    fn rows_are_read_as_they_were_written() {
        let large = LargePartition {
            rows: 500,
            huge_every: 100,
            huge_bytes: 100_000,
        };
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let folder = Path::new("/large");
        for format in SsTableFormat::ALL {
            let table = large.table("large", Some("LZ4Compressor")).metadata;
            let id = SsTableId::Number(1);
            let info = large.write(&disk, folder, id, &table, format).unwrap();
            let sstable = SsTable::open(&*disk, folder, info.descriptor, &table).unwrap();
            for reversed in [false, true] {
                let all = large.read_all(&sstable, reversed).unwrap();
                let wanted = LargeRead {
                    rows: 500,
                    value_bytes: large.value_bytes(),
                    wrong: 0,
                };
                assert_eq!(all, wanted);
                let around = large.read_around(&sstable, 99, reversed).unwrap();
                assert_eq!((around.rows, around.wrong), (3, 0));
                let other = LargePartition {
                    huge_bytes: 99_999,
                    ..large
                };
                assert_eq!(other.read_all(&sstable, reversed).unwrap().wrong, 5);
            }
        }
    }
}
