//! How the memory for caches is divided among them, and what memtables lend to it.
//!
//! Three caches save each other work: rows that are ready, pages that are decompressed, pages as they lie in their files. Each remembers
//! what it let go lately ([`Ghosts`](helenus_sstable::Ghosts)); how often that comes back, times what a hit saves, is what more memory would
//! be worth to it. Now and then the cache to which that is worth least gives a part to the one to which it is worth most.
//!
//! What memtables do not hold at the moment is divided with the rest. It is taken back before a write needs it: memory is divided anew
//! whenever memtables have grown by [`LENT_STEP_BYTES`].
//!
//! What open SSTables and indexes of vectors keep in memory is taken off first: it grows with the data, and nothing of it can be let go.

use helenus_sstable::{PageLevel, Worth};

use super::shard::{ShardStore, StoreOptions};

#[derive(Debug)]
pub(super) struct CacheMemory {
    /// When memtables hold more than that, memory is divided anew.
    memtables_until: usize,
    /// Bytes that memtables lend.
    lent: usize,
    /// Bytes that open SSTables take of the memory for caches.
    sstables: usize,
    /// Those that indexes of vectors take of it.
    vectors: usize,
    /// Target share of each cache, out of [`PARTS`], in the order of [`CACHES`].
    parts: [usize; 3],
    /// Bytes that each may take by now.
    allowed: [usize; 3],
    /// True once those bytes are what the parts come to.
    is_settled: bool,
    /// Since the parts were last judged.
    reads: u32,
    /// When they were judged last.
    worth: [Worth; 3],
}

/// A cache that has a share of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    Rows,
    Pages(PageLevel),
}

const CACHES: [Cache; 3] = [
    Cache::Rows,
    Cache::Pages(PageLevel::Decompressed),
    Cache::Pages(PageLevel::Packed),
];

/// Among which the memory is divided. One is moved at a time.
const PARTS: usize = 64;

/// Least share of each cache, in parts, so that it still shows what more would be worth.
const PARTS_MIN: usize = 4;

/// Reads from one judgement to the next. A hundred judgements move all there is.
const READS_PER_JUDGEMENT: u32 = 4_096;

/// Ghost hits that a judgement needs at least to stand on: fewer vary by more than a fifth. Until there are so many the reads
/// count for the next one.
const EVIDENCE_HITS_MIN: u64 = 32;

/// A part is worth more elsewhere if the gain is larger by this, in percent: less is noise of the samples.
const GAIN_MARGIN_PERCENT: u64 = 125;

/// Bytes that move from one cache to another after one read: some 500 small rows, 100 microseconds to let go.
const MOVED_STEP_BYTES: usize = 128 << 10;

/// A segment of pages, and as much again: some 100 microseconds to take back.
const LENT_STEP_BYTES: usize = 1 << 20;

/// Divisor of the memory for caches: this part they have, however much open SSTables and indexes of vectors take.
const CACHES_SHARE: usize = 4;

impl CacheMemory {
    /// In the parts of a memory of which memtables hold nothing yet: half of what is for caches is for rows.
    pub fn new(options: &StoreOptions) -> Self {
        let total = options.cache_bytes_max().max(1);
        let rows = match options.row_cache_bytes_max {
            0 => 0,
            rows => (rows.saturating_mul(PARTS) / total).clamp(PARTS_MIN, PARTS / 2),
        };
        let decompressed =
            (options.chunk_cache_bytes_max.saturating_mul(PARTS / 2) / total).clamp(PARTS_MIN, PARTS / 4);
        CacheMemory {
            memtables_until: 0,
            lent: options.lent_bytes_max,
            sstables: 0,
            vectors: 0,
            parts: [rows, decompressed, PARTS - rows - decompressed],
            allowed: [0; 3],
            is_settled: false,
            reads: 0,
            worth: [Worth::default(); 3],
        }
    }
}

impl ShardStore {
    /// After memtables have grown: in constant time unless memory is to be divided anew.
    #[inline]
    pub(super) fn give_back_lent(&mut self) {
        if self.memtable_bytes > self.cache_memory.memtables_until {
            self.divide_memory();
        }
    }

    /// After memtables have become less.
    pub(super) fn borrow_from_memtables(&mut self) {
        if self.memtable_bytes.saturating_add(2 * LENT_STEP_BYTES) < self.cache_memory.memtables_until {
            self.divide_memory();
        }
    }

    /// After SSTables have come or gone. In the time of adding up all that are there.
    pub(super) fn count_sstable_memory(&mut self) {
        let bytes = usize::try_from(self.sstable_memory_bytes()).unwrap_or(usize::MAX);
        if self.cache_memory.sstables != bytes {
            self.cache_memory.sstables = bytes;
            self.divide_memory();
        }
    }

    pub(super) fn set_vector_memory(&mut self, bytes: usize) {
        if self.cache_memory.vectors != bytes {
            self.cache_memory.vectors = bytes;
            self.divide_memory();
        }
    }

    /// After a read that the active memtable did not answer at once.
    #[inline]
    pub(super) fn count_read_for_memory(&mut self) {
        self.cache_memory.reads += 1;
        if !self.cache_memory.is_settled {
            self.move_memory();
        }
        if self.cache_memory.reads >= READS_PER_JUDGEMENT {
            self.cache_memory.reads = 0;
            self.judge_memory();
        }
    }

