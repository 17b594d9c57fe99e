//! Random partitions, written and read whole, in slices, in both directions, against a model.

use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Entry, Liveness, RowBuilder};
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::{
    Component, CompressionParameters, Compressor, Descriptor, PageCache, PageLevel, SsTable, SsTableFormat,
    Version,
};
use helenus_types::{CqlType, UserType};
use helenus_vfs::{Disk, MemoryDisk, Random, SeededRandom};

use crate::support::{
    Column, DESCRIPTOR, Item, NOW_S, NOW_US, Partition, Partitions, drain, folder, id, insert, key, live,
    options, row, scan, table, write,
};

/// Columns of every storage kind: fixed and variable length, single- and multi-cell, static and regular.
fn mixed_table(descending: bool) -> TableMetadata {
    let set = CqlType::set(CqlType::Int, false);
    let map = CqlType::map(CqlType::Text, CqlType::Int, false);
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c1", ColumnKind::Clustering, CqlType::Int),
        Column("c2", ColumnKind::Clustering, CqlType::Text),
        Column("s_set", ColumnKind::Static, set.clone()),
        Column("s_text", ColumnKind::Static, CqlType::Text),
        Column("a_set", ColumnKind::Regular, set),
        Column("b_map", ColumnKind::Regular, map),
        Column("v_blob", ColumnKind::Regular, CqlType::Blob),
        Column("v_int", ColumnKind::Regular, CqlType::Int),
        Column("w_text", ColumnKind::Regular, CqlType::Text),
    ];
    table("mixed", columns, if descending { &["c2"] } else { &[] })
}

struct Generator {
    random: SeededRandom,
}

