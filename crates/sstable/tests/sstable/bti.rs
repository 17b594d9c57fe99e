//! SSTables of version `da` that Cassandra 5.0.5 wrote, read by us and written again: indexes come out byte for byte.
//!
//! `fixtures/README.md` has the statements that filled the tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, ClusteringComparator, Side, Slice};
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::{
    Component, Descriptor, PageCache, SsTable, SsTableFormat, SsTableId, Version, WriterOptions,
};
use helenus_types::CqlType;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, MemoryDisk, RealDisk};

use crate::support::{Column, Item, Partitions, drain, folder, key, scan, table, write};

struct Fixture {
    directory: PathBuf,
    descriptor: Descriptor,
    table: TableMetadata,
    sstable: Arc<SsTable>,
    partitions: Partitions,
}

fn fixture(name: &str, number: u64, columns: Vec<Column>, descending: &[&str]) -> Fixture {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sstable/fixtures")
        .join(format!("da-{name}"));
    let descriptor = Descriptor {
        id: SsTableId::Number(number),
        version: Version::Da,
    };
    let table = table(name, columns, descending);
    let sstable = SsTable::open(&RealDisk::new(), &directory, descriptor, &table).unwrap();
    let partitions = scan(&sstable).unwrap();
    Fixture {
        directory,
        descriptor,
        table,
        sstable,
        partitions,
    }
}

impl Fixture {
    /// Writes what was read, and compares the indexes.
    fn check_written(&self) {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let mut options = WriterOptions::of(&self.table);
        options.format = SsTableFormat::Da;
        options.encoding_stats = self.sstable.encoding_stats();
        options.column_index_bytes = 1024;
        let folder = folder(&self.table);
        let written = write(&disk, &folder, &self.table, &self.partitions, options).descriptor;
        for component in [Component::Partitions, Component::Rows] {
            let file = disk.open(&written.path(&folder, component)).unwrap();
            let mut ours = vec![0; file.length().unwrap() as usize];
            file.read_exact_at(0, &mut ours).unwrap();
            let theirs = std::fs::read(self.descriptor.path(&self.directory, component)).unwrap();
            assert!(ours == theirs, "{component:?} of {}", self.directory.display());
        }
        let sstable = SsTable::open(&*disk, &folder, written, &self.table).unwrap();
        assert_eq!(scan(&sstable).unwrap(), self.partitions);
    }

    /// Each partition by its key.
    fn check_lookups(&self) {
        let cache = PageCache::new(1 << 20);
        let slices = [Slice::all()];
        for ((token, partition_key), partition) in &self.partitions {
            let cursor = self
                .sstable
                .partition(&cache, *token, partition_key, &slices, false)
                .unwrap();
            assert_eq!(&drain(&mut cursor.unwrap()).unwrap(), partition);
        }
    }

    /// Each row by its key, in both directions, and the places between.
    fn check_slices(&self) {
        let comparator = ClusteringComparator::of(&self.table);
        let cache = PageCache::new(1 << 20);
        for ((token, partition_key), partition) in &self.partitions {
            for item in partition.items.iter().step_by(7) {
                let (Item::Row {
                    clustering: prefix, ..
                }
                | Item::Marker { prefix, .. }) = item;
                let bound = |side| ClusteringBound {
                    prefix: prefix.clone().into(),
                    side,
                };
                let slices = [Slice {
                    start: bound(Side::Before),
                    end: bound(Side::After),
                }];
                for reversed in [false, true] {
                    let cursor = self
                        .sstable
                        .partition(&cache, *token, partition_key, &slices, reversed)
                        .unwrap();
                    let read = drain(&mut cursor.unwrap()).unwrap();
                    let rows: Vec<&Item> = read
                        .items
                        .iter()
                        .filter(|item| matches!(item, Item::Row { .. }))
                        .collect();
                    let wanted = partition.items.iter().filter(|item| match item {
                        Item::Row { clustering, .. } => {
                            comparator.compare_to_bound(clustering, &slices[0].start).is_gt()
                                && comparator.compare_to_bound(clustering, &slices[0].end).is_lt()
                        }
                        Item::Marker { .. } => false,
                    });
                    assert_eq!(rows, wanted.collect::<Vec<_>>(), "{prefix:?} reversed {reversed}");
                }
            }
        }
    }
}

#[test]
fn small_partitions_of_cassandra() {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Int),
    ];
    let fixture = fixture("small", 2, columns, &[]);
    assert_eq!(fixture.partitions.len(), 5000);
    fixture.check_lookups();
    fixture.check_written();
    let cache = PageCache::new(1 << 20);
    for absent in 5000..6000_i32 {
        let key = absent.to_be_bytes();
        let slices = [Slice::all()];
        let found = fixture
            .sstable
            .partition(&cache, token_of(&key), &key, &slices, false);
        assert!(found.unwrap().is_none(), "{absent}");
    }
}

