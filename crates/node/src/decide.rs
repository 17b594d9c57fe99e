//! Deciding on what is stored, and writing what was decided, in one turn of the shard that owns the partitions.
//!
//! Nothing else happens on the shard between the read and the write: the turn is the critical section, and there is no lock.
//! A read that lacks pages ends the turn; once they are there all of it is run again, from the start. So is what found no room
//! in the memtables. A decision reads as much as one turn may take: who needs more says so ([`Decide::run`]).
//!
//! Two things may not be decided on before they are certain. What a write set over several shards has written is undone by
//! the next start if one of its parts is lost, so whoever decides on a partition of one waits until it is resolved
//! ([decision 16](../../../docs/decisions/0016-atomic-batches.md)). And nobody is answered before the log is durable up to
//! where the decision was made, also if nothing was written: else a client could know what a crash then takes back.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_rows::update::PackedUpdate;
use helenus_sstable::AbsentPages;
use helenus_storage::commitlog::{LogPosition, WriteSetId};
use helenus_storage::error::WriteError;
use helenus_storage::read_state::ReadState;
use helenus_types::{ShardId, Token};

use crate::built_updates::malformed;
use crate::deadline::{Deadline, not_begun_in_time};
use crate::shard::Shard;
use crate::viewed_writes::turns::PartitionTurns;
use crate::write::write_failure;
use crate::written_partitions::{WrittenPartition, partitions_in};

/// An operation that reads, and then decides what is written.
pub(crate) trait Decide {
    type Answer;

    /// The partitions that it reads; all of them this shard's.
    fn partitions(&self) -> &[Token];

    /// Reads and decides. Whatever an earlier run has read may have changed since: only the pages that were brought for it
    /// are of use. The caller holds no borrow of the shard. A run must not hold the shard longer than a turn may.
    fn run(&mut self, shard: &Rc<Shard>) -> Result<Run<Self::Answer>, CqlError>;

    /// State of the read that the last run ended with.
    fn read_state(&self) -> &ReadState;
}

/// How a run ended.
pub(crate) enum Run<A> {
    /// The read lacks these pages.
    Absent(Box<AbsentPages>),
    /// Each partition has one update at most; they become one record of the log. None for what is not to be done.
    Decided { updates: Updates, answer: A },
}

/// Packed, of this shard's partitions.
pub(crate) enum Updates {
    /// Also where there is nothing to do.
    OfOne(Option<PackedUpdate>),
    OfSeveral(Vec<PackedUpdate>),
}

impl Updates {
    fn as_slice(&self) -> &[PackedUpdate] {
        match self {
            Updates::OfOne(update) => update.as_slice(),
            Updates::OfSeveral(updates) => updates,
        }
    }

    fn into_vec(self) -> Vec<PackedUpdate> {
        match self {
            Updates::OfOne(update) => update.into_iter().collect(),
            Updates::OfSeveral(updates) => updates,
        }
    }
}

/// Outcome of one turn.
pub(crate) enum Tried<A> {
    Decided {
        answer: A,
        /// The answer is true once the log is durable up to here.
        certain_at: Option<LogPosition>,
    },
    Absent(Box<AbsentPages>),
    /// Nothing was done: memtables are full.
    NoRoom(WriteError),
    /// Nothing was done: these may still be undone.
    Unresolved(Vec<WriteSetId>),
    /// Nothing was done: what would be written to these partitions changes views, and that takes their turns; or somebody else
    /// has these.
    TakesTurns(Vec<WrittenPartition>),
}

