//! Bytes of a file from a position on, as far ahead as the reader asks.

use std::path::Path;

use crate::block::absent_pages::AbsentPages;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_bytes::PageBytes;
use crate::block::page_cache::PageCache;
use crate::block::pages::Pages;
use crate::block::ticket::{PageRun, ReadTicket};
use crate::decode::DecodeError;
use crate::error::ReadError;

/// Stream whose available bytes are a view into one page or one run of pages; only where an item crosses into the next are bytes
/// copied together.
#[derive(Debug)]
pub(crate) struct ChunkStream<'a> {
    file: &'a ChunkedFile,
    pages: Pages<'a>,
    window: Window,
    /// The first available byte, within the window.
    start: usize,
    /// The file's offset of the window's first byte.
    window_offset: u64,
    /// Up to where the reader expects to read; 0 if it does not know.
    expected_end: u64,
    /// Up to where the reader needs pages unpacked if it has it right.
    unpack_end: u64,
    /// The size of the last request, and where it ended: one that continues it is twice as large.
    request_bytes: u64,
    request_end: u64,
    is_scan: bool,
    /// Nothing is read ahead.
    is_single: bool,
    /// More will be asked for behind what is expected.
    reads_on: bool,
    /// Up to where this stream has fetched pages that it is still to come to.
    fetched_end: u64,
    /// Bytes of the last request, as they are in the file; kept for their memory.
    stored: Vec<u8>,
}

#[derive(Debug)]
enum Window {
    Shared(PageBytes),
    Joined(Vec<u8>),
}

/// Bytes that are added at least to what lies across two pages: an entry of an index or a small row, which is decoded again with each
/// addition.
const JOINED_BYTES_MIN: usize = 256;
/// The first request of a scan, which may end after a row.
const SCAN_BYTES_MIN: u64 = 4 * 1024;
/// Bytes known to be needed that come in one request; beyond, a reader may well stop before.
const EXPECTED_BYTES_MIN: u64 = 16 * 1024;
/// Largest request whose read-ahead is cached, in bytes: that of a larger one would take the place of many single rows.
const KEPT_BYTES_MAX: u64 = 16 * 1024;
/// Requests that leave out no more than this continue each other: a drive moves as much in the time that one more
/// request takes (25 to 30 us, decision 8).
const GAP_BYTES_MAX: u64 = 32 * 1024;

impl Window {
    fn bytes(&self) -> &[u8] {
        match self {
            Window::Shared(bytes) => bytes,
            Window::Joined(bytes) => bytes,
        }
    }
}

impl<'a> ChunkStream<'a> {
    pub fn new(file: &'a ChunkedFile, pages: impl Into<Pages<'a>>) -> Self {
        ChunkStream {
            file,
            pages: pages.into(),
            window: Window::Joined(Vec::new()),
            start: 0,
            window_offset: 0,
            expected_end: 0,
            unpack_end: u64::MAX,
            request_bytes: 0,
            request_end: 0,
            is_scan: false,
            is_single: false,
            reads_on: false,
            fetched_end: 0,
            stored: Vec::new(),
        }
    }

    /// For a scan: requests begin larger, and what they bring is not kept in the cache.
    pub fn sequential(file: &'a ChunkedFile, pages: impl Into<Pages<'a>>) -> Self {
        let mut stream = Self::new(file, pages);
        stream.is_scan = true;
        stream
    }

    /// For damaged files: a page that is good is not refused together with a bad one behind it.
    pub fn page_by_page(file: &'a ChunkedFile, pages: impl Into<Pages<'a>>) -> Self {
        let mut stream = Self::new(file, pages);
        stream.is_single = true;
        stream
    }

