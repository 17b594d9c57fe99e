//! How one read gets its pages: from memory, or from the disk at once, or by stopping until they were brought.
//!
//! A read that may stop runs like this: it is begun with [`PageCache::suspending`] and a [`ReadTicket`] of its own;
//! where a page is not in memory it ends with [`ReadError::Absent`]; its owner reads the bytes that the
//! [`AbsentPages`] name, in whatever way it likes, hands them to [`PageCache::deliver`], and runs the read again. The
//! ticket pins what was delivered for as long as runs use it, so that each run comes further than the one before
//! whatever the size of the cache.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use crate::block::absent_pages::AbsentPages;
use crate::block::chunked_file::ChunkedFile;
use crate::block::page_bytes::PageBytes;
use crate::block::page_cache::{DISK_READ_NS, PageCache};
use crate::block::ticket::{PageRun, ReadTicket};
use crate::component::Component;
use crate::corruption::Corruption;
use crate::error::ReadError;
use crate::read_cost::ReadCost;
use crate::sidecar::SidecarFault;

/// A cache as one read uses it. Made from a [`PageCache`], it reads missing pages at once and blocks.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    cache: &'a PageCache,
    ticket: Option<&'a ReadTicket>,
    /// True if the cache is left as it is.
    passes_by: bool,
    request_bytes_max: u64,
}

/// The largest request. A drive's throughput hardly grows beyond, and every scan may hold as much.
const REQUEST_BYTES_MAX: u64 = 128 * 1024;
/// Processor time to copy a page out of the operating system's memory and to decompress it, in ns (decision 40).
const RESIDENT_READ_NS: u64 = 5_000;
/// The smallest bound of a request that is worth having for a scan: of several pages.
const REQUEST_BYTES_MIN: u64 = 16 * 1024;

impl<'a> From<&'a PageCache> for Pages<'a> {
    fn from(cache: &'a PageCache) -> Self {
        Pages {
            cache,
            ticket: None,
            passes_by: false,
            request_bytes_max: REQUEST_BYTES_MAX,
        }
    }
}

impl PageCache {
    /// For a read that ends with [`ReadError::Absent`] where it would have to wait for the disk.
    pub fn suspending<'a>(&'a self, ticket: &'a ReadTicket) -> Pages<'a> {
        Pages {
            ticket: Some(ticket),
            ..Pages::from(self)
        }
    }

    /// Checks what was read for a suspended read, decompresses it and pins it to the read's ticket.
    ///
    /// `stored` are the `length` bytes at `offset` of the file, or fewer where the file ends before.
    ///
    /// Pages of what can be done without may also be wrong: the next run goes another way then.
    pub fn deliver(
        &self,
        ticket: &ReadTicket,
        absent: &AbsentPages,
        stored: &[u8],
    ) -> Result<Option<SidecarFault>, ReadError> {
        match self.try_deliver(ticket, absent, stored) {
            Ok(()) => Ok(None),
            Err(error) => absent.or_without(error),
        }
    }

    fn try_deliver(&self, ticket: &ReadTicket, absent: &AbsentPages, stored: &[u8]) -> Result<(), ReadError> {
        let pages = self.suspending(ticket);
        let (file, first, last) = (&absent.file, absent.first, absent.last);
        pages.count_read(absent);
        if stored.len() != absent.length {
            return Err(file.ends_early(absent.offset).into());
        }
        // Another read may have waited for the same page, and got it first.
        let known = (first == last)
            .then(|| self.peek((file.id(), first), false))
            .flatten();
        let bytes = match known {
            Some(known) => known,
            None => {
                file.check_length(first, last, stored)?;
                self.unpack_delivered(absent, stored, DISK_READ_NS)?
            }
        };
        ticket.pin(absent, bytes);
        Ok(())
    }

    /// `read_ns` is what reading them has cost.
    fn unpack_delivered(
        &self,
        absent: &AbsentPages,
        stored: &[u8],
        read_ns: u64,
    ) -> Result<PageBytes, Corruption> {
        let (file, first, last) = (&absent.file, absent.first, absent.last);
        if absent.is_kept && first == last {
            return self.take_in(file, first, stored, absent.wanted, read_ns);
        }
        let unpack = |room: &mut [u8]| file.unpack_pages(first, last, stored, room);
        let length = file.bytes_of(first, last);
        let wanted = if absent.is_kept { length } else { absent.wanted };
        let bytes = self.make_page(length, wanted, unpack)?;
        if absent.is_kept {
            self.keep(file, (first, last), &bytes, stored);
        }
        Ok(bytes)
    }