impl Generator {
    fn chance(&self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn timestamp(&self) -> i64 {
        NOW_US + self.random.below(1_000_000) as i64 - 500_000
    }

    fn deletion(&self) -> DeletionTime {
        DeletionTime {
            timestamp_us: self.timestamp(),
            local_s: NOW_S + self.random.below(1000) as u32,
        }
    }

    fn bytes(&self, length_max: u64) -> Vec<u8> {
        (0..self.random.below(length_max))
            .map(|_| b'a' + self.random.below(26) as u8)
            .collect()
    }

    fn row(&self, table: &TableMetadata, columns: &[&str], may_have_marker: bool, value_max: u64) -> Vec<u8> {
        let mut liveness = Liveness::NONE;
        if may_have_marker && self.chance(60) {
            let expires = self.chance(20);
            liveness = Liveness {
                timestamp_us: self.timestamp(),
                ttl_s: if expires { 600 } else { 0 },
                expires_at_s: if expires { NOW_S + 600 } else { NEVER_S },
            };
        }
        let deletion = if may_have_marker && self.chance(10) {
            self.deletion()
        } else {
            DeletionTime::LIVE
        };
        let mut columns: Vec<_> = columns.iter().map(|name| table.column(name).unwrap()).collect();
        columns.sort_by_key(|column| column.id);
        let mut out = Vec::new();
        let mut builder = RowBuilder::new(&mut out, liveness, deletion);
        for column in columns {
            if !self.chance(70) {
                continue;
            }
            if !column.cql_type.is_multi_cell() {
                let value = match column.cql_type {
                    CqlType::Int => self.random.next_u64().to_be_bytes()[..4].to_vec(),
                    _ => self.bytes(value_max),
                };
                builder.push(self.cell(column.id, None, &value, liveness));
                continue;
            }
            if self.chance(30) {
                builder.complex_deletion(column.id, self.deletion());
            }
            for element in 0..self.random.below(4) as u32 {
                let path = element.to_be_bytes();
                let is_map = matches!(column.cql_type, CqlType::Map { .. });
                let value: &[u8] = if is_map { &path } else { &[] };
                builder.push(self.cell(column.id, Some(&path), value, liveness));
            }
        }
        out
    }

    fn cell<'a>(
        &self,
        column: helenus_schema::ColumnId,
        path: Option<&'a [u8]>,
        value: &'a [u8],
        row: Liveness,
    ) -> Entry<'a> {
        let timestamp_us = if !row.is_none() && self.chance(50) {
            row.timestamp_us
        } else {
            self.timestamp()
        };
        let live = CellRef {
            column,
            timestamp_us,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            path,
            value,
        };
        Entry::Cell(match self.random.below(10) {
            0 => CellRef {
                local_deletion_s: NOW_S + 5,
                value: &[],
                ..live
            },
            1 if row.ttl_s != 0 => CellRef {
                ttl_s: row.ttl_s,
                local_deletion_s: row.expires_at_s,
                ..live
            },
            1 => CellRef {
                ttl_s: 77,
                local_deletion_s: NOW_S + 77,
                ..live
            },
            _ => live,
        })
    }

    fn partition(&self, table: &TableMetadata, rows: u64, value_max: u64) -> Partition {
        let mut partition = Partition::default();
        if self.chance(20) {
            partition.deletion = self.deletion();
        }
        if self.chance(50) {
            partition.static_row = self.row(table, &["s_set", "s_text"], false, 20);
        }
        let mut open = DeletionTime::LIVE;
        let mut change = |partition: &mut Partition, prefix: Vec<u8>, side| {
            let next = if self.chance(50) {
                self.deletion()
            } else {
                DeletionTime::LIVE
            };
            if next != open {
                open = next;
                partition.marker(prefix, side, next);
            }
        };
        let descending = table.column("c2").unwrap().order == helenus_schema::ClusteringOrder::Descending;
        for outer in 0..rows.div_ceil(4) as u32 {
            let first = (outer * 3).to_be_bytes();
            if self.chance(30) {
                change(&mut partition, key(&[&first]), Side::Before);
            }
            let mut names: Vec<&[u8]> = vec![b"", b"a", b"b", b"bb"];
            if descending {
                names.reverse();
            }
            for name in names {
                let clustering = key(&[&first, name]);
                if self.chance(15) {
                    change(&mut partition, clustering.clone(), Side::Before);
                }
                let row = self.row(
                    table,
                    &["a_set", "b_map", "v_blob", "v_int", "w_text"],
                    true,
                    value_max,
                );
                if row.len() > 1 {
                    partition.row(clustering.clone(), row);
                }
                if self.chance(15) {
                    change(&mut partition, clustering, Side::After);
                }
            }
        }
        if !open.is_live() {
            partition.marker(Vec::new(), Side::After, DeletionTime::LIVE);
        }
        partition
    }

    fn partitions(&self, table: &TableMetadata, count: u32, rows: u64, value_max: u64) -> Partitions {
        let mut partitions = Partitions::new();
        for partition_key in 0..count {
            let rows = self.random.below(rows + 1);
            insert(
                &mut partitions,
                &partition_key.to_be_bytes(),
                self.partition(table, rows, value_max),
            );
        }
        partitions
    }

    /// Disjoint and in order; mostly at places that the generator uses.
    fn slices(&self, comparator: &ClusteringComparator, outer_max: u64) -> Vec<Slice> {
        if self.chance(30) {
            return self.key_slices(comparator, outer_max);
        }
        let mut bounds: Vec<ClusteringBound> = (0..2 * (1 + self.random.below(3)))
            .map(|_| {
                let first = (self.random.below(outer_max * 3 + 2) as u32).to_be_bytes();
                let prefix = if self.chance(30) {
                    key(&[&first])
                } else {
                    key(&[&first, &self.bytes(3)])
                };
                let side = if self.chance(50) {
                    Side::Before
                } else {
                    Side::After
                };
                ClusteringBound {
                    prefix: prefix.into(),
                    side,
                }
            })
            .collect();
        if self.chance(20) {
            bounds[0] = ClusteringBound::bottom();
            bounds[1] = ClusteringBound::top();
        }
        bounds.sort_by(|a, b| comparator.compare_bounds((&a.prefix, a.side), (&b.prefix, b.side)));
        bounds
            .chunks(2)
            .map(|pair| Slice {
                start: pair[0].clone(),
                end: pair[1].clone(),
            })
            .filter(|slice| slice.start != slice.end)
            .collect()
    }

    /// Slices of one key each, of which some exist.
    fn key_slices(&self, comparator: &ClusteringComparator, outer_max: u64) -> Vec<Slice> {
        let mut keys: Vec<Vec<u8>> = (0..1 + self.random.below(6))
            .map(|_| {
                let first = (self.random.below(outer_max * 3 + 2) as u32).to_be_bytes();
                let names: [&[u8]; 5] = [b"", b"a", b"b", b"bb", b"c"];
                key(&[&first, names[self.random.below(5) as usize]])
            })
            .collect();
        keys.sort_by(|a, b| comparator.compare(a, b));
        keys.dedup();
        keys.into_iter()
            .map(|key| Slice {
                start: ClusteringBound {
                    prefix: key.clone().into(),
                    side: Side::Before,
                },
                end: ClusteringBound {
                    prefix: key.into(),
                    side: Side::After,
                },
            })
            .collect()
    }
}

