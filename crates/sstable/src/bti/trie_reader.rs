//! Finding keys in a trie on disk.
//!
//! Nothing that is read is trusted: a node lies within its page, its children before it in the file. A path therefore
//! ends, and is never longer than a key can be. A whole walk over damaged pages could still visit a node by many
//! paths; who walks checks that what it finds ascends.

use super::node::{NodeType, PAGE_BYTES, Shape};
use crate::block::absent_pages::AbsentPages;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_bytes::PageBytes;
use crate::block::page_cache::PageCache;
use crate::block::pages::Pages;
use crate::error::ReadError;

/// A file of tries, as one read sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrieFile<'a> {
    pub file: &'a ChunkedFile,
    pub pages: Pages<'a>,
    /// Pages that stay in memory while the file is open.
    pub pinned: &'a [PinnedPage],
}

#[derive(Clone, Debug)]
pub(crate) struct PinnedPage {
    pub index: u64,
    pub bytes: PageBytes,
}

impl PinnedPage {
    pub fn read(file: &ChunkedFile, index: u64) -> Result<Self, ReadError> {
        // Nothing is kept in it; it only counts.
        let cache = PageCache::new(0);
        let absent = AbsentPages::new(file, index, index, false);
        let bytes = Pages::from(&cache).fetch(absent)?.into();
        Ok(PinnedPage { index, bytes })
    }
}

/// Payload of a key: the payload bits of its node, never 0, and the page's bytes from the payload on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredPayload<'p> {
    pub bits: u8,
    pub bytes: &'p [u8],
}

/// One page, in whatever holds it: memory may have a run of several.
#[derive(Debug)]
struct TriePage {
    run: PageBytes,
    /// Where in the run the page begins.
    start: usize,
}

impl TriePage {
    fn bytes(&self) -> &[u8] {
        let bytes = self.run.get(self.start..).unwrap_or_default();
        bytes.get(..PAGE_BYTES).unwrap_or(bytes)
    }
}

/// A node, and the page it lies in.
#[derive(Debug)]
struct Walker<'a> {
    file: TrieFile<'a>,
    page: TriePage,
    page_index: Option<u64>,
    /// Offset of the node in the page.
    at: usize,
    position: u64,
    node_type: &'static NodeType,
}

/// A place in a trie: at one of its payloads.
#[derive(Debug)]
pub(super) struct TrieCursor<'a> {
    walker: Walker<'a>,
    root: u64,
    /// The nodes above the current one, and which child leads on.
    path: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    node: u64,
    child: usize,
}

/// A translated key is at most twice its 64 KiB per component; longer paths are damage.
const PATH_LENGTH_MAX: usize = 1 << 20;

/// Where a search byte is, or would be, among a node's children.
enum Search {
    Found(usize),
    /// The first child after it, by index.
    Absent(usize),
}

impl<'a> TrieFile<'a> {
    /// Follows a key as far as there are nodes for it. `Some` is the payload of the node reached, and whether the key
    /// ended there; a node with children is only reached by a whole key.
    pub fn follow<T>(
        self,
        root: u64,
        key: &[u8],
        read: impl FnOnce(StoredPayload<'_>) -> Result<T, &'static str>,
    ) -> Result<Option<T>, ReadError> {
        let mut walker = Walker::at(self, root)?;
        for &byte in key {
            match walker.search(byte)? {
                Search::Found(child) => {
                    let Some(child) = walker.child(child)? else {
                        return Ok(None);
                    };
                    walker.go(child)?;
                }
                Search::Absent(_) if walker.node_type.shape != Shape::Leaf => return Ok(None),
                Search::Absent(_) => break,
            }
        }
        walker.read_payload(read)
    }

    /// The bytes from a position to the end of its page, if that stays in memory.
    pub fn pinned_from(self, position: u64) -> Option<&'a [u8]> {
        let (index, at) = (position / PAGE_BYTES as u64, position % PAGE_BYTES as u64);
        let page = self.pinned.iter().find(|page| page.index == index)?;
        page.bytes.get(at as usize..)
    }

