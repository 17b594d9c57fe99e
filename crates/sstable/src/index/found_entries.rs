//! Entries of indexes that one read has found and had to leave because pages of data were not in memory: its next run
//! begins with them instead of searching again.

use crate::index::entry::IndexEntry;

/// SSTables that one read waits for at a time, and more than most have of a partition. What is not noted is searched.
const FOUND_MAX: usize = 16;

/// Files do not change, so an entry stays right for as long as its file is read. All memory is used again.
#[derive(Debug, Default)]
pub(crate) struct FoundEntries {
    found: Vec<Found>,
    /// Their keys, one behind the other.
    keys: Vec<u8>,
}

#[derive(Debug)]
struct Found {
    /// Id of Data.db, as the page cache tells files apart.
    file: u64,
    key_start: usize,
    key_end: usize,
    /// Without the key.
    entry: IndexEntry,
}

impl FoundEntries {
    pub fn clear(&mut self) {
        self.found.clear();
        self.keys.clear();
    }

    pub fn note(&mut self, file: u64, key: &[u8], entry: IndexEntry) {
        if self.find(file, key).is_some() {
            return;
        }
        if self.found.len() >= FOUND_MAX {
            self.clear();
        }
        let key_start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.found.push(Found {
            file,
            key_start,
            key_end: self.keys.len(),
            entry,
        });
    }

    /// Returns the entry that was found for a key in an SSTable.
    pub fn find(&self, file: u64, key: &[u8]) -> Option<IndexEntry> {
        let is_it =
            |found: &&Found| found.file == file && self.keys.get(found.key_start..found.key_end) == Some(key);
        self.found.iter().find(is_it).map(|found| found.entry.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_for_its_key_and_file_only() {
        let entry = |position| IndexEntry {
            position,
            ..IndexEntry::default()
        };
        let mut found = FoundEntries::default();
        found.note(1, b"a", entry(10));
        found.note(1, b"ab", entry(11));
        found.note(2, b"a", entry(20));
        let position =
            |found: &FoundEntries, file, key: &[u8]| found.find(file, key).map(|entry| entry.position);
        assert_eq!(position(&found, 1, b"a"), Some(10));
        assert_eq!(position(&found, 1, b"ab"), Some(11));
        assert_eq!(position(&found, 2, b"a"), Some(20));
        assert_eq!(position(&found, 2, b"ab"), None);
        assert_eq!(position(&found, 1, b""), None);
        for file in 0..3 * FOUND_MAX as u64 {
            found.note(file, b"c", entry(file));
        }
        assert!(found.found.len() <= FOUND_MAX && found.keys.len() <= FOUND_MAX);
        assert_eq!(position(&found, 47, b"c"), Some(47));
        found.clear();
        assert_eq!(position(&found, 47, b"c"), None);
    }
}
