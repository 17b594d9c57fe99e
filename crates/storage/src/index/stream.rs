//! The places under one term in one source, in the order of a scan.

use std::cmp::Ordering;
use std::collections::btree_map::Range;

use helenus_rows::clustering::{ClusteringComparator, Side};
use helenus_sstable::Pages;
use helenus_sstable::error::ReadError;
use helenus_sstable::terms::{TermCursor, TermFile, TermFlags, TermPlace, push_partition, push_term};
use helenus_types::Token;

use super::head::{EntryHead, place_of, token_in};
use super::memtable::MemtableTerms;
use super::range::RangePlaces;
use crate::memtable::{RowPosition, Rows};

/// Entries of a file that are passed one by one before the place behind them is searched for: a search passes as many, half of an upper page
/// and half of a page.
const FILE_ENTRIES_PASSED_MAX: usize = 128;
/// The same for a memtable, or a range that is gathered: a search compares as many.
const MEMORY_ENTRIES_PASSED_MAX: usize = 16;

/// All that a table has under one index.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexSources<'a> {
    pub memtables: Vec<&'a MemtableTerms>,
    pub files: Vec<&'a TermFile>,
}

/// Between places, in the order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceBound<'b> {
    BeforeToken(Token),
    BeforePartition(Token, &'b [u8]),
    Within {
        token: Token,
        key: &'b [u8],
        prefix: &'b [u8],
        side: Side,
    },
    BehindPartition(Token, &'b [u8]),
    BehindToken(Token),
}

impl<'b> PlaceBound<'b> {
    pub fn before(place: &TermPlace<'b>) -> Self {
        PlaceBound::beside(place, Side::Before)
    }

    pub fn behind(place: &TermPlace<'b>) -> Self {
        PlaceBound::beside(place, Side::After)
    }

    fn beside(place: &TermPlace<'b>, side: Side) -> Self {
        let TermPlace {
            token,
            key,
            clustering,
        } = *place;
        match (key, clustering, side) {
            ([], _, Side::Before) => PlaceBound::BeforeToken(token),
            ([], _, Side::After) => PlaceBound::BehindToken(token),
            (key, None, Side::Before) => PlaceBound::BeforePartition(token, key),
            (key, None, Side::After) => PlaceBound::BehindPartition(token, key),
            (key, Some(prefix), side) => PlaceBound::Within {
                token,
                key,
                prefix,
                side,
            },
        }
    }

    fn token(&self) -> Token {
        match *self {
            PlaceBound::BeforeToken(token)
            | PlaceBound::BeforePartition(token, _)
            | PlaceBound::Within { token, .. }
            | PlaceBound::BehindPartition(token, _)
            | PlaceBound::BehindToken(token) => token,
        }
    }

    /// Returns whether all that a place leads to lies before the bound.
    pub fn is_behind(&self, place: &TermPlace<'_>, comparator: &ClusteringComparator) -> bool {
        let ordering = place.token.cmp(&self.token());
        if ordering.is_ne() {
            return ordering.is_lt();
        }
        let (key, within) = match *self {
            PlaceBound::BeforeToken(_) => return false,
            PlaceBound::BehindToken(_) => return true,
            _ if place.key.is_empty() => return false,
            PlaceBound::BeforePartition(_, key) => (key, None),
            PlaceBound::Within {
                key, prefix, side, ..
            } => (key, Some((prefix, side))),
            PlaceBound::BehindPartition(_, key) => return place.key <= key,
        };
        match (place.key.cmp(key), place.clustering, within) {
            (Ordering::Equal, Some(clustering), Some((prefix, side))) => {
                comparator.compare_to_place(clustering, prefix, side).is_lt()
            }
            (ordering, ..) => ordering.is_lt(),
        }
    }
}

/// Goes through the places of one source. None covers what comes behind it but for all of a partition or a token.
#[derive(Debug)]
pub(crate) struct TermStream<'a> {
    source: Source<'a>,
    /// That of the place where it stands: almost all comparisons need no more.
    token: Option<Token>,
}