    fn page(self, index: u64) -> Result<TriePage, ReadError> {
        let whole = |run| TriePage { run, start: 0 };
        if let Some(pinned) = self.pinned.iter().find(|page| page.index == index) {
            return Ok(whole(pinned.bytes.clone()));
        }
        match self.pages.find(self.file, index) {
            // What was brought for something else, as an entry that crosses a page's end, may begin pages before.
            Some(run) => Ok(TriePage {
                start: (index * PAGE_BYTES as u64).saturating_sub(run.offset) as usize,
                run: run.bytes,
            }),
            None => {
                let absent = self.pages.absent(self.file, index, index, true);
                match self.pages.find_resident(&absent) {
                    Some(run) => Ok(whole(run.bytes)),
                    None => Ok(whole(self.pages.fetch(absent)?.into())),
                }
            }
        }
    }

    fn corrupt(self, offset: u64, wanted: &'static str, found: impl ToString) -> ReadError {
        ReadError::Corrupt {
            file: self.file.path().to_path_buf(),
            offset,
            wanted,
            found: found.to_string(),
        }
    }
}

impl<'a> Walker<'a> {
    fn at(file: TrieFile<'a>, position: u64) -> Result<Self, ReadError> {
        let mut walker = Walker {
            file,
            page: TriePage {
                run: Vec::new().into(),
                start: 0,
            },
            page_index: None,
            at: 0,
            position,
            node_type: NodeType::of_first_byte(0),
        };
        walker.go(position)?;
        Ok(walker)
    }

    fn go(&mut self, position: u64) -> Result<(), ReadError> {
        if position >= self.file.file.length() {
            return Err(self.file.corrupt(
                position,
                "a trie node within the file",
                "a pointer beyond its end",
            ));
        }
        let index = position / PAGE_BYTES as u64;
        if self.page_index != Some(index) {
            self.page = self.file.page(index)?;
            self.page_index = Some(index);
        }
        self.at = (position % PAGE_BYTES as u64) as usize;
        self.position = position;
        self.node_type = NodeType::of_first_byte(self.byte(0)?);
        // All that is read of the node later lies within the page.
        let length = self.length()?;
        if self.at + length > self.page.bytes().len() {
            return Err(self.crosses_page());
        }
        Ok(())
    }

    fn crosses_page(&self) -> ReadError {
        self.file.corrupt(
            self.position,
            "a trie node within its page",
            "one that crosses the page's end",
        )
    }

    fn byte(&self, offset: usize) -> Result<u8, ReadError> {
        self.page
            .bytes()
            .get(self.at + offset)
            .copied()
            .ok_or_else(|| self.crosses_page())
    }

    fn length(&self) -> Result<usize, ReadError> {
        let count = self.slot_count()?;
        Ok(self.node_type.length(count, count))
    }

    /// Children by index; in a dense node some may be missing.
    fn slot_count(&self) -> Result<usize, ReadError> {
        Ok(match self.node_type.shape {
            Shape::Leaf => 0,
            Shape::Single => 1,
            Shape::Sparse => usize::from(self.byte(1)?),
            Shape::Dense => usize::from(self.byte(2)?) + 1,
        })
    }

    fn search(&self, wanted: u8) -> Result<Search, ReadError> {
        let bytes = match self.node_type.shape {
            Shape::Leaf => &[],
            Shape::Single => {
                let at = self.at + if self.node_type.pointer_bits == 12 { 2 } else { 1 };
                self.page.bytes().get(at..=at).unwrap_or_default()
            }
            Shape::Sparse => {
                let start = self.at + 2;
                self.page
                    .bytes()
                    .get(start..start + self.slot_count()?)
                    .unwrap_or_default()
            }
            Shape::Dense => return self.search_dense(wanted),
        };
        Ok(match bytes.binary_search(&wanted) {
            Ok(index) => Search::Found(index),
            Err(index) => Search::Absent(index),
        })
    }

    fn search_dense(&self, wanted: u8) -> Result<Search, ReadError> {
        let count = self.slot_count()?;
        Ok(match wanted.checked_sub(self.byte(1)?).map(usize::from) {
            None => Search::Absent(0),
            Some(index) if index >= count => Search::Absent(count),
            Some(index) if self.distance(index) == 0 => Search::Absent(index),
            Some(index) => Search::Found(index),
        })
    }