/// Computes what a cursor must return: the model's items in the slices, with markers at the edges.
fn expected(
    partition: &Partition,
    slices: &[Slice],
    reversed: bool,
    comparator: &ClusteringComparator,
) -> Vec<Item> {
    let marker = |bound: &ClusteringBound, deletion| Item::Marker {
        prefix: bound.prefix.to_vec(),
        side: bound.side,
        deletion,
    };
    let mut parts = Vec::new();
    for slice in slices {
        let (mut open_at_start, mut open) = (DeletionTime::LIVE, DeletionTime::LIVE);
        let mut items: Vec<(Item, DeletionTime)> = Vec::new();
        for item in &partition.items {
            let place = |bound: &ClusteringBound| match item {
                Item::Row { clustering, .. } => comparator.compare_to_bound(clustering, bound),
                Item::Marker { prefix, side, .. } => {
                    comparator.compare_bounds((prefix, *side), (&bound.prefix, bound.side))
                }
            };
            if place(&slice.end).is_ge() {
                break;
            }
            if let Item::Marker { deletion, .. } = item {
                let before = std::mem::replace(&mut open, *deletion);
                if place(&slice.start).is_le() {
                    open_at_start = open;
                } else {
                    items.push((item.clone(), before));
                }
            } else if place(&slice.start).is_ge() {
                items.push((item.clone(), DeletionTime::LIVE));
            }
        }
        let mut part = Vec::new();
        let (first, last) = if reversed {
            (open, open_at_start)
        } else {
            (open_at_start, open)
        };
        let (entry, exit) = if reversed {
            (&slice.end, &slice.start)
        } else {
            (&slice.start, &slice.end)
        };
        if !first.is_live() {
            part.push(marker(entry, first));
        }
        if reversed {
            part.extend(items.into_iter().rev().map(|(item, before)| match item {
                Item::Marker { prefix, side, .. } => Item::Marker {
                    prefix,
                    side,
                    deletion: before,
                },
                row => row,
            }));
        } else {
            part.extend(items.into_iter().map(|(item, _)| item));
        }
        if !last.is_live() {
            part.push(marker(exit, DeletionTime::LIVE));
        }
        parts.push(part);
    }
    if reversed {
        parts.reverse();
    }
    parts.concat()
}

fn rows_max(seed: u64) -> u64 {
    if seed.is_multiple_of(4) { 400 } else { 24 }
}

fn check(seed: u64, descending: bool, block_bytes: u32, compression: Option<CompressionParameters>) {
    for format in [SsTableFormat::Nb, SsTableFormat::Da] {
        check_format(format, seed, descending, block_bytes, compression);
    }
}

fn check_format(
    format: SsTableFormat,
    seed: u64,
    descending: bool,
    block_bytes: u32,
    compression: Option<CompressionParameters>,
) {
    let generator = Generator {
        random: SeededRandom::new(seed),
    };
    let table = mixed_table(descending);
    let is_large = seed.is_multiple_of(4);
    let rows = rows_max(seed);
    let value_max = if is_large { 300 } else { 30 };
    let partitions = generator.partitions(&table, 20, rows, value_max);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let folder = folder(&table);
    let mut options = options(&table, &partitions);
    options.column_index_bytes = block_bytes;
    options.compression = compression;
    options.format = format;
    let info = write(&disk, &folder, &table, &partitions, options);
    assert_eq!(info.partition_count, partitions.len() as u64);

    let descriptor = info.descriptor;
    assert_eq!(descriptor.version, Version::from(format));
    check_reads(seed, &generator, &*disk, descriptor, &table, &partitions);
    let fences = descriptor.path(&folder, Component::Fences);
    if disk.exists(&fences).unwrap() {
        disk.remove(&fences).unwrap();
        check_reads(seed, &generator, &*disk, descriptor, &table, &partitions);
    }
    let blocks = descriptor.path(&folder, Component::Blocks);
    if disk.exists(&blocks).unwrap() {
        disk.remove(&blocks).unwrap();
        check_reads(seed, &generator, &*disk, descriptor, &table, &partitions);
        disk.remove(&descriptor.path(&folder, Component::Checksums))
            .unwrap();
        check_reads(seed, &generator, &*disk, descriptor, &table, &partitions);
        for remade in [Component::Summary, Component::Filter] {
            let path = descriptor.path(&folder, remade);
            if disk.exists(&path).unwrap() {
                disk.remove(&path).unwrap();
            }
        }
        check_reads(seed, &generator, &*disk, descriptor, &table, &partitions);
    } else {
        assert!(!is_large, "partitions of 64 KiB have their blocks described");
    }
}