#[derive(Debug)]
enum Source<'a> {
    File(FileStream<'a>),
    Memtable(MemtableStream<'a>),
    Range { places: &'a RangePlaces, next: usize },
}

impl<'a> TermStream<'a> {
    pub fn of_file(file: &'a TermFile, pages: Pages<'a>, term: &[u8]) -> Self {
        let prefix = prefix_of(term);
        Self::before(Source::File(FileStream {
            cursor: file.cursor(pages).within(&prefix),
            flags: file.flags(),
            prefix,
            head: Vec::new(),
            is_there: false,
        }))
    }

    pub fn of_memtable(terms: &'a MemtableTerms, term: &[u8]) -> Self {
        Self::before(Source::Memtable(MemtableStream {
            terms,
            prefix: prefix_of(term),
            head: Vec::new(),
            entries: None,
            current: None,
            position: RowPosition::default(),
        }))
    }

    pub fn of_range(places: &'a RangePlaces) -> Self {
        Self::before(Source::Range { places, next: 0 })
    }

    fn before(source: Source<'a>) -> Self {
        TermStream { source, token: None }
    }

    /// Where it stands; `None` at the end, and before the first [`Self::seek`].
    pub fn place(&self) -> Option<TermPlace<'_>> {
        match &self.source {
            _ if self.token.is_none() => None,
            Source::File(stream) => stream.place(),
            Source::Memtable(stream) => stream.place(),
            Source::Range { places, next } => places.get(*next),
        }
    }

    /// The token of its place.
    #[inline]
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    pub fn advance(&mut self) -> Result<(), ReadError> {
        self.token = match &mut self.source {
            Source::File(stream) => {
                stream.advance()?;
                stream.token()
            }
            Source::Memtable(stream) => {
                stream.advance();
                stream.token()
            }
            Source::Range { places, next } => {
                *next += 1;
                places.token(*next)
            }
        };
        Ok(())
    }

    /// As [`Self::seek`], from where it stands and not back: what is near is not searched for. Returns how many entries it has passed.
    pub fn seek_forward(
        &mut self,
        bound: &PlaceBound<'_>,
        comparator: &ClusteringComparator,
    ) -> Result<usize, ReadError> {
        let passed_max = match self.source {
            Source::File(_) => FILE_ENTRIES_PASSED_MAX,
            Source::Memtable(_) | Source::Range { .. } => MEMORY_ENTRIES_PASSED_MAX,
        };
        let token = bound.token();
        for passed in 0..passed_max {
            let is_behind = match self.token {
                None => false,
                Some(at) if at != token => at < token,
                Some(_) => self
                    .place()
                    .is_some_and(|place| bound.is_behind(&place, comparator)),
            };
            if !is_behind {
                return Ok(passed);
            }
            self.advance()?;
        }
        self.seek(bound, comparator)?;
        Ok(passed_max)
    }

    /// Moves to the first place that does not lie before a bound.
    pub fn seek(
        &mut self,
        bound: &PlaceBound<'_>,
        comparator: &ClusteringComparator,
    ) -> Result<(), ReadError> {
        self.token = match &mut self.source {
            Source::File(stream) => {
                stream.seek(bound)?;
                stream.token()
            }
            Source::Memtable(stream) => {
                stream.seek(bound, comparator);
                stream.token()
            }
            Source::Range { places, next } => {
                *next = places.first_from(bound, comparator);
                places.token(*next)
            }
        };
        Ok(())
    }
}

pub(super) fn prefix_of(term: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(term.len() + 16);
    push_term(&mut prefix, term);
    prefix
}

/// The head that the first place behind a bound has or comes before; none where nothing can.
fn push_head(head: &mut Vec<u8>, prefix: &[u8], bound: &PlaceBound<'_>) -> bool {
    head.clear();
    head.extend_from_slice(prefix);
    match *bound {
        PlaceBound::BeforeToken(token) => push_partition(head, token, &[]),
        PlaceBound::BeforePartition(token, key) | PlaceBound::Within { token, key, .. } => {
            push_partition(head, token, key);
        }
        PlaceBound::BehindPartition(token, key) => {
            push_partition(head, token, key);
            // No key comes between one and the same with a zero byte behind it.
            head.push(0);
        }
        PlaceBound::BehindToken(token) => match token.0.checked_add(1) {
            Some(next) => push_partition(head, Token(next), &[]),
            None => return false,
        },
    }
    true
}

/// Returns whether all partitions of the bound's token may be one place, which a search for one of them passes over.
fn looks_for_token(flags: TermFlags, bound: &PlaceBound<'_>) -> bool {
    flags.has_tokens && !matches!(bound, PlaceBound::BeforeToken(_) | PlaceBound::BehindToken(_))
}

#[derive(Debug)]
pub(crate) struct FileStream<'a> {
    cursor: TermCursor<'a>,
    flags: TermFlags,
    prefix: Vec<u8>,
    head: Vec<u8>,
    is_there: bool,
}

