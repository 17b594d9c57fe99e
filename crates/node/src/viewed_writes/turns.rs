//! Writes with what they change in views, in turns of their partitions.

use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_engine::read_failure;
use helenus_engine::views::{BaseViews, Chunk, ViewDelta};
use helenus_rows::clustering::Slice;
use helenus_rows::partition_range::PartitionRange;
use helenus_rows::update::{PackedUpdate, Update};
use helenus_storage::read::{ReadCommand, Stored};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::Token;

use crate::built_updates::{UpdatesByShard, by_owner, malformed, packed_all};
use crate::deadline::{Deadline, not_begun_in_time};
use crate::shard::Shard;
use crate::shard::mailbox::Mailbox;
use crate::viewed_writes::Views;
use crate::viewed_writes::turn_queue::Claim;
use crate::write_set::{InTurn, RequiredTables, Turns};
use crate::written_partitions::{WrittenPartition, partitions_in};

/// Bytes that a batch may write to views in all: it is one record of each shard's log.
const BATCH_VIEW_BYTES_MAX: usize = 12 << 20;

/// An update or change of so many bytes is handled in steps: each of them copies it, which takes a tenth of a millisecond for 256 KiB.
const BYTES_PER_STEP: usize = 256 << 10;

/// Nothing else is written to the partitions.
pub(crate) struct PartitionTurns {
    shard: Rc<Shard>,
    partitions: Vec<WrittenPartition>,
}

/// The same, in the hands of any shard: they are given back by a message when this is dropped.
pub(crate) struct HeldTurns {
    owner: Mailbox,
    partitions: Arc<[WrittenPartition]>,
}

/// Changes of the views of another shard's partitions; nothing else is written to these partitions until it is dropped.
struct Lease {
    changes: Vec<PackedUpdate>,
    _turns: HeldTurns,
}

/// Permission to write an update in parts that are whole for the rows that they are about, and whether it was begun.
#[derive(Default)]
pub(crate) struct Chunks {
    pub are_allowed: bool,
    pub is_begun: bool,
}

impl Drop for PartitionTurns {
    fn drop(&mut self) {
        if self.partitions.is_empty() {
            return;
        }
        let views = &self.shard.views;
        let ready = views.turns.borrow_mut().give_back(&self.partitions);
        views.has_taken.set(views.turns.borrow().has_taken());
        // Before the next takes them: else who only waits until nobody has them waits for ever.
        views.given_back.notify_waiters();
        ready.iter().for_each(|claim| claim.wake());
    }
}

/// A claim of who waits. Dropped, it is given up, unless it was met.
struct Waiting<'s> {
    views: &'s Views,
    claim: Rc<Claim>,
    is_met: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_met {
            let ready = self.views.turns.borrow_mut().leave(&self.claim);
            ready.iter().for_each(|claim| claim.wake());
        }
    }
}

impl Drop for HeldTurns {
    fn drop(&mut self) {
        let partitions = self.partitions.clone();
        self.owner.run(move |shard| shard.give_turns_back(&partitions));
    }
}

impl HeldTurns {
    pub fn partitions(&self) -> &Arc<[WrittenPartition]> {
        &self.partitions
    }
}

impl PartitionTurns {
    /// Makes turns that can be handed on; whoever gets them gives them back. There is no cycle of a shard that has turns of
    /// its own.
    pub fn held(mut self) -> HeldTurns {
        HeldTurns {
            owner: self.shard.context.mailbox(self.shard.context.id).clone(),
            partitions: std::mem::take(&mut self.partitions).into(),
        }
    }

    pub fn have_all_of(&self, partitions: &[WrittenPartition]) -> bool {
        partitions
            .iter()
            .all(|partition| self.partitions.contains(partition))
    }
}

