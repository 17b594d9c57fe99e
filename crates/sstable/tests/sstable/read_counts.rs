//! How many reads of which size it takes to find rows of one large partition.
//!
//! 40,000 rows with index blocks of 1 KiB and of the default size; `HELENUS_READ_ROWS=1000000` for the figures in
//! `docs/decisions/0008-reads.md`, which `--nocapture` prints.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::source::{PartitionCursor, Unfiltered};
use helenus_sstable::{
    Component, CompressionParameters, PageCache, PageLevel, ReadCost, SsTable, SsTableFormat, SsTableId,
    SsTableWriter, WriterOptions,
};
use helenus_types::CqlType;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, MemoryDisk};

use crate::support::{Column, NOW_US, cell, folder, id, key, live, row, table};

const PARTITION_KEY: [u8; 4] = 1_u32.to_be_bytes();

/// Rows have the even numbers as keys, from 0 on.
struct LargePartition {
    sstable: Arc<SsTable>,
    row_count: u32,
    name: String,
}

pub fn row_count() -> u32 {
    let asked = std::env::var("HELENUS_READ_ROWS");
    asked.ok().and_then(|count| count.parse().ok()).unwrap_or(40_000)
}

pub fn blob_table() -> TableMetadata {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("ck", ColumnKind::Clustering, CqlType::Int),
        Column("value", ColumnKind::Regular, CqlType::Blob),
    ];
    table("large", columns, &[])
}

fn write_partition(
    disk: &Arc<dyn Disk>,
    table: &TableMetadata,
    format: SsTableFormat,
    column_index_bytes: u32,
    compression: Option<CompressionParameters>,
    rows: u32,
) -> (PathBuf, helenus_sstable::Descriptor) {
    let folder = folder(table);
    disk.create_dir_all(&folder).unwrap();
    let mut options = WriterOptions::of(table);
    options.partition_count_estimate = 1;
    options.encoding_stats.timestamp_us_min = NOW_US;
    options.compression = compression;
    options.column_index_bytes = column_index_bytes;
    options.format = format;
    let mut writer =
        SsTableWriter::new(Arc::clone(disk), &folder, SsTableId::Number(1), table, options).unwrap();
    let token = token_of(&PARTITION_KEY);
    writer
        .begin_partition(token, &PARTITION_KEY, DeletionTime::LIVE, RowRef::EMPTY)
        .unwrap();
    let value = id(table, "value");
    for number in 0..rows {
        let bytes = [number as u8; 100];
        let row = row(
            live(NOW_US),
            DeletionTime::LIVE,
            vec![cell(value, NOW_US, &bytes)],
        );
        let clustering = key(&[&(2 * number).to_be_bytes()]);
        writer.row(&clustering, RowRef::new(&row)).unwrap();
    }
    writer.end_partition().unwrap();
    (folder, writer.finish().unwrap().descriptor)
}

impl LargePartition {
    fn new(format: SsTableFormat, column_index_bytes: u32) -> Self {
        Self::with_compression(format, column_index_bytes, None)
    }

    fn with_compression(
        format: SsTableFormat,
        column_index_bytes: u32,
        compression: Option<CompressionParameters>,
    ) -> Self {
        Self::with_blocks(format, column_index_bytes, compression, true)
    }

