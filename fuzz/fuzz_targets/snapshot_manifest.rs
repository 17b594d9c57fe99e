//! Any bytes as the manifest of a snapshot.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helenus_fuzz_targets::fuzz_manifest(bytes));
