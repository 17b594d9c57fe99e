//! `BEGIN TRANSACTION`: strictly serializable over any partitions and tables.
//!
//! Where all partitions are one shard's, and what is read lies in memory, a transaction is one turn of that shard, like a
//! conditional statement ([`crate::decide`]). Else it takes the turns of all its partitions, those that it only reads
//! included: shard by shard in the order of their tokens, so that two never wait for each other. Then it seals them
//! ([`crate::sealed_partitions`]), reads, decides, and writes what it has decided as one record or one write set. Turns are given
//! back once that is durable everywhere, so that nobody sees a part of it before all of it is certain
//! ([decision 27](../../../docs/decisions/0027-transactions.md)).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::select::{RowRead, StoredRow};
use helenus_engine::term::BoundValues;
use helenus_engine::transaction::{BoundTransaction, Decided, TransactionPlan};
use helenus_engine::{CqlError, Plan, QueryOptions};
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{ShardId, Token};

use crate::built_updates::{by_owner, packed_all};
use crate::calls::PendingAnswer;
use crate::context::check_ahead;
use crate::deadline::{Deadline, not_begun_in_time};
use crate::decide::{Decide, Run, Tried, Updates};
use crate::execution::Statement;
use crate::forward::{ForwardedAnswer, ForwardedResult, OwnedExecution};
use crate::shard::Shard;
use crate::viewed_writes::turns::HeldTurns;
use crate::write::write_failure;
use crate::write_set::{InTurn, RequiredTables};
use crate::written_partitions::WrittenPartition;

/// Rows that a transaction reads and statements that it has, if it is to be done in one turn: a microsecond or two each.
const TURN_STATEMENTS_MAX: usize = 100;

/// Steps of all of its reads together, some 200 microseconds each; likewise.
const TURN_STEPS_MAX: usize = 5;

/// One with its values, free of the message it came in, and what it is about.
struct OwnedTransaction {
    owned: OwnedExecution,
    bound: BoundTransaction,
}

/// One that a single shard may be able to decide in one turn.
struct OneTurn {
    transaction: Arc<OwnedTransaction>,
    tokens: Vec<Token>,
    state: ReadState,
    /// It reads more than a turn may.
    is_too_long: bool,
}

/// Rows that a shard has read of partitions that it has sealed.
struct SealedRead {
    /// By their places among the transaction's reads.
    rows: Vec<(usize, StoredRow)>,
    /// Later than whatever this shard has given out.
    timestamp_us: i64,
}

/// The partitions of one shard, with their turns.
struct Hold {
    owner: ShardId,
    turns: HeldTurns,
    reads: Reads,
    is_written: bool,
    /// `None` while something in them may still be undone, or before they were sealed.
    read: Option<SealedRead>,
}

/// Reads of one shard, with the rows' places among the transaction's reads.
type Reads = Arc<[(usize, RowRead)]>;

impl OwnedTransaction {
    fn plan(&self) -> Result<&TransactionPlan, CqlError> {
        match &self.owned.prepared.plan {
            Plan::Transaction(plan) => Ok(plan),
            _ => Err(CqlError::server(format_args!(
                "what was executed is no transaction"
            ))),
        }
    }

    fn now_s(&self) -> u32 {
        self.owned.options().now_s
    }

    fn decide(
        &self,
        shard: &Shard,
        rows: &[StoredRow],
        ballot_us: i64,
    ) -> Result<(Decided, ForwardedAnswer), CqlError> {
        let plan = self.plan()?;
        let scratch = &mut *shard.scratch.borrow_mut();
        let (values, options) = (self.owned.values.bound(), self.owned.options());
        let mut decided = self
            .bound
            .decide(plan, rows, (&values, &options), ballot_us, scratch)?;
        let mut answer = ForwardedAnswer::from(std::mem::take(&mut decided.body));
        let guardrails = &shard.context.options.guardrails.values;
        if guardrails.is_enabled() {
            for update in &decided.updates {
                answer.warnings.extend(guardrails.check(&shard.schema(), update)?);
            }
        }
        Ok((decided, answer))
    }
}

