//! Executing modifications: apply what this shard owns, send the rest to its owners, acknowledge when all is durable.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_engine::execute::{QueryOptions, Scratch};
use helenus_engine::modify::{BatchPlan, ModifyPlan, unlogged_batch_warning};
use helenus_engine::term::BoundValues;
use helenus_protocol::Opcode;
use helenus_protocol::extensions::RateLimitedOperation;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::response::write_void;
use helenus_schema::TableMetadata;
use helenus_storage::commitlog::{LogAppendError, LogPosition};
use helenus_storage::error::WriteError;
use helenus_storage::update::{Update, merge_by_partition};
use helenus_types::{ShardId, Token};
use tokio::sync::oneshot;

use crate::forward::{ForwardedWrite, Ticket, Waiting};
use crate::panic_boundary::{catch, catch_async};
use crate::patience::{Patience, not_begun_in_time};
use crate::rate_limit::WrittenPartition;
use crate::session::Session;
use crate::shard::{Acknowledgement, Shard};

/// The updates of one statement or batch, by the shard that owns them.
pub(crate) type UpdatesByShard = Vec<(ShardId, Vec<u8>)>;

/// Updates on their way to their owners.
#[derive(Default)]
pub(crate) struct UnwrittenUpdates {
    updates: UpdatesByShard,
    /// The first so many are of partitions whose rate limits were not looked at yet.
    unchecked: usize,
}

impl From<UpdatesByShard> for UnwrittenUpdates {
    fn from(updates: UpdatesByShard) -> Self {
        UnwrittenUpdates {
            unchecked: updates.len(),
            updates,
        }
    }
}

/// What most writes have nothing of: all of it is applied here at once, and there is nothing to warn of.
#[derive(Default)]
struct Rest {
    unwritten: UnwrittenUpdates,
    warnings: Vec<String>,
}

impl UnwrittenUpdates {
    /// In front of those that were checked: what they all change is of one time, so their order says nothing.
    fn add_unchecked(&mut self, owner: ShardId, update: &[u8]) {
        self.updates.push((owner, update.to_vec()));
        let last = self.updates.len() - 1;
        self.updates.swap(self.unchecked, last);
        self.unchecked += 1;
    }

    /// The rate limit of its partition has admitted it.
    fn add_checked(&mut self, owner: ShardId, update: &[u8]) {
        self.updates.push((owner, update.to_vec()));
    }

    fn unchecked_partitions(&self) -> Vec<(ShardId, WrittenPartition)> {
        let unchecked = self.updates.iter().take(self.unchecked);
        unchecked
            .filter_map(|(owner, update)| Some((*owner, partition_of_update(update)?)))
            .collect()
    }
}

impl Shard {
    /// Executes one INSERT, UPDATE or DELETE. Answers now or later; an error is the caller's to answer.
    pub(crate) fn modify(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        plan: &ModifyPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let mut rest: Option<Rest> = None;
        let mut position = None;
        let guardrails = &self.options.guardrails.values;
        let checks_values = guardrails.is_enabled();
        let scratch = &mut *self.scratch.borrow_mut();
        plan.updates(values, options, scratch, &mut |token, update| {
            if checks_values {
                let warnings = guardrails.check(&self.schema(), update)?;
                if !warnings.is_empty() {
                    rest.get_or_insert_default().warnings.extend(warnings);
                }
            }
            let owner = self.owner_of(token);
            if owner != self.id {
                rest.get_or_insert_default()
                    .unwritten
                    .add_unchecked(owner, update);
                return Ok(());
            }
            if self.hot_partitions.is_sampled() {
                self.sample_write_of(&plan.table, token, update);
            }
            self.check_rate(&plan.table, RateLimitedOperation::Write, token)?;
            match self.apply(token, update) {
                Ok(applied) => position = Some(applied),
                Err(WriteError::MemtablesFull { .. }) => {
                    rest.get_or_insert_default().unwritten.add_checked(owner, update)
                }
                Err(WriteError::Log(LogAppendError::BufferFull { .. })) if position.is_some() => {
                    return Err(Patience::of_write(options).timed_out());
                }
                Err(error) => return Err(write_failure(&error)),
            }
            Ok(())
        })?;
        let patience = Patience::of_write(options);
        let Some(rest) = rest else {
            self.acknowledge_session(session, stream, position, patience);
            return Ok(());
        };
        let Rest {
            mut unwritten,
            warnings,
        } = rest;
        if unwritten.updates.len() == 1
            && unwritten.unchecked == 1
            && position.is_none()
            && warnings.is_empty()
            && let Some((owner, update)) = unwritten.updates.pop()
        {
            return self.forward_write(session, stream, owner, update, patience);
        }
        self.write_later(session, stream, unwritten, position, warnings, patience);
        Ok(())
    }