/// Reads everything, and slices of every partition in both directions.
fn check_reads(
    seed: u64,
    generator: &Generator,
    disk: &dyn Disk,
    descriptor: Descriptor,
    table: &TableMetadata,
    partitions: &Partitions,
) {
    let comparator = ClusteringComparator::of(table);
    let rows = rows_max(seed);
    let sstable = SsTable::open(disk, &folder(table), descriptor, table).unwrap();
    assert_eq!(&scan(&sstable).unwrap(), partitions, "seed {seed}");
    assert_eq!(sstable.statistics().partition_count(), partitions.len() as u64);
    let cache = PageCache::new(256 << 10);
    for ((token, partition_key), partition) in partitions {
        for _ in 0..8 {
            let slices = generator.slices(&comparator, rows / 4);
            for reversed in [false, true] {
                let cursor = sstable
                    .partition(&cache, *token, partition_key, &slices, reversed)
                    .unwrap();
                let read = drain(&mut cursor.expect("the partition is there")).unwrap();
                let wanted = expected(partition, &slices, reversed, &comparator);
                assert_eq!(read.items, wanted, "seed {seed} reversed {reversed} {slices:?}");
                assert_eq!(read.static_row, partition.static_row);
            }
        }
    }
    let absent = 1_000_000_u32.to_be_bytes();
    let token = helenus_types::token::token_of(&absent);
    assert!(
        sstable
            .partition(&cache, token, &absent, &[Slice::all()], false)
            .unwrap()
            .is_none()
    );
}

fn compressed(
    compressor: Compressor,
    chunk_bytes: u32,
    compressed_bytes_max: u32,
) -> Option<CompressionParameters> {
    Some(CompressionParameters {
        compressor,
        chunk_bytes,
        compressed_bytes_max,
    })
}

#[test]
fn every_version_reads_back_with_every_compressor() {
    let compressors = [
        Compressor::Lz4,
        Compressor::Snappy,
        Compressor::Deflate,
        Compressor::Zstd { level: 3 },
        Compressor::Noop,
    ];
    for format in SsTableFormat::ALL {
        for (compressor, seed) in compressors.into_iter().zip(30..) {
            check_format(format, seed, true, 1000, compressed(compressor, 4096, 3000));
        }
        check_format(format, 36, false, 1000, None);
    }
}

#[test]
fn random_partitions_read_back_compressed_with_lz4() {
    (0..6).for_each(|seed| {
        check(
            seed,
            false,
            64 << 10,
            compressed(Compressor::Lz4, 16 << 10, u32::MAX >> 1),
        )
    });
}

#[test]
fn random_partitions_read_back_in_small_blocks_and_chunks() {
    (10..18).for_each(|seed| {
        check(
            seed,
            seed % 2 == 0,
            300,
            compressed(Compressor::Lz4, 4096, u32::MAX >> 1),
        )
    });
}

#[test]
fn random_partitions_read_back_compressed_with_snappy_where_it_pays() {
    (20..24).for_each(|seed| check(seed, true, 1000, compressed(Compressor::Snappy, 4096, 3000)));
}

#[test]
fn random_partitions_read_back_uncompressed() {
    (30..36).for_each(|seed| check(seed, true, 1000, None));
}

#[test]
fn more_than_63_columns_are_stored_as_lists() {
    let names: Vec<&'static str> = (0..90)
        .map(|index| &*Box::leak(format!("v{index:02}").into_boxed_str()))
        .collect();
    let mut columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c", ColumnKind::Clustering, CqlType::Int),
    ];
    columns.extend(
        names
            .iter()
            .map(|name| Column(name, ColumnKind::Regular, CqlType::Text)),
    );
    let table = table("broad", columns, &[]);
    let mut partition = Partition::default();
    for present in [0, 1, 2, 44, 45, 46, 89, 90] {
        let cells = names[90 - present..]
            .iter()
            .map(|name| crate::support::cell(id(&table, name), NOW_US, name.as_bytes()))
            .collect();
        let row = crate::support::row(crate::support::live(NOW_US), DeletionTime::LIVE, cells);
        partition.row(key(&[&(present as u32).to_be_bytes()]), row);
    }
    let mut partitions = Partitions::new();
    insert(&mut partitions, &7_u32.to_be_bytes(), partition);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    write(
        &disk,
        &folder(&table),
        &table,
        &partitions,
        options(&table, &partitions),
    );
    let sstable = SsTable::open(&*disk, &folder(&table), DESCRIPTOR, &table).unwrap();
    assert_eq!(scan(&sstable).unwrap(), partitions);
}

