//! Parquet exports, read back by the crate's own reader, and compared with the same rows as CSV.
#![cfg(feature = "parquet")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_tools::export::{export_csv, export_parquet};
use helenus_tools::progress::Silent;
use helenus_tools::target::{Target, Targets};
use helenus_vfs::RealDisk;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;

use crate::fixtures;

fn fixture(name: &str) -> (RealDisk, Vec<Target>, Arc<TableMetadata>) {
    let disk = RealDisk::new();
    let targets = Targets::find(&disk, &fixtures::folder(name))
        .unwrap()
        .all()
        .unwrap();
    let table = targets[0].metadata(&disk).unwrap().table("k", name).unwrap();
    (disk, targets, Arc::new(table))
}

fn exported(name: &str) -> (Vec<Row>, usize) {
    let (disk, targets, table) = fixture(name);
    let mut file = tempfile(name);
    let exported = export_parquet(&disk, &targets, &table, 0, &mut file, &Silent).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows() as u64, exported.rows);
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let mut csv = Vec::new();
    let as_csv = export_csv(&disk, &targets, &table, 0, &mut csv, &Silent).unwrap();
    (rows, as_csv.rows as usize)
}

/// Gone from its folder as soon as it is open.
fn tempfile(name: &str) -> std::fs::File {
    let path = std::env::temp_dir().join(format!("helenus-{}-{name}.parquet", std::process::id()));
    let file = std::fs::File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

#[test]
fn every_row_comes_back() {
    for name in ["types", "ranges", "wide", "dropped", "counts", "da-wide"] {
        let (rows, wanted) = exported(name);
        assert_eq!(rows.len(), wanted, "{name}");
    }
}

#[test]
fn values_have_parquets_types() {
    let (rows, _) = exported("types");
    let text = rows[0].to_string();
    for wanted in [
        "PartitionKey: 1, PartitionKey1: \"one\", clustering: \"all\"",
        "f_map: \"{\"k\": 9}\"",
        "f_udt: \"{\"street\": \"Main\", \"number\": 5}\"",
        "m_list: null",
        "t_bigint: -5, t_blob: [0, 1, 255], t_boolean: true, t_date: 2023-12-21, t_decimal: \"12.34\"",
        "t_double: 1.5, t_duration: \"1mo2d3ns\", t_float: 0.25, t_inet: \"127.0.0.1\"",
        "t_time: 3600000000000, t_timestamp: 2023-11-14 22:13:20.000 +00:00",
        "t_tinyint: -128, t_uuid: [80, 68, 42, 80, 0, 0, 64, 0, 128, 0, 0, 0, 0, 0, 0, 1], t_varint: \"256\"",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in {text}");
    }
    let with_cells = rows
        .iter()
        .map(Row::to_string)
        .any(|text| text.contains("m_set: \"["));
    assert!(with_cells, "a collection of several cells");
}