    /// Executes a batch: all its updates are built before the first is applied, so that an invalid statement leaves
    /// nothing behind. `warning` learns how many partitions it covers.
    pub(crate) fn modify_all(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        options: &QueryOptions<'_>,
        warning: impl FnOnce(usize) -> Option<String>,
        build: impl FnOnce(
            &mut Scratch,
            &mut dyn FnMut(Token, &[u8]) -> Result<(), CqlError>,
        ) -> Result<(), CqlError>,
    ) -> Result<(), CqlError> {
        let mut updates = UpdatesByShard::new();
        let mut warnings = Vec::new();
        let guardrails = &self.options.guardrails.values;
        let scratch = &mut *self.scratch.borrow_mut();
        build(scratch, &mut |token, update| {
            if guardrails.is_enabled() {
                warnings.extend(guardrails.check(&self.schema(), update)?);
            }
            updates.push((self.owner_of(token), update.to_vec()));
            Ok(())
        })?;
        if updates.is_empty() {
            self.acknowledge_session(session, stream, None, Patience::of_batch(options));
        } else {
            let partitions = partition_count(&updates);
            if partitions > 1 {
                let packed = updates.iter().map(|(_, update)| update.as_slice());
                warnings.extend(self.options.guardrails.check_batch(&self.schema(), packed)?);
            }
            warnings.extend(warning(partitions));
            let patience = Patience::of_batch(options);
            self.write_later(session, stream, updates.into(), None, warnings, patience);
        }
        Ok(())
    }

    /// Executes a batch whose statements came as one plan.
    pub(crate) fn modify_batch(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        plan: &BatchPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let warning = |partitions| unlogged_batch_warning(plan.kind, partitions, &plan.statements);
        self.modify_all(session, stream, options, warning, |scratch, emit| {
            plan.updates(values, options, scratch, emit)
        })
    }

    #[cold]
    fn sample_write(&self, token: Token, update: &[u8]) {
        if let Some(update) = Update::decode_trusted(update)
            && let Some(table) = self.schema.borrow().table_by_id(update.table)
        {
            self.sample_partition(table, RateLimitedOperation::Write, token, update.partition_key);
        }
    }

    /// As [`Shard::sample_write`], where the table is known: to find it by its id takes as long as the sample.
    #[cold]
    fn sample_write_of(&self, table: &Arc<TableMetadata>, token: Token, update: &[u8]) {
        if let Some(update) = Update::decode_trusted(update) {
            self.sample_partition(table, RateLimitedOperation::Write, token, update.partition_key);
        }
    }

    /// Applies one update that this shard owns.
    #[inline]
    pub(crate) fn apply(&self, token: Token, update: &[u8]) -> Result<LogPosition, WriteError> {
        // A packed update that the engine just built has a head.
        let update = Update::decode_trusted(update).ok_or(WriteError::Malformed)?;
        let position = self.store.borrow_mut().apply_at(token, &update)?;
        self.note_write();
        Ok(position)
    }

