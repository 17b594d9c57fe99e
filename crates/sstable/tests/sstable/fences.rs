//! Reads that it takes to find small partitions: by Fences.db, and without it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::Slice;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_sstable::{
    Component, CompressionParameters, Descriptor, PageCache, SsTable, SsTableFormat, SsTableId,
    SsTableWriter, WriterOptions, seal_sstable,
};
use helenus_types::CqlType;
use helenus_types::Token;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, MemoryDisk};

use crate::support::{Column, NOW_US, cell, folder, id, key, live, row, table};

const PARTITIONS: u32 = 4_000;
/// In each partition; they have the even numbers as keys.
const ROWS: u32 = 2;
const VALUE_BYTES: usize = 80;

struct Small {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    descriptor: Descriptor,
    table: TableMetadata,
}

fn keys_in_order() -> Vec<(Token, [u8; 4])> {
    let mut keys: Vec<_> = (0..PARTITIONS)
        .map(|number| (token_of(&number.to_be_bytes()), number.to_be_bytes()))
        .collect();
    keys.sort_unstable();
    keys
}

impl Small {
    /// Partitions with a static row and two others.
    fn new(format: SsTableFormat, compression: Option<CompressionParameters>) -> Self {
        Self::with_values(format, compression, VALUE_BYTES)
    }

    fn with_values(
        format: SsTableFormat,
        compression: Option<CompressionParameters>,
        value_bytes: usize,
    ) -> Self {
        let columns = vec![
            Column("pk", ColumnKind::PartitionKey, CqlType::Int),
            Column("ck", ColumnKind::Clustering, CqlType::Int),
            Column("shared", ColumnKind::Static, CqlType::Blob),
            Column("value", ColumnKind::Regular, CqlType::Blob),
        ];
        let table = table("small", columns, &[]);
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let folder = folder(&table);
        disk.create_dir_all(&folder).unwrap();
        let mut options = WriterOptions::of(&table);
        options.partition_count_estimate = u64::from(PARTITIONS);
        options.encoding_stats.timestamp_us_min = NOW_US;
        options.compression = compression;
        options.format = format;
        let mut writer =
            SsTableWriter::new(Arc::clone(&disk), &folder, SsTableId::Number(1), &table, options).unwrap();
        let packed = |column: &str, bytes: &[u8]| {
            let cells = vec![cell(id(&table, column), NOW_US, bytes)];
            row(live(NOW_US), DeletionTime::LIVE, cells)
        };
        for (token, key_bytes) in keys_in_order() {
            let shared = packed("shared", &key_bytes);
            writer
                .begin_partition(token, &key_bytes, DeletionTime::LIVE, RowRef::new(&shared))
                .unwrap();
            for number in 0..ROWS {
                let row = packed("value", &vec![number as u8; value_bytes]);
                writer
                    .row(&key(&[&(2 * number).to_be_bytes()]), RowRef::new(&row))
                    .unwrap();
            }
            writer.end_partition().unwrap();
        }
        let descriptor = writer.finish().unwrap().descriptor;
        Small {
            disk,
            folder,
            descriptor,
            table,
        }
    }

    fn open(&self) -> Arc<SsTable> {
        SsTable::open(&*self.disk, &self.folder, self.descriptor, &self.table).unwrap()
    }

    fn path(&self, component: Component) -> PathBuf {
        self.descriptor.path(Path::new(&self.folder), component)
    }
}

/// How many rows a partition has, or `None` where there is none.
fn rows_of(sstable: &SsTable, cache: &PageCache, key_bytes: &[u8], reversed: bool) -> Option<u32> {
    let slices = [Slice::all()];
    let mut cursor = sstable
        .partition(cache, token_of(key_bytes), key_bytes, &slices, reversed)
        .unwrap()?;
    let mut rows = 0;
    while cursor.advance().unwrap() {
        rows += u32::from(matches!(cursor.current(), Unfiltered::Row { .. }));
    }
    Some(rows)
}

fn check_all(sstable: &SsTable) {
    let cache = PageCache::new(8 << 20);
    for number in 0..2 * PARTITIONS {
        let expected = (number < PARTITIONS).then_some(ROWS);
        for reversed in [false, true] {
            let found = rows_of(sstable, &cache, &number.to_be_bytes(), reversed);
            assert_eq!(found, expected, "{number}");
        }
    }
}