impl Decide for OneTurn {
    type Answer = ForwardedAnswer;

    fn partitions(&self) -> &[Token] {
        &self.tokens
    }

    fn run(&mut self, shard: &Rc<Shard>) -> Result<Run<ForwardedAnswer>, CqlError> {
        let reads = &self.transaction.bound.reads;
        let mut rows = Vec::with_capacity(reads.len());
        let mut steps = 0;
        self.state.begin_attempt();
        for read in reads {
            let mut row = StoredRow::default();
            self.state.begin_again();
            let now_s = self.transaction.now_s();
            loop {
                match read.step(
                    now_s,
                    &mut shard.reader.counting_store(),
                    &mut self.state,
                    &mut row,
                )? {
                    ReadProgress::Done => break,
                    ReadProgress::Absent(absent) => return Ok(Run::Absent(absent)),
                    ReadProgress::Yield => steps += 1,
                }
                if steps >= TURN_STEPS_MAX {
                    self.is_too_long = true;
                    return Err(CqlError::server(format_args!(
                        "a transaction reads more than a turn may"
                    )));
                }
            }
            rows.push(row);
        }
        let server_us = self.transaction.owned.options().server_timestamp_us;
        let newest_us = BoundTransaction::newest_us(&rows).unwrap_or(i64::MIN);
        shard.context.timestamps.note(server_us);
        let ballot_us = shard.context.timestamps.ballot_us(newest_us, server_us)?;
        let (decided, answer) = self.transaction.decide(shard, &rows, ballot_us)?;
        Ok(Run::Decided {
            updates: Updates::OfSeveral(packed_all(decided.updates)?),
            answer,
        })
    }

    fn read_state(&self) -> &ReadState {
        &self.state
    }
}

impl Shard {
    /// Executes a transaction, and answers later.
    pub(crate) fn transact(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let Plan::Transaction(plan) = &statement.prepared.plan else {
            return Err(self.no_plan());
        };
        let bound = plan.bind(values, options)?;
        let (session, stream) = (statement.request.session, statement.request.stream);
        let account = self.context.account_of_session(session);
        let transaction = Arc::new(OwnedTransaction {
            owned: OwnedExecution::new(statement, values, options, &account),
            bound,
        });
        let deadline = Deadline::of_conditional(options);
        self.context
            .trace(session, || "Executing a transaction".to_owned());
        let (shard, answered) = (self.clone(), session.clone());
        self.context.answer_later(session, stream, async move {
            let result = shard
                .context
                .in_time(deadline, shard.transact_in_time(transaction, deadline))
                .await;
            shard.context.answer_read(&answered, stream, result);
        });
        Ok(())
    }

    async fn transact_in_time(
        self: &Rc<Self>,
        transaction: Arc<OwnedTransaction>,
        deadline: Deadline,
    ) -> ForwardedResult {
        if self.rates.has_limits() {
            let written = transaction.bound.written.iter();
            let written = written.map(|partition| (self.context.owner_of(partition.1), *partition));
            self.check_rates_everywhere(written.collect()).await?;
        }
        let statements = transaction.bound.reads.len() + transaction.bound.written.len();
        if statements <= TURN_STATEMENTS_MAX
            && let Some(owner) = self.owner_of_all(&transaction.bound.partitions)
        {
            let own = transaction.clone();
            let decided = self.ask(owner, move |shard| async move {
                shard.transact_in_one_turn(own, deadline).await
            });
            if let Some(answer) = decided.await? {
                return Ok(answer);
            }
        }
        let shard = self.clone();
        // With the partitions' turns.
        self.to_its_end(async move { shard.transact_in_turns(&transaction, deadline).await })
            .await
    }

