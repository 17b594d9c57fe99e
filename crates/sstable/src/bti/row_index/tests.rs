use std::path::Path;

use helenus_schema::ClusteringOrder;
use helenus_types::CqlType;
use helenus_types::value::write_component;
use helenus_vfs::{Disk, MemoryDisk};

use super::super::node::PAGE_BYTES;
use super::super::testing::Random;
use super::*;
use crate::block::chunked_file::{ChunkedFile, Form};
use crate::block::page_cache::PageCache;
use crate::rows::clustering_codec::Place;
use helenus_rows::clustering::push_component;

fn comparator() -> ClusteringComparator {
    ClusteringComparator::of_components(vec![
        (CqlType::Text, ClusteringOrder::Descending),
        (CqlType::Bigint, ClusteringOrder::Ascending),
    ])
}

fn place(random: &mut Random) -> Place {
    let mut prefix = Vec::new();
    let is_key = random.below(4) > 0;
    if is_key || random.below(3) > 0 {
        push_component(&mut prefix, &random.bytes(6, b"abc"));
        if is_key || random.below(2) > 0 {
            push_component(&mut prefix, &random.integer().to_be_bytes());
        }
    }
    let side = if random.below(2) == 0 {
        Side::Before
    } else {
        Side::After
    };
    Place {
        prefix: prefix.into(),
        side: (!is_key).then_some(side),
    }
}

fn reference(place: &Place) -> PlaceRef<'_> {
    PlaceRef {
        prefix: &place.prefix,
        side: place.side,
    }
}

struct Written {
    /// First and last place of each block.
    blocks: Vec<(Place, Place)>,
    expected: Vec<BlockSpan>,
    file: ChunkedFile,
    entry: u64,
}

fn write(random: &mut Random, place_count: usize) -> Written {
    let comparator = comparator();
    let mut places: Vec<Place> = (0..place_count).map(|_| place(random)).collect();
    places.sort_by(|left, right| left.as_ref().compare(&comparator, right.as_ref()));
    places.dedup_by(|left, right| left.as_ref().compare(&comparator, right.as_ref()).is_eq());
    let mut blocks = Vec::new();
    while !places.is_empty() {
        let rest = places.split_off(places.len().min(1 + random.below(5)));
        blocks.push((places[0].clone(), places[places.len() - 1].clone()));
        places = rest;
    }
    let disk = MemoryDisk::new();
    let path = Path::new("/Rows.db");
    let file = PagedFile::create(&disk, path.to_path_buf()).unwrap();
    let mut writer = RowIndexWriter::new(file, comparator);
    // A small partition before and one of two blocks, so that positions are not zero.
    let (first, last) = blocks[0].clone();
    writer.add_block(reference(&first), reference(&last), 20, DeletionTime::LIVE);
    assert_eq!(
        writer
            .end_partition(b"one block", 0, DeletionTime::LIVE, 9)
            .unwrap(),
        None
    );
    let mut offset = 20;
    let mut expected: Vec<BlockSpan> = Vec::new();
    for (index, (first, last)) in blocks.iter().enumerate() {
        let open = match index % 3 {
            0 => DeletionTime::LIVE,
            _ => DeletionTime {
                timestamp_us: 1 + index as i64,
                local_s: 7,
            },
        };
        if let Some(before) = expected.last_mut() {
            before.end = offset;
        }
        expected.push(span(offset, 0, open));
        writer.add_block(reference(first), reference(last), offset, open);
        offset += 1 + random.below(70_000) as u64;
    }
    expected.last_mut().unwrap().end = offset;
    let deletion = DeletionTime {
        timestamp_us: 5,
        local_s: 6,
    };
    let entry = writer
        .end_partition(b"key", 1234, deletion, offset)
        .unwrap()
        .unwrap();
    let file = finished(writer, &disk, path);
    Written {
        blocks,
        expected,
        file,
        entry,
    }
}

