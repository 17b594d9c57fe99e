//! Verifying, scrubbing and exporting the files that Cassandra 5.0.5 flushed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Entry, Liveness, RowBuilder, RowRef};
use helenus_sstable::{Component, SsTableFormat, SsTableId, SsTableWriter, WriterOptions};
use helenus_tools::dump::{DumpOptions, Shape, dump};
use helenus_tools::export::{export_csv, export_sstables};
use helenus_tools::metadata::metadata;
use helenus_tools::progress::Silent;
use helenus_tools::scrub::scrub;
use helenus_tools::target::{Target, Targets};
use helenus_tools::verify::verify;
use helenus_types::token_of;
use helenus_vfs::{Disk, MemoryDisk};

use crate::fixtures;

const TABLES: [&str; 5] = ["types", "ranges", "wide", "dropped", "counts"];

/// The fixture's files on a disk in memory.
fn disk_with(table: &str) -> (Arc<dyn Disk>, PathBuf) {
    let disk = MemoryDisk::new();
    let folder = fixtures::copied_to(&disk, table);
    (Arc::new(disk), folder)
}

fn target(disk: &dyn Disk, folder: &Path) -> Target {
    let mut targets = Targets::find(disk, folder).unwrap().all().unwrap();
    assert_eq!(targets.len(), 1);
    targets.remove(0)
}

