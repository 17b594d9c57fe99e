//! SSTables that Cassandra 5.0.5 flushed, read by us: golden text of all that is in them.
//!
//! `fixtures/README.md` has the statements that filled the tables.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringBound, Components, Side, Slice};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{Entry, RowRef};
use helenus_schema::{ColumnKind, DroppedColumn, TableMetadata};
use helenus_sstable::{Component, OpenError, PageCache, SsTable, WriterOptions};
use helenus_types::CqlType;
use helenus_types::token::token_of;
use helenus_vfs::{Disk, MemoryDisk, RealDisk};

use crate::support::{
    Column, DESCRIPTOR, Item, Partitions, compare_with_golden, drain, folder, id, key, scan, table, write,
};
use crate::typed::types_table;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sstable/fixtures")
        .join(name)
}

fn open(name: &str, table: &TableMetadata) -> Result<Arc<SsTable>, OpenError> {
    SsTable::open(&RealDisk::new(), &fixture(name), DESCRIPTOR, table)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn packed(prefix: &[u8]) -> String {
    Components::new(prefix).map(hex).collect::<Vec<_>>().join(" ")
}

fn deletion(deletion: DeletionTime) -> String {
    format!("deleted@{} on {}", deletion.timestamp_us, deletion.local_s)
}

fn times(timestamp_us: i64, ttl_s: u32, local_s: u32) -> String {
    match (ttl_s, local_s) {
        (0, NEVER_S) => format!("@{timestamp_us}"),
        (0, _) => format!("@{timestamp_us} deleted on {local_s}"),
        _ => format!("@{timestamp_us} ttl {ttl_s} until {local_s}"),
    }
}

/// Columns by name, so that the text does not depend on their ids.
fn row_text(table: &TableMetadata, row: &[u8], out: &mut String) {
    let (liveness, row_deletion, entries) = RowRef::new(row).open();
    if !liveness.is_none() {
        writeln!(
            out,
            "    inserted {}",
            times(liveness.timestamp_us, liveness.ttl_s, liveness.expires_at_s)
        )
        .unwrap();
    }
    if !row_deletion.is_live() {
        writeln!(out, "    {}", deletion(row_deletion)).unwrap();
    }
    let mut lines: Vec<(String, String)> = entries
        .map(|entry| {
            let name = table.column_by_id(entry.column()).unwrap().name.to_string();
            let text = match entry {
                Entry::ComplexDeletion {
                    deletion: complex, ..
                } => deletion(complex),
                Entry::Cell(cell) => {
                    let path = cell
                        .path
                        .map(|path| format!("[{}] ", hex(path)))
                        .unwrap_or_default();
                    let times = times(cell.timestamp_us, cell.ttl_s, cell.local_deletion_s);
                    format!("{path}{} {times}", hex(cell.value))
                }
            };
            (name, text)
        })
        .collect();
    lines.sort_by(|left, right| left.0.cmp(&right.0));
    for (name, text) in lines {
        writeln!(out, "    {name} {text}").unwrap();
    }
}

fn text(table: &TableMetadata, partitions: &Partitions) -> String {
    let mut out = String::new();
    for ((_, partition_key), partition) in partitions {
        writeln!(out, "partition {}", hex(partition_key)).unwrap();
        if !partition.deletion.is_live() {
            writeln!(out, "  {}", deletion(partition.deletion)).unwrap();
        }
        if partition.static_row.len() > 1 {
            writeln!(out, "  static").unwrap();
            row_text(table, &partition.static_row, &mut out);
        }
        for item in &partition.items {
            match item {
                Item::Row { clustering, row } => {
                    writeln!(out, "  row {}", packed(clustering)).unwrap();
                    row_text(table, row, &mut out);
                }
                Item::Marker {
                    prefix,
                    side,
                    deletion: from_here,
                } => {
                    let place = if *side == Side::Before { "before" } else { "after" };
                    let now = if from_here.is_live() {
                        "nothing deleted".to_owned()
                    } else {
                        deletion(*from_here)
                    };
                    writeln!(out, "  {place} {}: {now}", packed(prefix)).unwrap();
                }
            }
        }
    }
    out
}

/// The uncompressed bytes of a Data.db whose LZ4 compressor has no options.
fn content(data: &[u8], compression_info: &[u8]) -> Vec<u8> {
    let number = |at: usize| u32::from_be_bytes(*compression_info[at..].first_chunk().unwrap()) as usize;
    // Name, options, chunk length, limit, data length; then the number of chunks and their 8-byte offsets.
    let count_at = 2 + "LZ4Compressor".len() + 4 + 4 + 4 + 8;
    let starts = (0..number(count_at)).map(|chunk| number(count_at + 4 + 8 * chunk + 4));
    let ends = starts.clone().skip(1).chain([data.len()]);
    let chunks = starts.zip(ends).map(|(start, end)| &data[start..end - 4]);
    chunks
        .flat_map(|chunk| lz4_flex::block::decompress_size_prepended(chunk).unwrap())
        .collect()
}

/// Writes what was read and compares with what Cassandra wrote. Compressed bytes depend on the compressor's
/// implementation, so of a compressed Data.db the content is compared.
fn compare_written(name: &str, table: &TableMetadata, sstable: &SsTable, partitions: &Partitions) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut options = WriterOptions::of(table);
    options.partition_count_estimate = partitions.len() as u64;
    options.encoding_stats = sstable.encoding_stats();
    let is_compressed = options.compression.is_some();
    write(&disk, &folder(table), table, partitions, options);
    let component = |component: Component| {
        let file = disk.open(&DESCRIPTOR.path(&folder(table), component)).unwrap();
        let mut ours = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(0, &mut ours).unwrap();
        (
            ours,
            std::fs::read(DESCRIPTOR.path(&fixture(name), component)).unwrap(),
        )
    };
    let (ours, theirs) = component(Component::Data);
    if is_compressed {
        let (our_chunks, their_chunks) = component(Component::CompressionInfo);
        assert_eq!(
            content(&ours, &our_chunks),
            content(&theirs, &their_chunks),
            "{name}"
        );
    } else {
        assert_eq!(ours, theirs, "{name}");
        for part in [Component::Crc, Component::Digest] {
            let (ours, theirs) = component(part);
            assert_eq!(ours, theirs, "{name} {part:?}");
        }
    }
    for part in [Component::Index, Component::Summary, Component::Filter] {
        let (ours, theirs) = component(part);
        assert_eq!(ours, theirs, "{name} {part:?}");
    }
    let written = SsTable::open(&*disk, &folder(table), DESCRIPTOR, table).unwrap();
    let mut ours = written.statistics().clone();
    ours.originating_host = sstable.statistics().originating_host;
    ours.compression_ratio = sstable.statistics().compression_ratio;
    assert_eq!(&ours, sstable.statistics(), "{name}");
}