    pub fn path(&self) -> &'a Path {
        self.file.path()
    }

    /// As the page cache tells files apart.
    pub fn file_id(&self) -> u64 {
        self.file.id()
    }

    /// Decodes at the position, making more bytes available as long as the decoder asks for them.
    pub fn decode<T>(
        &mut self,
        mut decode: impl FnMut(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, ReadError> {
        loop {
            match decode(self.available()) {
                Ok(value) => return Ok(value),
                Err(DecodeError::Truncated { needed }) if self.ensure(needed)? => {}
                Err(error) => return Err(error.in_file(self.path(), self.position())),
            }
        }
    }

    /// Ticket of a read that goes in steps.
    pub fn ticket(&self) -> Option<&'a ReadTicket> {
        self.pages.ticket()
    }

    pub fn cache(&self) -> &'a PageCache {
        self.pages.cache()
    }

    pub fn count_decoded(&self, items: u64) {
        self.pages.count_decoded(items);
    }

    /// The file's offset of the first available byte.
    pub fn position(&self) -> u64 {
        self.window_offset + self.start as u64
    }

    /// Bytes of the file from here on.
    pub fn remaining(&self) -> u64 {
        self.file.length().saturating_sub(self.position())
    }

    pub fn is_at_end(&self) -> bool {
        self.position() >= self.file.length()
    }

    /// Returns whether bytes from a position on are in the window.
    pub fn holds(&self, position: u64, length: u64) -> bool {
        let end = self.window_offset + self.window.bytes().len() as u64;
        self.window_offset <= position && position.saturating_add(length) <= end
    }

    /// Says up to where the reader will read if nothing ends it before; 0 if that is unknown.
    pub fn expect_until(&mut self, end: u64) {
        self.expected_end = end;
        self.unpack_end = if end == 0 { u64::MAX } else { end };
        self.reads_on = false;
    }

    /// Says that nothing from an end on will be read of a page, with no more of the file asked for than otherwise: pages that nobody keeps
    /// are unpacked that far.
    pub fn unpack_until(&mut self, end: u64) {
        self.unpack_end = end;
    }

    /// Says that something behind the expected end will be asked for as well: where what is asked for lies close
    /// together, requests grow as those of a scan.
    pub fn read_on(&mut self) {
        self.reads_on = true;
        self.unpack_end = u64::MAX;
    }

    pub fn seek(&mut self, position: u64) {
        let within = position
            .checked_sub(self.window_offset)
            .filter(|at| *at <= self.window.bytes().len() as u64);
        if let Some(at) = within {
            self.start = at as usize;
        } else {
            self.count_dropped();
            self.window = Window::Joined(Vec::new());
            self.window_offset = position;
            self.start = 0;
        }
    }

    /// Counts what was fetched and is left behind.
    fn count_dropped(&mut self) {
        let page_bytes = self.file.page_bytes();
        let (first, end) = (
            self.position().div_ceil(page_bytes),
            self.fetched_end.div_ceil(page_bytes),
        );
        self.fetched_end = 0;
        if first < end {
            self.pages.count_dropped(end - first);
        }
    }

    pub fn available(&self) -> &[u8] {
        &self.window.bytes()[self.start..]
    }

    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.available().len());
        self.start = (self.start + count).min(self.window.bytes().len());
    }

    /// Makes at least `count` bytes available; false if the file ends before.
    pub fn ensure(&mut self, count: usize) -> Result<bool, ReadError> {
        let needed_end = self.position().saturating_add(count as u64);
        if needed_end > self.file.length() {
            return Ok(false);
        }
        while self.available().len() < count {
            self.extend(needed_end)?;
        }
        Ok(true)
    }

    /// Adds what follows the window, at least a byte. There is one, as the caller has checked.
    fn extend(&mut self, needed_end: u64) -> Result<(), ReadError> {
        let end = self.window_offset + self.window.bytes().len() as u64;
        let page = end / self.file.page_bytes();
        let wanted = end..self.wanted_end(needed_end);
        if let Some(run) = self.pages.find_part(self.file, wanted, self.is_scan) {
            self.go_on_in(run, needed_end);
            return Ok(());
        }
        let absent = self.absent(page, needed_end);
        if let Some(run) = self.pages.find_resident(&absent) {
            self.go_on_in(run, needed_end);
            return Ok(());
        }
        let page_offset = page * self.file.page_bytes();
        let skipped = (end - page_offset) as usize;
        let room_end = needed_end.next_multiple_of(self.file.page_bytes());
        if self.available().is_empty() {
            self.begin_window(page_offset);
            if let Err(error) = self.fetch_behind(absent) {
                self.window_offset = end;
                return Err(error);
            }
            self.start = skipped;
        } else if skipped == 0 {
            self.join(&[], room_end);
            self.fetch_behind(absent)?;
        } else {
            let bytes = self.pages.fetch(absent)?;
            self.fetched_end = page_offset + bytes.len() as u64;
            self.join(bytes.get(skipped..).unwrap_or_default(), room_end);
        }
        Ok(())
    }

    /// Up to where pages are to be unpacked.
    fn wanted_end(&self, needed_end: u64) -> u64 {
        if self.is_scan || self.is_single || self.unpack_end < needed_end {
            u64::MAX
        } else {
            self.unpack_end
        }
    }

    /// Adds bytes of pages in memory, which have those that follow the window.
    fn go_on_in(&mut self, run: PageRun, needed_end: u64) {
        let end = self.window_offset + self.window.bytes().len() as u64;
        let skipped = (end - run.offset) as usize;
        // A suspended scan goes on with requests of the size that it had come to.
        self.request_end = run.offset + run.bytes.len() as u64;
        self.request_bytes = self.request_bytes.max(run.bytes.len() as u64);
        if self.available().is_empty() {
            self.window_offset = run.offset;
            self.start = skipped;
            self.window = Window::Shared(run.bytes);
        } else {
            // What lies across two pages is copied, and not the rest of the second, which is read where it lies.
            let wanted = usize::try_from(needed_end - end).unwrap_or(usize::MAX);
            let wanted = wanted.max(self.available().len()).max(JOINED_BYTES_MIN);
            let behind = run.bytes.get(skipped..).unwrap_or_default();
            self.join(behind.get(..wanted).unwrap_or(behind), needed_end);
        }
    }

    /// An empty window, with the memory of the one before.
    fn begin_window(&mut self, offset: u64) {
        match &mut self.window {
            Window::Joined(bytes) => bytes.clear(),
            shared => *shared = Window::Joined(Vec::new()),
        }
        self.window_offset = offset;
        self.start = 0;
    }

    /// Fetches what follows a joined window.
    fn fetch_behind(&mut self, absent: AbsentPages) -> Result<(), ReadError> {
        let Window::Joined(bytes) = &mut self.window else {
            unreachable!("both callers have just joined it")
        };
        let held = bytes.len();
        if let Err(error) = self.pages.fetch_into(absent, &mut self.stored, bytes) {
            // What could not be checked is not handed out.
            bytes.truncate(held);
            return Err(error);
        }
        self.fetched_end = self.window_offset + bytes.len() as u64;
        Ok(())
    }

    /// The request for a page and for those after it that are wanted and not in memory either.
    fn absent(&mut self, first: u64, needed_end: u64) -> AbsentPages {
        let page_bytes = self.file.page_bytes();
        let offset = first * page_bytes;
        let gap_max = if self.is_scan || self.reads_on {
            GAP_BYTES_MAX
        } else {
            0
        };
        let continues = self.request_bytes > 0
            && offset
                .checked_sub(self.request_end)
                .is_some_and(|gap| gap <= gap_max);
        let grown = if continues {
            self.request_bytes * 2
        } else if self.is_scan {
            SCAN_BYTES_MIN
        } else {
            page_bytes
        };
        let end = if self.is_single {
            offset + page_bytes
        } else if self.is_scan || self.expected_end == 0 {
            // A scan goes on behind what is expected of one partition.
            offset + grown
        } else if needed_end < self.expected_end {
            self.expected_end.min(offset + grown.max(EXPECTED_BYTES_MIN))
        } else {
            needed_end
        };
        let end = if self.reads_on && continues {
            end.max(offset + grown)
        } else {
            end
        };
        let end = end
            .min(offset + self.pages.request_bytes_max().max(page_bytes))
            // What is needed comes at once, however much: for each part of a huge value the read would begin again.
            .max(if self.is_single { 0 } else { needed_end })
            .min(self.file.length());
        let mut last = first.max(end.saturating_sub(1) / page_bytes);
        // A scan asks for all at once rather than for what lies between many pages.
        let mut ahead = first + 1..=last;
        if !self.is_scan
            && let Some(cached) = ahead.find(|page| self.pages.contains(self.file, *page))
        {
            last = cached - 1;
        }
        self.request_end = (last + 1) * page_bytes;
        self.request_bytes = self.request_end - offset;
        let is_kept = !self.is_scan && self.request_bytes <= KEPT_BYTES_MAX.max(page_bytes);
        let absent = self.pages.absent(self.file, first, last, is_kept);
        absent.up_to(self.wanted_end(needed_end))
    }

    /// Moves what is left of the window to its beginning and puts what follows behind it. There is room for all until `room_end`
    /// afterwards, and not for twice as much.
    fn join(&mut self, added: &[u8], room_end: u64) {
        let window_start = self.start;
        let rest_offset = self.window_offset + window_start as u64;
        let room = room_end.min(self.file.length()).saturating_sub(rest_offset) as usize;
        match &mut self.window {
            Window::Joined(bytes) => {
                bytes.drain(..window_start);
                bytes.reserve_exact(room.saturating_sub(bytes.len()));
                bytes.extend_from_slice(added);
            }
            Window::Shared(current) => {
                let rest = &current[window_start..];
                let mut bytes = Vec::with_capacity(room.max(rest.len() + added.len()));
                bytes.extend_from_slice(rest);
                bytes.extend_from_slice(added);
                self.window = Window::Joined(bytes);
            }
        }
        self.window_offset += window_start as u64;
        self.start = 0;
    }
}