fn flip(disk: &dyn Disk, path: &Path, bit: u64) {
    let file = disk.open_writable(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(bit / 8, &mut byte).unwrap();
    file.write_at(bit / 8, &[byte[0] ^ (1 << (bit % 8))]).unwrap();
}

/// Rows as lines of text, without where in the file they are.
fn lines(disk: &dyn Disk, target: &Target) -> Vec<String> {
    let options = DumpOptions {
        shape: Shape::Internal,
        ..DumpOptions::default()
    };
    let mut out = Vec::new();
    dump(disk, target, &options, &mut out, &Silent).unwrap();
    let text = String::from_utf8(out).unwrap();
    let without_position = |line: &str| {
        let (key, rest) = line.split_once("]@").unwrap();
        let (_, row) = rest.split_once(' ').unwrap();
        format!("{key} {row}")
    };
    text.lines().map(without_position).collect()
}

#[test]
fn what_cassandra_wrote_is_sound() {
    for table in TABLES {
        let (disk, folder) = disk_with(table);
        let verification = verify(&*disk, &target(&*disk, &folder), &Silent);
        assert!(verification.is_sound(), "{verification:?}");
        assert!(verification.contents.partitions > 0);
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_rows_depend_on_it() {
    for table in ["types", "ranges", "counts"] {
        let (disk, folder) = disk_with(table);
        let target = target(&*disk, &folder);
        for component in [
            Component::Data,
            Component::Index,
            Component::Statistics,
            Component::Crc,
            Component::Digest,
        ] {
            if !target.has(component) {
                continue;
            }
            let path = target.path(component);
            let bits = disk.open(&path).unwrap().length().unwrap() * 8;
            for bit in (0..bits).step_by(37) {
                flip(&*disk, &path, bit);
                let verification = verify(&*disk, &target, &Silent);
                assert!(
                    !verification.is_sound(),
                    "{table}: bit {bit} of {}",
                    component.file_suffix()
                );
                flip(&*disk, &path, bit);
            }
        }
    }
}

#[test]
fn missing_and_cut_files_are_named() {
    let (disk, folder) = disk_with("counts");
    let target = target(&*disk, &folder);
    let data = target.path(Component::Data);
    disk.open_writable(&data).unwrap().set_length(20).unwrap();
    assert!(!verify(&*disk, &target, &Silent).is_sound());
    disk.remove(&target.path(Component::Index)).unwrap();
    let target = self::target(&*disk, &folder);
    let verification = verify(&*disk, &target, &Silent);
    let named = verification
        .findings
        .iter()
        .any(|finding| finding.file.ends_with("nb-1-big-Index.db"));
    assert!(named, "{verification:?}");
}

#[test]
fn scrub_saves_what_the_damage_did_not_reach() {
    let (disk, folder) = disk_with("wide");
    let damaged = target(&*disk, &folder);
    let all = lines(&*disk, &damaged);
    let length = disk
        .open(&damaged.path(Component::Data))
        .unwrap()
        .length()
        .unwrap();
    flip(&*disk, &damaged.path(Component::Data), length / 2 * 8);
    for component in [Component::Filter, Component::Summary] {
        flip(&*disk, &damaged.path(component), 100);
    }
    let scrubbed = scrub(&disk, &damaged, None, "pre-scrub", &Silent).unwrap();
    assert!(
        scrubbed.partitions > 0 && !scrubbed.dropped.is_empty(),
        "{scrubbed:?}"
    );
    let saved = target(&*disk, &folder);
    assert_ne!(saved.descriptor, damaged.descriptor);
    let verification = verify(&*disk, &saved, &Silent);
    assert!(verification.is_sound(), "{verification:?}");
    let kept = lines(&*disk, &saved);
    assert!(!kept.is_empty() && kept.len() < all.len());
    let original = folder.join("snapshots/pre-scrub");
    assert!(
        disk.exists(&damaged.descriptor.path(&original, Component::Data))
            .unwrap()
    );
}

#[test]
fn scrub_of_a_sound_file_drops_nothing() {
    for table in TABLES {
        let (disk, folder) = disk_with(table);
        let before = target(&*disk, &folder);
        let all = lines(&*disk, &before);
        let out = PathBuf::from("/scrubbed");
        let scrubbed = scrub(&disk, &before, Some(&out), "unused", &Silent).unwrap();
        assert!(scrubbed.dropped.is_empty(), "{scrubbed:?}");
        assert_eq!(lines(&*disk, &target(&*disk, &out)), all, "{table}");
        assert!(verify(&*disk, &before, &Silent).is_sound(), "the original stays");
    }
}

#[test]
fn export_to_every_version_keeps_every_row() {
    for table in TABLES {
        for format in [
            SsTableFormat::Me,
            SsTableFormat::Nb,
            SsTableFormat::Oa,
            SsTableFormat::Da,
        ] {
            let (disk, folder) = disk_with(table);
            let from = target(&*disk, &folder);
            let out = PathBuf::from("/exported");
            let exported =
                export_sstables(&disk, std::slice::from_ref(&from), format, &out, &Silent).unwrap();
            let to = target(&*disk, &out);
            assert!(exported.rows > 0);
            let verification = verify(&*disk, &to, &Silent);
            assert!(verification.is_sound(), "{table} {format:?}: {verification:?}");
            assert_eq!(lines(&*disk, &to), lines(&*disk, &from), "{table} {format:?}");
        }
    }
}

/// Symptoms: `verify` found a row too few, and `export` panicked, where nothing was left of an SSTable but a partition's key: its rows
/// had nothing but a column that was dropped.
#[test]
fn an_sstable_of_nothing_is_sound_and_exported_as_nothing() {
    let (disk, folder) = disk_with("types");
    let table = target(&*disk, &folder).metadata(&*disk).unwrap();
    let table = table.table("", "").unwrap();
    assert!(!table.statics().is_empty());
    let folder = PathBuf::from("/nothing");
    disk.create_dir_all(&folder).unwrap();
    let id = SsTableId::Number(1);
    let options = WriterOptions::of(&table);
    let mut writer = SsTableWriter::new(disk.clone(), &folder, id, &table, options).unwrap();
    let mut row = Vec::new();
    let mut builder = RowBuilder::new(&mut row, Liveness::NONE, DeletionTime::LIVE);
    builder.push(Entry::Cell(CellRef {
        column: table.next_column_id,
        timestamp_us: 1,
        ttl_s: 0,
        local_deletion_s: NEVER_S,
        path: None,
        value: b"of a column that is gone",
    }));
    let key = 7_i32.to_be_bytes();
    writer
        .begin_partition(token_of(&key), &key, DeletionTime::LIVE, RowRef::new(&row))
        .unwrap();
    writer.end_partition().unwrap();
    writer.finish().unwrap();
    let from = target(&*disk, &folder);
    let verification = verify(&*disk, &from, &Silent);
    assert!(verification.is_sound(), "{verification:?}");
    let out = PathBuf::from("/exported");
    let exported = export_sstables(&disk, &[from], SsTableFormat::Nb, &out, &Silent).unwrap();
    assert_eq!((exported.partitions, exported.files.len()), (0, 0));
    assert_eq!(disk.list(&out).unwrap().len(), 0);
}

#[test]
fn csv_has_the_live_rows() {
    let mut text = String::new();
    for table in ["types", "ranges", "counts", "dropped"] {
        let (disk, folder) = disk_with(table);
        let target = target(&*disk, &folder);
        let metadata = Arc::new(target.metadata(&*disk).unwrap().table("", "t").unwrap());
        let mut out = Vec::new();
        let now_s = 1_800_000_000;
        let targets = std::slice::from_ref(&target);
        export_csv(&*disk, targets, &metadata, now_s, &mut out, &Silent).unwrap();
        text.push_str(&String::from_utf8(out).unwrap().replace("\r\n", "\n"));
        text.push('\n');
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows.csv");
    if std::env::var_os("HELENUS_WRITE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn metadata_says_what_cassandras_tool_says() {
    let (disk, folder) = disk_with("ranges");
    let found = metadata(&*disk, &target(&*disk, &folder), 1_800_000_000).unwrap();
    let golden = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ranges.metadata.txt"),
    )
    .unwrap();
    let wanted: Vec<&str> = golden.lines().map(str::trim_end).collect();
    let text = found.to_string();
    let same = text
        .lines()
        .filter(|line| wanted.contains(&line.trim_end()))
        .count();
    // Cassandra's histograms are drawn, its file names absolute and its clusterings decoded.
    let differing: Vec<&str> = text
        .lines()
        .filter(|line| !wanted.contains(&line.trim_end()) && !line.starts_with("   "))
        .collect();
    assert!(same >= 20, "{same}: {differing:#?}");
    let names = [
        "SSTable: ",
        "Covered clusterings: ",
        "Estimated droppable",
        "Originating host",
    ];
    for line in differing {
        assert!(names.iter().any(|name| line.starts_with(name)), "{line}");
    }
}