fn compare(name: &str, table: &TableMetadata) -> Partitions {
    let sstable = open(name, table).unwrap();
    let partitions = scan(&sstable).unwrap();
    compare_with_golden(&format!("fixture-{name}.txt"), &text(table, &partitions));
    // The bloom filter, the summary and the index lead to each partition.
    let cache = PageCache::new(1 << 20);
    for ((token, partition_key), partition) in &partitions {
        let slices = [Slice::all()];
        let mut cursor = sstable
            .partition(&cache, *token, partition_key, &slices, false)
            .unwrap()
            .unwrap();
        assert_eq!(&drain(&mut cursor).unwrap(), partition);
    }
    partitions
}

#[test]
fn every_type_and_tombstone() {
    // The user type of the fixture belongs to another keyspace, which is part of the type's name in the header.
    let mut table = types_table();
    for column in &mut table.columns {
        if let CqlType::UserDefined { definition, frozen } = &column.cql_type {
            let mut definition = (**definition).clone();
            definition.keyspace = "fx".into();
            column.cql_type = CqlType::user_defined(Arc::new(definition), *frozen);
        }
    }
    let partitions = compare("types", &table);
    compare_written("types", &table, &open("types", &table).unwrap(), &partitions);
}

#[test]
fn range_tombstones_uncompressed() {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Text),
        Column("a", ColumnKind::Clustering, CqlType::Int),
        Column("b", ColumnKind::Clustering, CqlType::Text),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let mut table = table("ranges", columns, &["a"]);
    table.params.compression.clear();
    let partitions = compare("ranges", &table);
    compare_written("ranges", &table, &open("ranges", &table).unwrap(), &partitions);
}

#[test]
fn counters() {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Text),
        Column("n", ColumnKind::Regular, CqlType::Counter),
    ];
    let table = table("counts", columns, &[]);
    let partitions = compare("counts", &table);
    compare_written("counts", &table, &open("counts", &table).unwrap(), &partitions);
}

