//! Background work of a shard: deleting rows whose TTL column says that their time is over.
//!
//! Reads do without it: to them such a row is deleted already ([`helenus_rows::row::ExpirationColumn`]). But it takes space until
//! somebody writes that deletion, and what follows from writes, views above all, has the row until then. A compaction cannot do it:
//! another file may have a later time for the row. So each shard goes through its tables of that kind now and then, in
//! steps, and decides on what it has found as a conditional statement would ([`crate::decide`]): the row is read again in the turn
//! that deletes it. The deletion has the timestamp that reads go by, so that nothing changes for them, however often it is written.

mod expired_rows;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::{CqlError, read_failure};
use helenus_rows::clustering::Slice;
use helenus_rows::layout::TableLayout;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::row::{ExpirationColumn, RowShape};
use helenus_schema::{TableId, TableMetadata};
use helenus_storage::read::{ReadCommand, Stored};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_transport::deadline::nanoseconds;
use helenus_types::Token;

use self::expired_rows::{ExpiredPartition, ExpiredRows};
use crate::built_updates::packed;
use crate::deadline::Deadline;
use crate::decide::{Decide, Run, Updates};
use crate::panic_boundary::catch_async;
use crate::shard::Shard;

/// From the end of one pass over the tables to the next: rows that nobody sees may stay that long.
const PASS_INTERVAL: Duration = Duration::from_secs(60);

/// As many times as long as a step took nothing is done behind it: large tables take a tenth of the shard, not all of it.
const RESTS_PER_STEP: u64 = 9;

/// How often it is looked whether the time of the next pass has come.
const LOOKED_EVERY: Duration = Duration::from_millis(500);

/// Rows that are decided on in one turn: a microsecond or two each.
const ROWS_PER_TURN_MAX: usize = 64;

/// Bytes of these rows, which the turn reads.
const BYTES_PER_TURN_MAX: usize = 64 << 10;

/// Rows that had expired when they were found.
struct Expiry {
    table: TableId,
    tokens: Vec<Token>,
    partitions: Vec<ExpiredPartition>,
    state: ReadState,
}

impl Decide for Expiry {
    /// Counts the rows that are deleted.
    type Answer = u64;

    fn partitions(&self) -> &[Token] {
        &self.tokens
    }

    fn run(&mut self, shard: &Rc<Shard>) -> Result<Run<u64>, CqlError> {
        let (mut updates, mut rows) = (Vec::new(), 0);
        // As of now: the table may have lost its TTL column, or have another.
        let schema = shard.schema();
        if let Some(table) = schema.table_by_id(self.table) {
            let shape = RowShape::of(table);
            self.state.begin_attempt();
            for partition in &self.partitions {
                let mut expired = ExpiredRows::new(&shape, shard.context.now_s());
                self.state.begin_again();
                let read = (
                    PartitionRange::One {
                        token: partition.token,
                        key: &partition.key,
                    },
                    &*partition.slices(),
                );
                loop {
                    match shard.step_of_expired(table, read, &mut self.state, &mut expired)? {
                        ReadProgress::Done => break,
                        ReadProgress::Yield => {}
                        ReadProgress::Absent(absent) => return Ok(Run::Absent(absent)),
                    }
                }
                for still_expired in expired.take() {
                    rows += still_expired.rows.len() as u64;
                    let deletion = packed(still_expired.token, still_expired.deletion_of(self.table))?;
                    // A log of changes tells that no client did this.
                    updates.push(deletion.of_expiry());
                }
            }
        }
        Ok(Run::Decided {
            updates: Updates::OfSeveral(updates),
            answer: rows,
        })
    }

    fn read_state(&self) -> &ReadState {
        &self.state
    }
}

impl Shard {
    /// Deletes rows whose time is over, again and again.
    pub(crate) async fn expire_rows(self: Rc<Self>) {
        let clock = &self.context.clock;
        let mut next_ns = clock.monotonic_ns().saturating_add(nanoseconds(PASS_INTERVAL));
        loop {
            tokio::time::sleep(LOOKED_EVERY).await;
            if clock.monotonic_ns() < next_ns {
                continue;
            }
            for table in self.tables_that_expire() {
                // What could not be done now is done in the next pass; it must not hold up the other tables.
                let _panicked_or_failed = catch_async(self.expire_rows_of(&table)).await;
            }
            next_ns = clock.monotonic_ns().saturating_add(nanoseconds(PASS_INTERVAL));
        }
    }