impl FileStream<'_> {
    fn place(&self) -> Option<TermPlace<'_>> {
        let place = || place_of(self.cursor.head(), &self.prefix, self.cursor.clustering());
        self.is_there.then(place)?
    }

    fn token(&self) -> Option<Token> {
        self.is_there
            .then(|| token_in(self.cursor.head(), &self.prefix))?
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        self.is_there = self.is_there && self.cursor.advance()?;
        Ok(())
    }

    fn seek(&mut self, bound: &PlaceBound<'_>) -> Result<(), ReadError> {
        self.is_there = false;
        if looks_for_token(self.flags, bound) {
            push_head(
                &mut self.head,
                &self.prefix,
                &PlaceBound::BeforeToken(bound.token()),
            );
            self.is_there = self.cursor.seek(&self.head)?;
            if self
                .place()
                .is_some_and(|place| place.token == bound.token() && place.key.is_empty())
            {
                return Ok(());
            }
        }
        self.is_there = push_head(&mut self.head, &self.prefix, bound)
            && match *bound {
                PlaceBound::Within { prefix, side, .. } => {
                    self.cursor.seek_within(&self.head, prefix, side)?
                }
                _ => self.cursor.seek(&self.head)?,
            };
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct MemtableStream<'a> {
    terms: &'a MemtableTerms,
    prefix: Vec<u8>,
    head: Vec<u8>,
    /// `None` before the first search.
    entries: Option<Range<'a, EntryHead, Rows>>,
    current: Option<(&'a [u8], &'a Rows)>,
    position: RowPosition,
}

impl MemtableStream<'_> {
    fn place(&self) -> Option<TermPlace<'_>> {
        let (head, rows) = self.current?;
        let clustering = rows.get(self.position).map(|row| row.clustering());
        place_of(head, &self.prefix, clustering)
    }

    fn token(&self) -> Option<Token> {
        token_in(self.current?.0, &self.prefix)
    }

    fn advance(&mut self) {
        if let Some((_, rows)) = self.current
            && !rows.is_empty()
        {
            self.position = rows.next(self.position);
            if rows.get(self.position).is_some() {
                return;
            }
        }
        self.next_entry();
    }

    fn next_entry(&mut self) {
        let next = self.entries.as_mut().and_then(Iterator::next);
        self.current = next.map(|(head, rows)| (head.bytes(), rows));
        self.position = RowPosition::default();
    }

    fn seek(&mut self, bound: &PlaceBound<'_>, comparator: &ClusteringComparator) {
        self.current = None;
        if looks_for_token(self.terms.flags(), bound) {
            push_head(
                &mut self.head,
                &self.prefix,
                &PlaceBound::BeforeToken(bound.token()),
            );
            self.entries = Some(self.terms.entries_from(&self.head));
            self.next_entry();
            if self
                .place()
                .is_some_and(|place| place.token == bound.token() && place.key.is_empty())
            {
                return;
            }
        }
        if !push_head(&mut self.head, &self.prefix, bound) {
            self.current = None;
            return;
        }
        self.entries = Some(self.terms.entries_from(&self.head));
        self.next_entry();
        if let (PlaceBound::Within { prefix, side, .. }, Some((head, rows))) = (*bound, self.current)
            && head == self.head
            && !rows.is_empty()
        {
            self.position = rows.after_bound(comparator, prefix, side);
            if rows.get(self.position).is_none() {
                self.next_entry();
            }
        }
    }
}
