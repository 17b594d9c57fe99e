//! Reads that stop at pages which are not in memory, and go on when those were brought.

use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_rows::partition_range::PartitionBound;
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::error::ReadError;
use helenus_sstable::source::PartitionScanner;
use helenus_sstable::{
    AbsentPages, CompressionParameters, Compressor, PageCache, PageLevel, Pages, ReadTicket, SsTable,
    SsTableFormat,
};
use helenus_types::{CqlType, Token};
use helenus_vfs::{Disk, MemoryDisk, SimulatedDisk};

use crate::support::{
    Column, DESCRIPTOR, NOW_US, Partition, Partitions, cell, drain, folder, id, insert, key, live, options,
    row, scan, table, write,
};

/// Partitions of 0 to 900 rows.
fn sstable(compression: Option<CompressionParameters>) -> (TableMetadata, Partitions, Arc<SsTable>) {
    sstable_on(Arc::new(MemoryDisk::new()), compression, 300)
}

/// Partitions of up to three times so many rows.
fn sstable_on(
    disk: Arc<dyn Disk>,
    compression: Option<CompressionParameters>,
    rows: u32,
) -> (TableMetadata, Partitions, Arc<SsTable>) {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let table = table("suspended", columns, &[]);
    let v = id(&table, "v");
    let mut partitions = Partitions::new();
    for partition_key in 1..4_u32 {
        let mut partition = Partition::default();
        for number in 0..partition_key * rows {
            let value = format!("{number:0100}");
            let cells = vec![cell(v, NOW_US, value.as_bytes())];
            partition.row(
                key(&[&number.to_be_bytes()]),
                row(live(NOW_US), DeletionTime::LIVE, cells),
            );
        }
        insert(&mut partitions, &partition_key.to_be_bytes(), partition);
    }
    let mut options = options(&table, &partitions);
    options.compression = compression;
    options.column_index_bytes = 1024;
    write(&disk, &folder(&table), &table, &partitions, options);
    let sstable = SsTable::open(&*disk, &folder(&table), DESCRIPTOR, &table).unwrap();
    (table, partitions, sstable)
}

fn lz4() -> CompressionParameters {
    CompressionParameters {
        compressor: Compressor::Lz4,
        chunk_bytes: 4096,
        compressed_bytes_max: i32::MAX as u32,
    }
}

