//! Bytes of a file from a position on, as far ahead as the reader asks.

use std::path::Path;
use std::sync::Arc;

use super::chunked_file::ChunkedFile;
use super::pages::{AbsentPages, Pages};
use crate::error::ReadError;

/// What is available is a view into one page or one run of pages; only where an item crosses into the next are bytes
/// copied together.
#[derive(Debug)]
pub(super) struct ChunkStream<'a> {
    file: &'a ChunkedFile,
    pages: Pages<'a>,
    window: Window,
    /// The first available byte, within the window.
    start: usize,
    /// The file's offset of the window's first byte.
    window_offset: u64,
    /// Up to where the reader expects to read; missing pages up to there come in one request.
    expected_end: u64,
    readahead: Option<Readahead>,
}

#[derive(Debug)]
enum Window {
    Shared(Arc<[u8]>),
    Joined(Vec<u8>),
}

/// How far a scan reads ahead. What it reads is not kept in the cache.
#[derive(Clone, Copy, Debug)]
struct Readahead {
    bytes: u64,
    /// Where the last request ended.
    end: u64,
}

/// The first request of a scan, which may end after a row; each request that continues the one before doubles.
const READAHEAD_BYTES_MIN: u64 = 4 * 1024;
/// The largest request. A drive's throughput hardly grows beyond, and every scan may hold as much.
const REQUEST_BYTES_MAX: u64 = 128 * 1024;

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
            readahead: None,
        }
    }

    /// For a scan: requests grow as long as they continue each other, and bypass the cache.
    pub fn sequential(file: &'a ChunkedFile, pages: impl Into<Pages<'a>>) -> Self {
        let readahead = Some(Readahead {
            bytes: READAHEAD_BYTES_MIN,
            end: 0,
        });
        ChunkStream {
            readahead,
            ..Self::new(file, pages)
        }
    }

    pub fn path(&self) -> &'a Path {
        self.file.path()
    }

    /// The file's offset of the first available byte.
    pub fn position(&self) -> u64 {
        self.window_offset + self.start as u64
    }

    pub fn is_at_end(&self) -> bool {
        self.position() >= self.file.length()
    }

    /// Says up to where the reader will read if nothing ends it before.
    pub fn expect_until(&mut self, end: u64) {
        self.expected_end = end;
    }

    pub fn seek(&mut self, position: u64) {
        let within = position
            .checked_sub(self.window_offset)
            .filter(|at| *at <= self.window.bytes().len() as u64);
        if let Some(at) = within {
            self.start = at as usize;
        } else {
            self.window = Window::Joined(Vec::new());
            self.window_offset = position;
            self.start = 0;
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
        if let Some(run) = self.pages.find(self.file, page) {
            let skipped = (end - run.offset) as usize;
            if let Some(readahead) = &mut self.readahead {
                // A suspended scan goes on with requests of the size that it had come to.
                readahead.end = run.offset + run.bytes.len() as u64;
                readahead.bytes = readahead.bytes.max(run.bytes.len() as u64);
            }
            if self.available().is_empty() {
                self.window_offset = run.offset;
                self.start = skipped;
                self.window = Window::Shared(run.bytes);
            } else {
                self.join(run.bytes.get(skipped..).unwrap_or_default());
            }
            return Ok(());
        }
        let page_offset = page * self.file.page_bytes();
        let skipped = (end - page_offset) as usize;
        let absent = self.absent(page, needed_end);
        let bytes = self.pages.fetch(absent)?;
        if self.available().is_empty() {
            self.window_offset = page_offset;
            self.start = skipped;
            self.window = Window::Joined(bytes);
        } else {
            self.join(bytes.get(skipped..).unwrap_or_default());
        }
        Ok(())
    }

    /// The request for a page and for those after it that are wanted and not in memory either.
    fn absent(&mut self, first: u64, needed_end: u64) -> AbsentPages {
        let page_bytes = self.file.page_bytes();
        let offset = first * page_bytes;
        let mut wanted_end = needed_end.max(self.expected_end);
        if let Some(readahead) = &mut self.readahead {
            let continues = readahead.end == offset;
            readahead.bytes = if continues {
                (readahead.bytes * 2).min(REQUEST_BYTES_MAX)
            } else {
                READAHEAD_BYTES_MIN
            };
            // What is expected is no bound: the scan goes on behind it.
            wanted_end = wanted_end.max(offset + readahead.bytes);
        }
        let end = wanted_end
            .min(offset + REQUEST_BYTES_MAX.max(page_bytes))
            .min(self.file.length());
        let mut last = first.max(end.saturating_sub(1) / page_bytes);
        if let Some(cached) = (first + 1..=last).find(|page| self.pages.contains(self.file, *page)) {
            last = cached - 1;
        }
        if let Some(readahead) = &mut self.readahead {
            readahead.end = (last + 1) * page_bytes;
        }
        AbsentPages::new(self.file, first, last, self.readahead.is_none())
    }

    fn join(&mut self, added: &[u8]) {
        let window_start = self.start;
        match &mut self.window {
            Window::Joined(bytes) => {
                bytes.drain(..window_start);
                bytes.extend_from_slice(added);
            }
            Window::Shared(current) => {
                let rest = &current[window_start..];
                let mut bytes = Vec::with_capacity(rest.len() + added.len());
                bytes.extend_from_slice(rest);
                bytes.extend_from_slice(added);
                self.window = Window::Joined(bytes);
            }
        }
        self.window_offset += window_start as u64;
        self.start = 0;
    }
}