    /// Without Blocks.db, only the index of the format says where rows are.
    fn with_blocks(
        format: SsTableFormat,
        column_index_bytes: u32,
        compression: Option<CompressionParameters>,
        has_blocks: bool,
    ) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let table = blob_table();
        let row_count = row_count();
        let (folder, descriptor) =
            write_partition(&disk, &table, format, column_index_bytes, compression, row_count);
        let path = descriptor.path(&folder, Component::Blocks);
        let blocks = disk.open(&path).unwrap().length().unwrap();
        if !has_blocks {
            disk.remove(&path).unwrap();
        }
        let sstable = SsTable::open(&*disk, &folder, descriptor, &table).unwrap();
        let data = sstable.data_bytes();
        let name = format!("{format:?}, {} KiB blocks", column_index_bytes >> 10);
        println!(
            "{name}: data {data} bytes, Blocks.db {blocks}: {:.1} %, {:.2} bytes a row",
            100.0 * blocks as f64 / data as f64,
            blocks as f64 / f64::from(row_count)
        );
        LargePartition {
            sstable,
            row_count,
            name,
        }
    }

    /// The numbers of the rows that a read returns, and its cost.
    fn read(
        &self,
        cache: &PageCache,
        slices: &[Slice],
        reversed: bool,
        limit: usize,
    ) -> (Vec<u32>, ReadCost) {
        let before = cache.cost();
        let token = token_of(&PARTITION_KEY);
        let cursor = self
            .sstable
            .partition(cache, token, &PARTITION_KEY, slices, reversed)
            .unwrap();
        let mut numbers = Vec::new();
        if let Some(mut cursor) = cursor {
            while numbers.len() < limit && cursor.advance().unwrap() {
                let Unfiltered::Row { clustering, .. } = cursor.current() else {
                    panic!("there are only rows")
                };
                numbers.push(u32::from_be_bytes(clustering[2..6].try_into().unwrap()) / 2);
            }
        }
        (numbers, cache.cost().since(before))
    }

    /// A read of certain rows by key; all of them are there.
    fn rows(&self, cache: &PageCache, what: &str, numbers: &[u32], reversed: bool) -> ReadCost {
        let slices: Vec<Slice> = numbers.iter().map(|number| one(2 * number)).collect();
        let (found, cost) = self.read(cache, &slices, reversed, usize::MAX);
        let mut wanted = numbers.to_vec();
        if reversed {
            wanted.reverse();
        }
        assert_eq!(found, wanted);
        self.print(what, cost);
        cost
    }

    fn print(&self, what: &str, cost: ReadCost) {
        println!(
            "{}: {what}: {} reads, {:.1} KiB, index {}/{}/{}, data {}/{}/{}",
            self.name,
            cost.reads,
            cost.read_bytes as f64 / 1024.0,
            cost.index_hits,
            cost.index_misses,
            cost.index_blocks,
            cost.cache_hits,
            cost.cache_misses,
            cost.cache_blocks
        );
    }

    fn spread(&self, count: u32) -> Vec<u32> {
        (0..count).map(|index| index * (self.row_count / count)).collect()
    }
}

fn bound(number: u32, side: Side) -> ClusteringBound {
    ClusteringBound {
        prefix: key(&[&number.to_be_bytes()]).into(),
        side,
    }
}

fn one(number: u32) -> Slice {
    Slice {
        start: bound(number, Side::Before),
        end: bound(number, Side::After),
    }
}

/// Rows from one number up to before another.
fn between(first: u32, end: u32) -> Slice {
    Slice {
        start: bound(2 * first, Side::Before),
        end: bound(2 * end, Side::Before),
    }
}

fn cold() -> PageCache {
    PageCache::new(8 << 20)
}

const KIB: u64 = 1024;

#[test]
fn a_cold_row_takes_two_reads_and_its_neighbour_one_small_one() {
    for format in SsTableFormat::ALL {
        let partition = LargePartition::new(format, 1024);
        let middle = partition.row_count / 2;
        for reversed in [false, true] {
            for number in [0, 1, middle - 1, middle, middle + 7, partition.row_count - 1] {
                let cost = partition.rows(&cold(), &format!("cold row {number}"), &[number], reversed);
                assert!(
                    cost.reads <= 2 && cost.read_bytes <= 6 * KIB,
                    "{number}: {cost:?}"
                );
            }
        }
        let cache = cold();
        partition.rows(&cache, "cold row", &[middle], false);
        for number in middle + 1..middle + 40 {
            let cost = partition.rows(&cache, "the next key", &[number], false);
            assert!(
                cost.reads <= 1 && cost.read_bytes <= 2 * KIB,
                "{number}: {cost:?}"
            );
        }
        for count in [2, 4, 8, 16] {
            let what = format!("{count} rows spread evenly");
            let numbers = partition.spread(count);
            for reversed in [false, true] {
                let cost = partition.rows(&cold(), &what, &numbers, reversed);
                assert!(cost.reads <= u64::from(2 * count), "{what}: {cost:?}");
                assert!(cost.read_bytes <= u64::from(count) * 6 * KIB, "{what}: {cost:?}");
            }
        }
    }
}

