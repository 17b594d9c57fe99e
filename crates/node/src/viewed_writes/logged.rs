//! Logs of changes: what they tell of a write, with the rows as they were before it, where they have such.

use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_engine::change_log::{Cause, ChangeLogPlan, Images};
use helenus_engine::read_failure;
use helenus_engine::views::BaseViews;
use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::update::{PackedUpdate, Update};
use helenus_schema::TableMetadata;
use helenus_storage::read::ReadCommand;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::Token;

use crate::built_updates::malformed;
use crate::shard::Shard;

/// Outcome for the log of a table's changes, within the turn of a write.
pub(super) enum LogTried {
    /// Nothing is left to be read; with the change of the log, if it has one.
    Logged(Option<PackedUpdate>),
    /// Nothing was done: rows are to be read first.
    HasToWait,
}

impl Shard {
    pub(super) fn log_at_once(
        &self,
        views: &BaseViews,
        packed: &PackedUpdate,
        update: &Update<'_>,
    ) -> Result<LogTried, CqlError> {
        let Some(log) = &views.log else {
            return Ok(LogTried::Logged(None));
        };
        let mut images = Images::default();
        if log.has_images() {
            let mut state = ReadState::suspending();
            let slices = log.image_slices(update);
            let place = (packed.token(), update.partition_key);
            let base = &views.layout.metadata;
            let progress = self.image_step(base, place, &slices, &mut images, &mut state)?;
            self.store.borrow().end_read(&mut state);
            if !matches!(progress, ReadProgress::Done) {
                return Ok(LogTried::HasToWait);
            }
        }
        Ok(LogTried::Logged(self.logged(log, (packed, update), &images)?))
    }

    /// As [`Shard::log_at_once`], for who has the partition's turn: the rows are read in as many steps as it takes.
    pub(super) async fn log_of(
        &self,
        views: &BaseViews,
        packed: &PackedUpdate,
        update: &Update<'_>,
    ) -> Result<Option<PackedUpdate>, CqlError> {
        let Some(log) = &views.log else {
            return Ok(None);
        };
        let mut images = Images::default();
        if log.has_images() {
            let mut state = ReadState::suspending();
            let slices = log.image_slices(update);
            let place = (packed.token(), update.partition_key);
            let base = &views.layout.metadata;
            loop {
                match self.image_step(base, place, &slices, &mut images, &mut state)? {
                    ReadProgress::Done => break,
                    ReadProgress::Absent(absent) => self.reader.bring(&state, &absent).await?,
                    ReadProgress::Yield => tokio::task::yield_now().await,
                }
            }
            self.store.borrow().end_read(&mut state);
        }
        self.logged(log, (packed, update), &images)
    }

    fn logged(
        &self,
        log: &ChangeLogPlan,
        (packed, update): (&PackedUpdate, &Update<'_>),
        images: &Images,
    ) -> Result<Option<PackedUpdate>, CqlError> {
        let cause = match packed.is_of_expiry() {
            true => Cause::Expiry,
            false => Cause::Client,
        };
        let logged = log.log(packed.token(), (update, cause), images, self.context.now_s());
        let logged = logged.map(|logged| PackedUpdate::new(logged).ok_or_else(malformed));
        logged.transpose()
    }

    /// One step of the read of rows before they are written to.
    fn image_step(
        &self,
        table: &Arc<TableMetadata>,
        (token, key): (Token, &[u8]),
        slices: &[Slice],
        images: &mut Images,
        state: &mut ReadState,
    ) -> Result<ReadProgress, CqlError> {
        let command = ReadCommand {
            table,
            partitions: PartitionRange::One { token, key },
            slices,
            reversed: false,
            now_s: self.context.now_s(),
            index: &[],
        };
        let progress = self.store.borrow_mut().read_step(&command, state, images);
        progress.map_err(read_failure)
    }
}