fn dropped_table() -> TableMetadata {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("back", ColumnKind::Regular, CqlType::Int),
        Column("gone", ColumnKind::Regular, CqlType::Text),
        Column("gone_set", ColumnKind::Regular, CqlType::set(CqlType::Int, false)),
        Column("kept", ColumnKind::Regular, CqlType::Int),
    ];
    table("dropped", columns, &[])
}

/// Takes columns out of a table; the fixture's cells were written at 1,700,000,000,000,000.
fn drop_columns(table: &mut TableMetadata, names: &[&str], dropped_at_us: i64) {
    for name in names {
        let at = table
            .columns
            .iter()
            .position(|column| &*column.name == *name)
            .unwrap();
        let column = table.columns.remove(at);
        table.dropped_columns.push(DroppedColumn {
            id: column.id,
            name: column.name,
            kind: column.kind,
            cql_type: column.cql_type,
            dropped_at_us,
        });
    }
}

#[test]
fn dropped_columns_are_skipped_and_snappy_is_read() {
    let mut table = dropped_table();
    drop_columns(&mut table, &["gone", "gone_set"], 1_800_000_000_000_000);
    compare("dropped", &table);
}

#[test]
fn a_column_added_again_hides_what_was_written_before_the_drop() {
    let mut table = dropped_table();
    let back = table.column("back").unwrap().clone();
    drop_columns(&mut table, &["back"], 1_700_000_000_000_000);
    let at = table
        .columns
        .iter()
        .position(|column| &*column.name == "gone")
        .unwrap();
    table.columns.insert(
        at,
        helenus_schema::ColumnMetadata {
            id: table.next_column_id,
            ..back
        },
    );
    let partitions = scan(&open("dropped", &table).unwrap()).unwrap();
    assert_eq!(partitions.len(), 3);
    for partition in partitions.values() {
        let Item::Row { row, .. } = &partition.items[0] else {
            panic!("a row")
        };
        let mut columns = RowRef::new(row).entries().map(|entry| entry.column());
        assert!(columns.all(|column| column != id(&table, "back")));
    }
}

#[test]
fn unknown_columns_are_refused_by_name() {
    let mut table = dropped_table();
    table.columns.retain(|column| &*column.name != "kept");
    match open("dropped", &table) {
        Err(OpenError::UnknownColumn { column, .. }) => assert_eq!(column, "kept"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wide_partition_with_promoted_index() {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let mut table = table("wide", columns, &[]);
    table
        .params
        .compression
        .insert("chunk_length_in_kb".to_owned(), "64".to_owned());
    let sstable = open("wide", &table).unwrap();
    let partitions = scan(&sstable).unwrap();
    compare_written("wide", &table, &sstable, &partitions);
    assert_eq!(partitions.len(), 5);
    let partition_key = 1_i32.to_be_bytes();
    let token = token_of(&partition_key);
    let whole = &partitions[&(token, partition_key.to_vec())];
    assert_eq!(whole.items.len(), 302, "300 rows and a range deletion");
    let place = |number: i32, side| ClusteringBound {
        prefix: key(&[&number.to_be_bytes()]).into(),
        side,
    };
    for (first, last) in [(0, 0), (49, 50), (130, 140), (249, 251), (299, 299)] {
        let slices = [Slice {
            start: place(first, Side::Before),
            end: place(last, Side::After),
        }];
        let mut numbers = Vec::new();
        for reversed in [false, true] {
            let cache = PageCache::new(0);
            let mut cursor = sstable
                .partition(&cache, token, &partition_key, &slices, reversed)
                .unwrap()
                .unwrap();
            let read = drain(&mut cursor).unwrap();
            let mut rows: Vec<Vec<u8>> = read
                .items
                .iter()
                .filter_map(|item| match item {
                    Item::Row { clustering, .. } => Some(clustering.clone()),
                    Item::Marker { .. } => None,
                })
                .collect();
            let markers = read.items.len() - rows.len();
            let crosses = (first <= 250 && last >= 50) as usize;
            assert_eq!(markers, 2 * crosses, "{first} to {last}");
            if reversed {
                rows.reverse();
            }
            numbers.push(rows);
        }
        let wanted: Vec<Vec<u8>> = (first..=last)
            .map(|number| key(&[&number.to_be_bytes()]))
            .collect();
        assert_eq!(numbers, [wanted.clone(), wanted]);
    }
}