    /// How far back a child is; 0 for none.
    fn distance(&self, index: usize) -> u64 {
        let bits = self.node_type.pointer_bits;
        let start = self.at
            + match self.node_type.shape {
                Shape::Leaf => return 0,
                Shape::Single => 2,
                Shape::Sparse => 2 + usize::from(self.page.bytes().get(self.at + 1).copied().unwrap_or(0)),
                Shape::Dense => 3,
            };
        let number = |start: usize, length: usize| {
            let bytes = self.page.bytes().get(start..start + length).unwrap_or_default();
            bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        match (self.node_type.shape, bits) {
            (Shape::Single, 4) => number(self.at, 1) & 0xf,
            (Shape::Single, 12) => number(self.at, 2) & 0xfff,
            (_, 12) => {
                let word = number(start + 3 * index / 2, 2);
                if index.is_multiple_of(2) {
                    word >> 4
                } else {
                    word & 0xfff
                }
            }
            _ => number(start + index * bits / 8, bits / 8),
        }
    }

    /// The position of a child; `None` where a dense node has a gap.
    fn child(&self, index: usize) -> Result<Option<u64>, ReadError> {
        match self.distance(index) {
            0 if self.node_type.shape == Shape::Dense => Ok(None),
            0 => Err(self.file.corrupt(
                self.position,
                "a child before its parent",
                "a node that points to itself",
            )),
            distance => match self.position.checked_sub(distance) {
                Some(child) => Ok(Some(child)),
                None => Err(self
                    .file
                    .corrupt(self.position, "a child within the file", distance)),
            },
        }
    }

    fn first_child_from(&self, start: usize) -> Result<Option<(usize, u64)>, ReadError> {
        for index in start..self.slot_count()? {
            if let Some(child) = self.child(index)? {
                return Ok(Some((index, child)));
            }
        }
        Ok(None)
    }

    fn last_child_before(&self, end: usize) -> Result<Option<(usize, u64)>, ReadError> {
        for index in (0..end.min(self.slot_count()?)).rev() {
            if let Some(child) = self.child(index)? {
                return Ok(Some((index, child)));
            }
        }
        Ok(None)
    }

    fn payload(&self) -> Result<Option<StoredPayload<'_>>, ReadError> {
        let bits = self.byte(0)? & 0xf;
        if bits == 0 || !self.node_type.has_payload_bits() {
            return Ok(None);
        }
        let start = self.at + self.length()?;
        Ok(Some(StoredPayload {
            bits,
            bytes: self.page.bytes().get(start..).unwrap_or_default(),
        }))
    }

    fn read_payload<T>(
        &self,
        read: impl FnOnce(StoredPayload<'_>) -> Result<T, &'static str>,
    ) -> Result<Option<T>, ReadError> {
        match self.payload()? {
            None => Ok(None),
            Some(payload) => read(payload).map(Some).map_err(|wanted| {
                self.file
                    .corrupt(self.position, wanted, format!("{:#x}", payload.bits))
            }),
        }
    }
}

impl<'a> TrieCursor<'a> {
    pub fn new(file: TrieFile<'a>, root: u64) -> Result<Self, ReadError> {
        Ok(TrieCursor {
            walker: Walker::at(file, root)?,
            root,
            path: Vec::new(),
        })
    }