    fn acknowledge_session(
        &self,
        session: &Rc<Session>,
        stream: i16,
        position: Option<LogPosition>,
        patience: Patience,
    ) {
        match position {
            Some(position) if self.waits_for_log(position) => {
                session.expect_answer();
                self.acknowledge_at(
                    position,
                    patience,
                    Acknowledgement::Session {
                        session: session.clone(),
                        stream,
                    },
                );
            }
            _ => session.respond(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                write_void(out);
                Ok(())
            }),
        }
    }

    pub(crate) fn answer_write_later(
        &self,
        session: &Rc<Session>,
        stream: i16,
        result: Result<(), CqlError>,
    ) {
        self.count_failure(&result);
        session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            result?;
            write_void(out);
            Ok(())
        });
    }

    fn forward_write(
        &self,
        session: &Rc<Session>,
        stream: i16,
        owner: ShardId,
        update: Vec<u8>,
        patience: Patience,
    ) -> Result<(), CqlError> {
        let ticket = self.forwards.borrow_mut().insert(Waiting {
            session: session.clone(),
            stream,
            patience,
        });
        let write = ForwardedWrite {
            from: self.id,
            ticket,
            update,
            patience,
        };
        if self.mailbox(owner).write(write).is_err() {
            self.forwards.borrow_mut().remove(ticket);
            return Err(crate::request::inbox_full());
        }
        session.expect_answer();
        self.metrics.count_forwarded();
        Ok(())
    }

    pub(crate) fn write_forwarded(self: &Rc<Self>, write: ForwardedWrite) {
        let ForwardedWrite {
            from,
            ticket,
            update,
            patience,
        } = write;
        if patience.is_over(self.last_looked_ns()) {
            return self.answer_forwarded_write(from, ticket, Err(not_begun_in_time()));
        }
        let applied = catch(|| {
            let Some((table, token)) = partition_of_update(&update) else {
                return Ok(Err(WriteError::Malformed));
            };
            if self.hot_partitions.is_sampled() {
                self.sample_write(token, &update);
            }
            self.check_rate_of_write(table, token)?;
            Ok(self.apply(token, &update))
        });
        let applied = match applied.unwrap_or_else(|panicked| Err(panicked.error())) {
            Ok(applied) => applied,
            Err(refused) => return self.answer_forwarded_write(from, ticket, Err(refused)),
        };
        match applied {
            Ok(position) if self.waits_for_log(position) => {
                self.acknowledge_at(position, patience, Acknowledgement::Forwarded { from, ticket });
            }
            Ok(_) => self.answer_forwarded_write(from, ticket, Ok(())),
            Err(WriteError::MemtablesFull { .. }) => {
                let shard = self.clone();
                self.spawn(async move {
                    let result = catch_async(shard.apply_durably(vec![update], patience)).await;
                    let result = result.unwrap_or_else(|panicked| Err(panicked.error()));
                    shard.answer_forwarded_write(from, ticket, result);
                });
            }
            Err(error) => self.answer_forwarded_write(from, ticket, Err(write_failure(&error))),
        }
    }

    pub(crate) fn answer_forwarded_write(&self, from: ShardId, ticket: Ticket, result: Result<(), CqlError>) {
        let result = result.map(|()| {
            let mut body = Vec::new();
            write_void(&mut body);
            body.into()
        });
        self.mailbox(from).answered(ticket, result);
    }

    /// Applies updates wherever they belong and answers when all of them, and what this shard has logged up to
    /// `position`, are durable.
    fn write_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        updates: UnwrittenUpdates,
        position: Option<LogPosition>,
        warnings: Vec<String>,
        patience: Patience,
    ) {
        let shard = self.clone();
        let answered = session.clone();
        self.answer_later(session, stream, async move {
            let written = async {
                shard.write_everywhere(updates, patience).await?;
                match position {
                    Some(position) => shard.durable(position, patience).await,
                    None => Ok(()),
                }
            };
            let result = shard.in_time(patience, written).await;
            shard.count_failure(&result);
            let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
            answered.respond_later_warning(stream, Opcode::Result, &warnings, |out| {
                result?;
                write_void(out);
                Ok(())
            });
        });
    }

    /// What goes to one partition is written entirely or not at all. All shards work at the same time; the first error is the answer once all of them are done.
    pub(crate) async fn write_everywhere(
        self: &Rc<Self>,
        updates: UnwrittenUpdates,
        patience: Patience,
    ) -> Result<(), CqlError> {
        if self.has_rate_limits.get() {
            self.check_rates_everywhere(updates.unchecked_partitions())
                .await?;
        }
        let mut by_shard: Vec<Vec<Vec<u8>>> = vec![Vec::new(); usize::from(self.options.shard_count)];
        for (owner, update) in updates.updates {
            by_shard[usize::from(owner.0)].push(update);
        }
        let mut results = Vec::new();
        for (owner, updates) in self.shards().zip(by_shard) {
            if updates.is_empty() {
                continue;
            }
            let updates = merge_by_partition(updates);
            let (sender, receiver) = oneshot::channel();
            self.mailbox(owner).run(move |owner| {
                let shard = owner.clone();
                owner.spawn(async move {
                    // The caller may have gone with its node.
                    let _gone = sender.send(shard.apply_durably(updates, patience).await);
                });
            });
            results.push((owner, receiver));
        }
        let mut first_error = Ok(());
        for (owner, result) in results {
            let result = result.await.unwrap_or_else(|_| Err(self.no_answer_from(owner)));
            first_error = first_error.and(result);
        }
        first_error
    }

    /// Applies updates that this shard owns, waiting for memory where there is none, and for the log.
    async fn apply_durably(
        self: &Rc<Self>,
        updates: Vec<Vec<u8>>,
        patience: Patience,
    ) -> Result<(), CqlError> {
        if patience.is_over(self.clock.monotonic_ns()) {
            return Err(not_begun_in_time());
        }
        let mut position = None;
        for update in &updates {
            let (_, token) =
                partition_of_update(update).ok_or_else(|| write_failure(&WriteError::Malformed))?;
            if self.hot_partitions.is_sampled() {
                self.sample_write(token, update);
            }
            loop {
                match self.apply(token, update) {
                    Ok(applied) => {
                        position = Some(applied);
                        break;
                    }
                    Err(error @ WriteError::MemtablesFull { .. }) => {
                        if !self.wait_for_room(patience).await {
                            return Err(match position {
                                None => CqlError::overloaded(format_args!("{error}")),
                                Some(_) => patience.timed_out(),
                            });
                        }
                    }
                    // Some of it is written already: nobody may take it for refused.
                    Err(WriteError::Log(LogAppendError::BufferFull { .. })) if position.is_some() => {
                        return Err(patience.timed_out());
                    }
                    Err(error) => return Err(write_failure(&error)),
                }
            }
        }
        match position {
            Some(position) => self.durable(position, patience).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn durable(&self, position: LogPosition, patience: Patience) -> Result<(), CqlError> {
        if !self.waits_for_log(position) {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        self.acknowledge_at(position, patience, Acknowledgement::Task(sender));
        receiver
            .await
            .unwrap_or_else(|_| Err(crate::request::node_is_stopping()))
    }
}

/// How many partitions a batch writes to.
fn partition_count(updates: &UpdatesByShard) -> usize {
    let keys = updates
        .iter()
        .filter_map(|(_, update)| Update::decode_trusted(update));
    keys.map(|update| (update.table, update.partition_key))
        .collect::<BTreeSet<_>>()
        .len()
}

fn partition_of_update(update: &[u8]) -> Option<WrittenPartition> {
    Update::decode_trusted(update).map(|update| (update.table, helenus_types::token_of(update.partition_key)))
}

/// For a write of which nothing is stored.
pub(crate) fn write_failure(error: &WriteError) -> CqlError {
    match error {
        WriteError::MemtablesFull { .. } | WriteError::Log(LogAppendError::BufferFull { .. }) => {
            CqlError::overloaded(format_args!("{error}"))
        }
        _ => CqlError::server(format_args!("{error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_whose_limits_are_still_to_be_looked_at_come_first() {
        let mut unwritten = UnwrittenUpdates::default();
        unwritten.add_checked(ShardId(0), b"here");
        unwritten.add_unchecked(ShardId(1), b"there");
        unwritten.add_unchecked(ShardId(2), b"elsewhere");
        assert_eq!(unwritten.unchecked, 2);
        let owners: Vec<ShardId> = unwritten.updates.iter().map(|(owner, _)| *owner).collect();
        assert_eq!(owners, [ShardId(1), ShardId(2), ShardId(0)]);
    }
}
