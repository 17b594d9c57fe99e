//! What a query asks of one shard, and how it gets its rows.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use helenus_schema::TableMetadata;
use helenus_types::Token;

use crate::clustering::{Side, Slice};
use crate::row::RowRef;
use crate::sstable::ReadCost;

/// Which rows of which partitions of one table, and in which direction.
#[derive(Clone, Debug)]
pub struct ReadCommand<'a> {
    pub table: &'a Arc<TableMetadata>,
    pub partitions: PartitionRange<'a>,
    /// Disjoint, in clustering order (also when `reversed`); empty for none but the static row.
    pub slices: &'a [Slice],
    /// Rows of each partition from last to first.
    pub reversed: bool,
    /// What has expired by then is not there. Seconds since the Unix epoch.
    pub now_s: u32,
}

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
    /// What lies between, in parts that ascend and do not overlap. One scan goes on from part to part.
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
    /// Whether a partition lies before the bound.
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

/// Takes the rows of a read as they are merged. What arrives is live at the command's `now_s`: no tombstones, no
/// expired cells, no rows without content; timestamps and remaining TTLs are still on the cells.
///
/// `Break` ends the read at once: the sink remembers where, and a later read starts after that row.
pub trait RowSink {
    /// A partition with at least one live row in the slices, or with a live static row (else empty).
    fn partition(&mut self, token: Token, key: &[u8], static_row: RowRef<'_>) -> ControlFlow<()>;

    fn row(&mut self, clustering: &[u8], row: RowRef<'_>) -> ControlFlow<()>;

    /// After the last row of a partition that was announced, if no `Break` came before.
    fn partition_end(&mut self) -> ControlFlow<()>;

    /// What the sink has done since it was last asked, beyond taking rows: units of the step's budget.
    fn take_units(&mut self) -> u32 {
        0
    }
}

/// What a read cost; for warnings, tracing and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    pub rows_live: u64,
    pub tombstones: u64,
    pub sstables_touched: u32,
    pub cost: ReadCost,
}
