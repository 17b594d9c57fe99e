//! The partitions of several sources in one order.

use helenus_types::Token;

use super::MergedCursor;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionBound;
use helenus_sstable::error::ReadError;
use helenus_sstable::source::{OpenPartition, PartitionCursor, PartitionScanner};

/// Merges scanners of one table and one range. Holds one partition position per source and nothing else, however
/// much there is to scan.
pub struct MergedScanner<'a> {
    layout: &'a TableLayout,
    reversed: bool,
    shows_progress: bool,
    sources: Vec<Source<'a>>,
    is_started: bool,
    token: Token,
    key: Vec<u8>,
}

struct Source<'a> {
    scanner: Box<dyn PartitionScanner + 'a>,
    /// At the end once false.
    has_position: bool,
    /// Stands on the partition handed out.
    is_taken: bool,
}

impl<'a> MergedScanner<'a> {
    pub fn new(
        layout: &'a TableLayout,
        reversed: bool,
        scanners: Vec<Box<dyn PartitionScanner + 'a>>,
    ) -> Self {
        let sources = scanners
            .into_iter()
            .map(|scanner| Source {
                scanner,
                has_position: true,
                is_taken: true,
            })
            .collect();
        MergedScanner {
            layout,
            reversed,
            shows_progress: false,
            sources,
            is_started: false,
            token: Token::MINIMUM,
            key: Vec::new(),
        }
    }

    /// Opens partitions as [`MergedCursor::showing_progress`] does.
    pub(crate) fn showing_progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    /// How many sources hold the partition of `position`.
    pub(crate) fn sources_taken(&self) -> u32 {
        self.sources.iter().filter(|source| source.is_taken).count() as u32
    }

    fn open_merged(&mut self) -> Result<OpenPartition<'_>, ReadError> {
        let mut cursors: Vec<Box<dyn PartitionCursor + '_>> = Vec::with_capacity(self.sources.len());
        for source in &mut self.sources {
            if source.is_taken {
                cursors.push(match source.scanner.open()? {
                    OpenPartition::Owned(cursor) => cursor,
                    OpenPartition::Lent(cursor) => Box::new(cursor),
                });
            }
        }
        let merged = MergedCursor::new(self.layout, self.reversed, cursors)?;
        Ok(OpenPartition::Owned(Box::new(if self.shows_progress {
            merged.showing_progress()
        } else {
            merged
        })))
    }

    /// Finds the next partition among those that the sources stand on.
    fn choose(&mut self) -> bool {
        let positions = self.sources.iter().filter(|source| source.has_position);
        let Some((token, key)) = positions.map(|source| source.scanner.position()).min() else {
            return false;
        };
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        let position = (self.token, &*self.key);
        for source in &mut self.sources {
            source.is_taken = source.has_position && source.scanner.position() == position;
        }
        true
    }
}

impl PartitionScanner for MergedScanner<'_> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.is_started = true;
        for source in &mut self.sources {
            if source.is_taken {
                source.has_position = source.scanner.advance()?;
            }
        }
        Ok(self.choose())
    }

    fn advance_to(&mut self, start: &PartitionBound<'_>) -> Result<bool, ReadError> {
        for source in &mut self.sources {
            let is_behind = || {
                let (token, key) = source.scanner.position();
                start.is_behind(token, key)
            };
            if !self.is_started || (source.has_position && is_behind()) {
                source.has_position = source.scanner.advance_to(start)?;
            }
        }
        self.is_started = true;
        Ok(self.choose())
    }

    fn position(&self) -> (Token, &[u8]) {
        assert!(self.is_started, "read before advance");
        (self.token, &self.key)
    }

    fn open(&mut self) -> Result<OpenPartition<'_>, ReadError> {
        if self.sources_taken() > 1 {
            return self.open_merged();
        }
        let Some(source) = self.sources.iter_mut().find(|source| source.is_taken) else {
            unreachable!("only called after an advance that returned true")
        };
        source.scanner.open()
    }
}
