//! The partitions of several sources in one order.

use helenus_types::Token;

use super::MergedCursor;
use crate::error::ReadError;
use crate::layout::TableLayout;
use crate::source::{PartitionCursor, PartitionScanner};

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
    pub fn showing_progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    /// How many sources hold the partition of `position`.
    pub fn sources_taken(&self) -> u32 {
        self.sources.iter().filter(|source| source.is_taken).count() as u32
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
        let positions = self.sources.iter().filter(|source| source.has_position);
        let Some((token, key)) = positions.map(|source| source.scanner.position()).min() else {
            return Ok(false);
        };
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        let position = (self.token, &*self.key);
        for source in &mut self.sources {
            source.is_taken = source.has_position && source.scanner.position() == position;
        }
        Ok(true)
    }

    fn position(&self) -> (Token, &[u8]) {
        assert!(self.is_started, "read before advance");
        (self.token, &self.key)
    }

    fn open(&mut self) -> Result<Box<dyn PartitionCursor + '_>, ReadError> {
        let mut cursors = Vec::with_capacity(self.sources.len());
        for source in &mut self.sources {
            if source.is_taken {
                cursors.push(source.scanner.open()?);
            }
        }
        match cursors.pop() {
            Some(only) if cursors.is_empty() => Ok(only),
            last => {
                cursors.extend(last);
                let merged = MergedCursor::new(self.layout, self.reversed, cursors)?;
                Ok(Box::new(if self.shows_progress {
                    merged.showing_progress()
                } else {
                    merged
                }))
            }
        }
    }
}
