//! Ranges of partitions, in the order of their tokens.

use std::cmp::Ordering;

use helenus_types::Token;

use crate::clustering::Side;

#[derive(Clone, Copy, Debug)]
pub enum PartitionRange<'a> {
    One {
        token: Token,
        key: &'a [u8],
    },
    /// In token order, keys of equal token in byte order; always forward.
    Many {
        start: PartitionBound<'a>,
        end: PartitionBound<'a>,
    },
    /// Parts that ascend and do not overlap. One scan goes on from part to part.
    Parts(&'a [PartitionSpan<'a>]),
}

/// A part of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionSpan<'a> {
    pub start: PartitionBound<'a>,
    pub end: PartitionBound<'a>,
}

impl<'a> PartitionRange<'a> {
    /// From where to where.
    pub fn bounds(&self) -> (PartitionBound<'a>, PartitionBound<'a>) {
        match *self {
            PartitionRange::One { token, key } => (
                PartitionBound {
                    token,
                    key: Some(key),
                    side: Side::Before,
                },
                PartitionBound {
                    token,
                    key: Some(key),
                    side: Side::After,
                },
            ),
            PartitionRange::Many { start, end } => (start, end),
            PartitionRange::Parts(parts) => {
                let bound = |token| PartitionBound {
                    token,
                    key: None,
                    side: Side::Before,
                };
                let start = parts.first().map(|part| part.start);
                let end = parts.last().map(|part| part.end);
                (
                    start.unwrap_or(bound(Token::MAXIMUM)),
                    end.unwrap_or(bound(Token::MINIMUM)),
                )
            }
        }
    }

    /// All partitions there are.
    pub fn everything() -> Self {
        let bound = |token, side| PartitionBound {
            token,
            key: None,
            side,
        };
        PartitionRange::Many {
            start: bound(Token::MINIMUM, Side::Before),
            end: bound(Token::MAXIMUM, Side::After),
        }
    }
}

/// A place between partitions: before or after every partition of a token, or before or after one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionBound<'a> {
    pub token: Token,
    pub key: Option<&'a [u8]>,
    pub side: Side,
}

impl PartitionBound<'_> {
    /// Returns whether a partition lies before the bound.
    pub fn is_behind(&self, token: Token, key: &[u8]) -> bool {
        let ordering = token
            .cmp(&self.token)
            .then_with(|| self.key.map_or(Ordering::Equal, |of| key.cmp(of)));
        ordering
            .then(if self.side == Side::Before {
                Ordering::Greater
            } else {
                Ordering::Less
            })
            .is_lt()
    }
}
