//! State of a search for the nearest rows of a shard.

use helenus_rows::clustering::Slice;
use helenus_storage::vectors::NearestSearch;
use helenus_types::Token;

/// After so many rows it is looked at how many of them match.
const ROWS_PER_ESTIMATE: u64 = 64;

/// The search of one read, and the row of it that is being read.
#[derive(Debug)]
pub(super) struct NearestReading {
    pub search: NearestSearch,
    pub row: Option<(Token, Vec<u8>)>,
    /// Its clustering.
    pub slices: Vec<Slice>,
    /// Rows that were found, and of these those that match and have a vector.
    pub found: u64,
    pub compared: u64,
    /// Enough of these for the nearest to be among them.
    pub compared_wanted: u64,
}

impl NearestReading {
    pub fn memory_bytes(&self) -> usize {
        self.search.memory_bytes()
    }

    /// Returns whether looking at all rows that may match is likely to take less than finding as many as are missing.
    pub fn is_scan_cheaper(&self, is_narrowed: bool) -> bool {
        if !self.found.is_multiple_of(ROWS_PER_ESTIMATE) || self.found == 0 {
            return false;
        }
        let matching = (self.compared + 1) as f64 / (self.found + 1) as f64;
        let missing = self.compared_wanted.saturating_sub(self.compared) as f64 / matching;
        let scanned = f64::from(self.search.matching_count()) * if is_narrowed { matching } else { 1.0 };
        missing > scanned
    }
}