#[test]
fn keys_of_zeros_and_equal_starts_of_cassandra() {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Blob),
        Column("v", ColumnKind::Regular, CqlType::Int),
    ];
    let mut fixture = fixture("keys", 3, columns, &[]);
    fixture.table.params.compression.clear();
    assert!(fixture.partitions.len() > 250, "{}", fixture.partitions.len());
    fixture.check_lookups();
    fixture.check_written();
}

#[test]
fn wide_partitions_of_cassandra() {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Text),
        Column("c1", ColumnKind::Clustering, CqlType::Text),
        Column("c2", ColumnKind::Clustering, CqlType::Bigint),
        Column("s", ColumnKind::Static, CqlType::Text),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let fixture = fixture("wide", 4, columns, &["c1"]);
    let rows = |partition_key: &[u8]| {
        fixture.partitions[&(token_of(partition_key), partition_key.to_vec())]
            .items
            .len()
    };
    assert_eq!([&b"p0"[..], b"p3", b"p5"].map(rows), [1, 300, 3000]);
    fixture.check_lookups();
    fixture.check_slices();
    fixture.check_written();
}

#[test]
fn range_tombstones_across_blocks_of_cassandra() {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c1", ColumnKind::Clustering, CqlType::Int),
        Column("c2", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let fixture = fixture("ranges", 5, columns, &[]);
    let items: Vec<usize> = fixture
        .partitions
        .values()
        .map(|partition| partition.items.len())
        .collect();
    assert_eq!(items, [4000, 6]);
    fixture.check_lookups();
    fixture.check_slices();
    fixture.check_written();
    // Within a range whose block does not begin with it, the deletion is known from the index.
    let one = 1_i32.to_be_bytes();
    let place = |number: i32| key(&[&number.to_be_bytes(), &one]);
    let cache = PageCache::new(1 << 20);
    for number in (0..20_000_i32).step_by(37) {
        let bound = |side| ClusteringBound {
            prefix: place(number).into(),
            side,
        };
        let slices = [Slice {
            start: bound(Side::Before),
            end: bound(Side::After),
        }];
        for reversed in [false, true] {
            let cursor = fixture
                .sstable
                .partition(&cache, token_of(&one), &one, &slices, reversed)
                .unwrap();
            let markers = drain(&mut cursor.unwrap()).unwrap().items.len();
            assert_eq!(
                markers,
                if number % 10 < 7 { 2 } else { 0 },
                "{number} reversed {reversed}"
            );
        }
    }
}

/// A clustering column of every type that can be one. Most rows differ in one of them only, so that every type decides
/// where some blocks are separated.
fn clustering_types() -> Vec<CqlType> {
    vec![
        CqlType::Ascii,
        CqlType::Bigint,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::Smallint,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::Timeuuid,
        CqlType::Tinyint,
        CqlType::Uuid,
        CqlType::Varint,
        CqlType::list(CqlType::Text, true),
        CqlType::set(CqlType::Bigint, true),
        CqlType::map(CqlType::Varint, CqlType::Text, true),
        CqlType::tuple([CqlType::Text, CqlType::Int]),
        CqlType::vector(CqlType::Int, 2),
    ]
}

fn check_clustering_types(name: &str, number: u64, is_descending: bool) {
    const NAMES: [&str; 23] = [
        "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15",
        "c16", "c17", "c18", "c19", "c20", "c21", "c22",
    ];
    let mut columns = vec![Column("pk", ColumnKind::PartitionKey, CqlType::Int)];
    let typed = NAMES.into_iter().zip(clustering_types());
    columns.extend(typed.map(|(name, cql_type)| Column(name, ColumnKind::Clustering, cql_type)));
    columns.push(Column("v", ColumnKind::Regular, CqlType::Int));
    let fixture = fixture(name, number, columns, if is_descending { &NAMES } else { &[] });
    let partition = fixture.partitions.values().next().unwrap();
    assert!(partition.items.len() > 1500, "{}", partition.items.len());
    let comparator = ClusteringComparator::of(&fixture.table);
    let clusterings: Vec<&Vec<u8>> = partition
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Row { clustering, .. } => Some(clustering),
            Item::Marker { .. } => None,
        })
        .collect();
    assert!(clusterings.is_sorted_by(|left, right| comparator.compare(left, right).is_lt()));
    fixture.check_lookups();
    fixture.check_slices();
    fixture.check_written();
}

#[test]
fn clusterings_of_every_type_of_cassandra() {
    check_clustering_types("ascending", 2, false);
}

#[test]
fn descending_clusterings_of_every_type_of_cassandra() {
    check_clustering_types("descending", 3, true);
}