    /// A ticket for the next run, with memory that another read has given back.
    pub fn ready_ticket(&self, ticket: ReadTicket) -> ReadTicket {
        let is_of_several = ticket.is_of_several;
        let state = ticket.state.into_inner();
        ReadTicket {
            is_of_several,
            state: RefCell::new(state.or_else(|| self.take_ticket_state())),
        }
    }

    /// The read is over, its costs are known, and no other goes on with its pages.
    pub fn give_ticket(&self, ticket: &mut ReadTicket) {
        if let Some(mut state) = ticket.state.take() {
            state.pins.drain(..).for_each(|pin| self.give_page(pin.run.bytes));
            state.stops.forget();
            state.found.clear();
            state.resident_bytes = 0;
            state.cost = ReadCost::default();
            self.give_ticket_state(state);
        }
    }
}

impl AbsentPages {
    /// Reads the stored bytes, blocking.
    pub fn read(&self) -> Result<Vec<u8>, ReadError> {
        let mut stored = Vec::new();
        self.read_into(&mut stored)?;
        Ok(stored)
    }

    fn read_into(&self, stored: &mut Vec<u8>) -> Result<(), ReadError> {
        // Not twice as much: a compaction has as many of them as inputs.
        stored.reserve_exact(self.length.saturating_sub(stored.len()));
        stored.resize(self.length, 0);
        self.file()
            .read_exact_at(self.offset, stored)
            .map_err(|source| self.failed(source))
    }

    /// Lets the read go on without the file, from now on, if these pages are a sidecar's; else returns the error. The fault is
    /// told once.
    pub fn or_without(&self, error: ReadError) -> Result<Option<SidecarFault>, ReadError> {
        if !self.file.is_sidecar() {
            return Err(error);
        }
        let is_first = self.file.note_failure();
        Ok(is_first.then(|| match self.file.is_self_checked() {
            true => SidecarFault::of_terms(error),
            false => SidecarFault::new(Component::Blocks, error),
        }))
    }

    /// The error of a read that could not get the bytes.
    pub fn failed(&self, source: io::Error) -> ReadError {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return self.file.ends_early(self.offset).into();
        }
        ReadError::Io {
            file: self.path().to_path_buf(),
            source,
        }
    }
}

impl<'a> Pages<'a> {
    /// For a read of what nobody asks for again soon: it uses what is in the cache and leaves nothing there, as scans do.
    pub fn passing_by(self, passes_by: bool) -> Self {
        Pages { passes_by, ..self }
    }