/// Runs a read until it ends, delivering what it stops for; returns its result and how often it stopped.
fn run_to_end<T>(
    cache: &PageCache,
    ticket: &ReadTicket,
    mut run: impl FnMut(Pages<'_>) -> Result<T, ReadError>,
) -> (T, u32) {
    let mut stops = 0;
    loop {
        ticket.begin_run();
        let absent: Box<AbsentPages> = match run(cache.suspending(ticket)) {
            Ok(value) => return (value, stops),
            Err(ReadError::Absent(absent)) => absent,
            Err(error) => panic!("{error}"),
        };
        stops += 1;
        assert!(
            stops < 1000,
            "a read that stops again and again makes no progress"
        );
        let mut stored = vec![0; absent.length()];
        absent.file().read_exact_at(absent.offset(), &mut stored).unwrap();
        cache.deliver(ticket, &absent, &stored).unwrap();
    }
}

/// One partition, and how often its read stopped.
fn read_suspended(
    sstable: &SsTable,
    cache: &PageCache,
    ticket: &ReadTicket,
    (token, key): (Token, &[u8]),
) -> (Partition, u32) {
    let slices = [Slice::all()];
    run_to_end(cache, ticket, |pages| {
        let cursor = sstable.partition(pages, token, key, &slices, false)?;
        drain(&mut cursor.unwrap())
    })
}

fn everything() -> (PartitionBound<'static>, PartitionBound<'static>) {
    let bound = |token, side| PartitionBound {
        token,
        key: None,
        side,
    };
    (
        bound(Token::MINIMUM, Side::Before),
        bound(Token::MAXIMUM, Side::After),
    )
}

#[test]
fn suspended_reads_return_what_blocking_ones_do_whatever_the_cache() {
    for compression in [None, Some(lz4())] {
        let (_, partitions, sstable) = sstable(compression);
        for cache_bytes in [0, 10_000, 1 << 20] {
            let cache = PageCache::new(cache_bytes);
            let slices = [Slice::all()];
            for ((token, partition_key), partition) in &partitions {
                let ticket = ReadTicket::new();
                let (read, stops) = read_suspended(&sstable, &cache, &ticket, (*token, partition_key));
                assert_eq!(&read, partition);
                assert!(stops > 0);
                assert_eq!(ticket.cost().reads, u64::from(stops));
            }
            assert_eq!(scan_suspended(&sstable, &cache, &slices), partitions);
        }
        assert_eq!(scan(&sstable).unwrap(), partitions);
    }
}

/// All partitions within slices, by a scan that stops at each page which is not in memory.
fn scan_suspended(sstable: &SsTable, cache: &PageCache, slices: &[Slice]) -> Partitions {
    let (start, end) = everything();
    let (scanned, _) = run_to_end(cache, &ReadTicket::new(), |pages| {
        let mut scanner = sstable.scan(pages, start, end, slices, false);
        let mut partitions = Partitions::new();
        while scanner.advance()? {
            let (token, partition_key) = scanner.position();
            let place = (token, partition_key.to_vec());
            partitions.insert(place, drain(&mut scanner.open()?)?);
        }
        Ok(partitions)
    });
    scanned
}

/// A cold scan of a `da` table said "corrupt", and a retry did a page later: where memory had two pages in one piece, a
/// node of an index trie in the second was looked for in the first.
#[test]
fn tries_are_read_from_pages_that_were_brought_for_something_else() {
    const ROWS: u32 = 14;
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Blob),
        Column("c", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Blob),
    ];
    let table = table("tries", columns, &[]);
    let v = id(&table, "v");
    // Entries of Rows.db begin with the key: long ones cross pages themselves, short ones where the pages end.
    for (key_bytes, partition_count) in [(4, 400_u32), (1000, 60)] {
        let mut partitions = Partitions::new();
        for number in 0..partition_count {
            let mut partition_key = number.to_be_bytes().to_vec();
            partition_key.resize(key_bytes, b'k');
            let mut partition = Partition::default();
            for row_number in 0..ROWS {
                let cells = vec![cell(v, NOW_US, &[7; 300])];
                partition.row(
                    key(&[&row_number.to_be_bytes()]),
                    row(live(NOW_US), DeletionTime::LIVE, cells),
                );
            }
            insert(&mut partitions, &partition_key, partition);
        }
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let mut options = options(&table, &partitions);
        options.format = SsTableFormat::Da;
        options.column_index_bytes = 1024;
        let written = write(&disk, &folder(&table), &table, &partitions, options);
        let sstable = SsTable::open(&*disk, &folder(&table), written.descriptor, &table).unwrap();
        let bound = |row_number: u32, side| ClusteringBound {
            prefix: key(&[&row_number.to_be_bytes()]).into(),
            side,
        };
        let slices = [Slice {
            start: bound(10, Side::Before),
            end: bound(12, Side::After),
        }];
        for cache_bytes in [0, 16 << 10, 1 << 20] {
            let cache = PageCache::new(cache_bytes);
            assert_eq!(
                scan_suspended(&sstable, &cache, &slices),
                partitions
                    .iter()
                    .map(|(place, whole)| {
                        let mut sliced = whole.clone();
                        sliced.items.drain(13..);
                        sliced.items.drain(..10);
                        (place.clone(), sliced)
                    })
                    .collect::<Partitions>(),
                "keys of {key_bytes} bytes, a cache of {cache_bytes}"
            );
            assert_eq!(
                scan_suspended(&sstable, &cache, &[Slice::all()]),
                partitions,
                "keys of {key_bytes} bytes, a cache of {cache_bytes}"
            );
        }
    }
}

#[test]
fn pages_that_the_operating_system_has_in_memory_are_not_waited_for() {
    for compression in [None, Some(lz4())] {
        let (_, partitions, sstable) = sstable_on(Arc::new(MemoryDisk::resident()), compression, 300);
        for cache_bytes in [0, 10_000, 1 << 20] {
            let cache = PageCache::new(cache_bytes);
            let slices = [Slice::all()];
            for ((token, partition_key), partition) in &partitions {
                let ticket = ReadTicket::new();
                let (read, stops) = read_suspended(&sstable, &cache, &ticket, (*token, partition_key));
                assert_eq!(&read, partition);
                assert_eq!(stops, 0);
                assert!(cache_bytes > 0 || ticket.cost().reads > 0);
            }
            assert_eq!(scan_suspended(&sstable, &cache, &slices), partitions);
        }
    }
}

#[test]
fn a_run_takes_so_much_of_the_operating_systems_memory_and_stops_then() {
    let (_, partitions, sstable) = sstable_on(Arc::new(MemoryDisk::resident()), Some(lz4()), 3_000);
    let ((token, partition_key), partition) = partitions.last_key_value().unwrap();
    let (cache, ticket) = (PageCache::new(4 << 20), ReadTicket::new());
    let (read, stops) = read_suspended(&sstable, &cache, &ticket, (*token, partition_key));
    assert_eq!(&read, partition);
    // 9,000 rows of 100 bytes and more are 1 to 1.5 MiB. Each run takes 512 KiB, and finds the 128 that were brought for each before it.
    assert!((1..=8).contains(&stops), "{stops}");
}

