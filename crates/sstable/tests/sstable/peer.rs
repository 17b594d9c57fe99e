//! Files that we wrote, read by Cassandra's own `sstabledump`, against golden JSON.
//!
//! Runs where `HELENUS_PEER_TOOL` is a program, and maybe its first arguments separated by spaces, that takes a tool's
//! name and arguments; `cargo xtask test` sets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use helenus_rows::clustering::Side;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{CellRef, Liveness, RowBuilder};
use helenus_schema::{ColumnKind, TableMetadata};
use helenus_sstable::{
    Component, CompressionParameters, Compressor, SsTableFormat, WriterOptions, table_folder,
};
use helenus_types::CqlType;
use helenus_vfs::{Disk, RealDisk};

use crate::support::{
    Column, NOW_S, NOW_US, Partition, Partitions, cell, compare_with_golden, id, insert, key, live, options,
    row, table, write,
};
use crate::typed::{typed_values, types_table};

/// A data folder of its own, removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn peer_tool() -> Option<String> {
    let tool = std::env::var("HELENUS_PEER_TOOL").ok();
    if tool.is_none() {
        eprintln!("skipped: HELENUS_PEER_TOOL is not set");
    }
    tool
}

/// One at a time: the tools share a configuration.
fn run(tool: &str, name: &str, file: &Path) -> String {
    static RUNNING: Mutex<()> = Mutex::new(());
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut words = tool.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .arg(name)
        .arg(file)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Writes an SSTable and returns what a tool says about it.
fn dump(
    tool: &str,
    test: &str,
    table: &TableMetadata,
    partitions: &Partitions,
    change: impl FnOnce(&mut WriterOptions),
    tools: &[&str],
) -> Vec<String> {
    let data = Folder(std::env::temp_dir().join(format!("helenus-peer-{test}-{}", std::process::id())));
    let _ = fs::remove_dir_all(&data.0);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let folder = table_folder(&data.0, table);
    let mut options = options(table, partitions);
    change(&mut options);
    let descriptor = write(&disk, &folder, table, partitions, options).descriptor;
    let file = descriptor.path(&folder, Component::Data);
    tools.iter().map(|name| run(tool, name, &file)).collect()
}

fn composite_key(first: i32, second: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 4];
    out.extend_from_slice(&first.to_be_bytes());
    out.extend_from_slice(&[0, 0, second.len() as u8]);
    out.extend_from_slice(second);
    out.push(0);
    out
}

fn timeuuid(last: u8) -> [u8; 16] {
    let mut uuid = 0x5044_2a50_8315_11ee_8000_0000_0000_0000_u128.to_be_bytes();
    uuid[15] = last;
    uuid
}

fn deletion(offset_us: i64) -> DeletionTime {
    DeletionTime {
        timestamp_us: NOW_US + offset_us,
        local_s: NOW_S,
    }
}

fn element<'a>(table: &TableMetadata, column: &str, path: &'a [u8], value: &'a [u8]) -> CellRef<'a> {
    CellRef {
        path: Some(path),
        ..cell(id(table, column), NOW_US, value)
    }
}