    /// On the shard that owns all of its partitions. `None`, with nothing done, if it needs their turns.
    async fn transact_in_one_turn(
        self: &Rc<Self>,
        transaction: Arc<OwnedTransaction>,
        deadline: Deadline,
    ) -> Result<Option<ForwardedAnswer>, CqlError> {
        let tokens = transaction.bound.partitions.iter().map(|(_, token)| *token);
        let mut decision = OneTurn {
            tokens: tokens.collect(),
            state: ReadState::of_several(),
            is_too_long: false,
            transaction,
        };
        loop {
            if deadline.is_over(self.context.clock.monotonic_ns()) {
                return Err(not_begun_in_time());
            }
            match self.try_decide(&mut decision) {
                Err(_) if decision.is_too_long => return Ok(None),
                Err(error) => return Err(error),
                Ok(Tried::TakesTurns(_)) => return Ok(None),
                Ok(Tried::Decided { answer, certain_at }) => {
                    if let Some(position) = certain_at {
                        self.persistence.durable(position, deadline).await?;
                    }
                    return Ok(Some(answer));
                }
                Ok(Tried::Absent(absent)) => self.reader.bring(decision.read_state(), &absent).await?,
                Ok(Tried::NoRoom(error)) => {
                    if !self.persistence.wait_for_room(deadline).await {
                        return Err(write_failure(&error));
                    }
                }
                Ok(Tried::Unresolved(sets)) => self.wait_resolved(sets).await?,
            }
        }
    }

    async fn transact_in_turns(
        self: &Rc<Self>,
        transaction: &OwnedTransaction,
        deadline: Deadline,
    ) -> ForwardedResult {
        let mut holds = self.hold_all(transaction, deadline).await?;
        let (rows, timestamp_us) = self.read_all(transaction, &mut holds, deadline).await?;
        let newest_us = BoundTransaction::newest_us(&rows).unwrap_or(i64::MIN);
        check_ahead(newest_us, timestamp_us)?;
        let ballot_us = timestamp_us.max(newest_us.saturating_add(1));
        let (decided, answer) = transaction.decide(self, &rows, ballot_us)?;
        if deadline.is_over(self.context.clock.monotonic_ns()) {
            return Err(not_begun_in_time());
        }
        if decided.updates.is_empty() {
            let owners: Vec<ShardId> = holds.iter().map(|hold| hold.owner).collect();
            // Nothing is written: without the seals, behind which there may be shares of the batches that this waits for.
            drop(holds);
            self.certain(owners, deadline).await?;
            return Ok(answer);
        }
        let only_read = holds.iter().filter(|hold| !hold.is_written);
        // What it has seen there must not be lost where what it writes elsewhere is not.
        self.on_each_of(only_read.map(|hold| hold.owner), move |shard| async move {
            shard.context.timestamps.note(timestamp_us);
            shard.persistence.log_durable().await
        })
        .await?;
        let updates = packed_all(decided.updates)?;
        let in_turn = InTurn {
            required: RequiredTables::of(&updates),
            ballot_us: Some(timestamp_us),
        };
        let all = self.with_changes_of_views(updates, deadline).await?;
        self.write_computed(by_owner(all, self.context.options.shard_count), in_turn, deadline)
            .await?;
        Ok(answer)
    }

    /// Takes all turns, one shard after the other; the last seals and reads its partitions at once.
    async fn hold_all(
        self: &Rc<Self>,
        transaction: &OwnedTransaction,
        deadline: Deadline,
    ) -> Result<Vec<Hold>, CqlError> {
        let bound = &transaction.bound;
        let now_s = transaction.now_s();
        let mut by_owner: BTreeMap<ShardId, Vec<WrittenPartition>> = BTreeMap::new();
        for partition in &bound.partitions {
            by_owner
                .entry(self.context.owner_of(partition.1))
                .or_default()
                .push(*partition);
        }
        let shards = by_owner.len();
        let mut holds = Vec::with_capacity(shards);
        for (owner, partitions) in by_owner {
            let is_last = holds.len() + 1 == shards;
            let reads = bound.reads.iter().enumerate();
            let reads = reads.filter(|(_, read)| self.context.owner_of(read.token) == owner);
            let reads: Reads = reads.map(|(place, read)| (place, read.clone())).collect();
            let own_reads = reads.clone();
            let held = self.ask(owner, move |shard| async move {
                let turns = shard.take_turns(partitions, deadline).await?.held();
                let read = match is_last {
                    true => shard.seal_and_read(turns.partitions(), &own_reads, now_s).await?,
                    false => None,
                };
                Ok((turns, read))
            });
            let (turns, read) = held.await?;
            let mut written = bound.written.iter();
            holds.push(Hold {
                owner,
                turns,
                reads,
                is_written: written.any(|written| self.context.owner_of(written.1) == owner),
                read,
            });
        }
        Ok(holds)
    }