impl Shard {
    /// One step of the read that a delta needs.
    pub(super) fn delta_step(
        &self,
        (token, key): (Token, &[u8]),
        slices: &[Slice],
        delta: &mut ViewDelta<'_>,
        state: &mut ReadState,
    ) -> Result<ReadProgress, CqlError> {
        if slices.is_empty() {
            return Ok(ReadProgress::Done);
        }
        let table = delta.base().clone();
        let command = ReadCommand {
            table: &table,
            partitions: PartitionRange::One { token, key },
            slices,
            reversed: false,
            now_s: self.context.now_s(),
            index: &[],
        };
        let progress = self
            .store
            .borrow_mut()
            .read_step(&command, state, &mut Stored(delta));
        progress.map_err(read_failure)
    }

    /// Waits until nobody else writes to these partitions of this shard, and nothing that was written to them may be undone.
    pub(crate) async fn take_turns(
        self: &Rc<Self>,
        partitions: Vec<WrittenPartition>,
        deadline: Deadline,
    ) -> Result<PartitionTurns, CqlError> {
        if deadline.is_over(self.context.clock.monotonic_ns()) {
            return Err(not_begun_in_time());
        }
        let views = &self.views;
        if self.views.are_held(&partitions) || !views.turns.borrow_mut().take_free(&partitions) {
            self.wait_in_line(partitions.clone(), deadline).await?;
        }
        self.views.has_taken.set(true);
        let turns = PartitionTurns {
            shard: self.clone(),
            partitions,
        };
        self.resolved(&turns.partitions).await?;
        Ok(turns)
    }

    /// Takes the turns once whoever has come before has had them.
    async fn wait_in_line(
        &self,
        partitions: Vec<WrittenPartition>,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let views = &self.views;
        let mut waiting = Waiting {
            views,
            claim: views.turns.borrow_mut().join(partitions.clone()),
            is_met: false,
        };
        loop {
            let given_back = views.given_back.notified();
            let is_ready = waiting.claim.is_ready();
            if is_ready && !views.are_held(&partitions) {
                views.turns.borrow_mut().take(&waiting.claim);
                waiting.is_met = true;
                return Ok(());
            }
            let left = deadline.left(self.context.clock.monotonic_ns());
            let changed = async {
                match is_ready {
                    // For a truncation to end.
                    true => given_back.await,
                    false => waiting.claim.woken().await,
                }
            };
            let in_time = tokio::time::timeout(left, changed).await;
            in_time.map_err(|_| not_begun_in_time())?;
        }
    }

    /// Breaks the seals of these partitions, if there are any, and gives their turns back.
    fn give_turns_back(self: &Rc<Self>, partitions: &[WrittenPartition]) {
        self.break_seals(partitions);
        drop(PartitionTurns {
            shard: self.clone(),
            partitions: partitions.to_vec(),
        });
    }

    /// Waits until nobody has the turns of what is to be written, for who does not take them.
    pub(crate) async fn wait_for_turns(
        &self,
        partitions: &[WrittenPartition],
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        loop {
            let notified = self.views.given_back.notified();
            if !partitions.iter().any(|partition| self.views.is_taken(*partition)) {
                return Ok(());
            }
            let left = deadline.left(self.context.clock.monotonic_ns());
            let given_back = tokio::time::timeout(left, notified);
            given_back.await.map_err(|_| not_begun_in_time())?;
        }
    }

    /// Waits until what write sets have written to these partitions cannot be undone any more.
    pub(crate) async fn resolved(self: &Rc<Self>, partitions: &[WrittenPartition]) -> Result<(), CqlError> {
        let tokens: Vec<Token> = partitions.iter().map(|(_, token)| *token).collect();
        loop {
            let unresolved = self.write_sets.unresolved_of(&tokens);
            if unresolved.is_empty() {
                return Ok(());
            }
            self.wait_resolved(unresolved).await?;
        }
    }

    /// Writes updates of this shard's partitions and what their views become, whole, and waits until they are durable.
    pub(crate) async fn write_viewed(
        self: &Rc<Self>,
        updates: Vec<PackedUpdate>,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let turns = self.take_turns(partitions_in(&updates), deadline).await?;
        self.write_in_turn(turns, updates, deadline).await
    }

    /// As [`Shard::write_viewed`], for who has the partitions' turns. They are given back when all of it is written, also if
    /// nobody waits for that any more.
    pub(crate) async fn write_in_turn(
        self: &Rc<Self>,
        turns: PartitionTurns,
        updates: Vec<PackedUpdate>,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let shard = self.clone();
        self.to_its_end(async move {
            let _turns = turns;
            shard.write_with_changes(&updates, deadline).await
        })
        .await
    }