/// Every type, static cells, elements with and without a collection deletion, tombstones and TTLs.
fn types_partitions(table: &TableMetadata) -> Partitions {
    let mut partition = Partition::default();
    let one = 1_i32.to_be_bytes();
    let two = 2_i32.to_be_bytes();
    partition.static_row = row(
        Liveness::NONE,
        DeletionTime::LIVE,
        vec![
            cell(id(table, "s_text"), NOW_US, b"static"),
            element(table, "s_map", &one, b"one"),
            CellRef {
                local_deletion_s: NOW_S,
                ..element(table, "s_map", &two, b"")
            },
        ],
    );
    let values = typed_values();
    let cells = values
        .iter()
        .map(|(name, _, value)| cell(id(table, name), NOW_US, value))
        .collect();
    partition.row(
        key(&[b"all", &timeuuid(9)]),
        row(live(NOW_US), DeletionTime::LIVE, cells),
    );

    let field = [0_u8, 1];
    let (path_1, path_2) = (timeuuid(1), timeuuid(2));
    let mut elements = vec![
        element(table, "m_list", &path_1, &one),
        element(table, "m_list", &path_2, &two),
        element(table, "m_map", b"k", &one),
        element(table, "m_set", &one, b""),
        CellRef {
            ttl_s: 3600,
            local_deletion_s: NOW_S + 3600,
            ..element(table, "m_set", &two, b"")
        },
        element(table, "m_udt", &field, &two),
    ];
    partition.row(
        key(&[b"elements", &timeuuid(8)]),
        row(live(NOW_US), DeletionTime::LIVE, elements.clone()),
    );
    let mut replaced = Vec::new();
    let mut builder = RowBuilder::new(&mut replaced, live(NOW_US), DeletionTime::LIVE);
    elements.sort_by_key(|cell| cell.column);
    for cells in elements.chunk_by(|left, right| left.column == right.column) {
        // Two of the four columns were written as a whole.
        if [id(table, "m_list"), id(table, "m_udt")].contains(&cells[0].column) {
            builder.complex_deletion(cells[0].column, deletion(-1));
        }
        cells.iter().for_each(|cell| builder.cell(*cell));
    }
    partition.row(key(&[b"replaced", &timeuuid(8)]), replaced);

    let expiring = Liveness {
        timestamp_us: NOW_US,
        ttl_s: 600,
        expires_at_s: NOW_S + 600,
    };
    let text = id(table, "t_text");
    let cells = vec![
        CellRef {
            ttl_s: 600,
            local_deletion_s: NOW_S + 600,
            ..cell(text, NOW_US, b"as the row")
        },
        CellRef {
            ttl_s: 60,
            local_deletion_s: NOW_S + 60,
            ..cell(id(table, "t_int"), NOW_US + 5, &one)
        },
        CellRef {
            local_deletion_s: NOW_S,
            ..cell(id(table, "t_blob"), NOW_US + 6, b"")
        },
        cell(id(table, "t_ascii"), NOW_US + 7, b""),
    ];
    partition.row(
        key(&[b"ttl", &timeuuid(1)]),
        row(expiring, DeletionTime::LIVE, cells),
    );
    partition.row(
        key(&[b"updated", &timeuuid(1)]),
        row(Liveness::NONE, DeletionTime::LIVE, vec![cell(text, NOW_US, b"u")]),
    );
    partition.row(
        key(&[b"x deleted", &timeuuid(1)]),
        row(Liveness::NONE, deletion(0), vec![]),
    );
    partition.row(
        key(&[b"x reborn", &timeuuid(1)]),
        row(live(NOW_US), deletion(-9), vec![cell(text, NOW_US, b"r")]),
    );

    let mut partitions = Partitions::new();
    insert(&mut partitions, &composite_key(1, b"one"), partition);
    let gone = Partition {
        deletion: deletion(3),
        ..Partition::default()
    };
    insert(&mut partitions, &composite_key(2, b""), gone);
    partitions
}

#[test]
fn sstabledump_reads_every_type_and_tombstone() {
    let Some(tool) = peer_tool() else { return };
    let table = types_table();
    let partitions = types_partitions(&table);
    let dumps = dump(&tool, "types", &table, &partitions, |_| {}, &["sstabledump"]);
    compare_with_golden("types.json", &dumps[0]);
    compare_with_other_versions(&tool, "types", &table, &partitions, &dumps[0]);
}

