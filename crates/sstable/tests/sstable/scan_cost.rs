//! Cost of scanning: allocations here; `--nocapture` prints the speed too, which means something in a release build.

use std::sync::Arc;
use std::time::Instant;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::partition_range::PartitionBound;
use helenus_rows::row::RowRef;
use helenus_sstable::source::{PartitionCursor, PartitionScanner, Unfiltered};
use helenus_sstable::{
    CompressionParameters, PageCache, PageLevel, Pages, ReadTicket, SsTable, SsTableId, SsTableWriter,
    WriterOptions,
};
use helenus_test_heap::{of_thread, peak_bytes_of};
use helenus_types::Token;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, MemoryDisk};

use crate::read_counts::{blob_table, row_count};
use crate::support::{NOW_US, cell, folder, id, key, live, row};

/// `partitions` times `rows` rows with blobs of 100 bytes.
fn sstable(partitions: u32, rows: u32) -> Arc<SsTable> {
    sstable_of(partitions, rows, None)
}

fn sstable_of(partitions: u32, rows: u32, compression: Option<CompressionParameters>) -> Arc<SsTable> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let table = blob_table();
    let folder = folder(&table);
    disk.create_dir_all(&folder).unwrap();
    let mut options = WriterOptions::of(&table);
    options.partition_count_estimate = u64::from(partitions);
    options.encoding_stats.timestamp_us_min = NOW_US;
    options.compression = compression;
    options.column_index_bytes = 1024;
    let mut writer =
        SsTableWriter::new(Arc::clone(&disk), &folder, SsTableId::Number(1), &table, options).unwrap();
    let mut keys: Vec<[u8; 4]> = (0..partitions).map(u32::to_be_bytes).collect();
    keys.sort_by_key(|key| token_of(key));
    let row_of = |value: &[u8]| {
        let cells = vec![cell(id(&table, "value"), NOW_US, value)];
        row(live(NOW_US), DeletionTime::LIVE, cells)
    };
    let mut noise = 1_u32;
    for partition_key in &keys {
        let token = token_of(partition_key);
        writer
            .begin_partition(token, partition_key, DeletionTime::LIVE, RowRef::EMPTY)
            .unwrap();
        for number in 0..rows {
            let value = std::array::from_fn::<u8, 100, _>(|_| {
                noise ^= noise << 13;
                noise ^= noise >> 17;
                noise ^= noise << 5;
                noise as u8
            });
            writer
                .row(&key(&[&number.to_be_bytes()]), RowRef::new(&row_of(&value)))
                .unwrap();
        }
        writer.end_partition().unwrap();
    }
    let descriptor = writer.finish().unwrap().descriptor;
    SsTable::open(&*disk, &folder, descriptor, &table).unwrap()
}

