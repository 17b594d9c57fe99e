//! Any bytes in the place of one component; see `helenus_fuzz_targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helenus_fuzz_targets::fuzz_fences(bytes));
