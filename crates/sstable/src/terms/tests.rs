//! Files of terms against a sorted list of what was put in.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helenus_rows::clustering::{ClusteringComparator, Side, push_component};
use helenus_schema::ClusteringOrder;
use helenus_types::{CqlType, Token};
use helenus_vfs::{Disk, Fault, FaultKind, MemoryDisk, Operation, SimulatedDisk};

use super::*;
use crate::block::page_cache::PageCache;
use crate::block::ticket::ReadTicket;
use crate::bti::testing::Random;
use crate::error::ReadError;

const IDENTITY: u64 = 77;

type Entry = (Vec<u8>, Option<Vec<u8>>);

struct Made {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    comparator: ClusteringComparator,
    /// Sorted, without what another covers.
    entries: Vec<Entry>,
}

impl Made {
    fn open(&self) -> Result<TermFile, ReadError> {
        TermFile::open(&*self.disk, &self.path, IDENTITY, &self.comparator)
    }

    fn compare(&self, left: &Entry, right: &Entry) -> Ordering {
        left.0.cmp(&right.0).then_with(|| match (&left.1, &right.1) {
            (Some(left), Some(right)) => self.comparator.compare(left, right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        })
    }

    /// The first entry that a seek is to find.
    fn found(&self, head: &[u8], within: Option<(&[u8], Side)>) -> Option<&Entry> {
        self.entries.iter().find(|(entry, clustering)| {
            match (entry.as_slice().cmp(head), within, clustering) {
                (Ordering::Equal, Some((prefix, side)), Some(clustering)) => {
                    self.comparator.compare_to_place(clustering, prefix, side).is_gt()
                }
                (ordering, ..) => ordering.is_ge(),
            }
        })
    }
}

fn comparator() -> ClusteringComparator {
    ClusteringComparator::of_components(vec![
        (CqlType::Int, ClusteringOrder::Descending),
        (CqlType::Text, ClusteringOrder::Ascending),
    ])
}

fn clustering(random: &mut Random) -> Vec<u8> {
    let mut packed = Vec::new();
    push_component(&mut packed, &(random.below(40) as i32 - 20).to_be_bytes());
    let long = if random.below(30) == 0 { 700 } else { 3 };
    push_component(&mut packed, &random.bytes(long, b"ab\0"));
    packed
}

fn head_of(term: &[u8], token: Token, key: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    push_term(&mut head, term);
    push_partition(&mut head, token, key);
    head
}

fn make(random: &mut Random, count: usize, buffer_bytes: usize) -> Made {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let path = PathBuf::from("/terms.db");
    let comparator = comparator();
    let mut builder = TermFileBuilder::new(&disk, &path, &comparator).with_buffer(buffer_bytes);
    let mut entries = Vec::new();
    let terms = 1 + random.below(30);
    for _ in 0..count {
        let length = if random.below(20) == 0 { 300 } else { 2 };
        let mut term = random.bytes(length, &[0, 0, 1, b'a', 0xff]);
        term.push(random.below(terms) as u8);
        let token = Token(random.below(20) as i64 - 10);
        let key_length = if random.below(40) == 0 { 1100 } else { 3 };
        let key = random.bytes(key_length, &[0, 1, 0xff]);
        let clustering = (random.below(10) > 0).then(|| clustering(random));
        let place = TermPlace {
            token,
            key: &key,
            clustering: clustering.as_deref(),
        };
        builder.push(&term, false, place).unwrap();
        let stored = place.stored();
        entries.push((
            head_of(&term, token, stored.key),
            stored.clustering.map(<[u8]>::to_vec),
        ));
    }
    let info = builder.finish(IDENTITY).unwrap();
    let mut made = Made {
        disk,
        path,
        comparator,
        entries: Vec::new(),
    };
    entries.sort_by(|left, right| made.compare(left, right));
    entries.dedup();
    let whole: Vec<Vec<u8>> = entries
        .iter()
        .filter(|entry| entry.1.is_none())
        .map(|entry| entry.0.clone())
        .collect();
    entries.retain(|entry| entry.1.is_none() || whole.binary_search(&entry.0).is_err());
    assert_eq!(info.entries, entries.len() as u64);
    made.entries = entries;
    made
}

fn entry_of(cursor: &TermCursor<'_>) -> Entry {
    (cursor.head().to_vec(), cursor.clustering().map(<[u8]>::to_vec))
}

fn all(file: &TermFile, cache: &PageCache) -> Result<Vec<Entry>, ReadError> {
    let mut cursor = file.cursor(cache).reading_ahead();
    let mut entries = Vec::new();
    let mut is_there = cursor.seek(&[])?;
    while is_there {
        entries.push(entry_of(&cursor));
        is_there = cursor.advance()?;
    }
    Ok(entries)
}

#[test]
fn entries_are_found_again_in_their_order() {
    let mut random = Random::new(41);
    let cache = PageCache::new(1 << 20);
    for round in 0..40 {
        let count = [0, 1, 30, 2000, 6000][round % 5];
        let buffer_bytes = if round % 2 == 0 { 64 << 10 } else { usize::MAX };
        let made = make(&mut random, count, buffer_bytes);
        assert_eq!(
            made.disk.list(Path::new("/")).unwrap().len(),
            1,
            "runs are removed"
        );
        let file = made.open().unwrap();
        assert_eq!(all(&file, &cache).unwrap(), made.entries);
        for _ in 0..200 {
            let head = match made.entries.len() {
                0 => vec![1],
                length if random.below(2) == 0 => made.entries[random.below(length)].0.clone(),
                _ => head_of(&random.bytes(2, &[0, 1, b'a']), Token(0), &[]),
            };
            let bound = clustering(&mut random);
            let side = [Side::Before, Side::After][random.below(2)];
            let within = (random.below(2) == 0).then_some((&*bound, side));
            let mut cursor = file.cursor(&cache);
            let is_there = match within {
                Some((prefix, side)) => cursor.seek_within(&head, prefix, side),
                None => cursor.seek(&head),
            };
            let found = is_there.unwrap().then(|| entry_of(&cursor));
            assert_eq!(
                found.as_ref(),
                made.found(&head, within),
                "{head:02x?} {within:02x?}"
            );
        }
    }
}

#[test]
fn heads_come_apart_again() {
    let mut random = Random::new(43);
    for _ in 0..20_000 {
        let term = random.bytes(6, &[0, 0, 1, 0x38, 0xfe, 0xff]);
        let (token, key) = (Token(random.integer()), random.bytes(4, &[0, 0xfe, 0xff]));
        let head = head_of(&term, token, &key);
        let mut escaped = Vec::new();
        push_term(&mut escaped, &term);
        assert_eq!(
            Head::parse(&head),
            Some(Head {
                term: &escaped,
                token,
                key: &key
            })
        );
        let other = random.bytes(6, &[0, 0, 1, 0x38, 0xfe, 0xff]);
        let other_head = head_of(&other, Token(random.integer()), &key);
        if term != other {
            assert_eq!(
                head.cmp(&other_head),
                term.cmp(&other),
                "{term:02x?} {other:02x?}"
            );
        }
        let _damaged = Head::parse(&random.bytes(20, &[0, 1, 0x38, 0xfe, 0xff]));
    }
}

/// Two reads for a term that nobody has asked for: what stays in memory is the directory.
#[test]
fn a_term_is_two_reads_away() {
    let mut random = Random::new(47);
    let made = make(&mut random, 30_000, usize::MAX);
    let file = made.open().unwrap();
    let (memory_bytes, disk_bytes) = (file.memory_bytes(), file.disk_bytes());
    assert!(
        disk_bytes > 300_000 && memory_bytes as u64 * 50 < disk_bytes,
        "{memory_bytes} of {disk_bytes}"
    );
    let cache = PageCache::new(1 << 20);
    for _ in 0..50 {
        let entry = &made.entries[random.below(made.entries.len())];
        let ticket = ReadTicket::new();
        let mut reads = 0;
        loop {
            ticket.resume_run();
            let mut cursor = file.cursor(cache.suspending(&ticket));
            match cursor.seek(&entry.0) {
                Ok(is_there) => {
                    assert!(is_there && cursor.head() == entry.0);
                    break;
                }
                Err(ReadError::Absent(absent)) => {
                    reads += 1;
                    let stored = absent.read().unwrap();
                    assert_eq!(cache.deliver(&ticket, &absent, &stored).unwrap(), None);
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(reads <= 2, "{reads}");
    }
}

/// A flipped bit is found where the file is opened or where its page is read; nothing wrong is answered.
#[test]
fn flipped_bits_and_cut_ends_are_found() {
    let mut random = Random::new(53);
    let made = make(&mut random, 600, usize::MAX);
    let file = made.disk.open(&made.path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    let check = |bytes: &[u8]| {
        made.disk.remove(&made.path).unwrap();
        made.disk.create(&made.path).unwrap().append(bytes).unwrap();
        let cache = PageCache::new(0);
        let walked = made.open().and_then(|file| all(&file, &cache));
        if let Ok(entries) = &walked {
            assert_eq!(*entries, made.entries);
        }
        walked.is_err()
    };
    for at in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << random.below(8);
        assert!(check(&flipped), "byte {at}");
    }
    for length in (0..bytes.len()).step_by(301) {
        assert!(check(&bytes[..length]), "{length} bytes");
    }
    assert!(!check(&bytes));
    let other = TermFile::open(&*made.disk, &made.path, IDENTITY + 1, &made.comparator);
    assert!(
        matches!(other, Err(ReadError::Corrupt { .. })),
        "the terms of another SSTable"
    );
}

/// Pages whose checksums are right and that say anything: an error or an end, never a panic.
#[test]
fn damaged_pages_with_right_checksums_end() {
    let mut random = Random::new(59);
    let made = make(&mut random, 3000, usize::MAX);
    let file = made.disk.open(&made.path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    let pages = made.open().unwrap().leaf_pages();
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + random.below(3) {
            let page = random.below(pages);
            let at = page * PAGE_BYTES;
            let end = at + PAGE_BYTES - CHECKSUM_BYTES;
            for _ in 0..1 + random.below(8) {
                damaged[at + random.below(200)] = random.next() as u8;
            }
            let checksum = crate::block::chunked_file::page_checksum(page as u64, &damaged[at..end]);
            damaged[end..end + CHECKSUM_BYTES].copy_from_slice(&checksum.to_be_bytes());
        }
        made.disk.remove(&made.path).unwrap();
        made.disk.create(&made.path).unwrap().append(&damaged).unwrap();
        let file = made.open().unwrap();
        let cache = PageCache::new(1 << 20);
        let _walked = all(&file, &cache);
        for _ in 0..20 {
            let head = &made.entries[random.below(made.entries.len())].0;
            let _found = file.cursor(&cache).seek(head);
        }
    }
}

/// The power failed between the writes of a file and its sync. Its end was there and a page in its middle was not, and the next start told
/// its operator of damage where nothing was broken.
#[test]
fn a_file_has_its_name_once_all_of_it_is_durable() {
    let simulated = Arc::new(SimulatedDisk::new(1));
    let disk: Arc<dyn Disk> = simulated.clone();
    let folder = Path::new("/table");
    disk.create_dir_all(folder).unwrap();
    let path = folder.join("index-00000000000000000000000000000007-da-1-bti.db");
    let comparator = comparator();
    let names = || -> Vec<String> {
        let entries = disk.list(folder).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    };
    let build = || {
        let mut builder = TermFileBuilder::new(&disk, &path, &comparator);
        let place = TermPlace {
            token: Token(1),
            key: b"key",
            clustering: None,
        };
        builder.push(b"term", false, place).unwrap();
        builder.finish(IDENTITY)
    };
    for operation in [Operation::Sync, Operation::Rename] {
        simulated.inject(Fault {
            operation,
            after: 0,
            kind: FaultKind::Error,
        });
        assert!(build().is_err());
        assert_eq!(names(), [""; 0], "{operation:?}");
    }
    build().unwrap();
    assert_eq!(names(), [path.file_name().unwrap().to_str().unwrap()]);
}