    /// Reads the payload of the current key.
    pub fn read<T>(
        &self,
        read: impl FnOnce(StoredPayload<'_>) -> Result<T, &'static str>,
    ) -> Result<T, ReadError> {
        let missing = || {
            self.walker
                .file
                .corrupt(self.walker.position, "a payload", "none")
        };
        self.walker.read_payload(read)?.ok_or_else(missing)
    }

    /// To the first key.
    pub fn first(&mut self) -> Result<(), ReadError> {
        self.path.clear();
        self.walker.go(self.root)?;
        self.descend_to_first()
    }

    /// To the last key.
    pub fn last(&mut self) -> Result<(), ReadError> {
        self.path.clear();
        self.walker.go(self.root)?;
        self.descend_to_last()
    }

    /// To the last key that is not after the one sought; false, and nowhere, if there is none.
    pub fn floor(&mut self, key: &[u8]) -> Result<bool, ReadError> {
        // The best so far: a node's own payload, or the branch before the sought one.
        let mut best: Option<(usize, u64, Option<usize>)> = None;
        self.path.clear();
        self.walker.go(self.root)?;
        for byte in key.iter().copied().map(Some).chain([None]) {
            let node = self.walker.position;
            let search = match byte {
                Some(byte) => self.walker.search(byte)?,
                None => Search::Absent(0),
            };
            let (Search::Found(index) | Search::Absent(index)) = search;
            if let Some((before, _)) = self.walker.last_child_before(index)? {
                best = Some((self.path.len(), node, Some(before)));
            } else if self.walker.payload()?.is_some() {
                best = Some((self.path.len(), node, None));
            }
            let Search::Found(child) = search else { break };
            let Some(position) = self.walker.child(child)? else {
                break;
            };
            self.push(Step { node, child })?;
            self.walker.go(position)?;
        }
        let Some((depth, node, child)) = best else {
            return Ok(false);
        };
        self.path.truncate(depth);
        self.walker.go(node)?;
        if let Some(child) = child {
            self.enter(child)?;
            self.descend_to_last()?;
        }
        Ok(true)
    }

    /// To the key after the current one; false, and nowhere, at the last.
    pub fn next(&mut self) -> Result<bool, ReadError> {
        let mut from = 0;
        loop {
            if let Some((child, _)) = self.walker.first_child_from(from)? {
                self.enter(child)?;
                self.descend_to_first()?;
                return Ok(true);
            }
            let Some(step) = self.path.pop() else {
                return Ok(false);
            };
            self.walker.go(step.node)?;
            from = step.child + 1;
        }
    }

    /// To the key before the current one; false, and nowhere, at the first.
    pub fn previous(&mut self) -> Result<bool, ReadError> {
        while let Some(step) = self.path.pop() {
            self.walker.go(step.node)?;
            if let Some((child, _)) = self.walker.last_child_before(step.child)? {
                self.enter(child)?;
                self.descend_to_last()?;
                return Ok(true);
            }
            if self.walker.payload()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the error for impossible content of the trie at the current key.
    pub fn corrupt(&self, wanted: &'static str) -> ReadError {
        self.walker
            .file
            .corrupt(self.walker.position, wanted, "something else")
    }

    fn enter(&mut self, child: usize) -> Result<(), ReadError> {
        let node = self.walker.position;
        if let Some(position) = self.walker.child(child)? {
            self.push(Step { node, child })?;
            self.walker.go(position)?;
        }
        Ok(())
    }

    fn push(&mut self, step: Step) -> Result<(), ReadError> {
        if self.path.len() >= PATH_LENGTH_MAX {
            let wanted = "a path of at most 1 MiB in a trie";
            return Err(self.walker.file.corrupt(step.node, wanted, "a longer one"));
        }
        self.path.push(step);
        Ok(())
    }

    fn descend_to_first(&mut self) -> Result<(), ReadError> {
        while self.walker.payload()?.is_none() {
            match self.walker.first_child_from(0)? {
                Some((child, _)) => self.enter(child)?,
                None => return Err(self.dead_end()),
            }
        }
        Ok(())
    }

    fn descend_to_last(&mut self) -> Result<(), ReadError> {
        while let Some((child, _)) = self.walker.last_child_before(usize::MAX)? {
            self.enter(child)?;
        }
        match self.walker.payload()? {
            Some(_) => Ok(()),
            None => Err(self.dead_end()),
        }
    }

    fn dead_end(&self) -> ReadError {
        self.walker.file.corrupt(
            self.walker.position,
            "a node with children or a payload",
            "neither",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;
    use std::path::Path;

    use helenus_vfs::{Disk, MemoryDisk};

    use super::super::testing::Random;
    use super::super::trie_writer::{PageSink, Payload, TrieWriter};
    use super::*;
    use crate::block::chunked_file::Form;

    fn file_of(bytes: &[u8]) -> ChunkedFile {
        let disk = MemoryDisk::new();
        let path = Path::new("/trie.db");
        let writer = disk.create(path).unwrap();
        writer.append(bytes).unwrap();
        let form = Form::Plain {
            chunk_bytes: PAGE_BYTES as u32,
            checksums: None,
        };
        ChunkedFile::new(
            path.to_path_buf(),
            disk.open(path).unwrap(),
            bytes.len() as u64,
            form,
        )
    }

    fn payload(value: u32) -> Payload {
        Payload::new(4, &[&value.to_be_bytes()])
    }

    fn value(payload: StoredPayload<'_>) -> Result<u32, &'static str> {
        let bytes = payload.bytes.first_chunk::<4>().ok_or("four bytes")?;
        Ok(u32::from_be_bytes(*bytes))
    }

    fn write(keys: &BTreeMap<Vec<u8>, u32>, start: usize) -> (Vec<u8>, u64) {
        let mut sink = PageSink::default();
        sink.append(&vec![0xee; start]);
        let mut writer = TrieWriter::default();
        for (key, value) in keys {
            writer.add(&mut sink, key, payload(*value));
        }
        let root = writer.finish(&mut sink);
        let mut bytes = Vec::new();
        sink.take(|pending| bytes.extend_from_slice(pending));
        (bytes, root)
    }

    /// Few different bytes make deep tries with prefixes among the keys; many make wide ones.
    fn keys(random: &mut Random, count: usize, length_max: usize, width: usize) -> BTreeMap<Vec<u8>, u32> {
        let alphabet: Vec<u8> = (0..width)
            .map(|index| (index * 255 / width.max(2)) as u8)
            .collect();
        (0..count)
            .map(|_| (random.bytes(length_max, &alphabet), random.next() as u32))
            .collect()
    }

    #[test]
    fn a_trie_answers_as_a_sorted_map_does() {
        let mut random = Random::new(5);
        let shapes = [
            (1, 0, 2),
            (2, 3, 2),
            (60, 6, 3),
            (3000, 12, 2),
            (3000, 3, 256),
            (20_000, 5, 100),
            (400, 700, 2),
            (5000, 40, 8),
        ];
        for (count, length_max, width) in shapes {
            let keys = keys(&mut random, count, length_max, width);
            let start = random.below(3 * PAGE_BYTES);
            let (bytes, root) = write(&keys, start);
            let (file, cache) = (file_of(&bytes), PageCache::new(16 << 20));
            let trie = TrieFile {
                file: &file,
                pages: (&cache).into(),
                pinned: &[],
            };
            let mut cursor = TrieCursor::new(trie, root).unwrap();
            cursor.first().unwrap();
            for (index, (key, expected)) in keys.iter().enumerate() {
                assert_eq!(cursor.read(value).unwrap(), *expected, "{key:?}");
                assert_eq!(cursor.next().unwrap(), index + 1 < keys.len());
            }
            cursor.last().unwrap();
            for (index, (key, expected)) in keys.iter().rev().enumerate() {
                assert_eq!(cursor.read(value).unwrap(), *expected, "{key:?}");
                assert_eq!(cursor.previous().unwrap(), index + 1 < keys.len());
            }
            let stored: Vec<&Vec<u8>> = keys.keys().collect();
            for _ in 0..2000 {
                let mut sought = stored[random.below(stored.len())].clone();
                match random.below(4) {
                    0 => sought.push(random.next() as u8),
                    1 => sought.truncate(random.below(sought.len() + 1)),
                    2 if !sought.is_empty() => {
                        let at = random.below(sought.len());
                        sought[at] = sought[at].wrapping_add(random.below(3) as u8).wrapping_sub(1);
                    }
                    _ => {}
                }
                check_floor(&mut cursor, &keys, &sought);
                if let Some(expected) = keys.get(&sought) {
                    assert_eq!(trie.follow(root, &sought, value).unwrap(), Some(*expected));
                }
            }
        }
    }

    fn check_floor(cursor: &mut TrieCursor<'_>, keys: &BTreeMap<Vec<u8>, u32>, sought: &Vec<u8>) {
        let expected = keys.range::<Vec<u8>, _>(..=sought).next_back();
        assert_eq!(cursor.floor(sought).unwrap(), expected.is_some(), "{sought:?}");
        let Some((key, expected)) = expected else { return };
        assert_eq!(cursor.read(value).unwrap(), *expected, "{sought:?}");
        let after = keys
            .range::<Vec<u8>, _>((Bound::Excluded(key), Bound::Unbounded))
            .next();
        assert_eq!(cursor.next().unwrap(), after.is_some());
        if let Some((_, after)) = after {
            assert_eq!(cursor.read(value).unwrap(), *after);
            assert!(cursor.previous().unwrap());
            assert_eq!(cursor.read(value).unwrap(), *expected);
        }
    }

    #[test]
    fn a_lookup_reads_one_page_per_level() {
        let keys: BTreeMap<Vec<u8>, u32> = (0..200_000_u32)
            .map(|key| (key.wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec(), key))
            .collect();
        let (bytes, root) = write(&keys, 0);
        let file = file_of(&bytes);
        let mut pages = 0;
        for key in keys.keys().step_by(1000) {
            let cache = PageCache::new(1 << 20);
            let trie = TrieFile {
                file: &file,
                pages: (&cache).into(),
                pinned: &[],
            };
            trie.follow(root, key, value).unwrap().unwrap();
            pages = pages.max(cache.cost().reads);
        }
        assert!(pages <= 3, "{pages} pages for 200,000 keys of 4 bytes");
    }

    #[test]
    fn flipped_bits_end_in_errors_or_other_payloads_but_end() {
        let mut random = Random::new(7);
        let keys = keys(&mut random, 300, 8, 5);
        let (bytes, root) = write(&keys, 0);
        let stored: Vec<&Vec<u8>> = keys.keys().step_by(17).collect();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (file, cache) = (file_of(&bytes), PageCache::new(1 << 20));
            let trie = TrieFile {
                file: &file,
                pages: (&cache).into(),
                pinned: &[],
            };
            for key in &stored {
                let _ = trie.follow(root, key, value);
                let Ok(mut cursor) = TrieCursor::new(trie, root) else {
                    continue;
                };
                if cursor.floor(key).unwrap_or(false) {
                    let _ = cursor.previous();
                }
                if cursor.floor(key).unwrap_or(false) {
                    let _ = cursor.next();
                }
            }
        }
    }

    /// Every key below a node, with its payload's bits and bytes.
    fn dump(
        file: TrieFile<'_>,
        node: u64,
        key: &mut Vec<u8>,
        length: fn(u8) -> usize,
        out: &mut Vec<(Vec<u8>, Payload)>,
    ) {
        let walker = Walker::at(file, node).unwrap();
        if let Some(payload) = walker.payload().unwrap() {
            let bytes = &payload.bytes[..length(payload.bits)];
            out.push((key.clone(), Payload::new(payload.bits, &[bytes])));
        }
        for byte in 0..=255 {
            if let Search::Found(child) = walker.search(byte).unwrap() {
                key.push(byte);
                dump(file, walker.child(child).unwrap().unwrap(), key, length, out);
                key.pop();
            }
        }
    }

    /// Bits of the partition index: a byte of the hash and a position.
    fn partition_payload_length(bits: u8) -> usize {
        usize::from(bits) - 6
    }

    #[test]
    fn tries_that_cassandra_wrote_come_out_the_same_when_written_again() {
        for name in ["da-small/da-2", "da-keys/da-3"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("tests/sstable/fixtures/{name}-bti-Partitions.db"));
            let bytes = std::fs::read(path).unwrap();
            let (file, cache) = (file_of(&bytes), PageCache::new(1 << 20));
            let trie = TrieFile {
                file: &file,
                pages: (&cache).into(),
                pinned: &[],
            };
            let footer: Vec<u64> = bytes[bytes.len() - 24..]
                .chunks(8)
                .map(|number| u64::from_be_bytes(number.try_into().unwrap()))
                .collect();
            let mut keys = Vec::new();
            dump(
                trie,
                footer[2],
                &mut Vec::new(),
                partition_payload_length,
                &mut keys,
            );
            assert_eq!(keys.len() as u64, footer[1]);
            let (mut sink, mut writer) = (PageSink::default(), TrieWriter::default());
            for (key, payload) in &keys {
                writer.add(&mut sink, key, *payload);
            }
            assert_eq!(writer.finish(&mut sink), footer[2]);
            sink.take(|pending| assert!(*pending == bytes[..footer[0] as usize], "{name}"));
        }
    }
}
