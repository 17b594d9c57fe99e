//! Single bits flipped in every component: each is detected, or changes nothing that is read.

use std::path::PathBuf;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Side, Slice};
use helenus_rows::deletion::DeletionTime;
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::{
    Component, CompressionParameters, Compressor, Descriptor, IndexForm, PageCache, SsTable, SsTableFormat,
    Version,
};
use helenus_types::CqlType;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, Random, SeededRandom, SimulatedDisk};

use crate::support::{
    Column, Item, NOW_S, NOW_US, Partition, Partitions, cell, drain, folder, id, insert, key, live, options,
    row, scan, table, write,
};

/// Flips per component and form; more only takes longer.
const FLIPS: u64 = 60;

fn content() -> (TableMetadata, Partitions) {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let table = table("flips", columns, &[]);
    let v = id(&table, "v");
    let mut partitions = Partitions::new();
    for partition_key in 0..40_u32 {
        let mut partition = Partition::default();
        let deletion = DeletionTime {
            timestamp_us: NOW_US,
            local_s: NOW_S,
        };
        partition.marker(Vec::new(), Side::Before, deletion);
        for number in 0..partition_key % 8 * 4 {
            let value = format!("value {number} of {partition_key}");
            let cells = vec![cell(v, NOW_US, value.as_bytes())];
            partition.row(
                key(&[&number.to_be_bytes()]),
                row(live(NOW_US), DeletionTime::LIVE, cells),
            );
        }
        partition.marker(Vec::new(), Side::After, DeletionTime::LIVE);
        insert(&mut partitions, &partition_key.to_be_bytes(), partition);
    }
    let mut large = Partition::default();
    for number in 0..LARGE_ROWS {
        let value = format!("{number:0100}");
        let cells = vec![cell(v, NOW_US, value.as_bytes())];
        large.row(
            key(&[&number.to_be_bytes()]),
            row(live(NOW_US), DeletionTime::LIVE, cells),
        );
    }
    insert(&mut partitions, &LARGE_KEY, large);
    (table, partitions)
}

/// So many that their partition has more than one page in Blocks.db.
const LARGE_ROWS: u32 = 600;
const LARGE_KEY: [u8; 4] = 1000_u32.to_be_bytes();

/// Single rows of the large partition, and one that is missing, in both directions.
fn single_rows_are_right(sstable: &SsTable) -> Result<(), String> {
    for number in (0..LARGE_ROWS).step_by(150).chain([LARGE_ROWS]) {
        let bound = |side| ClusteringBound {
            prefix: key(&[&number.to_be_bytes()]).into(),
            side,
        };
        let slices = [Slice {
            start: bound(Side::Before),
            end: bound(Side::After),
        }];
        for reversed in [false, true] {
            let cache = PageCache::new(1 << 20);
            let read = sstable
                .partition(&cache, token_of(&LARGE_KEY), &LARGE_KEY, &slices, reversed)
                .and_then(|cursor| cursor.map_or(Ok(0), |mut cursor| Ok(drain(&mut cursor)?.items.len())));
            let wanted = usize::from(number < LARGE_ROWS);
            if read.as_ref().is_ok_and(|found| *found != wanted) {
                return Err(format!("row {number}: {read:?}"));
            }
        }
    }
    Ok(())
}

/// Checks that everything that is read is right, or refused.
fn is_detected_or_harmless(
    disk: &dyn Disk,
    descriptor: Descriptor,
    table: &TableMetadata,
    partitions: &Partitions,
) -> Result<(), String> {
    let Ok(sstable) = SsTable::open(disk, &folder(table), descriptor, table) else {
        return Ok(());
    };
    if let Ok(scanned) = scan(&sstable)
        && &scanned != partitions
    {
        return Err("a scan read something else".to_owned());
    }
    single_rows_are_right(&sstable)?;
    let slices = [Slice::all()];
    for ((token, partition_key), partition) in partitions {
        let cache = PageCache::new(1 << 20);
        match sstable.partition(&cache, *token, partition_key, &slices, false) {
            Err(_) => {}
            Ok(None) => return Err(format!("partition {partition_key:?} is gone")),
            Ok(Some(mut cursor)) => match drain(&mut cursor) {
                Ok(read) if &read != partition => return Err(format!("partition {partition_key:?} changed")),
                _ => {}
            },
        }
        for number in (0..partition.items.len() as u32).step_by(5) {
            let bound = |side| ClusteringBound {
                prefix: key(&[&number.to_be_bytes()]).into(),
                side,
            };
            let slices = [Slice {
                start: bound(Side::Before),
                end: bound(Side::After),
            }];
            let wanted = usize::from(number as usize + 2 < partition.items.len());
            for reversed in [false, true] {
                let cursor = sstable.partition(&cache, *token, partition_key, &slices, reversed);
                let Ok(Some(mut cursor)) = cursor else { continue };
                let Ok(read) = drain(&mut cursor) else { continue };
                let rows = read.items.iter().filter(|item| matches!(item, Item::Row { .. }));
                if rows.count() != wanted {
                    return Err(format!("row {number} of partition {partition_key:?} changed"));
                }
            }
        }
    }
    Ok(())
}

