//! The newest timestamp stored in a part of a partition, deletions included. The node's own bookkeeping is written later than that:
//! a clock that was set back must not let an old deletion hide what is written after it.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_engine::read_failure;
use helenus_rows::clustering::Slice;
use helenus_rows::deletion::{DeletionTime, NO_TIMESTAMP};
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::Entry;
use helenus_schema::TableMetadata;
use helenus_sstable::source::Unfiltered;
use helenus_storage::read::{ReadCommand, Stored, StoredSink};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{Token, token_of};

use crate::shard::Shard;

impl Shard {
    /// A timestamp after everything that is stored of these rows of the partition. It does not move the shard's own clock.
    pub(crate) async fn timestamp_after_us(
        self: &Rc<Self>,
        table: &Arc<TableMetadata>,
        key: Vec<u8>,
        rows: Slice,
    ) -> Result<i64, CqlError> {
        let owner = self.context.owner_of(token_of(&key));
        let table = table.clone();
        let newest_us = self.ask(owner, move |shard| async move {
            shard.newest_write_here_us(&table, &key, rows).await
        });
        let newest_us = newest_us.await?;
        Ok(self.context.clock.wall_us().max(newest_us.saturating_add(1)))
    }

    async fn newest_write_here_us(
        self: &Rc<Self>,
        table: &Arc<TableMetadata>,
        key: &[u8],
        rows: Slice,
    ) -> Result<i64, CqlError> {
        let slices = [rows];
        let mut state = ReadState::suspending();
        let mut newest = NewestTimestamp(NO_TIMESTAMP);
        loop {
            let command = ReadCommand {
                table,
                partitions: PartitionRange::One {
                    token: token_of(key),
                    key,
                },
                slices: &slices,
                reversed: false,
                now_s: self.context.now_s(),
                index: &[],
            };
            let progress = self
                .store
                .borrow_mut()
                .read_step(&command, &mut state, &mut Stored(&mut newest));
            match progress.map_err(read_failure)? {
                ReadProgress::Done => break,
                ReadProgress::Yield => tokio::task::yield_now().await,
                ReadProgress::Absent(absent) => self.reader.bring(&state, &absent).await?,
            }
        }
        self.store.borrow().end_read(&mut state);
        Ok(newest.0)
    }
}

struct NewestTimestamp(i64);

impl NewestTimestamp {
    fn see(&mut self, timestamp_us: i64) -> ControlFlow<()> {
        self.0 = self.0.max(timestamp_us);
        ControlFlow::Continue(())
    }
}

impl StoredSink for NewestTimestamp {
    fn partition(&mut self, _: Token, _: &[u8], deletion: DeletionTime) -> ControlFlow<()> {
        self.see(deletion.timestamp_us)
    }

    fn element(&mut self, element: Unfiltered<'_>) -> ControlFlow<()> {
        match element {
            Unfiltered::Marker { deletion, .. } => self.see(deletion.timestamp_us),
            Unfiltered::Row { row, .. } => {
                let (liveness, deletion, entries) = row.open();
                let entries = entries.map(|entry| match entry {
                    Entry::ComplexDeletion { deletion, .. } => deletion.timestamp_us,
                    Entry::Cell(cell) => cell.timestamp_us,
                });
                let newest_us = entries.fold(liveness.timestamp_us.max(deletion.timestamp_us), i64::max);
                self.see(newest_us)
            }
        }
    }
}