impl Drop for ChunkStream<'_> {
    fn drop(&mut self) {
        self.count_dropped();
        if let Window::Shared(bytes) = std::mem::replace(&mut self.window, Window::Joined(Vec::new())) {
            self.pages.cache().give_page(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use helenus_test_heap::of_thread;
    use helenus_vfs::{Disk, MemoryDisk};

    use super::*;
    use crate::block::chunked_file::Form;
    use crate::block::compression::{CompressionInfo, CompressionParameters};
    use crate::block::compressor::Compressor;
    use crate::block::page_cache::{PageCache, PageLevel};

    const PAGE_BYTES: usize = 4 << 10;
    const CHUNK_BYTES: usize = 16 << 10;

    fn byte(at: usize) -> u8 {
        (at * 31 + at / 251) as u8
    }

    fn file(length: usize) -> ChunkedFile {
        let disk = MemoryDisk::new();
        let path = PathBuf::from("/Index.db");
        let bytes: Vec<u8> = (0..length).map(byte).collect();
        disk.create(&path).unwrap().append(&bytes).unwrap();
        let form = Form::Plain {
            chunk_bytes: PAGE_BYTES as u32,
            checksums: None,
        };
        let stored: Arc<_> = disk.open(&path).unwrap();
        ChunkedFile::new(path, stored, length as u64, form)
    }

    fn compressed_file(length: usize) -> ChunkedFile {
        let disk = MemoryDisk::new();
        let path = PathBuf::from("/Data.db");
        let bytes: Vec<u8> = (0..length).map(byte).collect();
        let (mut stored, mut chunk_offsets) = (Vec::new(), Vec::new());
        for chunk in bytes.chunks(CHUNK_BYTES) {
            let start = stored.len();
            chunk_offsets.push(start as u64);
            stored.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            stored.extend_from_slice(&lz4_flex::block::compress(chunk));
            let checksum = crc32fast::hash(&stored[start..]);
            stored.extend_from_slice(&checksum.to_be_bytes());
        }
        disk.create(&path).unwrap().append(&stored).unwrap();
        let info = CompressionInfo {
            parameters: CompressionParameters {
                compressor: Compressor::Lz4,
                chunk_bytes: CHUNK_BYTES as u32,
                compressed_bytes_max: u32::MAX,
            },
            data_length: length as u64,
            chunk_offsets,
        };
        let file_length = stored.len() as u64;
        let file: Arc<_> = disk.open(&path).unwrap();
        ChunkedFile::data(path, file, length as u64, Form::Compressed { info, file_length })
    }

    /// Reads `length` bytes from `start` on, in runs from there as long as pages are absent, and expects less or more of it. Returns
    /// the bytes of the page that came first.
    fn read_in_runs(
        file: &ChunkedFile,
        cache: &PageCache,
        start: usize,
        expected: usize,
        length: usize,
    ) -> usize {
        let ticket = ReadTicket::new();
        let mut first_bytes = 0;
        for _ in 0..20 {
            ticket.begin_run();
            let mut stream = ChunkStream::new(file, cache.suspending(&ticket));
            stream.seek(start as u64);
            stream.expect_until((start + expected) as u64);
            let mut read = Vec::new();
            let absent = loop {
                let step = 100.min(length - read.len());
                match stream.ensure(step) {
                    Ok(true) if step > 0 => {
                        read.extend_from_slice(&stream.available()[..step]);
                        stream.consume(step);
                    }
                    Ok(_) => {
                        let wanted: Vec<u8> = (start..start + length).map(byte).collect();
                        assert!(read == wanted, "{length} bytes at {start}, {expected} expected");
                        return first_bytes;
                    }
                    Err(ReadError::Absent(absent)) => break absent,
                    Err(error) => panic!("{error}"),
                }
            };
            let stored = absent.read().unwrap();
            cache.deliver(&ticket, &absent, &stored).unwrap();
            if first_bytes == 0 {
                first_bytes = ticket
                    .find(file.id(), start as u64)
                    .map_or(0, |run| run.bytes.len());
            }
        }
        panic!("{length} bytes at {start}, {expected} expected: no end");
    }

    /// All of a chunk was unpacked for each row, and chunks of 16 KiB have a hundred.
    #[test]
    fn a_page_is_unpacked_as_far_as_is_expected_and_further_when_more_is_read() {
        let file = compressed_file(10 * CHUNK_BYTES);
        let none = PageCache::new(0);
        assert_eq!(read_in_runs(&file, &none, 300, 200, 200), 500);
        assert_eq!(read_in_runs(&file, &none, 300, 100, 9_000), 400);
        assert_eq!(read_in_runs(&file, &none, 300, 200_000, 100), CHUNK_BYTES);
        for (decompressed, packed) in [(0, 0), (0, 1 << 20), (3 * CHUNK_BYTES, 1 << 20), (1 << 20, 0)] {
            let mut cache = PageCache::new(decompressed);
            cache.set_bytes_max(PageLevel::Packed, packed);
            let mut random = 1_u64;
            let mut below = |bound: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) as usize % bound
            };
            for _ in 0..300 {
                let start = below(8 * CHUNK_BYTES);
                let (expected, length) = (below(2 * CHUNK_BYTES), below(CHUNK_BYTES));
                read_in_runs(&file, &cache, start, expected, length);
            }
        }
    }

    /// Takes items of lengths, one after another; each asks for one byte more until it is there, as a decoder that knows no better.
    fn take(stream: &mut ChunkStream<'_>, lengths: impl IntoIterator<Item = usize>) {
        for length in lengths {
            let start = stream.position() as usize;
            let read = stream.decode(|bytes| match bytes.get(..length) {
                Some(item) => Ok(item.to_vec()),
                None => Err(DecodeError::Truncated {
                    needed: bytes.len() + 1,
                }),
            });
            let expected: Vec<u8> = (start..start + length).map(byte).collect();
            assert!(read.unwrap() == expected, "{length} bytes at {start}");
            stream.consume(length);
        }
    }

    /// For an entry of 11 bytes that lay across two pages of an index, the second was copied whole: a tenth of a read's instructions.
    #[test]
    fn what_lies_across_two_pages_is_copied_and_not_the_rest_of_the_second() {
        let file = file(10 * PAGE_BYTES);
        let cache = PageCache::new(1 << 20);
        let mut first = ChunkStream::new(&file, &cache);
        take(&mut first, (0..9).map(|_| PAGE_BYTES));
        let mut stream = ChunkStream::new(&file, &cache);
        stream.seek(PAGE_BYTES as u64 - 5);
        let before = of_thread().allocated_bytes;
        assert!(stream.ensure(11).unwrap());
        assert!(stream.available().len() >= 11);
        stream.consume(stream.available().len());
        assert!(stream.ensure(1_000).unwrap());
        let allocated = of_thread().allocated_bytes - before;
        assert!(allocated < 1_000, "{allocated} bytes");
    }

    #[test]
    fn items_of_any_length_are_what_the_file_has_whatever_the_cache_holds() {
        let length = 200 * PAGE_BYTES;
        let file = file(length);
        for cache_bytes in [0, 10 * PAGE_BYTES, 1 << 20] {
            let cache = PageCache::new(cache_bytes);
            for (round, of) in [ChunkStream::new, ChunkStream::sequential, ChunkStream::new]
                .into_iter()
                .enumerate()
            {
                let mut stream = of(&file, &cache);
                let mut random = 1 + round as u64;
                let mut left = length;
                let lengths = std::iter::from_fn(|| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let long = if random >> 60 == 0 { 20_000 } else { 600 };
                    let item = ((random >> 33) as usize % long).min(left);
                    left -= item;
                    (left > 0).then_some(item)
                });
                take(&mut stream, lengths);
            }
        }
    }
}