    async fn write_with_changes(
        self: &Rc<Self>,
        updates: &[PackedUpdate],
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let mut all = updates.to_vec();
        let mut chunks = Chunks {
            are_allowed: updates.len() == 1,
            is_begun: false,
        };
        let written = async {
            for update in updates {
                all.extend(self.changes_of(update, &mut chunks, deadline).await?);
                pause_after(update.bytes().len()).await;
            }
            self.write_computed(
                by_owner(std::mem::take(&mut all), self.context.options.shard_count),
                InTurn::new(RequiredTables::of(updates)),
                deadline,
            )
            .await
        };
        match written.await {
            Err(error) if chunks.is_begun && error.promises_nothing_was_done() => Err(deadline.timed_out()),
            written => written,
        }
    }

    /// Computes the changes of the views of an update's table; none where it has none. The caller has the partition's turn.
    /// An update that is written alone may be about more rows than fit into a record: what it does to the first of them is
    /// written before the others are read.
    async fn changes_of(
        self: &Rc<Self>,
        update: &PackedUpdate,
        chunks: &mut Chunks,
        deadline: Deadline,
    ) -> Result<Vec<PackedUpdate>, CqlError> {
        let decoded = update.decode().ok_or_else(malformed)?;
        let Some(views) = self.views.of_table(decoded.table) else {
            return Ok(Vec::new());
        };
        let views = self.views_that_know(views, &decoded, deadline).await?;
        let mut delta = ViewDelta::new(&views, &decoded, self.context.now_s());
        let place = update.partition();
        self.read_delta(place, decoded.partition_key, &mut delta, chunks, deadline)
            .await?;
        pause_after(update.bytes().len()).await;
        let mut changes = packed_all(delta.finish()?)?;
        changes.extend(self.log_of(&views, update, &decoded).await?);
        Ok(changes)
    }

    /// Reads all that a delta needs.
    pub(crate) async fn read_delta(
        self: &Rc<Self>,
        (table, token): WrittenPartition,
        key: &[u8],
        delta: &mut ViewDelta<'_>,
        chunks: &mut Chunks,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let slices = delta.slices();
        let mut state = ReadState::suspending();
        loop {
            match self.delta_step((token, key), &slices, delta, &mut state)? {
                ReadProgress::Done => break,
                ReadProgress::Absent(absent) => self.reader.bring(&state, &absent).await?,
                ReadProgress::Yield => {
                    tokio::task::yield_now().await;
                    if !chunks.are_allowed {
                        if delta.change_bytes() > BATCH_VIEW_BYTES_MAX {
                            return Err(too_much());
                        }
                    } else if delta.is_full() {
                        let Chunk { mut views, base } = delta.take_chunk()?;
                        views.extend(base);
                        self.write_computed(
                            by_owner(packed_all(views)?, self.context.options.shard_count),
                            InTurn::new(RequiredTables::one(table)),
                            deadline,
                        )
                        .await?;
                        chunks.is_begun = true;
                        self.resolved(&[(table, token)]).await?;
                    }
                }
            }
        }
        self.store.borrow().end_read(&mut state);
        Ok(())
    }

    /// Another shard may have heard of a column before this one.
    async fn views_that_know(
        &self,
        mut views: Rc<BaseViews>,
        update: &Update<'_>,
        deadline: Deadline,
    ) -> Result<Rc<BaseViews>, CqlError> {
        while !views.know(update) {
            if deadline.is_over(self.context.clock.monotonic_ns()) {
                return Err(not_begun_in_time());
            }
            tokio::time::sleep(SCHEMA_CHANGE_PAUSE).await;
            views = self.views.of_table(update.table).unwrap_or(views);
        }
        Ok(views)
    }