    /// The rows of all reads, none of which may be undone or changed any more, and a timestamp later than whatever their owners
    /// have given out.
    async fn read_all(
        self: &Rc<Self>,
        transaction: &OwnedTransaction,
        holds: &mut [Hold],
        deadline: Deadline,
    ) -> Result<(Vec<StoredRow>, i64), CqlError> {
        let now_s = transaction.now_s();
        loop {
            let unread = holds.iter_mut().filter(|hold| hold.read.is_none());
            let asked: Vec<(&mut Hold, PendingAnswer<Option<SealedRead>>)> = unread
                .map(|hold| {
                    let (partitions, reads) = (hold.turns.partitions().clone(), hold.reads.clone());
                    let asked = self.begin_to_ask(hold.owner, move |shard| async move {
                        shard.seal_and_read(&partitions, &reads, now_s).await
                    });
                    (hold, asked)
                })
                .collect();
            for (hold, asked) in asked {
                hold.read = asked.answer().await?;
            }
            if holds.iter().all(|hold| hold.read.is_some()) {
                break;
            }
            if deadline.is_over(self.context.clock.monotonic_ns()) {
                return Err(not_begun_in_time());
            }
            self.wait_for_batches(holds).await?;
        }
        let mut rows = vec![StoredRow::default(); transaction.bound.reads.len()];
        let mut timestamp_us = transaction.owned.options().server_timestamp_us.saturating_add(1);
        for read in holds.iter_mut().filter_map(|hold| hold.read.take()) {
            timestamp_us = timestamp_us.max(read.timestamp_us);
            for (place, row) in read.rows {
                rows[place] = row;
            }
        }
        Ok((rows, timestamp_us))
    }

    /// Lets the batches through that have come between taking the turns and sealing.
    async fn wait_for_batches(self: &Rc<Self>, holds: &mut [Hold]) -> Result<(), CqlError> {
        for hold in &mut *holds {
            hold.read = None;
            let partitions = hold.turns.partitions().clone();
            // Here at once: a message would come after they are sealed again.
            self.tell(hold.owner, move |shard| shard.break_seals(&partitions));
        }
        for hold in holds {
            let partitions = hold.turns.partitions().clone();
            let resolved = self.ask(hold.owner, move |shard| async move {
                shard.resolved(&partitions).await
            });
            resolved.await?;
        }
        Ok(())
    }

    /// `None`, with nothing sealed, if something in these partitions may still be undone.
    async fn seal_and_read(
        self: &Rc<Self>,
        partitions: &[WrittenPartition],
        reads: &[(usize, RowRead)],
        now_s: u32,
    ) -> Result<Option<SealedRead>, CqlError> {
        let tokens: Vec<Token> = partitions.iter().map(|(_, token)| *token).collect();
        if !self.write_sets.unresolved_of(&tokens).is_empty() {
            return Ok(None);
        }
        self.seal(partitions);
        let mut rows = Vec::with_capacity(reads.len());
        for (place, read) in reads {
            let mut row = StoredRow::default();
            let mut state = ReadState::suspending();
            loop {
                let progress = read.step(now_s, &mut self.reader.counting_store(), &mut state, &mut row)?;
                match progress {
                    ReadProgress::Done => break,
                    ReadProgress::Absent(absent) => self.reader.bring(&state, &absent).await?,
                    ReadProgress::Yield => tokio::task::yield_now().await,
                }
            }
            self.store.borrow().end_read(&mut state);
            rows.push((*place, row));
        }
        Ok(Some(SealedRead {
            rows,
            timestamp_us: self.context.timestamps.next_us(),
        }))
    }
}
