//! The terms of a memtable's rows.

use std::collections::BTreeMap;
use std::collections::btree_map::{Entry, Range};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use helenus_index::{ANY_TERM, IndexedColumn};
use helenus_rows::clustering::ClusteringComparator;
use helenus_rows::row::RowRef;
use helenus_rows::update::{Update, UpdateItem};
use helenus_schema::IndexId;
use helenus_sstable::terms::{TermFlags, TermPlace, push_partition, push_term};
use helenus_types::Token;

use super::head::{EntryHead, place_of};
use crate::memtable::{PackedRow, Rows};

/// Overhead of the allocator for each allocation, in bytes.
const ALLOCATION_OVERHEAD_BYTES: usize = 16;

/// Terms of one row of one write: a row with more, of a large collection, may match anything until it is flushed. A term takes some 300 ns of the
/// millisecond that a shard may be held, and some 100 bytes.
const ROW_TERMS_MAX: usize = 1_024;

/// The indexes of one memtable. Nothing is ever taken out: what it says of a row may be old.
#[derive(Debug, Default)]
pub struct MemtableIndexes {
    indexes: Vec<MemtableTerms>,
    bytes: usize,
}

/// The terms under one index.
#[derive(Debug)]
pub struct MemtableTerms {
    column: Arc<IndexedColumn>,
    entries: Entries,
    /// Room for one.
    term: Vec<u8>,
}

#[derive(Debug, Default)]
struct Entries {
    /// By head, as files of terms have them: the rows of the partition, or all of it where there are none.
    by_head: BTreeMap<EntryHead, Rows>,
    flags: TermFlags,
    /// Room for one.
    head: Vec<u8>,
}

impl MemtableIndexes {
    pub fn new(columns: &[Arc<IndexedColumn>]) -> Self {
        let indexes = columns.iter().map(|column| MemtableTerms {
            column: Arc::clone(column),
            entries: Entries::default(),
            term: Vec::new(),
        });
        MemtableIndexes {
            indexes: indexes.collect(),
            bytes: 0,
        }
    }

    /// Memory held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// `None` if it has not had all writes from the memtable's first on.
    pub fn get(&self, index: IndexId) -> Option<&MemtableTerms> {
        self.indexes.iter().find(|terms| terms.column.index == index)
    }

    /// Takes in an update; returns by how many bytes it has grown.
    pub fn apply(&mut self, comparator: &ClusteringComparator, token: Token, update: &Update<'_>) -> usize {
        let key = update.partition_key;
        let mut grown = 0;
        for terms in &mut self.indexes {
            grown += terms.add_key(comparator, token, key);
            for item in update.items() {
                grown += match item {
                    UpdateItem::StaticRow(row) => terms.add_row(comparator, (token, key), None, row),
                    UpdateItem::Row { clustering, row } => {
                        terms.add_row(comparator, (token, key), Some(clustering), row)
                    }
                    UpdateItem::RangeTombstone { .. } => 0,
                };
            }
        }
        self.bytes += grown;
        grown
    }

    /// As [`Self::apply`], for what is in the memtable already.
    pub(crate) fn add_row(
        &mut self,
        comparator: &ClusteringComparator,
        (token, key): (Token, &[u8]),
        clustering: Option<&[u8]>,
        row: RowRef<'_>,
    ) {
        let added = self.indexes.iter_mut().map(|terms| {
            terms.add_key(comparator, token, key) + terms.add_row(comparator, (token, key), clustering, row)
        });
        self.bytes += added.sum::<usize>();
    }
}

impl MemtableTerms {
    fn add_key(&mut self, comparator: &ClusteringComparator, token: Token, key: &[u8]) -> usize {
        let MemtableTerms {
            column,
            entries,
            term,
        } = self;
        let mut grown = 0;
        column.key_terms(key, term, |term| {
            let place = TermPlace {
                token,
                key,
                clustering: None,
            };
            grown += entries.insert(comparator, term, place);
        });
        grown
    }