/// Every chunk was copied into both levels, of which the first let most go unused.
#[test]
fn a_chunk_is_kept_once_and_stays_though_only_packed_ones_have_room() {
    let compression = CompressionParameters::of(&blob_table());
    let partition = LargePartition::with_compression(SsTableFormat::Nb, 64 << 10, compression);
    let decompressed_max = 512 << 10;
    let mut cache = PageCache::new(decompressed_max);
    cache.set_bytes_max(PageLevel::Packed, 4 << 20);
    let few = partition.spread(400);
    partition.rows(&cache, "the first rows", &few[..20], false);
    assert_eq!(cache.bytes(PageLevel::Packed), 0);
    let chunks_read = |what| -> u64 {
        let costs = few
            .iter()
            .map(|number| partition.rows(&cache, what, &[*number], false));
        costs.map(|cost| cost.cache_misses).sum()
    };
    let cold = chunks_read("cold");
    assert!(cache.bytes(PageLevel::Packed) > 64 << 10);
    assert!(cache.bytes(PageLevel::Decompressed) <= decompressed_max);
    // What only the level above knew, and what comes back displaces there, is read once more.
    let again = chunks_read("again") + chunks_read("once more");
    assert!(cold > 200 && again < 60, "{cold} {again}");
    assert_eq!(chunks_read("at last"), 0);
}

#[test]
fn at_the_default_granularity_a_row_is_as_near() {
    let partition = LargePartition::new(SsTableFormat::Nb, 64 << 10);
    let middle = partition.row_count / 2;
    for number in [0, 1, middle, middle + 100, partition.row_count - 1] {
        let cost = partition.rows(&cold(), &format!("cold row {number}"), &[number], false);
        assert!(
            cost.reads <= 2 && cost.read_bytes <= 12 * KIB,
            "{number}: {cost:?}"
        );
    }
    let cache = cold();
    partition.rows(&cache, "cold row", &[middle], false);
    for number in middle + 1..middle + 100 {
        let cost = partition.rows(&cache, "the next key", &[number], false);
        assert!(cost.reads <= 1 && cost.read_bytes <= 8 * KIB, "{cost:?}");
    }
    let cost = partition.rows(&cold(), "16 rows spread evenly", &partition.spread(16), false);
    assert!(cost.reads <= 32, "{cost:?}");
}

#[test]
fn a_compressed_row_takes_two_reads_too() {
    let parameters = CompressionParameters::of(&blob_table());
    let partition = LargePartition::with_compression(SsTableFormat::Nb, 64 << 10, parameters);
    let count = partition.row_count;
    for number in [0, 1, count / 2, count / 2 + 100, count - 1] {
        let cost = partition.rows(&cold(), &format!("cold row {number}, LZ4"), &[number], false);
        // Where its block crosses into the next chunk, both come in one request.
        assert!(cost.reads <= 2 && cost.cache_misses <= 2, "{number}: {cost:?}");
    }
    let (found, cost) = partition.read(&cold(), &[one(count + 1)], false, usize::MAX);
    assert_eq!((found, cost.cache_blocks), (Vec::new(), 0));
}