/// An SSTable of two partitions with the rows 10 to 19 each, nothing deleted.
fn plain_sstable() -> Arc<SsTable> {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let table = table("plain", columns, &[]);
    let mut partition = Partition::default();
    for number in 10..20_u32 {
        let cells = vec![crate::support::cell(id(&table, "v"), NOW_US, b"v")];
        let row = crate::support::row(crate::support::live(NOW_US), DeletionTime::LIVE, cells);
        partition.row(key(&[&number.to_be_bytes()]), row);
    }
    let mut partitions = Partitions::new();
    insert(&mut partitions, &1_u32.to_be_bytes(), partition.clone());
    insert(&mut partitions, &2_u32.to_be_bytes(), partition);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    write(
        &disk,
        &folder(&table),
        &table,
        &partitions,
        options(&table, &partitions),
    );
    SsTable::open(&*disk, &folder(&table), DESCRIPTOR, &table).unwrap()
}

fn rows_read(sstable: &SsTable, first: u32, last: u32) -> (usize, u64) {
    let bound = |number: u32, side| ClusteringBound {
        prefix: key(&[&number.to_be_bytes()]).into(),
        side,
    };
    let slices = [Slice {
        start: bound(first, Side::Before),
        end: bound(last, Side::After),
    }];
    let cache = PageCache::new(1 << 20);
    let partition_key = 1_u32.to_be_bytes();
    let token = helenus_types::token::token_of(&partition_key);
    let cursor = sstable
        .partition(&cache, token, &partition_key, &slices, false)
        .unwrap();
    let rows = cursor.map_or(0, |mut cursor| drain(&mut cursor).unwrap().items.len());
    (rows, cache.cost().reads)
}

#[test]
fn slices_beyond_all_rows_are_answered_without_reading() {
    let sstable = plain_sstable();
    assert_eq!(rows_read(&sstable, 0, 9), (0, 0));
    assert_eq!(rows_read(&sstable, 20, 30), (0, 0));
    assert_eq!(
        rows_read(&sstable, 19, 30),
        (1, 2),
        "one read of the index and one of the data"
    );
    assert_eq!(rows_read(&sstable, 0, 10), (1, 2));
}

#[test]
fn chunks_in_the_cache_are_not_read_again() {
    let sstable = plain_sstable();
    let cache = PageCache::new(1 << 20);
    let slices = [Slice::all()];
    for partition_key in [1_u32, 2, 1] {
        let partition_key = partition_key.to_be_bytes();
        let token = helenus_types::token::token_of(&partition_key);
        let mut cursor = sstable
            .partition(&cache, token, &partition_key, &slices, true)
            .unwrap()
            .unwrap();
        assert_eq!(drain(&mut cursor).unwrap().items.len(), 10);
    }
    let cost = cache.cost();
    assert_eq!(cost.reads, 2);
    assert!(
        cost.read_bytes > 0 && cache.bytes(PageLevel::Decompressed) as u64 > cost.read_bytes,
        "chunks are kept decompressed"
    );
}

/// "has the clustering key ..., the table has ...", with the same text twice: the class name of a frozen user type does
/// not say that what is in it is frozen too.
#[test]
fn a_frozen_user_type_with_a_frozen_collection_is_a_clustering_key() {
    let definition = UserType {
        keyspace: "ks".into(),
        name: "tags".into(),
        fields: vec![("names".into(), CqlType::set(CqlType::Text, true))],
    };
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column(
            "c",
            ColumnKind::Clustering,
            CqlType::user_defined(Arc::new(definition), true),
        ),
    ];
    let table = table("tagged", columns, &[]);
    let mut partition = Partition::default();
    let no_names = [0, 0, 0, 4, 0, 0, 0, 0];
    partition.row(
        key(&[&no_names]),
        row(live(NOW_US), DeletionTime::LIVE, Vec::new()),
    );
    let mut partitions = Partitions::new();
    insert(&mut partitions, &1_i32.to_be_bytes(), partition);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let info = write(
        &disk,
        &folder(&table),
        &table,
        &partitions,
        options(&table, &partitions),
    );
    let sstable = SsTable::open(&*disk, &folder(&table), info.descriptor, &table).unwrap();
    assert_eq!(scan(&sstable).unwrap(), partitions);
}