    fn add_row(
        &mut self,
        comparator: &ClusteringComparator,
        (token, key): (Token, &[u8]),
        clustering: Option<&[u8]>,
        row: RowRef<'_>,
    ) -> usize {
        let MemtableTerms {
            column,
            entries,
            term,
        } = self;
        let place = TermPlace {
            token,
            key,
            clustering: clustering.filter(|_| comparator.component_count() > 0),
        };
        let (mut grown, mut left) = (0, ROW_TERMS_MAX);
        let taken = column.row_terms(clustering, row, term, |term| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            grown += entries.insert(comparator, term, place);
            ControlFlow::Continue(())
        });
        if taken.is_break() {
            grown += entries.insert(comparator, ANY_TERM, place);
        }
        grown
    }

    pub fn flags(&self) -> TermFlags {
        self.entries.flags
    }

    /// Entries, among them those of rows that were overwritten.
    pub fn entry_count(&self) -> u64 {
        let rows = self.entries.by_head.values();
        rows.map(|rows| rows.iter().count().max(1) as u64).sum()
    }

    /// All entries, in the order of files of terms.
    pub fn sorted_entries(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries_from(&[]).flat_map(|(head, rows)| {
            let whole = rows.is_empty().then_some((head.bytes(), None));
            let rows = rows.iter().map(|row| (head.bytes(), Some(row.clustering())));
            whole.into_iter().chain(rows)
        })
    }

    /// The places under a term, each with the rows of its partition: empty for all of them. `prefix` is room for what their
    /// heads begin with.
    pub(crate) fn places_of<'t, 'p>(
        &'t self,
        term: &[u8],
        prefix: &'p mut Vec<u8>,
    ) -> impl Iterator<Item = (TermPlace<'t>, &'t Rows)> + use<'t, 'p> {
        prefix.clear();
        push_term(prefix, term);
        let prefix = prefix.as_slice();
        let entries = self.entries_from(prefix);
        entries.map_while(move |(head, rows)| Some((place_of(head.bytes(), prefix, None)?, rows)))
    }

    /// The entries from a head on.
    pub(super) fn entries_from(&self, head: &[u8]) -> Range<'_, EntryHead, Rows> {
        let first = Bound::Included(EntryHead::new(head));
        self.entries.by_head.range((first, Bound::Unbounded))
    }
}

/// Memory of an entry without its rows. A B-tree node is about two thirds full.
fn entry_bytes(head: &EntryHead) -> usize {
    let in_node = (size_of::<(EntryHead, Rows)>() * 3).div_ceil(2);
    match head.heap_bytes() {
        0 => in_node,
        bytes => in_node + bytes + ALLOCATION_OVERHEAD_BYTES,
    }
}

impl Entries {
    fn insert(&mut self, comparator: &ClusteringComparator, term: &[u8], place: TermPlace<'_>) -> usize {
        let place = place.stored();
        self.flags.has_any |= term == ANY_TERM;
        self.flags.has_tokens |= place.key.is_empty();
        self.head.clear();
        push_term(&mut self.head, term);
        push_partition(&mut self.head, place.token, place.key);
        let row = |clustering| PackedRow::new(clustering, RowRef::EMPTY);
        let mut entry = match self.by_head.entry(EntryHead::new(&self.head)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                let mut grown = entry_bytes(entry.key());
                let mut rows = Rows::Empty;
                if let Some(clustering) = place.clustering {
                    let row = row(clustering);
                    grown += row.memory_bytes() + rows.insert(Default::default(), row);
                }
                entry.insert(rows);
                return grown;
            }
        };
        let rows = entry.get_mut();
        match place.clustering {
            // All of the partition is a candidate already.
            Some(_) if rows.is_empty() => 0,
            Some(clustering) => match rows.find(comparator, clustering) {
                Ok(_) => 0,
                Err(position) => {
                    let row = row(clustering);
                    row.memory_bytes() + rows.insert(position, row)
                }
            },
            None => {
                *rows = Rows::Empty;
                0
            }
        }
    }
}