#[test]
fn a_row_that_is_missing_reads_no_data() {
    for column_index_bytes in [1024, 64 << 10] {
        let partition = LargePartition::new(SsTableFormat::Nb, column_index_bytes);
        let count = partition.row_count;
        let cache = cold();
        let mut data_reads = 0;
        for step in 0..1000 {
            let number = 2 * (step * (count / 1000)) + 1;
            for reversed in [false, true] {
                let (found, cost) = partition.read(&cache, &[one(number)], reversed, usize::MAX);
                assert_eq!(found, []);
                assert!(cost.index_blocks <= 1);
                data_reads += cost.cache_blocks;
            }
        }
        // Hashes of 16 bits: one in 65,536 of the rows in a block (9 or 36) is taken for another.
        assert!(data_reads <= 4, "{data_reads} of 2000");
        for number in [
            1,
            count / 3 * 2 + 1,
            count - 1,
            count + 1,
            2 * count - 1,
            2 * count + 2,
            4 * count,
        ] {
            let (found, cost) = partition.read(&cold(), &[one(number)], false, usize::MAX);
            assert_eq!(found, []);
            assert!(cost.cache_blocks == 0 && cost.reads <= 1, "{number}: {cost:?}");
            partition.print(&format!("missing row {number}"), cost);
        }
    }
}

#[test]
fn slices_read_what_lies_between_their_bounds() {
    let partition = LargePartition::new(SsTableFormat::Nb, 1024);
    let middle = partition.row_count / 2;
    for first in [0, middle, partition.row_count - 4096] {
        for count in [1, 32, 256, 4096] {
            let wanted: Vec<u32> = (first..first + count).collect();
            let row_bytes = u64::from(count) * 125;
            let (found, cost) = partition.read(&cold(), &[between(first, first + count)], false, usize::MAX);
            assert_eq!(found, wanted);
            partition.print(&format!("rows {first} to {}", first + count), cost);
            assert!(
                cost.read_bytes <= 2 * row_bytes + 16 * KIB,
                "{first} {count}: {cost:?}"
            );
            let (found, cost) = partition.read(&cold(), &[between(first, first + count)], true, usize::MAX);
            assert_eq!(found.into_iter().rev().collect::<Vec<u32>>(), wanted);
            partition.print(&format!("rows {first} to {}, reversed", first + count), cost);
            assert!(
                cost.read_bytes <= 2 * row_bytes + 16 * KIB,
                "{first} {count}: {cost:?}"
            );
        }
    }
}

/// Each block of alternate rows took a request of its own: 100,031 for a partition that a scan reads in 855.
#[test]
fn slices_close_together_are_read_as_a_scan_reads() {
    for column_index_bytes in [1024, 64 << 10] {
        let partition = LargePartition::new(SsTableFormat::Nb, column_index_bytes);
        let data = partition.sstable.data_bytes();
        for stride in [2, 9, 65, 200] {
            let numbers: Vec<u32> = (0..partition.row_count).step_by(stride).collect();
            let cost = partition.rows(&cold(), &format!("every {stride}th row"), &numbers, false);
            assert!(cost.cache_blocks <= 20 + data / (100 * KIB), "{stride}: {cost:?}");
            assert!(cost.index_blocks <= 20, "{stride}: {cost:?}");
            assert!(cost.read_bytes <= data * 11 / 10, "{stride}: {cost:?}");
        }
        let numbers: Vec<u32> = (0..partition.row_count).step_by(500).collect();
        let cost = partition.rows(&cold(), "every 500th row", &numbers, false);
        let each = cost.cache_blocks.div_ceil(numbers.len() as u64);
        assert!(each <= 1, "{cost:?}");
        assert!(cost.read_bytes <= data / 4, "{cost:?}");
    }
}

#[test]
fn the_first_and_the_last_rows_are_found_without_a_bound() {
    let partition = LargePartition::new(SsTableFormat::Nb, 1024);
    let all = [Slice::all()];
    let last = partition.row_count - 1;
    for (reversed, wanted) in [(false, 0), (true, last)] {
        let (found, cost) = partition.read(&cold(), &all, reversed, 1);
        assert_eq!(found, [wanted]);
        partition.print("first of all, LIMIT 1", cost);
        assert!(cost.reads <= 2 && cost.read_bytes <= 8 * KIB, "{cost:?}");
    }
    let (found, cost) = partition.read(&cold(), &all, true, usize::MAX);
    assert_eq!(found.len(), partition.row_count as usize);
    partition.print("all, reversed", cost);
    let data = partition.sstable.data_bytes();
    assert!(cost.read_bytes < data * 11 / 10, "{cost:?}");
    assert!(cost.cache_blocks <= 20 + data / (100 * KIB), "{cost:?}");
    let (found, cost) = partition.read(&cold(), &all, false, usize::MAX);
    assert_eq!(found.len(), partition.row_count as usize);
    partition.print("all", cost);
    assert!(
        cost.index_blocks == 0 && cost.cache_blocks <= 20 + data / (100 * KIB),
        "{cost:?}"
    );
}

