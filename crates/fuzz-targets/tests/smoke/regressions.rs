//! Inputs that once did harm, each headed by its symptom.

use helenus_fuzz_targets::{fuzz_blocks, fuzz_compression_info, fuzz_index};

use helenus_test_heap::largest_allocation_of;

/// Index of the first original: version `me`.
const ME: u8 = 0;
/// Index of the second original that is compressed: LZ4.
const LZ4: u8 = 1;

/// Symptom: "attempt to add with overflow" in a debug build; in a release build the position of the next entry went
/// round, and a scan of Index.db could go back to where it had been.
#[test]
fn a_promoted_index_cannot_reach_beyond_all_files() {
    let mut entry = vec![ME, 0, 4, 1, 2, 3, 4, 0];
    // The length as a vint: 2^64 - 1. Then header length, deletion, one block.
    entry.extend_from_slice(&[0xff; 9]);
    entry.push(0);
    entry.extend_from_slice(&[0; 12]);
    entry.push(1);
    entry.extend_from_slice(&[0; 64]);
    fuzz_index(&entry);
}

/// Symptom: one read of a file of 3 KB took 16 MiB, since CompressionInfo.db said that its only chunk had so many.
#[test]
fn a_chunk_cannot_hold_more_than_its_bytes_expand_to() {
    let mut info = vec![LZ4, 0, 13];
    info.extend_from_slice(b"LZ4Compressor");
    info.extend_from_slice(&0_u32.to_be_bytes());
    info.extend_from_slice(&(16_u32 << 20).to_be_bytes());
    info.extend_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    info.extend_from_slice(&(16_u64 << 20).to_be_bytes());
    info.extend_from_slice(&1_u32.to_be_bytes());
    info.extend_from_slice(&0_u64.to_be_bytes());
    fuzz_compression_info(&info);
    let ((), largest) = largest_allocation_of(|| fuzz_compression_info(&info));
    assert!(largest < 1 << 20, "{largest} bytes at once");
}

/// Symptom: "attempt to multiply with overflow" in a debug build when a partition was read backwards: a page of Blocks.db
/// ended beyond 2^63, and the next request was to be twice as long. The fuzzer found it.
#[test]
fn a_block_may_end_beyond_all_files() {
    fuzz_blocks(include_bytes!(
        "../../../../fuzz/corpus/sstable_blocks/found-block-that-ends-beyond-64-bits"
    ));
}
