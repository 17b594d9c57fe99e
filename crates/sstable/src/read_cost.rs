//! Cost of reads, in disk requests and pages.

/// Counts of one read, or of all since they began.
///
/// `index` counts pages of Index.db and its like, `cache` those of Data.db. A **hit** is a page that was in memory when
/// a read came to it, a **miss** one that was not, a **block** a stop to wait for the disk: one block fetches several
/// missing pages where the read knows that it needs them, or reads ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCost {
    /// Requests to the disk, of whatever size.
    pub reads: u64,
    pub read_bytes: u64,
    pub index_hits: u64,
    pub index_misses: u64,
    pub index_blocks: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub cache_blocks: u64,
    /// Pages that were fetched ahead and that the read then left out.
    pub dropped: u64,
    /// Rows and markers of Data.db, the ends of partitions too; not those that were passed by their length.
    pub items_decoded: u64,
}

impl ReadCost {
    fn counts(&mut self) -> [&mut u64; 10] {
        [
            &mut self.reads,
            &mut self.read_bytes,
            &mut self.index_hits,
            &mut self.index_misses,
            &mut self.index_blocks,
            &mut self.cache_hits,
            &mut self.cache_misses,
            &mut self.cache_blocks,
            &mut self.dropped,
            &mut self.items_decoded,
        ]
    }

    /// Returns the growth since an earlier reading of the same counts.
    #[must_use]
    pub fn since(mut self, mut earlier: ReadCost) -> ReadCost {
        for (now, before) in self.counts().into_iter().zip(earlier.counts()) {
            *now -= *before;
        }
        self
    }

    pub fn add(&mut self, mut other: ReadCost) {
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }
}