fn finished(writer: RowIndexWriter, disk: &MemoryDisk, path: &Path) -> ChunkedFile {
    let (length, pages) = writer.finish().unwrap();
    let form = Form::Plain {
        chunk_bytes: PAGE_BYTES as u32,
        checksums: Some(pages.checksums),
    };
    ChunkedFile::new(path.to_path_buf(), disk.open(path).unwrap(), length, form)
}

#[test]
fn blocks_are_found_by_place_and_in_reverse() {
    let mut random = Random::new(11);
    let comparator = comparator();
    for place_count in [12, 100, 3000, 20_000] {
        let Written {
            blocks,
            expected,
            file,
            entry,
        } = write(&mut random, place_count);
        let cache = PageCache::new(16 << 20);
        let trie = TrieFile {
            file: &file,
            pages: (&cache).into(),
            pinned: &[],
        };
        let entry = RowIndexEntry::read(trie, entry).unwrap();
        assert_eq!(
            (&*entry.key, entry.position, entry.trie.deletion.local_s),
            (&b"key"[..], 1234, 6)
        );
        assert_eq!(entry.trie.block_count as usize, blocks.len());
        let mut found = entry.trie.blocks(trie, &comparator).unwrap();
        assert_eq!(found.header_length().unwrap(), expected[0].start);
        for _ in 0..2000 {
            let Place { prefix, side } = place(&mut random);
            let bound = ClusteringBound {
                prefix,
                side: side.unwrap_or(Side::Before),
            };
            let place = (&*bound.prefix, bound.side);
            let is_not_after = |first: &Place| first.compare_to_bound(&comparator, place).is_le();
            let after = blocks.partition_point(|(first, _)| is_not_after(first));
            let at = after.saturating_sub(1);
            let is_within = blocks[at].1.compare_to_bound(&comparator, place).is_ge();
            let mut could_be = vec![expected[at].clone()];
            if !is_within && after > 0 {
                could_be.push(match expected.get(after) {
                    Some(block) => block.clone(),
                    None => span(expected[at].end, expected[at].end, DeletionTime::LIVE),
                });
            }
            let block = found.first_of(&bound, false).unwrap();
            assert!(could_be.contains(&block), "{bound:?}: {block:?} of {could_be:?}");
            let end = found.end_before(&bound).unwrap();
            assert!(end >= block.end.min(expected[at].end), "{bound:?}: {end}");
            assert!(
                expected.get(after).is_none_or(|next| end <= next.end),
                "{bound:?}: {end}"
            );
        }
        let mut block = found.last().unwrap();
        for expected in expected.iter().rev().skip(1) {
            block = found.before(&block).unwrap().unwrap();
            assert_eq!(block, *expected);
        }
        assert_eq!(found.before(&block).unwrap(), None);
        let last = found.last().unwrap();
        found.first_of(&ClusteringBound::bottom(), false).unwrap();
        assert_eq!(
            found.before(&last).unwrap().as_ref(),
            expected.iter().rev().nth(1)
        );
    }
}

/// Rows whose clustering key was a vector of tuples were missing from reads: only what holds a null by itself was watched.
#[test]
fn a_partition_whose_places_and_translations_differ_in_order_has_no_index() {
    // (null, 1) sorts before ('', null), but both begin with the same byte and the latter ends sooner.
    let values: [&[u8]; 3] = [
        &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 4, 0, 0, 0, 1],
        &[0, 0, 0, 0],
        &[0, 0, 0, 4, 0, 0, 0, 9],
    ];
    let in_vector = |value: &&[u8]| [&[value.len() as u8][..], value].concat();
    let tuple = CqlType::tuple([CqlType::Int, CqlType::Int]);
    let vector = CqlType::vector(tuple.clone(), 1);
    for (cql_type, values) in [
        (tuple, values.map(<[u8]>::to_vec)),
        (vector, values.each_ref().map(in_vector)),
    ] {
        let comparator =
            ClusteringComparator::of_components(vec![(cql_type.clone(), ClusteringOrder::Ascending)]);
        let packed = values.map(|value| {
            let mut packed = Vec::new();
            push_component(&mut packed, &value);
            packed
        });
        assert!(packed.is_sorted_by(|left, right| comparator.compare(left, right).is_lt()));
        let [first, second, third] = &packed;
        let disk = MemoryDisk::new();
        let file = PagedFile::create(&disk, Path::new("/Rows.db").to_path_buf()).unwrap();
        let mut writer = RowIndexWriter::new(file, comparator.clone());
        // Within a block, so that nothing is seen of it from its ends.
        for (places, offset) in [(&[first, second][..], 10), (&[third], 20)] {
            let places: Vec<PlaceRef<'_>> = places
                .iter()
                .map(|prefix| PlaceRef { prefix, side: None })
                .collect();
            places.iter().for_each(|place| writer.place(*place));
            writer.add_block(places[0], places[places.len() - 1], offset, DeletionTime::LIVE);
        }
        let entry = writer.end_partition(b"key", 0, DeletionTime::LIVE, 30).unwrap();
        assert_eq!(entry, None, "{cql_type}");
    }
}