/// Scans everything; returns the allocations per row.
fn scan(sstable: &SsTable, rows: u32, what: &str) -> f64 {
    let bound = |token, side| PartitionBound {
        token,
        key: None,
        side,
    };
    let slices = [Slice::all()];
    let cache = PageCache::new(1 << 20);
    let start = bound(Token::MINIMUM, Side::Before);
    let end = bound(Token::MAXIMUM, Side::After);
    let allocations = of_thread().allocations;
    let began = Instant::now();
    let mut scanner = sstable.scan(&cache, start, end, &slices, false);
    let (mut found, mut bytes) = (0, 0);
    while scanner.advance().unwrap() {
        let mut cursor = scanner.open().unwrap();
        while cursor.advance().unwrap() {
            if let Unfiltered::Row { row, .. } = cursor.current() {
                found += 1;
                bytes += row.as_bytes().len();
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let per_row = (of_thread().allocations - allocations) as f64 / f64::from(rows);
    assert_eq!((found, bytes > found as usize * 100), (rows, true));
    let cost = cache.cost();
    assert!(cost.reads < 20 + 2 * cost.read_bytes / (128 << 10), "{cost:?}");
    assert_eq!(
        cache.bytes(PageLevel::Decompressed),
        0,
        "scans leave nothing in the cache"
    );
    println!(
        "{what}: {:.0} rows/s, {per_row:.4} allocations a row, {:?}",
        f64::from(rows) / seconds,
        cache.cost()
    );
    per_row
}

#[test]
fn scanning_a_large_partition_hardly_allocates() {
    let rows = row_count();
    let sstable = sstable(1, rows);
    let repeats = std::env::var_os("HELENUS_SCAN_REPEATS").map_or(1, |_| 20);
    for _ in 0..repeats {
        let per_row = scan(&sstable, rows, "one partition");
        assert!(per_row < 0.02, "{per_row}");
    }
}

#[test]
fn scanning_small_partitions_hardly_allocates() {
    let rows = row_count() / 4;
    let sstable = sstable(rows, 1);
    let per_row = scan(&sstable, rows, "small partitions");
    assert!(per_row < 0.02, "{per_row}");
}

/// Compactions of 90 SSTables held 128 KiB of each, twice: a sixth of what a small node was given.
#[test]
fn scans_that_share_hold_no_more_of_many_sstables_than_of_few() {
    let sstable = sstable(1, row_count().min(20_000));
    let bound = |token, side| PartitionBound {
        token,
        key: None,
        side,
    };
    let (start, end) = (
        bound(Token::MINIMUM, Side::Before),
        bound(Token::MAXIMUM, Side::After),
    );
    let slices = [Slice::all()];
    let cache = PageCache::new(0);
    let held_by = |count: usize| {
        let pages = Pages::from(&cache).sharing(1 << 20, count);
        peak_bytes_of(|| {
            let mut scanners: Vec<_> = (0..count)
                .map(|_| sstable.scan(pages, start, end, &slices, false))
                .collect();
            let mut cursors: Vec<_> = scanners
                .iter_mut()
                .map(|scanner| scanner.advance().map(|_| scanner.open().unwrap()).unwrap())
                .collect();
            for _ in 0..4_000 {
                cursors
                    .iter_mut()
                    .for_each(|cursor| assert!(cursor.advance().unwrap()));
            }
        })
    };
    let (few, many) = (held_by(8), held_by(64));
    assert!(few > 1 << 20 && few < 5 << 19, "{few}");
    assert!(many < 2 * few, "{many} bytes of 64, {few} of 8");
}

/// A scan held twice as much as it asked for, of an index and of a compressed file.
#[test]
fn a_scan_holds_what_it_asked_for_and_not_twice_as_much() {
    const REQUEST_BYTES: i64 = 32 << 10;
    let rows = 20_000;
    let sstable = sstable_of(rows, 1, CompressionParameters::of(&blob_table()));
    let everything = |token, side| PartitionBound {
        token,
        key: None,
        side,
    };
    let start = everything(Token::MINIMUM, Side::Before);
    let end = everything(Token::MAXIMUM, Side::After);
    let slices = [Slice::all()];
    let cache = PageCache::new(0);
    let pages = Pages::from(&cache).sharing(REQUEST_BYTES as usize, 1);
    let held = peak_bytes_of(|| {
        let mut scanner = sstable.scan(pages, start, end, &slices, false);
        for _ in 0..rows {
            assert!(scanner.advance().unwrap());
            assert!(scanner.open().unwrap().advance().unwrap());
        }
    });
    // As they are in their files and as they are read, of data and of an index; and one of them while it grows.
    assert!(held < 5 * REQUEST_BYTES, "{held} bytes");
}

/// Each run of partitions was a scan of its own: 1.1 million reads for half a million partitions.
#[test]
fn a_scanner_goes_on_to_the_next_run_with_what_it_has_read_ahead() {
    let rows: usize = 20_000;
    let sstable = sstable(rows as u32, 1);
    let mut keys: Vec<_> = (0..rows as u32).map(u32::to_be_bytes).collect();
    keys.sort_by_key(|key| token_of(key));
    let everything = |token, side| PartitionBound {
        token,
        key: None,
        side,
    };
    let slices = [Slice::all()];
    for (stride, reads_max) in [(2, 60), (17, 60), (100, 60), (4000, 24)] {
        let cache = PageCache::new(0);
        let start = everything(Token::MINIMUM, Side::Before);
        let end = everything(Token::MAXIMUM, Side::After);
        let mut scanner = sstable.scan(&cache, start, end, &slices, false);
        for key in keys.iter().step_by(stride) {
            let bound = PartitionBound {
                token: token_of(key),
                key: Some(key),
                side: Side::Before,
            };
            // It stays where it stands.
            for _ in 0..2 {
                assert!(scanner.advance_to(&bound).unwrap());
                assert_eq!(scanner.position().1, key);
            }
            let mut cursor = scanner.open().unwrap();
            assert!(cursor.advance().unwrap() && !cursor.advance().unwrap());
        }
        assert!(!scanner.advance_to(&end).unwrap());
        let cost = cache.cost();
        println!("every {stride}th partition: {cost:?}");
        assert!(cost.reads <= reads_max, "{stride}: {cost:?}");
    }
}

#[test]
fn a_cold_row_allocates_little() {
    let rows = row_count();
    let sstable = sstable(1, rows);
    let cache = PageCache::new(0);
    let partition_key = 0_u32.to_be_bytes();
    let token = token_of(&partition_key);
    let reads = std::env::var_os("HELENUS_SCAN_REPEATS").map_or(100, |_| 2100);
    let mut allocations = 0;
    for step in 0..reads {
        let prefix: Box<[u8]> = key(&[&(step * 7919 % rows).to_be_bytes()]).into();
        let bound = |side| ClusteringBound {
            prefix: prefix.clone(),
            side,
        };
        let slices = [Slice {
            start: bound(Side::Before),
            end: bound(Side::After),
        }];
        let before = of_thread().allocations;
        let cursor = sstable.partition(&cache, token, &partition_key, &slices, false);
        let mut cursor = cursor.unwrap().unwrap();
        assert!(cursor.advance().unwrap() && !cursor.advance().unwrap());
        drop(cursor);
        allocations += of_thread().allocations - before;
    }
    let per_read = allocations / u64::from(reads);
    println!("{per_read} allocations a cold row, {:?}", cache.cost());
    assert_eq!(cache.cost().reads, 2 * u64::from(reads));
    assert!(per_read < 40, "{per_read}");
}

/// A suspended scan stops as rarely as a blocking one reads.
#[test]
fn suspended_reads_of_a_large_partition_read_ahead() {
    let rows = 20_000;
    let sstable = sstable(1, rows);
    let partition_key = 0_u32.to_be_bytes();
    let slices = [Slice::all()];
    let cache = PageCache::new(0);
    let ticket = ReadTicket::new();
    let mut stops: u64 = 0;
    let found = loop {
        ticket.begin_run();
        let run = || {
            let pages = cache.suspending(&ticket);
            let mut cursor = sstable
                .partition(pages, token_of(&partition_key), &partition_key, &slices, false)?
                .unwrap();
            let mut found = 0;
            while cursor.advance()? {
                found += 1;
            }
            Ok(found)
        };
        match run() {
            Ok(found) => break found,
            Err(helenus_sstable::error::ReadError::Absent(absent)) => {
                stops += 1;
                cache.deliver(&ticket, &absent, &absent.read().unwrap()).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(found, rows);
    assert!(stops <= 12 + sstable.data_bytes() / (128 << 10), "{stops}");
}