    pub(super) fn divide_memory(&mut self) {
        let memory = &mut self.cache_memory;
        memory.memtables_until = self.memtable_bytes.saturating_add(LENT_STEP_BYTES);
        let claimed = memory.memtables_until.saturating_add(LENT_STEP_BYTES);
        memory.lent = self.options.lent_bytes_max.saturating_sub(claimed);
        if self.options.lent_bytes_max == 0 {
            // A store that is told what each cache may have.
            memory.is_settled = true;
            let pages = self.left_of(self.options.chunk_cache_bytes_max);
            return self.cache.set_bytes_max(PageLevel::Decompressed, pages);
        }
        let part_bytes = self.part_bytes();
        self.row_cache.set_ghost_bytes(part_bytes);
        self.cache.set_ghost_bytes(part_bytes);
        self.move_memory();
    }

    /// Brings each cache nearer to its parts: as much at once as memory is short of, else one step, so that a shard is not held by what
    /// a whole part was for.
    fn move_memory(&mut self) {
        let part_bytes = self.part_bytes();
        let memory = &mut self.cache_memory;
        let wanted = memory.parts.map(|parts| parts * part_bytes);
        let total: usize = wanted.iter().sum();
        let mut to_take = memory
            .allowed
            .iter()
            .sum::<usize>()
            .saturating_sub(total)
            .max(MOVED_STEP_BYTES);
        for (allowed, wanted) in memory.allowed.iter_mut().zip(wanted) {
            let taken = allowed.saturating_sub(wanted).min(to_take);
            *allowed -= taken;
            to_take -= taken;
        }
        let mut free = total.saturating_sub(memory.allowed.iter().sum());
        for (allowed, wanted) in memory.allowed.iter_mut().zip(wanted) {
            let given = wanted.saturating_sub(*allowed).min(free);
            *allowed += given;
            free -= given;
        }
        memory.is_settled = memory.allowed == wanted;
        let [rows, decompressed, packed] = memory.allowed;
        if self.row_cache.is_enabled() {
            self.row_cache.set_bytes_max(rows);
        }
        self.cache.set_bytes_max(PageLevel::Decompressed, decompressed);
        self.cache.set_bytes_max(PageLevel::Packed, packed);
    }

    /// With what memtables lend.
    fn part_bytes(&self) -> usize {
        let options = &self.options;
        self.left_of(options.chunk_cache_bytes_max + options.row_cache_bytes_max + self.cache_memory.lent)
            / PARTS
    }

    /// Without what open SSTables and indexes of vectors take.
    fn left_of(&self, caches: usize) -> usize {
        let memory = &self.cache_memory;
        let left = caches.saturating_sub(memory.sstables.saturating_add(memory.vectors));
        left.max(caches / CACHES_SHARE)
    }

    /// Returns how many bytes both levels of pages may hold at the moment.
    pub fn page_cache_bytes_max(&self) -> usize {
        let levels = [PageLevel::Decompressed, PageLevel::Packed];
        levels.map(|level| self.cache.bytes_max(level)).iter().sum()
    }

    /// Returns how many bytes the row cache may hold at the moment.
    pub fn row_cache_bytes_max(&self) -> usize {
        self.row_cache.bytes_max()
    }

    fn worth(&self, cache: Cache) -> Worth {
        match cache {
            Cache::Rows => self.row_cache.worth(),
            Cache::Pages(level) => self.cache.worth(level),
        }
    }

    fn cached_bytes(&self, cache: Cache) -> usize {
        match cache {
            Cache::Rows => self.row_cache.bytes(),
            Cache::Pages(level) => self.cache.bytes(level),
        }
    }

    /// Moves a part from the cache that gains least by it to the one that gains most.
    fn judge_memory(&mut self) {
        let part_bytes = self.part_bytes();
        let worth = CACHES.map(|cache| self.worth(cache));
        let before = self.cache_memory.worth;
        let parts = self.cache_memory.parts;
        // What has room left gains nothing by more.
        let has_room = |at: usize| self.cached_bytes(CACHES[at]) + 2 * part_bytes < parts[at] * part_bytes;
        let gains: [u64; 3] = std::array::from_fn(|at| match has_room(at) {
            true => 0,
            false => worth[at].saved_ns - before[at].saved_ns,
        });
        let is_enabled = |at: &usize| CACHES[*at] != Cache::Rows || self.row_cache.is_enabled();
        let taker = (0..CACHES.len()).filter(is_enabled).max_by_key(|&at| gains[at]);
        let givers = (0..CACHES.len()).filter(|&at| parts[at] > PARTS_MIN && Some(at) != taker);
        let giver = givers.min_by_key(|&at| gains[at]);
        let (Some(taker), Some(giver)) = (taker, giver) else {
            return;
        };
        if worth[taker].hits - before[taker].hits < EVIDENCE_HITS_MIN {
            return;
        }
        self.cache_memory.worth = worth;
        if gains[taker] * 100 > gains[giver] * GAIN_MARGIN_PERCENT {
            self.cache_memory.parts[giver] -= 1;
            self.cache_memory.parts[taker] += 1;
            self.cache_memory.is_settled = false;
        }
    }
}