    /// For one of several scans that go on at once and share so many bytes for what they have asked for.
    pub fn sharing(self, bytes: usize, scans: usize) -> Self {
        let part = (bytes / scans.max(1)) as u64;
        Pages {
            request_bytes_max: part.clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX),
            ..self
        }
    }

    /// Bytes of the largest request, if a page is not larger.
    pub(crate) fn request_bytes_max(&self) -> u64 {
        self.request_bytes_max
    }

    pub(crate) fn ticket(&self) -> Option<&'a ReadTicket> {
        self.ticket
    }

    pub(crate) fn cache(&self) -> &'a PageCache {
        self.cache
    }

    /// Finds a page in memory, with what memory has behind it.
    pub(crate) fn find(&self, file: &ChunkedFile, page: u64) -> Option<PageRun> {
        self.find_part(file, page * file.page_bytes()..u64::MAX, false)
    }

    /// Finds what memory has from a position on, and before it in the same page: to the end of the page, or as far as is wanted. `is_scan`:
    /// it comes by.
    pub(crate) fn find_part(&self, file: &ChunkedFile, wanted: Range<u64>, is_scan: bool) -> Option<PageRun> {
        let pinned = self
            .ticket
            .and_then(|ticket| ticket.find(file.id(), wanted.start));
        let found = pinned.or_else(|| {
            let page = wanted.start / file.page_bytes();
            let offset = page * file.page_bytes();
            let wanted = usize::try_from(wanted.end - offset).unwrap_or(usize::MAX);
            let bytes = self.cache.find(file, page, wanted, is_scan || self.passes_by)?;
            Some(PageRun { offset, bytes })
        });
        if found.is_some() {
            let is_index = file.is_index();
            self.count(|cost| {
                cost.index_hits += u64::from(is_index);
                cost.cache_hits += u64::from(!is_index);
            });
        }
        found
    }

    /// Returns whether memory has a page; no use of it.
    pub(crate) fn contains(&self, file: &ChunkedFile, page: u64) -> bool {
        self.cache.holds((file.id(), page))
    }

    /// Neighbouring pages, the last included, that memory lacks. `is_kept`: others may want them, too.
    pub(crate) fn absent(&self, file: &ChunkedFile, first: u64, last: u64, is_kept: bool) -> AbsentPages {
        AbsentPages::new(file, first, last, is_kept && !self.passes_by)
    }

    /// Pages that the caches lack and the operating system has in memory, for a read that would be suspended for them: copying them costs less
    /// than the suspension. `None` where it has not all of them, or they are too many for one run, or anything is wrong: the
    /// disk is to be asked then, and tells.
    pub(crate) fn find_resident(&self, absent: &AbsentPages) -> Option<PageRun> {
        let ticket = self.ticket?;
        let (file, first, last) = (&absent.file, absent.first, absent.last);
        let unpacked = file.bytes_of(first, last);
        if !ticket.may_take_resident(unpacked) {
            return None;
        }
        let mut stored = self.cache.take_stored(absent.length);
        let is_whole = file
            .file()
            .read_resident_at(absent.offset, &mut stored)
            .is_ok_and(|count| count == absent.length);
        let bytes = is_whole.then(|| {
            file.check_length(first, last, &stored).ok()?;
            self.cache
                .unpack_delivered(absent, &stored, RESIDENT_READ_NS)
                .ok()
        });
        self.cache.give_stored(stored);
        let bytes = bytes.flatten()?;
        self.count_misses(absent);
        self.count_read(absent);
        Some(ticket.pin_resident(absent, bytes))
    }

    /// Brings pages that memory lacks: their uncompressed bytes, or the end of a read that does not wait for them.
    pub(crate) fn fetch(&self, absent: AbsentPages) -> Result<Vec<u8>, ReadError> {
        let mut out = Vec::new();
        self.fetch_into(absent, &mut Vec::new(), &mut out)?;
        Ok(out)
    }

    /// As [`Self::fetch`], behind what `out` holds; `stored` is room for the bytes as they are in the file.
    pub(crate) fn fetch_into(
        &self,
        absent: AbsentPages,
        stored: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.count_misses(&absent);
        self.count_block(&absent);
        if let Some(ticket) = self.ticket {
            ticket.release_resident();
            return Err(ReadError::Absent(Box::new(absent)));
        }
        self.count_read(&absent);
        absent.read_into(stored)?;
        let start = out.len();
        absent
            .file
            .check_pages_into(absent.first, absent.last, stored, out)?;
        if absent.is_kept {
            let bytes = out.get(start..).unwrap_or_default();
            let pages = (absent.first, absent.last);
            self.cache.keep(&absent.file, pages, bytes, stored);
        }
        Ok(())
    }

    pub(crate) fn count_decoded(&self, items: u64) {
        self.count(|cost| cost.items_decoded += items);
    }

    pub(crate) fn count_dropped(&self, pages: u64) {
        self.count(|cost| cost.dropped += pages);
    }

    fn count_misses(&self, absent: &AbsentPages) {
        let (is_index, count) = (absent.file.is_index(), absent.last - absent.first + 1);
        self.count(|cost| match is_index {
            true => cost.index_misses += count,
            false => cost.cache_misses += count,
        });
    }

    /// A stop to wait for the disk.
    fn count_block(&self, absent: &AbsentPages) {
        let is_index = absent.file.is_index();
        self.count(|cost| match is_index {
            true => cost.index_blocks += 1,
            false => cost.cache_blocks += 1,
        });
    }

    fn count_read(&self, absent: &AbsentPages) {
        let length = absent.length as u64;
        self.count(|cost| {
            cost.reads += 1;
            cost.read_bytes += length;
        });
    }

    fn count(&self, add: impl Fn(&mut ReadCost)) {
        self.cache.count(&add);
        if let Some(ticket) = self.ticket {
            add(&mut ticket.state.borrow_mut().get_or_insert_default().cost);
        }
    }
}