    /// Writes a LOGGED batch of which some partitions have views; nothing of it was looked at before.
    pub(crate) async fn write_whole_viewed(
        self: &Rc<Self>,
        updates: UpdatesByShard,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let shard = self.clone();
        // With the partitions' turns.
        self.to_its_end(async move { shard.write_leased(&updates, deadline).await })
            .await
    }

    async fn write_leased(
        self: &Rc<Self>,
        updates: &UpdatesByShard,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let mut leases = Vec::new();
        let mut all: Vec<PackedUpdate> = updates.values().flatten().cloned().collect();
        let in_turn = InTurn::new(RequiredTables::of(&all));
        // One shard after the other, in the order of their numbers: two batches never wait for each other.
        for (&owner, own) in updates {
            let own = own.clone();
            let leased = self.ask(
                owner,
                move |shard| async move { shard.lease(own, deadline).await },
            );
            let mut lease = leased.await?;
            all.append(&mut lease.changes);
            leases.push(lease);
        }
        self.write_computed(by_owner(all, self.context.options.shard_count), in_turn, deadline)
            .await
    }

    async fn lease(
        self: &Rc<Self>,
        updates: Vec<PackedUpdate>,
        deadline: Deadline,
    ) -> Result<Lease, CqlError> {
        let turns = self.take_turns(partitions_in(&updates), deadline).await?;
        Ok(Lease {
            changes: self.changes_of_all(&updates, deadline).await?,
            _turns: turns.held(),
        })
    }

    /// Computes the changes of views by updates that are written together. The caller has the partitions' turns.
    async fn changes_of_all(
        self: &Rc<Self>,
        updates: &[PackedUpdate],
        deadline: Deadline,
    ) -> Result<Vec<PackedUpdate>, CqlError> {
        let mut changes = Vec::new();
        let mut bytes = 0;
        let mut chunks = Chunks::default();
        for update in updates {
            let of_update = self.changes_of(update, &mut chunks, deadline).await?;
            bytes += of_update.iter().map(|change| change.bytes().len()).sum::<usize>();
            if bytes > BATCH_VIEW_BYTES_MAX {
                return Err(too_much());
            }
            changes.extend(of_update);
        }
        Ok(changes)
    }

    /// Updates of any shards' partitions and what views become of them. The caller has the partitions' turns.
    pub(crate) async fn with_changes_of_views(
        self: &Rc<Self>,
        updates: Vec<PackedUpdate>,
        deadline: Deadline,
    ) -> Result<Vec<PackedUpdate>, CqlError> {
        if !self.views.has_any.get() {
            return Ok(updates);
        }
        let mut all = updates.clone();
        let by_owner = by_owner(updates, self.context.options.shard_count).into_iter();
        let asked: Vec<_> = by_owner
            .map(|(owner, own)| {
                self.begin_to_ask(owner, move |shard| async move {
                    shard.changes_of_all(&own, deadline).await
                })
            })
            .collect();
        for asked in asked {
            all.extend(asked.answer().await?);
        }
        Ok(all)
    }

    /// Writes base rows and what their views become, whole. The caller has the turns of the base rows' partitions.
    pub(crate) async fn write_computed(
        self: &Rc<Self>,
        updates: UpdatesByShard,
        in_turn: InTurn,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        match updates.len() {
            0 | 1 => self.write_on_one_shard(updates, in_turn, deadline).await,
            _ => {
                let written = self.write_shares(updates, Turns::Had(in_turn), deadline);
                written.await.map(|_| ())
            }
        }
    }

    pub(crate) fn views_epoch(&self) -> u64 {
        self.views.epoch.get()
    }
}

/// Between two looks whether a schema change has come here.
const SCHEMA_CHANGE_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// After work on so many bytes: others are served, where that took a good part of a millisecond.
async fn pause_after(bytes: usize) {
    if bytes > BYTES_PER_STEP {
        tokio::task::yield_now().await;
    }
}

fn too_much() -> CqlError {
    CqlError::invalid(format_args!(
        "The batch changes too much of materialized views: more than {BATCH_VIEW_BYTES_MAX} bytes"
    ))
}

pub(super) fn decode(update: &[u8]) -> Result<Update<'_>, CqlError> {
    Update::decode_trusted(update).ok_or_else(malformed)
}
