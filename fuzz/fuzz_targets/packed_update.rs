//! Any bytes as a packed update: decoding them, and merging what they hold, ends within bounds.

#![no_main]

use std::path::Path;

use helenus_schema::Schema;
use helenus_storage::commitlog::replay;
use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::{RowShape, live, merge, purge};
use helenus_rows::update::{Update, UpdateItem};
use helenus_vfs::{Disk, MemoryDisk};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    as_segment(bytes);
    let Ok(update) = Update::decode(bytes) else { return };
    assert_eq!(update.as_bytes(), bytes);
    let shape = RowShape::default();
    let mut merged = Vec::new();
    let mut scratch = Vec::new();
    for item in update.items() {
        let (UpdateItem::StaticRow(row) | UpdateItem::Row { row, .. }) = item else { continue };
        merged.clear();
        merge::merge(&shape, row, row, update.deletion, &mut merged);
        assert!(merged.len() <= row.as_bytes().len() + 64 + row.entries().count() * 8);
        let time = live::ReadTime { now_s: 1_000, gc_before_s: 900 };
        live::live_view(&shape, row, DeletionTime::LIVE, time, &mut scratch, &mut 0);
        let rule = purge::Purge { now_s: 1_000, gc_before_s: 900, max_purgeable_timestamp_us: 500 };
        purge::purge_row(&shape, row, &rule, &mut scratch);
    }
});

/// The same bytes as a log of the last run.
fn as_segment(bytes: &[u8]) {
    let disk = MemoryDisk::new();
    let folder = Path::new("/commitlog/shard-00000");
    disk.create_dir_all(folder).expect("a memory disk has room");
    let file = disk.create(&folder.join("segment-0000000000000001.log")).expect("the folder is empty");
    file.append(bytes).expect("a memory disk has room");
    let apply = |_: &Update<'_>| Ok::<(), std::convert::Infallible>(());
    let _ = replay(&disk, Path::new("/commitlog"), &Schema::default(), apply);
}
