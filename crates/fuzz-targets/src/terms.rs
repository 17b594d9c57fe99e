//! A file of terms of a secondary index.

use std::path::Path;
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringComparator, Side, push_component};
use helenus_schema::ClusteringOrder;
use helenus_sstable::PageCache;
use helenus_sstable::terms::{TermFile, TermFileBuilder, TermPlace};
use helenus_types::{CqlType, Token};
use helenus_vfs::{Disk, MemoryDisk};

const PATH: &str = "/terms.db";
const IDENTITY: u64 = 0;
const PAGE_BYTES: usize = 4096;
/// Behind the directory: its length and its checksum.
const FOOT_BYTES: usize = 12;

fn comparator() -> ClusteringComparator {
    ClusteringComparator::of_components(vec![
        (CqlType::Int, ClusteringOrder::Descending),
        (CqlType::Text, ClusteringOrder::Ascending),
    ])
}

pub fn run(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let _fits = fit(&mut bytes);
    let disk = MemoryDisk::new();
    let file = disk.create(Path::new(PATH)).expect("the disk is empty");
    file.append(&bytes).expect("a memory disk has room");
    let Ok(terms) = TermFile::open(&disk, Path::new(PATH), IDENTITY, &comparator()) else {
        return;
    };
    let cache = PageCache::new(64 << 10);
    let mut heads = vec![Vec::new(), vec![1, 0, 0x38], vec![0xff; 9]];
    let mut cursor = terms.cursor(&cache).reading_ahead();
    let mut is_there = cursor.seek(&[]).unwrap_or(false);
    while is_there {
        if heads.len() < 16 {
            heads.push(cursor.head().to_vec());
        }
        is_there = cursor.advance().unwrap_or(false);
    }
    let mut prefix = Vec::new();
    push_component(&mut prefix, &3_i32.to_be_bytes());
    for head in &heads {
        let _found = terms.cursor(&cache).within(head).seek(head);
        for side in [Side::Before, Side::After] {
            let mut cursor = terms.cursor(&cache);
            let _found = cursor.seek_within(head, &prefix, side);
            let _next = cursor.advance();
        }
    }
}

/// Makes the checksums of pages and directory match them.
fn fit(bytes: &mut [u8]) -> Option<()> {
    let foot_at = bytes.len().checked_sub(FOOT_BYTES)?;
    let length = u64::from_be_bytes(bytes.get(foot_at..foot_at + 8)?.try_into().ok()?);
    let directory_at = foot_at.checked_sub(usize::try_from(length).ok()?)?;
    let checksum = crc32fast::hash(bytes.get(directory_at..foot_at + 8)?);
    bytes
        .get_mut(foot_at + 8..)?
        .copy_from_slice(&checksum.to_be_bytes());
    for (number, page) in (0_u64..).zip(bytes.get_mut(..directory_at)?.chunks_exact_mut(PAGE_BYTES)) {
        let (content, checksum) = page.split_last_chunk_mut::<4>()?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&number.to_be_bytes());
        hasher.update(content);
        *checksum = hasher.finalize().to_be_bytes();
    }
    Some(())
}

pub fn corpus() -> Vec<(String, Vec<u8>)> {
    [("empty", 0), ("small", 20), ("pages", 1500)]
        .map(|(name, entries)| (name.to_owned(), made(entries)))
        .to_vec()
}

fn made(entries: u32) -> Vec<u8> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut builder = TermFileBuilder::new(&disk, Path::new(PATH), &comparator());
    for number in 0..entries {
        let mut clustering = Vec::new();
        push_component(&mut clustering, &(number as i32 % 50).to_be_bytes());
        push_component(&mut clustering, &number.to_be_bytes());
        let place = TermPlace {
            token: Token(i64::from(number % 7) - 3),
            key: &[1, 2, (number % 11) as u8],
            clustering: (!number.is_multiple_of(9)).then_some(&clustering),
        };
        let term = [1, (number % 5) as u8, 0];
        builder.push(&term, false, place).expect("a memory disk has room");
    }
    builder.finish(IDENTITY).expect("a memory disk has room");
    let file = disk.open(Path::new(PATH)).expect("it was written");
    let mut bytes = vec![0; file.length().unwrap_or_default() as usize];
    file.read_exact_at(0, &mut bytes).expect("a memory disk is read");
    bytes
}
