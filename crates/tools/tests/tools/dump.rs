//! Dumps of the files that Cassandra 5.0.5 flushed, against what its own `sstabledump` prints of them
//! (`golden/<table>.<options>`, made with it).

use std::path::Path;

use helenus_tools::dump::{DumpOptions, Shape, dump};
use helenus_tools::progress::Silent;
use helenus_tools::target::Targets;
use helenus_vfs::RealDisk;

use crate::fixtures;

/// After everything in the files has expired.
const NOW_S: u32 = 1_800_000_000;

fn dumped(table: &str, options: &DumpOptions) -> String {
    let disk = RealDisk::new();
    let targets = Targets::find(&disk, &fixtures::folder(table))
        .unwrap()
        .all()
        .unwrap();
    let mut out = Vec::new();
    dump(&disk, &targets[0], options, &mut out, &Silent).unwrap();
    String::from_utf8(out).unwrap()
}

fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

fn compare(table: &str, suffix: &str, options: &DumpOptions) {
    let (found, wanted) = (dumped(table, options), golden(&format!("{table}.{suffix}")));
    for (number, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "{table}.{suffix}, line {}", number + 1);
    }
    assert_eq!(found, wanted, "{table}.{suffix}");
}

const TABLES: [&str; 4] = ["types", "ranges", "dropped", "counts"];

fn options(shape: Shape) -> DumpOptions {
    DumpOptions {
        shape,
        now_s: NOW_S,
        ..DumpOptions::default()
    }
}

#[test]
fn json_is_cassandras_byte_for_byte() {
    for table in TABLES {
        compare(table, "json", &options(Shape::Json));
        compare(table, "lines.json", &options(Shape::Lines));
        compare(table, "keys.json", &options(Shape::Keys));
        let raw = DumpOptions {
            raw_times: true,
            ..options(Shape::Json)
        };
        compare(table, "raw.json", &raw);
    }
}

#[test]
fn internal_lines_are_cassandras() {
    for table in ["ranges", "dropped", "counts"] {
        compare(table, "internal.txt", &options(Shape::Internal));
    }
}

#[test]
fn keys_choose_and_exclude_partitions() {
    let keys = |keys: &[&str], excluded: &[&str]| DumpOptions {
        keys: keys.iter().map(|&key| key.to_owned()).collect(),
        excluded_keys: excluded.iter().map(|&key| key.to_owned()).collect(),
        ..options(Shape::Keys)
    };
    assert_eq!(dumped("counts", &keys(&["a"], &[])), "[ [ \"a\" ]\n]");
    assert_eq!(dumped("counts", &keys(&["a", "none"], &["a"])), "[ ]");
    assert_eq!(dumped("counts", &keys(&[], &["a"])), "[ [ \"b\" ]\n]");
    assert_eq!(dumped("types", &keys(&["1:one"], &[])), "[ [ \"1\", \"one\" ]\n]");
}
