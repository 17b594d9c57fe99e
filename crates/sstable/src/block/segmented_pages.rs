//! Pages in segments, which are given up whole.
//!
//! What a level of the page cache lends can so be had back in large pieces, and what it lets go leaves no holes. The order is that of S3-FIFO
//! (Yang et al., SOSP 2023): a new page passes through a short queue; only what was asked for there, or comes back soon after it left, gets
//! into the long one, and goes round in it for as long as it is asked for. One pass over many pages displaces nothing but the short queue.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::iter;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::block::ghosts::Ghosts;
use crate::block::page_bytes::{PageBytes, PageKey};
use crate::block::segment_memory::{SegmentMemory, SegmentWriter};

#[derive(Debug)]
pub(super) struct SegmentedPages {
    bytes_max: usize,
    segments: Vec<Segment>,
    /// Those of no queue.
    free: Vec<u32>,
    young: Queue,
    lasting: Queue,
    places: HashMap<PageKey, Place, RandomState>,
    recent: RecentKeys,
    /// Memory of a segment that was given up, for the one that begins for the same page: memory that goes round is neither returned to
    /// the system nor asked of it again.
    spare: Option<SegmentWriter>,
    /// Ghosts of the pages that a somewhat larger cache would have had.
    pub left: Ghosts,
}

/// The oldest first; the last takes what comes.
#[derive(Debug, Default)]
struct Queue {
    segments: VecDeque<u32>,
    /// Bytes of memory.
    bytes: usize,
}

/// None of both while it is free.
#[derive(Debug, Default)]
struct Segment {
    memory: Option<SegmentWriter>,
    pages: Vec<SegmentPage>,
}

#[derive(Debug)]
struct SegmentPage {
    key: PageKey,
    offset: u32,
    length: u32,
    /// Since it came, or since it went round last; up to [`USES_MAX`].
    uses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    segment: u32,
    index: u32,
}

/// Pages that left lately, the oldest first.
#[derive(Debug, Default)]
struct RecentKeys {
    order: VecDeque<PageKey>,
    keys: HashSet<PageKey, RandomState>,
}

/// Large against pages. Some 100 microseconds to copy.
const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// Segments of a small cache at least, so that it has some; a page that is larger is a segment of its own.
const SEGMENT_SHARE: usize = 64;
/// The short queue's part of the cache, in percent, as in the paper.
const YOUNG_PERCENT: usize = 10;
/// As in the paper: a page that was asked for more often goes round this often without being asked for.
const USES_MAX: u8 = 3;
/// Bytes besides a page: its entry in its segment, its place in a map that is half full, and later its key among the recent ones.
const PAGE_OVERHEAD_BYTES: usize = 128;
/// Segments of which the one that was asked for least goes. Those before it go round as they are, without being copied.
const EXAMINED_MAX: usize = 16;
/// Divisor of a segment's bytes, for what may be copied of one that goes after all.
const SURVIVING_SHARE: usize = 4;
/// Segments that are given up for one page that comes, before no more is copied.
const CHOICES_MAX: usize = 4;