/// Rows were missing from reads that began or ended at a place which the partition does not have: such a place sorts otherwise
/// among its rows than its translation among theirs.
#[test]
fn a_place_that_may_sort_otherwise_is_looked_for_in_all_blocks() {
    let tuple = CqlType::tuple([CqlType::Int, CqlType::Int]);
    let comparator = ClusteringComparator::of_components(vec![(tuple, ClusteringOrder::Ascending)]);
    let packed = |first: Option<&[u8]>, second: Option<i32>| {
        let mut value = Vec::new();
        write_component(&mut value, first);
        write_component(
            &mut value,
            second.map(i32::to_be_bytes).as_ref().map(<[u8; 4]>::as_slice),
        );
        let mut packed = Vec::new();
        push_component(&mut packed, &value);
        packed
    };
    let rows = [
        packed(Some(&[]), Some(3)),
        packed(Some(&[]), Some(5)),
        packed(Some(&[0, 0, 0, 9]), None),
    ];
    let disk = MemoryDisk::new();
    let path = Path::new("/Rows.db");
    let file = PagedFile::create(&disk, path.to_path_buf()).unwrap();
    let mut writer = RowIndexWriter::new(file, comparator.clone());
    for (row, offset) in rows.iter().zip([10, 20, 30]) {
        let place = PlaceRef {
            prefix: row,
            side: None,
        };
        writer.place(place);
        writer.add_block(place, place, offset, DeletionTime::LIVE);
    }
    let entry = writer.end_partition(b"key", 0, DeletionTime::LIVE, 40).unwrap();
    let file = finished(writer, &disk, path);
    let cache = PageCache::new(16 << 20);
    let trie = TrieFile {
        file: &file,
        pages: (&cache).into(),
        pinned: &[],
    };
    let entry = RowIndexEntry::read(trie, entry.unwrap()).unwrap();
    let mut blocks = entry.trie.blocks(trie, &comparator).unwrap();
    let bound = |prefix: Vec<u8>, side| ClusteringBound {
        prefix: prefix.into(),
        side,
    };
    // Before all rows, and translated after two of them.
    let start = bound(packed(None, Some(7)), Side::Before);
    assert_eq!(blocks.first_of(&start, false).unwrap().start, 10);
    assert_eq!(blocks.first_of(&start, true).unwrap().start, 10);
    // After two rows, and translated like the first.
    let end = bound(packed(Some(&[]), Some(9)), Side::After);
    assert!(blocks.end_before(&end).unwrap() >= 30);
    assert!(blocks.last_before(&end, false).unwrap().start >= 20);
    // What has no such element is found as ever.
    let row = bound(rows[2].clone(), Side::Before);
    assert_eq!(
        blocks
            .first_of(&bound(packed(Some(&[0, 0, 0, 9]), Some(1)), Side::Before), false)
            .unwrap()
            .start,
        30
    );
    assert_eq!(blocks.first_of(&row, false).unwrap().start, 10);
}