fn flip_bits(format: SsTableFormat, compression: Option<CompressionParameters>, chunks: Component) {
    let (table, partitions) = content();
    let simulated = Arc::new(SimulatedDisk::new(1));
    let disk: Arc<dyn Disk> = simulated.clone();
    let folder = folder(&table);
    let mut options = options(&table, &partitions);
    options.compression = compression;
    options.column_index_bytes = 128;
    options.format = format;
    let descriptor = write(&disk, &folder, &table, &partitions, options).descriptor;
    assert_eq!(
        is_detected_or_harmless(&*disk, descriptor, &table, &partitions),
        Ok(())
    );
    let random = SeededRandom::new(7);
    let components = [
        Component::Data,
        Component::Filter,
        Component::Statistics,
        Component::Checksums,
        Component::Blocks,
        Component::Fences,
        chunks,
    ];
    for component in components.into_iter().chain(index_components(format)) {
        let path: PathBuf = descriptor.path(&folder, component);
        let length = disk.open(&path).unwrap().length().unwrap();
        for _ in 0..FLIPS {
            let bit = random.below(length * 8);
            simulated.flip_bit(&path, bit).unwrap();
            let result = is_detected_or_harmless(&*disk, descriptor, &table, &partitions);
            assert_eq!(result, Ok(()), "bit {bit} of {component:?}");
            simulated.flip_bit(&path, bit).unwrap();
        }
    }
}

#[test]
fn flipped_bits_of_a_compressed_sstable_are_detected() {
    let compressor = Compressor::Lz4;
    let parameters = CompressionParameters {
        compressor,
        chunk_bytes: 4096,
        compressed_bytes_max: i32::MAX as u32,
    };
    flip_bits(SsTableFormat::Nb, Some(parameters), Component::CompressionInfo);
    flip_bits(SsTableFormat::Da, Some(parameters), Component::CompressionInfo);
}

#[test]
fn flipped_bits_of_an_uncompressed_sstable_are_detected() {
    flip_bits(SsTableFormat::Nb, None, Component::Crc);
    flip_bits(SsTableFormat::Da, None, Component::Crc);
}

fn index_components(format: SsTableFormat) -> [Component; 2] {
    match Version::from(format).index_form() {
        IndexForm::Big => [Component::Index, Component::Summary],
        IndexForm::Bti => [Component::Partitions, Component::Rows],
    }
}

/// As files of Cassandra come: without checksums of index, filter and summary. Wrong answers cannot all be found then,
/// but nothing panics or runs away; arithmetic is checked in this build.
#[test]
fn damage_that_no_checksum_covers_ends_in_an_answer() {
    damage_without_checksums(SsTableFormat::Nb);
    damage_without_checksums(SsTableFormat::Da);
}

fn damage_without_checksums(format: SsTableFormat) {
    let (table, partitions) = content();
    let simulated = Arc::new(SimulatedDisk::new(1));
    let disk: Arc<dyn Disk> = simulated.clone();
    let folder = folder(&table);
    let mut options = options(&table, &partitions);
    options.compression = None;
    options.column_index_bytes = 128;
    options.format = format;
    let descriptor = write(&disk, &folder, &table, &partitions, options).descriptor;
    disk.remove(&descriptor.path(&folder, Component::Checksums))
        .unwrap();
    assert_eq!(
        is_detected_or_harmless(&*disk, descriptor, &table, &partitions),
        Ok(())
    );
    let random = SeededRandom::new(9);
    let mut wrong_answers = 0;
    let components = [Component::Filter, Component::Crc, Component::Statistics];
    for component in components.into_iter().chain(index_components(format)) {
        let path = descriptor.path(&folder, component);
        let length = disk.open(&path).unwrap().length().unwrap();
        for _ in 0..4 * FLIPS {
            let bits: Vec<u64> = (0..1 + random.below(8))
                .map(|_| random.below(length * 8))
                .collect();
            bits.iter()
                .for_each(|bit| simulated.flip_bit(&path, *bit).unwrap());
            let result = is_detected_or_harmless(&*disk, descriptor, &table, &partitions);
            wrong_answers += usize::from(result.is_err());
            bits.iter()
                .for_each(|bit| simulated.flip_bit(&path, *bit).unwrap());
        }
        let file = disk.open_writable(&path).unwrap();
        let mut original = vec![0; length as usize];
        file.read_exact_at(0, &mut original).unwrap();
        for _ in 0..FLIPS / 4 {
            file.set_length(random.below(length)).unwrap();
            let _ = is_detected_or_harmless(&*disk, descriptor, &table, &partitions);
            file.write_at(0, &original).unwrap();
        }
    }
    assert!(wrong_answers > 0, "the checksums of Checksums.db are needed");
}