impl SegmentedPages {
    /// Takes up to so many bytes of memory; 0 keeps nothing.
    pub fn new(bytes_max: usize) -> Self {
        SegmentedPages {
            bytes_max,
            segments: Vec::new(),
            free: Vec::new(),
            young: Queue::default(),
            lasting: Queue::default(),
            places: HashMap::default(),
            recent: RecentKeys::default(),
            spare: None,
            left: Ghosts::default(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.young.bytes + self.lasting.bytes + self.places.len() * PAGE_OVERHEAD_BYTES
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// From now on takes up to so many bytes.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes() > bytes_max && self.give_up_any() {}
        self.spare = None;
    }

    pub fn clear(&mut self) {
        while self.give_up_any() {}
        self.spare = None;
    }

    fn give_up_any(&mut self) -> bool {
        let is_young = self.has_many_young(0) || self.lasting.segments.is_empty();
        self.give_up_segment(is_young, false) || self.give_up_segment(!is_young, false)
    }

    pub fn contains(&self, key: PageKey) -> bool {
        self.places.contains_key(&key)
    }

    /// A page where it lies. `is_use`: it is asked for, and not only passed by a scan.
    pub fn find(&mut self, key: PageKey, is_use: bool) -> Option<FoundPage<'_>> {
        let place = *self.places.get(&key)?;
        let segment = self.segments.get_mut(place.segment as usize)?;
        let page = segment.pages.get_mut(place.index as usize)?;
        if is_use {
            page.uses = (page.uses + 1).min(USES_MAX);
        }
        segment.found(place)
    }

    /// Returns whether a page of a length is not too large for it.
    pub fn may_keep(&self, length: usize) -> bool {
        length + PAGE_OVERHEAD_BYTES <= self.bytes_max
    }

    /// Returns whether a page of a length displaces no other.
    pub fn has_room(&self, length: usize) -> bool {
        self.bytes() + self.segment_bytes(length) + PAGE_OVERHEAD_BYTES <= self.bytes_max
    }

    /// A page that is not there yet. What is larger than the cache is not kept.
    pub fn insert(&mut self, key: PageKey, bytes: &[u8]) {
        let Ok(_) = self.insert_with(key, bytes.len(), copy_of(bytes));
    }

    /// As [`Self::insert`], for one of a length that `fill` makes where it stays and is read. `None`, and `fill` is not called, if it is
    /// not kept.
    pub fn insert_with<E>(
        &mut self,
        key: PageKey,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Option<FoundPage<'_>>, E> {
        if !self.may_keep(length) || self.places.contains_key(&key) {
            return Ok(None);
        }
        let is_lasting = self.recent.take(key);
        let begins = self.segment_with_room(is_lasting, length).is_none();
        self.make_room(is_lasting, length);
        let appended = self.append(is_lasting, key, length, 0, fill);
        self.spare = None;
        // While there is room for all, what is not asked for stays too.
        while begins && self.has_many_young(0) {
            self.young.move_oldest(&mut self.lasting, &self.segments);
        }
        Ok(appended?.and_then(|place| self.segments.get(place.segment as usize)?.found(place)))
    }

    /// For a page of a length, and for the segment that it may begin.
    fn make_room(&mut self, is_lasting: bool, length: usize) {
        for choice in 0.. {
            let begun_bytes = match self.segment_with_room(is_lasting, length) {
                Some(_) => 0,
                None => self.segment_bytes(length),
            };
            if self.bytes() + begun_bytes + PAGE_OVERHEAD_BYTES <= self.bytes_max {
                return;
            }
            let is_young = match (self.young.segments.is_empty(), self.lasting.segments.is_empty()) {
                (is_none, true) => !is_none,
                (true, false) => false,
                (false, false) => self.has_many_young(if is_lasting { 0 } else { begun_bytes }),
            };
            if !self.give_up_segment(is_young, choice < CHOICES_MAX) {
                return;
            }
        }
    }

    /// Returns the size of a segment with room for so many bytes at least. Powers of two, so that segments fit into each other's memory
    /// while the cache grows and shrinks.
    fn segment_bytes(&self, bytes_min: usize) -> usize {
        let share = (self.bytes_max / SEGMENT_SHARE).checked_ilog2();
        let usual = share.map_or(0, |bits| 1 << bits);
        usual.min(SEGMENT_BYTES_MAX).max(bytes_min)
    }

    /// More than the short queue's part of the cache, with a segment of so many bytes that begins.
    fn has_many_young(&self, begun_bytes: usize) -> bool {
        let bytes = self.young.bytes + begun_bytes;
        bytes.saturating_mul(100) > self.bytes_max.saturating_mul(YOUNG_PERCENT)
    }

    /// The one that a queue fills, if a page of a length fits in.
    fn segment_with_room(&self, is_lasting: bool, length: usize) -> Option<u32> {
        let queue = if is_lasting { &self.lasting } else { &self.young };
        let open = queue.segments.back().copied()?;
        let room = self.segments.get(open as usize)?.memory.as_ref()?.room();
        (room >= length).then_some(open)
    }

    /// Without memory for another segment the page is not kept.
    fn append<E>(
        &mut self,
        is_lasting: bool,
        key: PageKey,
        length: usize,
        uses: u8,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Option<Place>, E> {
        let with_room = self.segment_with_room(is_lasting, length);
        let number = with_room.or_else(|| self.begin_segment(is_lasting, length));
        let segment = number.and_then(|number| self.segments.get_mut(number as usize));
        let (
            Some(number),
            Some(Segment {
                memory: Some(memory),
                pages,
            }),
        ) = (number, segment)
        else {
            return Ok(None);
        };
        let offset = memory.filled() as u32;
        memory.append(length, fill)?;
        let place = Place {
            segment: number,
            index: pages.len() as u32,
        };
        pages.push(SegmentPage {
            key,
            offset,
            length: length as u32,
            uses,
        });
        self.places.insert(key, place);
        Ok(Some(place))
    }

    /// As [`Self::append`], for a page that goes round.
    fn append_again(&mut self, page: &SegmentPage, from: &Segment) {
        let fill = copy_of(from.bytes_of(page));
        let Ok(_) = self.append(true, page.key, page.length as usize, page.uses, fill);
    }

    fn queue(&mut self, is_lasting: bool) -> &mut Queue {
        match is_lasting {
            true => &mut self.lasting,
            false => &mut self.young,
        }
    }

    /// With room for so many bytes at least; `None` if there is no memory.
    fn begin_segment(&mut self, is_lasting: bool, bytes_min: usize) -> Option<u32> {
        let capacity = self.segment_bytes(bytes_min);
        let spare = self.spare.take().filter(|spare| spare.capacity() == capacity);
        let memory = match spare {
            Some(spare) => spare,
            None => SegmentWriter::with_capacity(capacity).ok()?,
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.segments.push(Segment::default());
            (self.segments.len() - 1) as u32
        });
        self.segments.get_mut(number as usize)?.memory = Some(memory);
        self.push_open(is_lasting, number);
        Some(number)
    }

    fn push_open(&mut self, is_lasting: bool, number: u32) {
        let bytes = self.segments.get(number as usize).map_or(0, Segment::bytes);
        let queue = self.queue(is_lasting);
        queue.segments.push_back(number);
        queue.bytes += bytes;
    }

    /// False if the queue has none. `is_choosy`: what was asked for stays as far as that costs little.
    fn give_up_segment(&mut self, is_young: bool, is_choosy: bool) -> bool {
        if !is_young && is_choosy {
            self.pass_over_used();
        }
        let Some(number) = self.queue(!is_young).segments.pop_front() else {
            return false;
        };
        let Some(mut segment) = self.segments.get_mut(number as usize).map(std::mem::take) else {
            return false;
        };
        self.queue(!is_young).bytes -= segment.bytes();
        let mut copied_max = match (is_choosy, is_young) {
            (false, _) => 0,
            (true, true) => usize::MAX,
            (true, false) => segment.bytes() / SURVIVING_SHARE,
        };
        let mut pages = std::mem::take(&mut segment.pages);
        pages.sort_unstable_by_key(|page| Reverse(page.uses));
        pages.retain_mut(|page| {
            self.places.remove(&page.key);
            let length = page.length as usize;
            if page.uses == 0 || length > copied_max {
                self.give_up(page);
                return false;
            }
            copied_max -= length;
            page.uses -= 1;
            if self.segment_with_room(true, length).is_none() {
                return true;
            }
            self.append_again(page, &segment);
            false
        });
        if pages.is_empty() || !segment.keep_only(&mut pages) {
            pages.iter().for_each(|page| self.append_again(page, &segment));
            self.spare = segment.into_spare();
            self.free.push(number);
            return true;
        }
        // What lasts fills this one next: nothing else has room.
        for (index, page) in (0..).zip(&segment.pages) {
            let place = Place {
                segment: number,
                index,
            };
            self.places.insert(page.key, place);
        }
        if let Some(emptied) = self.segments.get_mut(number as usize) {
            *emptied = segment;
            self.push_open(true, number);
        }
        true
    }

    /// Brings the segment of which least was asked for to the front of what lasts, among the oldest ones. The others go round.
    fn pass_over_used(&mut self) {
        let oldest = self.lasting.segments.len().saturating_sub(1).min(EXAMINED_MAX);
        let uses = |number: &u32| {
            let segment = self.segments.get(*number as usize);
            let pages = segment.into_iter().flat_map(|segment| &segment.pages);
            pages
                .map(|page| u64::from(page.uses) * u64::from(page.length))
                .sum::<u64>()
        };
        let examined = self.lasting.segments.iter().take(oldest);
        let Some((victim, _)) = examined.map(uses).enumerate().min_by_key(|(_, uses)| *uses) else {
            return;
        };
        for _ in 0..victim {
            let Some(&number) = self.lasting.segments.front() else {
                return;
            };
            let pages = self
                .segments
                .get_mut(number as usize)
                .into_iter()
                .flat_map(|segment| &mut segment.pages);
            pages.for_each(|page| page.uses = page.uses.saturating_sub(1));
            self.lasting.send_round();
        }
    }

    fn give_up(&mut self, page: &SegmentPage) {
        self.left
            .add(page.key, page.length as usize + PAGE_OVERHEAD_BYTES);
        let recent_max = self.places.len();
        self.recent.add(page.key, recent_max);
    }
}

fn copy_of(bytes: &[u8]) -> impl FnOnce(&mut [u8]) -> Result<(), Infallible> {
    |room| {
        room.copy_from_slice(bytes);
        Ok(())
    }
}

/// A page in its segment.
pub(super) struct FoundPage<'a> {
    memory: &'a Arc<SegmentMemory>,
    start: usize,
    length: usize,
}

