//! Increments of counters, each as one turn of the shard or, where reading takes more steps, one turn of the partition.

use helenus_cql::ast::BatchKind;
use helenus_engine::CqlError;
use helenus_engine::read_failure;
use helenus_rows::update::{PackedUpdate, Update};
use helenus_storage::commitlog::LogPosition;
use helenus_storage::error::WriteError;
use helenus_storage::read_state::ReadProgress;
use helenus_storage::store::{CounterReading, Counting};
use helenus_types::Token;

use super::{COUNTED_AT_ONCE_BYTES_MAX, CountingScratch};
use crate::built_updates::malformed;
use crate::deadline::{Deadline, not_begun_in_time};
use crate::shard::Shard;
use crate::write::write_failure;
use crate::written_partitions::WrittenPartition;

impl Shard {
    /// As [`Persistence::apply`](crate::shard::persistence::Persistence::apply); `None` where it has to wait for something first.
    #[inline]
    pub(crate) fn apply_now(
        &self,
        partition: WrittenPartition,
        update: &[u8],
        kind: BatchKind,
    ) -> Result<Option<LogPosition>, CqlError> {
        let (_, token) = partition;
        if kind == BatchKind::Counter {
            return self.count_now(token, update);
        }
        if self.views.concern(partition) {
            return self.apply_viewed(token, update);
        }
        match self.persistence.apply(token, update) {
            Ok(position) => Ok(Some(position)),
            Err(WriteError::MemtablesFull { .. }) => Ok(None),
            Err(error) => Err(write_failure(&error)),
        }
    }

    /// Counts and applies an update of a counter table that this shard owns; `None` where it has to wait for its turn, for
    /// pages or for memory.
    fn count_now(&self, token: Token, update: &[u8]) -> Result<Option<LogPosition>, CqlError> {
        let decoded = Update::decode_trusted(update).ok_or_else(malformed)?;
        if update.len() > COUNTED_AT_ONCE_BYTES_MAX || self.counters.is_taken((decoded.table, token)) {
            return Ok(None);
        }
        let CountingScratch { reading, counted } = &mut *self.counters.scratch.borrow_mut();
        reading.begin_again();
        counted.clear();
        let counting = self.counting();
        let progress = self
            .store
            .borrow_mut()
            .count_step(token, &decoded, &counting, reading, counted);
        if !matches!(progress.map_err(read_failure)?, ReadProgress::Done) {
            *reading = CounterReading::default();
            return Ok(None);
        }
        match self.persistence.apply(token, counted) {
            Ok(position) => Ok(Some(position)),
            Err(WriteError::MemtablesFull { .. }) => Ok(None),
            Err(error) => Err(write_failure(&error)),
        }
    }

    /// As [`Shard::count_now`], waiting for what is not there.
    pub(crate) async fn count_waiting(
        &self,
        update: &PackedUpdate,
        deadline: Deadline,
    ) -> Result<LogPosition, CqlError> {
        let decoded = update.decode().ok_or_else(malformed)?;
        let (partition, token) = (update.partition(), update.token());
        if self.hot_partitions.is_sampled() {
            self.sample_write(token, update.bytes());
        }
        while self.counters.is_taken(partition) {
            let left = deadline.left(self.context.clock.monotonic_ns());
            let given_back = tokio::time::timeout(left, self.counters.given_back.notified());
            given_back.await.map_err(|_| not_begun_in_time())?;
        }
        // Who had the turn has brought the pages.
        if let Some(position) = self.count_now(token, update.bytes())? {
            return Ok(position);
        }
        let _others_wait = self.counters.take(partition);
        let counted = self.counted(token, &decoded).await?;
        if deadline.is_over(self.context.clock.monotonic_ns()) {
            return Err(not_begun_in_time());
        }
        self.apply_where_there_is_room(partition, &counted, deadline)
            .await
    }

    /// Computes the counted form of an update whose partition nobody else writes to.
    async fn counted(&self, token: Token, update: &Update<'_>) -> Result<Vec<u8>, CqlError> {
        let mut reading = CounterReading::default();
        let mut counted = Vec::new();
        loop {
            let counting = self.counting();
            let progress =
                self.store
                    .borrow_mut()
                    .count_step(token, update, &counting, &mut reading, &mut counted);
            match progress.map_err(read_failure)? {
                ReadProgress::Done => return Ok(counted),
                ReadProgress::Yield => tokio::task::yield_now().await,
                ReadProgress::Absent(absent) => self.reader.bring(reading.state(), &absent).await?,
            }
        }
    }

    fn counting(&self) -> Counting {
        Counting {
            node_id: self.context.host_id.into_bytes(),
            now_us: self.context.clock.wall_us(),
            now_s: self.context.now_s(),
        }
    }
}
