//! A write to one row of a base table, where the row that is stored lies in memory: what nearly all writes to tables with
//! views are. Nothing is taken from the heap for it.

use helenus_rows::deletion::DeletionTime;
use helenus_rows::row::RowRef;
use helenus_rows::update::Update;
use helenus_storage::read::StoredRow;
use helenus_types::Token;

use super::changes::Changes;
use super::compare::{CompareScratch, Compared};
use super::plan::BaseViews;
use crate::CqlError;
use crate::change_log::{Cause, Images};

/// One row that is written.
#[derive(Clone, Copy, Debug)]
pub struct PointWrite<'u> {
    partition_key: &'u [u8],
    pub clustering: &'u [u8],
    row: RowRef<'u>,
}

/// Buffers for one write at a time.
#[derive(Debug, Default)]
pub struct PointScratch {
    rows: CompareScratch,
    pub changes: Changes,
}

/// Buffers that have grown beyond it are not kept.
const KEPT_BYTES_MAX: usize = 256 << 10;

impl PointScratch {
    /// Ready for another write; what one large row has taken is given back.
    pub fn begin_again(&mut self) {
        if self.changes.heap_bytes() + self.rows.heap_bytes() > KEPT_BYTES_MAX {
            *self = Self::default();
        }
        self.changes.clear();
    }
}

impl<'u> PointWrite<'u> {
    /// `None` for an update that is not about one row alone.
    pub fn of(update: &Update<'u>) -> Option<Self> {
        let (clustering, row) = update.only_row()?;
        Some(PointWrite {
            partition_key: update.partition_key,
            clustering,
            row,
        })
    }
}

impl BaseViews {
    /// Returns whether what is stored decides what the views become; else they stay as they are.
    pub fn are_concerned_by(&self, write: &PointWrite<'_>) -> bool {
        let place = (write.partition_key, write.clustering);
        let base = &self.layout.metadata;
        self.views
            .iter()
            .any(|view| view.is_concerned(place, write.row, base))
    }

    /// Returns whether nothing but the write is to be known to log it.
    pub fn log_without_reading(&self) -> bool {
        self.log.as_ref().is_none_or(|log| !log.has_images())
    }

    /// Adds what the log, if there is one, tells of an update.
    pub fn log_change(&self, token: Token, update: &Update<'_>, now_s: u32, scratch: &mut PointScratch) {
        let log = self.log.as_ref();
        if let Some(logged) =
            log.and_then(|log| log.log(token, (update, Cause::Client), &Images::default(), now_s))
        {
            scratch.changes.push(|out| out.extend_from_slice(&logged));
        }
    }

    /// Adds what the views become.
    pub fn change(
        &self,
        write: &PointWrite<'_>,
        stored: &StoredRow<'_>,
        now_s: u32,
        scratch: &mut PointScratch,
    ) -> Result<(), CqlError> {
        let compared = Compared {
            key: write.partition_key,
            clustering: stored.clustering.unwrap_or(write.clustering),
            stored: stored.row,
            stored_shadow: stored.shadow,
            written: write.row,
            written_shadow: DeletionTime::LIVE,
            is_build: false,
            now_s,
        };
        self.compare(&compared, &mut scratch.rows, &mut scratch.changes)
    }
}