/// Each of a queue of reads that waited for the disk would have kept its page of an index, or the segment of the cache that had it.
#[test]
fn a_read_that_waits_holds_no_resident_pages() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        disk.set_half_resident(true);
        let (_, partitions, sstable) = sstable_on(Arc::new(disk), Some(lz4()), 300);
        let (cache, slices) = (PageCache::new(0), [Slice::all()]);
        for (token, partition_key) in partitions.keys() {
            let ticket = ReadTicket::new();
            ticket.begin_run();
            let read = sstable
                .partition(cache.suspending(&ticket), *token, partition_key, &slices, false)
                .and_then(|cursor| drain(&mut cursor.unwrap()));
            assert!(matches!(read, Ok(_) | Err(ReadError::Absent(_))), "{read:?}");
            assert!(read.is_ok() || ticket.pinned_bytes() == 0);
        }
    }
}

#[test]
fn what_is_sometimes_resident_is_read_all_the_same() {
    for seed in 0..10 {
        let disk = SimulatedDisk::new(seed);
        disk.set_half_resident(true);
        let (_, partitions, sstable) = sstable_on(Arc::new(disk), Some(lz4()), 300);
        let cache = PageCache::new([0, 20_000][seed as usize % 2]);
        assert_eq!(scan_suspended(&sstable, &cache, &[Slice::all()]), partitions);
    }
}

#[test]
fn a_read_that_passes_the_cache_by_leaves_no_resident_pages_there() {
    let (_, partitions, sstable) = sstable_on(Arc::new(MemoryDisk::resident()), Some(lz4()), 300);
    for (passes_by, leaves_some) in [(false, true), (true, false)] {
        let (cache, ticket, slices) = (PageCache::new(1 << 20), ReadTicket::new(), [Slice::all()]);
        for (token, partition_key) in partitions.keys() {
            let pages = cache.suspending(&ticket).passing_by(passes_by);
            let cursor = sstable.partition(pages, *token, partition_key, &slices, false);
            drain(&mut cursor.unwrap().unwrap()).unwrap();
        }
        assert_eq!(cache.bytes(PageLevel::Decompressed) > 0, leaves_some);
    }
}

#[test]
fn damage_in_resident_pages_is_left_to_whoever_reads_the_disk() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::resident());
    let (table, partitions, sstable) = sstable_on(disk.clone(), Some(lz4()), 300);
    let data = folder(&table).join("nb-1-big-Data.db");
    let file = disk.open_writable(&data).unwrap();
    let mut byte = [0];
    file.read_exact_at(100, &mut byte).unwrap();
    file.write_at(100, &[byte[0] ^ 1]).unwrap();
    let (cache, ticket, slices) = (PageCache::new(1 << 20), ReadTicket::new(), [Slice::all()]);
    let (token, partition_key) = partitions.first_key_value().unwrap().0;
    let read = sstable
        .partition(cache.suspending(&ticket), *token, partition_key, &slices, false)
        .and_then(|cursor| drain(&mut cursor.unwrap()));
    let Err(ReadError::Absent(absent)) = read else {
        panic!("{read:?}")
    };
    let delivered = cache.deliver(&ticket, &absent, &absent.read().unwrap());
    assert!(
        matches!(delivered, Err(ReadError::Corrupt { .. })),
        "{delivered:?}"
    );
}

#[test]
fn what_a_run_did_not_use_is_let_go() {
    let (_, partitions, sstable) = sstable(None);
    let ((token, partition_key), partition) = partitions.last_key_value().unwrap();
    let slices = [Slice::all()];
    let cache = PageCache::new(0);
    let ticket = ReadTicket::new();
    run_to_end(&cache, &ticket, |pages| {
        drain(
            &mut sstable
                .partition(pages, *token, partition_key, &slices, false)?
                .unwrap(),
        )
    });
    assert!(!partition.items.is_empty() && ticket.pinned_bytes() > 0);
    ticket.begin_run();
    ticket.begin_run();
    assert_eq!(ticket.pinned_bytes(), 0);
}

#[test]
fn what_was_delivered_is_checked() {
    let (_, partitions, sstable) = sstable(None);
    let (token, partition_key) = partitions.first_key_value().unwrap().0;
    let slices = [Slice::all()];
    let cache = PageCache::new(1 << 20);
    let ticket = ReadTicket::new();
    let read = sstable.partition(cache.suspending(&ticket), *token, partition_key, &slices, false);
    let Err(ReadError::Absent(absent)) = read else {
        panic!("nothing is in memory yet")
    };
    let stored = absent.read().unwrap();
    let mut flipped = stored.clone();
    flipped[stored.len() / 2] ^= 1;
    for wrong in [flipped, stored[1..].to_vec()] {
        let result = cache.deliver(&ticket, &absent, &wrong);
        assert!(matches!(result, Err(ReadError::Corrupt { .. })), "{result:?}");
    }
    cache.deliver(&ticket, &absent, &stored).unwrap();
}
