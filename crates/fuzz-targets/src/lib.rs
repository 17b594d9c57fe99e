//! Fuzz targets of files: one component of a small, real SSTable is replaced by any bytes, and everything
//! that reads it is asked. It ends in rows or an error, within bounds.
//!
//! The first byte of an input chooses among the originals that have the component, the rest takes its place. Checksums
//! that would refuse it before it is decoded are made to fit. `fuzz/fuzz_targets` and the smoke test share this;
//! `cargo xtask fuzz-corpus` writes `fuzz/corpus`.

mod manifest;
mod mutation;
mod original;
mod seals;
mod terms;

pub use mutation::mutate;

use helenus_sstable::Component;

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the program in `fuzz/fuzz_targets` and of the folder in `fuzz/corpus`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    corpus: fn() -> Vec<(String, Vec<u8>)>,
}

impl Target {
    /// Undamaged inputs and the names of their files, the same at every call.
    pub fn corpus(&self) -> Vec<(String, Vec<u8>)> {
        (self.corpus)()
    }
}

macro_rules! targets {
    ($($function:ident $name:literal $component:expr;)*) => {
        $(
            #[doc = concat!("The target `", $name, "`.")]
            pub fn $function(bytes: &[u8]) {
                original::run($component, bytes);
            }
        )*

        /// All of them.
        pub const TARGETS: &[Target] = &[
            $(Target { name: $name, run: $function, corpus: || original::corpus($component) },)*
            Target { name: "sstable_terms", run: fuzz_terms, corpus: terms::corpus },
            Target { name: "snapshot_manifest", run: fuzz_manifest, corpus: manifest::corpus },
        ];
    };
}

targets! {
    fuzz_data "sstable_data" Component::Data;
    fuzz_index "sstable_index" Component::Index;
    fuzz_summary "sstable_summary" Component::Summary;
    fuzz_statistics "sstable_statistics" Component::Statistics;
    fuzz_filter "sstable_filter" Component::Filter;
    fuzz_compression_info "sstable_compression_info" Component::CompressionInfo;
    fuzz_crc "sstable_crc" Component::Crc;
    fuzz_digest "sstable_digest" Component::Digest;
    fuzz_toc "sstable_toc" Component::Toc;
    fuzz_partitions "sstable_partitions" Component::Partitions;
    fuzz_rows "sstable_rows" Component::Rows;
    fuzz_blocks "sstable_blocks" Component::Blocks;
    fuzz_fences "sstable_fences" Component::Fences;
    fuzz_checksums "sstable_checksums" Component::Checksums;
}

/// The target `sstable_terms`.
pub fn fuzz_terms(bytes: &[u8]) {
    terms::run(bytes);
}

/// The target `snapshot_manifest`.
pub fn fuzz_manifest(bytes: &[u8]) {
    manifest::run(bytes);
}
