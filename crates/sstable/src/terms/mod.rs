//! Files of terms: which rows of an SSTable have which terms under a secondary index. Ours, beside the SSTable, ignored by
//! Cassandra; see `docs/formats/sstable-terms.md`.
//!
//! An entry is a term with the place of a row, and entries ascend by both: by term, token, partition key and clustering.
//! So one structure finds the rows of a term, those behind a row, and all of a range of terms. Pages of 4 KiB hold the
//! entries, further pages the first entry of each of those, and what is in memory the first entry of each of the latter:
//! any entry is at most two reads away.
//!
//! | field of a page | bytes |
//! |---|---|
//! | groups | 2: their number |
//! | groups | of entries with one head, below; zeros up to the checksum |
//! | checksum | 4: CRC32 of the page's number in 8 bytes and of all before |
//!
//! | field of a group | bytes |
//! |---|---|
//! | head | vint: bytes shared with the one before in the page, vint: length of the rest, the rest |
//! | rows | 2: their number; 0 for all of the partition |
//! | row | per row vint: bytes of its clustering shared with the one before in the group, vint: length of the rest, the rest |
//!
//! A head is the escaped term, 0x38, the token with its sign inverted, and the key; an empty key stands for all partitions
//! of the token. A page of the upper level has the same form: one group for each page below, with one row where that page begins
//! within a group.

mod file;
mod name;
mod page;
mod sorter;
mod writer;

#[cfg(test)]
mod tests;

pub use file::{TermCursor, TermFile, TermFlags};
pub use name::{remove_term_files, term_file_path};
pub use sorter::{TermFileBuilder, TermFileError, TermFileInfo, write_sorted_terms};

use helenus_types::Token;
use helenus_types::byte_comparable::{TERMINATOR, push_escaped};

/// The version of the form; another one is made again.
const VERSION: u32 = 1;
/// The page of common file systems and drives.
const PAGE_BYTES: usize = 4096;
const CHECKSUM_BYTES: usize = 4;
/// The number of a page's groups.
const PAGE_HEAD_BYTES: usize = 2;

/// Longest key and clustering together, in bytes. What is longer leads to its partition, or to all of its token: a page must hold
/// at least two entries, and an entry a term besides.
const PLACE_BYTES_MAX: usize = 1024;
/// Longest term, in bytes. Escaped it is at most twice as long and one.
pub const TERM_BYTES_MAX: usize = 512;

/// Place that an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermPlace<'a> {
    pub token: Token,
    /// Empty for all partitions of the token.
    pub key: &'a [u8],
    /// `None` for all rows of the partition.
    pub clustering: Option<&'a [u8]>,
}

impl<'a> TermPlace<'a> {
    /// As it is stored: less precise where it would be too long.
    pub fn stored(self) -> Self {
        let clustering_bytes = self.clustering.map_or(0, <[u8]>::len);
        if self.key.len() + clustering_bytes <= PLACE_BYTES_MAX {
            return self;
        }
        TermPlace {
            key: if self.key.len() <= PLACE_BYTES_MAX {
                self.key
            } else {
                &[]
            },
            clustering: None,
            ..self
        }
    }
}

/// Appends what the heads of all entries of a term begin with, and no other head does.
pub fn push_term(head: &mut Vec<u8>, term: &[u8]) {
    debug_assert!(term.len() <= TERM_BYTES_MAX);
    push_escaped(head, term);
    head.push(TERMINATOR);
}

/// Appends the place of a partition to a head that ends with its term.
pub fn push_partition(head: &mut Vec<u8>, token: Token, key: &[u8]) {
    head.extend_from_slice(&(token.0.cast_unsigned() ^ SIGN).to_be_bytes());
    head.extend_from_slice(key);
}

const SIGN: u64 = 1 << 63;

/// A head as its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Escaped, with its terminator.
    pub term: &'a [u8],
    pub token: Token,
    pub key: &'a [u8],
}

impl<'a> Head<'a> {
    /// `None` for bytes that are no head.
    pub fn parse(head: &'a [u8]) -> Option<Self> {
        let (term, rest) = head.split_at_checked(term_length(head)?)?;
        let (token, key) = rest.split_first_chunk::<8>()?;
        let token = Token((u64::from_be_bytes(*token) ^ SIGN).cast_signed());
        Some(Head { term, token, key })
    }
}

/// The length of the escaped term that bytes begin with: what follows a zero byte says whether it goes on.
fn term_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == 0)? + 1;
        while bytes.get(at) == Some(&0xfe) {
            at += 1;
        }
        match *bytes.get(at)? {
            0xff => at += 1,
            TERMINATOR => return Some(at + 1),
            _ => return None,
        }
    }
}