impl FoundPage<'_> {
    pub fn bytes(&self) -> &[u8] {
        self.memory.part(self.start, self.length)
    }

    /// To be read where it lies, whatever becomes of its place in the cache.
    pub fn shared(&self) -> PageBytes {
        PageBytes::Within {
            segment: Arc::clone(self.memory),
            start: self.start,
            length: self.length,
        }
    }
}

impl Segment {
    fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, SegmentWriter::capacity)
    }

    fn found(&self, place: Place) -> Option<FoundPage<'_>> {
        let page = self.pages.get(place.index as usize)?;
        Some(FoundPage {
            memory: self.memory.as_ref()?.memory(),
            start: page.offset as usize,
            length: page.length as usize,
        })
    }

    fn bytes_of(&self, page: &SegmentPage) -> &[u8] {
        let memory = self.memory.as_ref().map(SegmentWriter::memory);
        memory.map_or(&[], |memory| {
            memory.part(page.offset as usize, page.length as usize)
        })
    }

    /// Moves some of its pages to its beginning, where more can be added to them. False, and nothing is done, if somebody reads in it.
    fn keep_only(&mut self, pages: &mut Vec<SegmentPage>) -> bool {
        let Some(memory) = &mut self.memory else {
            return false;
        };
        pages.sort_unstable_by_key(|page| page.offset);
        let parts = pages
            .iter()
            .map(|page| (page.offset as usize, page.length as usize));
        let Some(starts) = memory.keep_only(parts) else {
            return false;
        };
        for (page, start) in pages.iter_mut().zip(starts) {
            page.offset = start as u32;
        }
        self.pages = std::mem::take(pages);
        true
    }

    /// Its memory, unless somebody reads in it.
    fn into_spare(self) -> Option<SegmentWriter> {
        let mut memory = self.memory?;
        memory.keep_only(iter::empty())?;
        Some(memory)
    }
}