/// Each took a page of the index, too, and an index of small rows is as large as their data.
#[test]
fn a_small_partition_is_one_read_of_data_and_none_of_an_index() {
    for format in SsTableFormat::ALL {
        for compression in [None, CompressionParameters::of(&Small::new(format, None).table)] {
            let small = Small::new(format, compression);
            let sstable = small.open();
            let (mut reads, mut index_pages) = (0, 0);
            for number in 0..PARTITIONS {
                let cache = PageCache::new(1 << 20);
                assert_eq!(
                    rows_of(&sstable, &cache, &number.to_be_bytes(), false),
                    Some(ROWS)
                );
                reads += cache.cost().reads;
                index_pages += cache.cost().index_hits + cache.cost().index_misses;
            }
            assert_eq!(index_pages, 0, "{format:?} {compression:?}");
            // A tenth of the partitions lie across two granules of 2 KiB.
            let reads_max = u64::from(PARTITIONS) * 115 / 100;
            assert!(reads <= reads_max, "{format:?} {compression:?}: {reads} reads");
        }
    }
}

/// All of it is asked for at once where its stretch tells how long it is.
#[test]
fn a_partition_of_several_pages_is_one_read() {
    let small = Small::with_values(SsTableFormat::Nb, None, 5_000);
    let sstable = small.open();
    for number in 0..PARTITIONS / 10 {
        let cache = PageCache::new(1 << 20);
        assert_eq!(
            rows_of(&sstable, &cache, &number.to_be_bytes(), false),
            Some(ROWS)
        );
        assert_eq!(cache.cost().reads, 1, "{number}");
    }
}

#[test]
fn what_is_not_there_is_not_found_whatever_the_filter_says() {
    for format in SsTableFormat::ALL {
        let small = Small::new(format, None);
        small.disk.remove(&small.path(Component::Filter)).unwrap();
        check_all(&small.open());
    }
}

#[test]
fn without_fences_or_with_damaged_ones_the_index_is_asked() {
    for format in SsTableFormat::ALL {
        let small = Small::new(format, None);
        let path = small.path(Component::Fences);
        let file = small.disk.open_writable(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(20, &mut byte).unwrap();
        file.write_at(20, &[byte[0] ^ 1]).unwrap();
        let sstable = small.open();
        let faults: Vec<String> = sstable.sidecar_faults().iter().map(ToString::to_string).collect();
        assert!(
            matches!(faults.as_slice(), [fault] if fault.contains("Fences.db")),
            "{faults:?}"
        );
        check_all(&sstable);
        small.disk.remove(&path).unwrap();
        let sstable = small.open();
        assert_eq!(sstable.sidecar_faults(), []);
        check_all(&sstable);
    }
}

/// Files of others were read by their index until they were compacted.
#[test]
fn an_sstable_that_is_sealed_gets_fences() {
    for format in SsTableFormat::ALL {
        for compression in [None, CompressionParameters::of(&Small::new(format, None).table)] {
            let small = Small::new(format, compression);
            for component in [Component::Checksums, Component::Fences] {
                small.disk.remove(&small.path(component)).unwrap();
            }
            assert!(seal_sstable(&*small.disk, &small.folder, small.descriptor).unwrap());
            let sstable = small.open();
            assert_eq!(sstable.sidecar_faults(), []);
            check_all(&sstable);
            let cache = PageCache::new(1 << 20);
            assert_eq!(rows_of(&sstable, &cache, &7_u32.to_be_bytes(), false), Some(ROWS));
            assert_eq!(
                cache.cost().index_hits + cache.cost().index_misses,
                0,
                "{format:?}"
            );
        }
    }
}

/// A key that is damaged and that nothing checks is another key: the index tells, a stretch does not.
#[test]
fn fences_of_data_without_checksums_are_not_used() {
    let small = Small::new(SsTableFormat::Nb, None);
    for component in [Component::Checksums, Component::Crc] {
        small.disk.remove(&small.path(component)).unwrap();
    }
    let sstable = small.open();
    let cache = PageCache::new(1 << 20);
    assert_eq!(rows_of(&sstable, &cache, &7_u32.to_be_bytes(), false), Some(ROWS));
    assert!(cache.cost().index_misses > 0);
}