/// Uses only the components that a file of Cassandra's has, but for the checksums of pages.
#[test]
fn tries_alone_find_a_row_by_few_reads() {
    let partition = LargePartition::with_blocks(SsTableFormat::Da, 1024, None, false);
    let (middle, last) = (partition.row_count / 2, partition.row_count - 1);
    for reversed in [false, true] {
        for number in [0, 1, middle - 1, middle, middle + 7, last] {
            let cost = partition.rows(&cold(), &format!("cold row {number}"), &[number], reversed);
            assert!(
                cost.reads <= 3 && cost.read_bytes <= 12 * KIB,
                "{number}: {cost:?}"
            );
        }
    }
    let cache = cold();
    partition.rows(&cache, "cold row", &[middle], false);
    let mut index_reads = 0;
    for number in middle + 1..middle + 40 {
        let cost = partition.rows(&cache, "the next key", &[number], false);
        index_reads += cost.index_blocks;
        assert!(
            cost.cache_blocks <= 1 && cost.read_bytes <= 6 * KIB,
            "{number}: {cost:?}"
        );
    }
    assert!(index_reads <= 1, "40 rows lie under one page of the trie, or two");
    for number in [2 * last + 1, 4 * last] {
        let (found, cost) = partition.read(&cold(), &[one(number)], false, usize::MAX);
        assert_eq!(found, []);
        assert_eq!(cost.cache_blocks, 0, "after the last row: {cost:?}");
    }
    for count in [1, 32, 256] {
        let wanted: Vec<u32> = (middle..middle + count).collect();
        for reversed in [false, true] {
            let slices = [between(middle, middle + count)];
            let (mut found, cost) = partition.read(&cold(), &slices, reversed, usize::MAX);
            if reversed {
                found.reverse();
            }
            assert_eq!(found, wanted);
            partition.print(&format!("{count} rows, reversed {reversed}"), cost);
            let row_bytes = u64::from(count) * 125;
            assert!(cost.read_bytes <= 2 * row_bytes + 20 * KIB, "{count}: {cost:?}");
        }
    }
}

/// Each row before it was decoded whole, half of a partition on average, and the one behind it.
#[test]
fn a_row_of_a_partition_without_blocks_is_the_only_one_that_is_decoded() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let table = blob_table();
    let rows = 500;
    for compression in [None, CompressionParameters::of(&table)] {
        let (folder, descriptor) =
            write_partition(&disk, &table, SsTableFormat::Nb, 64 << 10, compression, rows);
        let sstable = SsTable::open(&*disk, &folder, descriptor, &table).unwrap();
        let partition = LargePartition {
            sstable,
            row_count: rows,
            name: String::new(),
        };
        let cache = cold();
        let decoded = |slice: Slice| {
            let (found, cost) = partition.read(&cache, &[slice], false, usize::MAX);
            (found.len(), cost.items_decoded)
        };
        for number in 0..rows {
            assert_eq!(decoded(one(2 * number)), (1, 1), "{number}");
            let (found, items) = decoded(one(2 * number + 1));
            assert!(found == 0 && items <= 1, "{number}: {items}");
        }
        assert_eq!(decoded(between(400, 410)), (10, 11));
        assert_eq!(decoded(Slice::all()), (500, 501));
        for component in Component::ALL {
            let _absent = disk.remove(&descriptor.path(&folder, component));
        }
    }
}