impl Queue {
    fn move_oldest(&mut self, to: &mut Queue, segments: &[Segment]) {
        if let Some(number) = self.segments.pop_front() {
            let bytes = segments.get(number as usize).map_or(0, Segment::bytes);
            self.bytes -= bytes;
            to.bytes += bytes;
            to.push_filled(number);
        }
    }

    fn send_round(&mut self) {
        if let Some(number) = self.segments.pop_front() {
            self.push_filled(number);
        }
    }

    /// Before the one that is being filled.
    fn push_filled(&mut self, number: u32) {
        let open = self.segments.pop_back();
        self.segments.push_back(number);
        self.segments.extend(open);
    }
}

impl RecentKeys {
    /// Forgets a key; returns whether it left lately.
    fn take(&mut self, key: PageKey) -> bool {
        self.keys.remove(&key)
    }

    fn add(&mut self, key: PageKey, count_max: usize) {
        if self.keys.insert(key) {
            self.order.push_back(key);
        }
        while self.order.len() > count_max.max(1) {
            if let Some(oldest) = self.order.pop_front() {
                self.keys.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_BYTES: usize = 4 << 10;
    /// Bytes of 1,000 pages.
    const CACHE_BYTES: usize = 1_000 * (PAGE_BYTES + PAGE_OVERHEAD_BYTES);

    fn page(number: u64) -> Vec<u8> {
        vec![number as u8; PAGE_BYTES]
    }

    /// As a reader does: what is not there is brought.
    fn ask(pages: &mut SegmentedPages, number: u64) -> bool {
        let found = pages
            .find((1, number), true)
            .map(|found| found.bytes() == page(number));
        if found.is_none() {
            pages.insert((1, number), &page(number));
        }
        found.inspect(|is_right| assert!(is_right)).is_some()
    }

    fn ask_all(pages: &mut SegmentedPages, numbers: std::ops::Range<u64>) {
        for number in numbers {
            ask(pages, number);
        }
    }

    #[test]
    fn it_keeps_within_its_bytes_whatever_comes() {
        let mut pages = SegmentedPages::new(CACHE_BYTES);
        for number in 0..10_000 {
            ask(&mut pages, number * number % 3_000);
            assert!(pages.bytes() <= CACHE_BYTES);
        }
        pages.set_bytes_max(CACHE_BYTES / 2);
        assert!(pages.bytes() <= CACHE_BYTES / 2);
        pages.set_bytes_max(0);
        assert_eq!(pages.bytes(), 0);
        assert!(!ask(&mut pages, 1) && !ask(&mut pages, 1));
    }

    #[test]
    fn a_page_that_is_read_keeps_its_bytes_whatever_becomes_of_its_segment() {
        let mut pages = SegmentedPages::new(CACHE_BYTES);
        ask_all(&mut pages, 0..500);
        let read: Vec<_> = (0..500)
            .filter_map(|number| Some((number, pages.find((1, number), false)?.shared())))
            .collect();
        assert!(read.len() > 400);
        ask_all(&mut pages, 1_000..3_000);
        pages.clear();
        assert!(read.iter().all(|(number, bytes)| **bytes == page(*number)));
    }

    /// Each page that was read had been copied into the cache, and out of it for who asked next.
    #[test]
    fn a_page_is_made_where_it_stays_and_read_where_it_lies() {
        let mut pages = SegmentedPages::new(CACHE_BYTES);
        let mut made = Vec::new();
        for number in 0..2_000 {
            let fill = |room: &mut [u8]| -> Result<(), &str> {
                room.copy_from_slice(&page(number));
                if number % 3 == 0 { Err("corrupt") } else { Ok(()) }
            };
            let inserted = pages.insert_with((1, number), PAGE_BYTES, fill);
            let inserted = inserted.map(|found| found.unwrap().shared());
            let found = pages.find((1, number), true).map(|found| found.shared());
            assert_eq!(inserted.is_ok(), number % 3 != 0);
            assert_eq!(
                inserted.as_deref().ok().map(<[u8]>::as_ptr),
                found.as_deref().map(<[u8]>::as_ptr)
            );
            made.extend(inserted.map(|bytes| (number, bytes)));
        }
        assert!(made.iter().all(|(number, bytes)| **bytes == page(*number)));
        assert!(
            pages
                .insert_with((1, 1), CACHE_BYTES, copy_of(&[]))
                .is_ok_and(|found| found.is_none())
        );
    }

    /// A node with 128 MiB took 70,000 pages a second from the system and gave them back.
    #[test]
    fn a_full_cache_asks_the_system_for_no_more_memory() {
        let faults = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Behind the name, which may hold anything: proc(5).
            let (_, fields) = stat.rsplit_once(')').unwrap();
            fields
                .split_whitespace()
                .nth(7)
                .and_then(|minor| minor.parse::<u64>().ok())
                .unwrap()
        };
        let mut pages = SegmentedPages::new(CACHE_BYTES);
        let mut read = Vec::new();
        ask_all(&mut pages, 0..3_000);
        let before = faults();
        for number in 3_000..13_000 {
            ask(&mut pages, number);
            // What a reader holds of a segment that is given up delays its memory's return, and no more.
            let found = pages.find((1, number - 50), true);
            read.push(found.map(|found| found.shared()));
            read.drain(..read.len().saturating_sub(10));
        }
        let faults = faults() - before;
        assert!(faults < 1_000, "{faults} page faults for 10,000 pages");
    }

    /// Chunks as they lie in their files have any length, some larger than a segment, and the cache grows and shrinks among them.
    #[test]
    fn pages_of_any_length_are_what_they_were_while_the_cache_changes_its_size() {
        let page = |number: u64| -> Vec<u8> {
            let length = 1 + number.wrapping_mul(7_919) as usize % 20_000;
            (0..length)
                .map(|at| (at as u64 * 31 + number * 17) as u8)
                .collect()
        };
        let mut pages = SegmentedPages::new(CACHE_BYTES);
        let (mut read, mut random, mut hits) = (VecDeque::new(), 1_u64, 0);
        for at in 0..30_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if at % 1_000 == 999 {
                pages.set_bytes_max(random as usize % (2 * CACHE_BYTES));
            }
            // Half of them are popular.
            let number = random % if at % 2 == 0 { 100 } else { 2_000 };
            match pages.find((1, number), true) {
                Some(found) => {
                    assert_eq!(found.bytes(), page(number));
                    hits += 1;
                    read.push_back((number, found.shared()));
                }
                None => pages.insert((1, number), &page(number)),
            }
            if read.len() > 20
                && let Some((number, bytes)) = read.pop_front()
            {
                assert_eq!(*bytes, page(number));
            }
            assert!(pages.bytes() <= pages.bytes_max());
        }
        assert!(hits > 10_000, "{hits}");
    }

    #[test]
    fn a_cache_of_few_pages_keeps_as_many_as_have_room() {
        let page_bytes = PAGE_BYTES + PAGE_OVERHEAD_BYTES;
        for count in 1..=5 {
            let mut pages = SegmentedPages::new(count as usize * page_bytes);
            ask_all(&mut pages, 0..count);
            assert!((0..count).all(|number| ask(&mut pages, number)), "{count} pages");
            ask(&mut pages, count);
            assert_eq!(pages.bytes(), count as usize * page_bytes);
            assert!(ask(&mut pages, count), "the last of {count} pages");
        }
        let mut none = SegmentedPages::new(page_bytes - 1);
        assert!(!ask(&mut none, 1) && !ask(&mut none, 1));
    }

    #[test]
    fn one_pass_over_many_pages_displaces_nothing_that_is_asked_for() {
        let mut pages = SegmentedPages::new(CACHE_BYTES);
        let used = 0..600;
        for _ in 0..3 {
            ask_all(&mut pages, used.clone());
        }
        ask_all(&mut pages, 1_000..9_000);
        let kept = used.filter(|&number| pages.contains((1, number))).count();
        assert_eq!(kept, 600);
    }

    #[test]
    fn what_comes_back_soon_after_it_left_lasts() {
        let mut pages = SegmentedPages::new(CACHE_BYTES);
        ask_all(&mut pages, 0..2_000);
        let gone = (0..2_000).rfind(|&number| !pages.contains((1, number)));
        let gone = gone.expect("not all have room");
        assert!(!ask(&mut pages, gone));
        ask_all(&mut pages, 2_000..3_000);
        assert!(pages.contains((1, gone)));
    }
}
