//! A heap that grows: who asks for memory does not wait for the system to find it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use helenus_allocator::{Allocator, touch_ahead};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const BLOCK_BYTES: usize = 4_096;

/// Page faults of this thread so far, without those that read a file.
fn faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Page faults while the heap grows by 32 MiB, at some 50 MiB a second.
fn faults_of_growth(kept: &mut Vec<Vec<u8>>) -> u64 {
    const MIB: usize = 1 << 20;
    kept.reserve(32 * MIB / BLOCK_BYTES);
    let before = faults();
    for _ in 0..32 {
        kept.extend((0..MIB / BLOCK_BYTES).map(|_| vec![1; BLOCK_BYTES]));
        sleep(Duration::from_millis(20));
    }
    faults() - before
}

/// Symptom: at 60,000 small writes a second every fiftieth took 4 ms, the time in which a virtual machine's host finds 2 MiB.
#[test]
fn memory_is_there_before_the_heap_grows_into_it() {
    let mut kept = Vec::new();
    let untouched = faults_of_growth(&mut kept);
    touch_ahead(|| ()).unwrap();
    // A machine that lets the other thread wait has it too late, but not always.
    let least = (0..5).map(|_| faults_of_growth(&mut kept)).min().unwrap();
    assert!(least * 4 <= untouched, "{least} page faults of {untouched}");
}
