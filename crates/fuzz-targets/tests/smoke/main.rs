//! Each fuzz target over its corpus and a fixed set of damaged inputs: no panic, no endless read, no allocation beyond
//! what the undamaged files take.
//!
//! `HELENUS_FUZZ_MUTATIONS` sets how many per target; `HELENUS_FUZZ_ONLY` runs one of them again, with its panic shown.
//! `cargo xtask fuzz-corpus` writes the corpus anew, by `HELENUS_FUZZ_CORPUS=write`.

mod regressions;

use std::panic::catch_unwind;
use std::path::PathBuf;

use helenus_fuzz_targets::{TARGETS, Target, mutate};
use helenus_storage_model::Chance;

use helenus_test_heap::largest_allocation_of;

/// Some seconds each in a debug build.
const MUTATIONS: u64 = 2000;
/// An allocation may be twice the largest that undamaged files take, since buffers double as they grow; or twice this,
/// where they take less: buffers of a fixed length, whatever the file says.
const FLOOR_BYTES: usize = 32 << 10;
/// Faults of one target that are named.
const FAULTS_SHOWN: usize = 10;

fn target(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).unwrap()
}

fn corpus_folder(target: &Target) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(target.name)
}

/// The files in the tree, in the order of their names.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(corpus_folder(target)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn smoke(name: &str) {
    let target = target(name);
    let corpus = corpus(&target);
    assert!(corpus.len() >= 2, "{name} has a corpus");
    // The first run also makes the files.
    (target.run)(&corpus[0]);
    let largest = corpus
        .iter()
        .map(|input| largest_allocation_of(|| (target.run)(input)).1)
        .max();
    let allocation_max = 2 * largest.unwrap_or_default().max(FLOOR_BYTES);
    let only = setting("HELENUS_FUZZ_ONLY");
    let mutations = setting("HELENUS_FUZZ_MUTATIONS").unwrap_or(MUTATIONS);
    let mut faults = Vec::new();
    for number in only.map_or(0..mutations, |number| number..number + 1) {
        let chance = Chance::new(number);
        let (input, donor) = (chance.pick(&corpus), chance.pick(&corpus));
        let damaged = mutate(&chance, input, donor);
        if only.is_some() {
            (target.run)(&damaged);
        }
        let (outcome, largest) = largest_allocation_of(|| catch_unwind(|| (target.run)(&damaged)));
        if outcome.is_err() {
            faults.push(format!("{name} {number}: a panic"));
        } else if largest > allocation_max {
            faults.push(format!(
                "{name} {number}: {largest} bytes at once, {allocation_max} are enough"
            ));
        }
    }
    let shown = &faults[..faults.len().min(FAULTS_SHOWN)];
    assert!(faults.is_empty(), "{} of {mutations}: {shown:#?}", faults.len());
}

macro_rules! smoke {
    ($($name:ident)*) => {
        $(#[test] fn $name() { smoke(stringify!($name)); })*

        #[test]
        fn every_target_has_its_smoke_run() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

smoke! {
    sstable_data sstable_index sstable_summary sstable_statistics sstable_filter sstable_compression_info sstable_crc
    sstable_digest sstable_toc sstable_partitions sstable_rows sstable_blocks sstable_fences sstable_checksums sstable_terms
    snapshot_manifest
}

/// The corpus is what `cargo xtask fuzz-corpus` writes; inputs that a fuzzer found may be beside it.
#[test]
fn the_corpus_is_of_today() {
    let is_written = std::env::var_os("HELENUS_FUZZ_CORPUS").is_some_and(|value| value == "write");
    for target in TARGETS {
        for (file, bytes) in target.corpus() {
            let path = corpus_folder(target).join(&file);
            if is_written {
                std::fs::create_dir_all(corpus_folder(target)).unwrap();
                std::fs::write(&path, &bytes).unwrap();
            }
            let stored = std::fs::read(&path).unwrap_or_default();
            assert!(
                stored == bytes,
                "{} is another: `cargo xtask fuzz-corpus`",
                path.display()
            );
        }
    }
}