    fn tables_that_expire(&self) -> Vec<Arc<TableMetadata>> {
        let schema = self.schema();
        let tables = schema
            .keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values());
        let expiring = tables.filter(|table| ExpirationColumn::of(table).is_some());
        expiring.cloned().collect()
    }

    async fn expire_rows_of(self: &Rc<Self>, table: &Arc<TableMetadata>) -> Result<(), CqlError> {
        let shape = RowShape::of(table);
        let slices = [Slice::all()];
        let mut state = ReadState::suspending();
        state.bypass_cache();
        loop {
            let mut expired = ExpiredRows::new(&shape, self.context.now_s());
            let read = (PartitionRange::everything(), &slices[..]);
            let begun_ns = self.context.clock.monotonic_ns();
            let progress = self.step_of_expired(table, read, &mut state, &mut expired)?;
            let taken_ns = self.context.clock.monotonic_ns().saturating_sub(begun_ns);
            if let ReadProgress::Absent(absent) = &progress {
                self.reader.bring(&state, absent).await?;
            }
            for partitions in in_turns(expired.take()) {
                self.delete_expired(table.id, partitions).await?;
            }
            if matches!(progress, ReadProgress::Done) {
                break;
            }
            let rest = Duration::from_nanos(taken_ns.saturating_mul(RESTS_PER_STEP));
            // A rest of nothing does not yield.
            tokio::task::yield_now().await;
            tokio::time::sleep(rest).await;
        }
        self.store.borrow().end_read(&mut state);
        Ok(())
    }

    /// Returns whether a row has expired and is not deleted yet.
    pub(crate) async fn awaits_deletion(
        &self,
        layout: &TableLayout,
        (token, key): (Token, &[u8]),
        clustering: &[u8],
    ) -> Result<bool, CqlError> {
        if layout.shape.expiration().is_none() {
            return Ok(false);
        }
        let slices = [Slice::covering(clustering)];
        let mut state = ReadState::suspending();
        state.bypass_cache();
        let mut expired = ExpiredRows::new(&layout.shape, self.context.now_s());
        loop {
            let read = (PartitionRange::One { token, key }, &slices[..]);
            match self.step_of_expired(&layout.metadata, read, &mut state, &mut expired)? {
                ReadProgress::Done => break,
                ReadProgress::Yield => tokio::task::yield_now().await,
                ReadProgress::Absent(absent) => self.reader.bring(&state, &absent).await?,
            }
        }
        self.store.borrow().end_read(&mut state);
        Ok(!expired.take().is_empty())
    }

    fn step_of_expired(
        &self,
        table: &Arc<TableMetadata>,
        (partitions, slices): (PartitionRange<'_>, &[Slice]),
        state: &mut ReadState,
        expired: &mut ExpiredRows<'_>,
    ) -> Result<ReadProgress, CqlError> {
        let command = ReadCommand {
            table,
            partitions,
            slices,
            reversed: false,
            now_s: self.context.now_s(),
            index: &[],
        };
        let mut store = self.store.borrow_mut();
        let progress = store.read_step(&command, state, &mut Stored(expired));
        progress.map_err(read_failure)
    }

    async fn delete_expired(
        self: &Rc<Self>,
        table: TableId,
        partitions: Vec<ExpiredPartition>,
    ) -> Result<(), CqlError> {
        let mut state = ReadState::of_several();
        state.bypass_cache();
        let mut expiry = Expiry {
            table,
            tokens: partitions.iter().map(|partition| partition.token).collect(),
            partitions,
            state,
        };
        let deleted = self.decide(&mut expiry, Deadline::ENDLESS).await?;
        self.context.metrics.count_expired_rows(deleted);
        Ok(())
    }
}

/// Divides what was found into as much as one turn decides on each.
fn in_turns(found: Vec<ExpiredPartition>) -> Vec<Vec<ExpiredPartition>> {
    let mut turns: Vec<Vec<ExpiredPartition>> = Vec::new();
    let (mut rows, mut bytes) = (ROWS_PER_TURN_MAX, 0);
    for ExpiredPartition {
        token,
        key,
        rows: of_partition,
    } in found
    {
        let mut is_begun = false;
        for row in of_partition {
            let is_full = rows >= ROWS_PER_TURN_MAX || bytes >= BYTES_PER_TURN_MAX;
            if is_full {
                turns.push(Vec::new());
                (rows, bytes, is_begun) = (0, 0, false);
            }
            rows += 1;
            bytes += row.bytes;
            let Some(turn) = turns.last_mut() else { continue };
            match turn.last_mut().filter(|_| is_begun) {
                Some(partition) => partition.rows.push(row),
                None => turn.push(ExpiredPartition {
                    token,
                    key: key.clone(),
                    rows: vec![row],
                }),
            }
            is_begun = true;
        }
    }
    turns
}