/// The same in the other versions, but for the places of partitions and rows in the file.
fn compare_with_other_versions(
    tool: &str,
    test: &str,
    table: &TableMetadata,
    partitions: &Partitions,
    wanted: &str,
) {
    let without_positions = |json: &str| {
        let lines = json.lines().filter(|line| !line.contains("\"position\" :"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    for format in [SsTableFormat::Me, SsTableFormat::Oa, SsTableFormat::Da] {
        let test = format!("{test}-{format}");
        let change = |options: &mut WriterOptions| {
            options.format = format;
            options.column_index_bytes = 64;
        };
        let dumps = dump(tool, &test, table, partitions, change, &["sstabledump"]);
        assert_eq!(without_positions(&dumps[0]), without_positions(wanted), "{test}");
    }
}

/// Clustering (a int descending, b text): ranges that open, touch, nest by boundary and close, by all kinds of bounds.
fn ranges() -> (TableMetadata, Partitions) {
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Text),
        Column("a", ColumnKind::Clustering, CqlType::Int),
        Column("b", ColumnKind::Clustering, CqlType::Text),
        Column("v", ColumnKind::Regular, CqlType::Text),
    ];
    let table = table("ranges", columns, &["a"]);
    let int = |number: i32| number.to_be_bytes();
    let v = id(&table, "v");
    let plain = row(live(NOW_US), DeletionTime::LIVE, vec![cell(v, NOW_US, b"v")]);
    let mut bounded = Partition::default();
    bounded
        .marker(key(&[&int(9)]), Side::Before, deletion(1))
        .row(key(&[&int(9), b"x"]), plain.clone())
        .marker(key(&[&int(9)]), Side::After, DeletionTime::LIVE)
        .marker(key(&[&int(5)]), Side::After, deletion(2))
        .marker(key(&[&int(4), b"m"]), Side::Before, deletion(3))
        .row(key(&[&int(4), b"m"]), plain.clone())
        .marker(key(&[&int(4), b"m"]), Side::After, deletion(4))
        .marker(key(&[&int(3)]), Side::Before, DeletionTime::LIVE)
        .row(key(&[&int(1), b""]), plain.clone());
    let mut open = Partition::default();
    open.marker(Vec::new(), Side::Before, deletion(5))
        .row(key(&[&int(0), b"z"]), plain)
        .marker(Vec::new(), Side::After, DeletionTime::LIVE);
    let mut partitions = Partitions::new();
    insert(&mut partitions, b"bounded", bounded);
    insert(&mut partitions, b"open", open);
    (table, partitions)
}

#[test]
fn sstabledump_reads_range_tombstones() {
    let Some(tool) = peer_tool() else { return };
    let (table, partitions) = ranges();
    let dumps = dump(&tool, "ranges", &table, &partitions, |_| {}, &["sstabledump"]);
    compare_with_golden("ranges.json", &dumps[0]);
    compare_with_other_versions(&tool, "ranges", &table, &partitions, &dumps[0]);
}

/// 300 rows under a range deletion that spans index blocks, in a few forms; every row's number must come back.
#[test]
fn sstabledump_reads_wide_partitions_whatever_the_compression() {
    let Some(tool) = peer_tool() else { return };
    let columns = vec![
        Column("pk", ColumnKind::PartitionKey, CqlType::Int),
        Column("c", ColumnKind::Clustering, CqlType::Int),
        Column("v", ColumnKind::Regular, CqlType::Blob),
    ];
    let table = table("wide", columns, &[]);
    let v = id(&table, "v");
    let mut partition = Partition::default();
    partition.marker(Vec::new(), Side::Before, deletion(-5));
    for number in 0..300_u32 {
        let value: Vec<u8> = (0..200_u32).map(|byte| (byte * number % 251) as u8).collect();
        let cells = vec![cell(v, NOW_US, &value)];
        partition.row(
            key(&[&number.to_be_bytes()]),
            row(live(NOW_US), DeletionTime::LIVE, cells),
        );
    }
    partition.marker(Vec::new(), Side::After, DeletionTime::LIVE);
    let mut partitions = Partitions::new();
    (0..3_u32)
        .for_each(|partition_key| insert(&mut partitions, &partition_key.to_be_bytes(), partition.clone()));
    let lz4 = |chunk_bytes, compressed_bytes_max| {
        Some(CompressionParameters {
            compressor: Compressor::Lz4,
            chunk_bytes,
            compressed_bytes_max,
        })
    };
    let snappy = CompressionParameters {
        compressor: Compressor::Snappy,
        chunk_bytes: 16 << 10,
        compressed_bytes_max: i32::MAX as u32,
    };
    let with = |compressor| Some(CompressionParameters { compressor, ..snappy });
    for (name, format, compression) in [
        ("lz4", SsTableFormat::Nb, lz4(4096, i32::MAX as u32)),
        ("raw", SsTableFormat::Nb, lz4(4096, 2000)),
        ("snappy", SsTableFormat::Nb, Some(snappy)),
        ("none", SsTableFormat::Nb, None),
        ("deflate", SsTableFormat::Me, with(Compressor::Deflate)),
        ("zstd", SsTableFormat::Oa, with(Compressor::Zstd { level: 5 })),
        ("noop", SsTableFormat::Nb, with(Compressor::Noop)),
        ("tries", SsTableFormat::Da, lz4(4096, i32::MAX as u32)),
    ] {
        let change = |options: &mut WriterOptions| {
            options.format = format;
            options.compression = compression;
            options.column_index_bytes = 1024;
        };
        let dumps = dump(
            &tool,
            &format!("wide-{name}"),
            &table,
            &partitions,
            change,
            &["sstabledump"],
        );
        for number in 0..300 {
            let found = dumps[0]
                .matches(&format!("\"clustering\" : [ {number} ]"))
                .count();
            assert_eq!(found, 3, "{name}: row {number}");
        }
    }
}

/// The metadata that `sstablemetadata` prints, without what depends on the clock or the place.
#[test]
fn sstablemetadata_reads_the_statistics() {
    let Some(tool) = peer_tool() else { return };
    let (table, partitions) = ranges();
    let dumps = dump(
        &tool,
        "metadata",
        &table,
        &partitions,
        |_| {},
        &["sstablemetadata"],
    );
    let kept: String = dumps[0]
        .lines()
        .filter(|line| !line.starts_with("SSTable:") && !line.contains("ago") && !line.contains("droppable"))
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    compare_with_golden("ranges.metadata.txt", &kept);
}