impl Shard {
    /// Decides on this shard, and waits until that is durable.
    pub(crate) async fn decide<D: Decide>(
        self: &Rc<Self>,
        decision: &mut D,
        deadline: Deadline,
    ) -> Result<D::Answer, CqlError> {
        loop {
            if deadline.is_over(self.context.clock.monotonic_ns()) {
                return Err(not_begun_in_time());
            }
            match self.try_decide(decision)? {
                Tried::Decided { answer, certain_at } => {
                    if let Some(position) = certain_at {
                        self.persistence.durable(position, deadline).await?;
                    }
                    return Ok(answer);
                }
                Tried::Absent(absent) => self.reader.bring(decision.read_state(), &absent).await?,
                Tried::NoRoom(error) => {
                    if !self.persistence.wait_for_room(deadline).await {
                        return Err(write_failure(&error));
                    }
                }
                Tried::Unresolved(sets) => self.wait_resolved(sets).await?,
                Tried::TakesTurns(partitions) if !self.views.has_one_of_tables(&partitions) => {
                    self.wait_for_turns(&partitions, deadline).await?;
                }
                Tried::TakesTurns(partitions) => {
                    let turns = self.take_turns(partitions, deadline).await?;
                    if let Some(answer) = self.decide_in_turn(decision, turns, deadline).await? {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// Decides where nobody else writes to these partitions. `None` if others are to be written now.
    async fn decide_in_turn<D: Decide>(
        self: &Rc<Self>,
        decision: &mut D,
        turns: PartitionTurns,
        deadline: Deadline,
    ) -> Result<Option<D::Answer>, CqlError> {
        loop {
            if deadline.is_over(self.context.clock.monotonic_ns()) {
                return Err(not_begun_in_time());
            }
            let given_out_us = self.context.timestamps.last_us();
            let (updates, answer) = match decision.run(self)? {
                Run::Absent(absent) => {
                    self.context.timestamps.take_back_to(given_out_us);
                    self.reader.bring(decision.read_state(), &absent).await?;
                    continue;
                }
                Run::Decided { updates, answer } => (updates.into_vec(), answer),
            };
            if !turns.have_all_of(&partitions_in(&updates)) {
                self.context.timestamps.take_back_to(given_out_us);
                return Ok(None);
            }
            if updates.is_empty() {
                drop(turns);
                if let Some(position) = self.persistence.certain_at() {
                    self.persistence.durable(position, deadline).await?;
                }
            } else {
                self.write_in_turn(turns, updates, deadline).await?;
            }
            return Ok(Some(answer));
        }
    }

    /// One turn of a decision.
    pub(crate) fn try_decide<D: Decide>(
        self: &Rc<Self>,
        decision: &mut D,
    ) -> Result<Tried<D::Answer>, CqlError> {
        let unresolved = self.write_sets.unresolved_of(decision.partitions());
        if !unresolved.is_empty() {
            return Ok(Tried::Unresolved(unresolved));
        }
        let given_out_us = self.context.timestamps.last_us();
        let tried = self.try_run(decision)?;
        if !matches!(tried, Tried::Decided { .. }) {
            // Nobody has seen its ballot; it takes another when it is run again.
            self.context.timestamps.take_back_to(given_out_us);
        }
        Ok(tried)
    }

    fn try_run<D: Decide>(self: &Rc<Self>, decision: &mut D) -> Result<Tried<D::Answer>, CqlError> {
        match decision.run(self)? {
            Run::Absent(absent) => Ok(Tried::Absent(absent)),
            Run::Decided { updates, answer } if self.views.concern_any_of(updates.as_slice().iter()) => {
                match self.apply_viewed_now(updates.as_slice())? {
                    None => Ok(Tried::TakesTurns(partitions_in(updates.as_slice()))),
                    Some(_) => Ok(Tried::Decided {
                        answer,
                        certain_at: self.persistence.certain_at(),
                    }),
                }
            }
            Run::Decided { updates, answer } => match self.apply_decided(&updates)? {
                Some(full) => Ok(Tried::NoRoom(full)),
                None => {
                    if let Updates::OfOne(Some(update)) = updates {
                        self.scratch.borrow_mut().give_back(update.into_bytes());
                    }
                    Ok(Tried::Decided {
                        answer,
                        certain_at: self.persistence.certain_at(),
                    })
                }
            },
        }
    }

    /// The error where memtables are full, so that nothing was applied.
    fn apply_decided(&self, updates: &Updates) -> Result<Option<WriteError>, CqlError> {
        let applied = match updates {
            Updates::OfOne(None) => return Ok(None),
            Updates::OfOne(Some(update)) => {
                let decoded = update.decode().ok_or_else(malformed)?;
                if self.hot_partitions.is_sampled() {
                    self.sample_write(update.token(), update.bytes());
                }
                self.store.borrow_mut().apply_at(update.token(), &decoded)
            }
            Updates::OfSeveral(updates) if updates.is_empty() => return Ok(None),
            Updates::OfSeveral(updates) => {
                let decoded = self.decode_sampled(updates)?;
                self.store.borrow_mut().apply_all(&decoded)
            }
        };
        match applied {
            Ok(_) => {
                self.persistence.note_write();
                Ok(None)
            }
            Err(full @ WriteError::MemtablesFull { .. }) => Ok(Some(full)),
            Err(error) => Err(write_failure(&error)),
        }
    }

    /// Waits until what these shards' rows are now cannot be taken back by a crash: before a SERIAL read is answered.
    pub(crate) async fn certain(
        self: &Rc<Self>,
        shards: impl IntoIterator<Item = ShardId>,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        if self.persistence.acknowledges_at_once() {
            return Ok(());
        }
        let certain = move |shard: Rc<Shard>| async move {
            shard.write_sets_resolved().await?;
            match shard.persistence.certain_at() {
                Some(position) => shard.persistence.durable(position, deadline).await,
                None => Ok(()),
            }
        };
        self.on_each_of(shards, certain).await
    }
}
