//! From merged rows to a query's sink.

use std::ops::ControlFlow;

use helenus_types::Token;

use crate::deletion::DeletionTime;
use crate::error::ReadError;
use crate::layout::TableLayout;
use crate::memtable::Partition;
use crate::read::{ReadStatistics, RowSink};
use crate::row::{RowRef, live};
use crate::source::{PartitionCursor, Unfiltered};

/// Buffers of one shard that reads share, one read at a time.
#[derive(Debug, Default)]
pub(super) struct ReadScratch {
    row: Vec<u8>,
    static_row: Vec<u8>,
}

/// Hands the live part of partitions to a sink.
pub(super) struct Answer<'a, S> {
    pub layout: &'a TableLayout,
    pub now_s: u32,
    pub sink: &'a mut S,
    pub scratch: &'a mut ReadScratch,
    pub statistics: &'a mut ReadStatistics,
}

impl<S: RowSink> Answer<'_, S> {
    /// One row of a partition in a memtable, which no other source knows.
    #[inline]
    pub fn point(&mut self, token: Token, partition: &Partition, clustering: &[u8]) -> ControlFlow<()> {
        let deletion = partition.deletion();
        let ReadScratch {
            row: row_scratch,
            static_row: static_scratch,
        } = &mut *self.scratch;
        let tombstones = &mut self.statistics.tombstones;
        let static_row = live::live_view(
            &self.layout.shape,
            partition.static_row(),
            deletion,
            self.now_s,
            static_scratch,
            tombstones,
        );
        let row = partition
            .row(self.layout, clustering)
            .and_then(|(packed, shadow)| {
                let live = live::live_view(
                    &self.layout.shape,
                    packed.row(),
                    shadow,
                    self.now_s,
                    row_scratch,
                    tombstones,
                );
                // Equal clusterings may differ in their bytes (1.0 and 1.00), and the row's own are answered.
                live.map(|row| (packed.clustering(), row))
            });
        if row.is_none() && static_row.is_none() {
            return ControlFlow::Continue(());
        }
        self.sink
            .partition(token, partition.key(), static_row.unwrap_or(RowRef::EMPTY))?;
        if let Some((clustering, row)) = row {
            self.statistics.rows_live += 1;
            self.sink.row(clustering, row)?;
        }
        self.sink.partition_end()
    }

    /// All that a cursor walks over.
    pub fn partition(
        &mut self,
        token: Token,
        key: &[u8],
        cursor: &mut impl PartitionCursor,
    ) -> Result<ControlFlow<()>, ReadError> {
        let deletion = cursor.deletion();
        self.statistics.tombstones += u64::from(!deletion.is_live());
        let has_static_row = self.keep_static_row(cursor.static_row(), deletion);
        let ReadScratch {
            row: row_scratch,
            static_row,
        } = &mut *self.scratch;
        let static_row = if has_static_row {
            RowRef::new(static_row)
        } else {
            RowRef::EMPTY
        };

        let mut in_force = DeletionTime::LIVE;
        let mut is_announced = false;
        while cursor.advance()? {
            let (clustering, row) = match cursor.current() {
                Unfiltered::Marker { deletion, .. } => {
                    self.statistics.tombstones += 1;
                    in_force = deletion;
                    continue;
                }
                Unfiltered::Row { clustering, row } => (clustering, row),
            };
            let shadow = deletion.max(in_force);
            let tombstones = &mut self.statistics.tombstones;
            let shape = &self.layout.shape;
            let Some(row) = live::live_view(shape, row, shadow, self.now_s, row_scratch, tombstones) else {
                continue;
            };
            if !is_announced && self.sink.partition(token, key, static_row).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            is_announced = true;
            self.statistics.rows_live += 1;
            if self.sink.row(clustering, row).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if !is_announced {
            if !has_static_row {
                return Ok(ControlFlow::Continue(()));
            }
            if self.sink.partition(token, key, static_row).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(self.sink.partition_end())
    }

    /// Copies the live part of a static row to the scratch, since the cursor that holds it is about to move on;
    /// whether there is any.
    fn keep_static_row(&mut self, static_row: RowRef<'_>, deletion: DeletionTime) -> bool {
        if static_row.is_empty() {
            return false;
        }
        let ReadScratch {
            row: row_scratch,
            static_row: kept,
        } = &mut *self.scratch;
        let tombstones = &mut self.statistics.tombstones;
        let shape = &self.layout.shape;
        match live::live_view(shape, static_row, deletion, self.now_s, row_scratch, tombstones) {
            None => false,
            Some(live) => {
                kept.clear();
                kept.extend_from_slice(live.as_bytes());
                true
            }
        }
    }
}
