//! Executing modifications: apply what this shard owns, send the rest to its owners, acknowledge when all is durable.
//!
//! A statement for one partition, which nearly all are, is applied where it arrives or forwarded to its owner as it is.
//! Whatever covers several partitions is built entirely before any of it is written: a LOGGED batch is then written
//! whole or not at all ([`crate::write_set`]), others partition by partition.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::ast::BatchKind;
use helenus_engine::CqlError;
use helenus_engine::execute::{QueryOptions, Scratch};
use helenus_engine::modify::{BatchPlan, EmitUpdate, ModifyPlan, unlogged_batch_warning};
use helenus_engine::term::BoundValues;
use helenus_protocol::extensions::RateLimitedOperation;
use helenus_rows::update::{PackedUpdate, Update};
use helenus_schema::TableMetadata;
use helenus_storage::commitlog::{LogAppendError, LogPosition};
use helenus_storage::error::WriteError;
use helenus_types::{ShardId, Token};
use tokio::sync::oneshot;

use crate::built_updates::{APPLIED_PER_STEP_MAX, BuiltUpdates, Steps, UpdatesByShard, packed};
use crate::deadline::{Deadline, not_begun_in_time};
use crate::execution::Statement;
use crate::forward::{ForwardedWrite, Waiting};
use crate::metrics::RequestKind;
use crate::panic_boundary::{catch, catch_async};
use crate::sending::Sending;
use crate::session::{RequestContext, Session};
use crate::shard::{Acknowledgement, Shard};
use crate::written_partitions::{WrittenPartition, partitions_of};

/// Outcome of a statement's update for one partition.
enum Outcome {
    /// There was nothing to write, or it was not logged.
    Applied(Option<LogPosition>),
    Elsewhere(ShardId, PackedUpdate),
    /// This shard has to wait for something before it can apply it.
    NotYet(PackedUpdate),
}

/// A write that was refused or failed on one shard.
pub(crate) struct FailedWrite {
    error: CqlError,
    /// Some of it is stored, or may be.
    is_partial: bool,
}

impl FailedWrite {
    pub fn whole(error: CqlError) -> Self {
        FailedWrite {
            error,
            is_partial: false,
        }
    }
}

impl Shard {
    /// Executes one INSERT, UPDATE or DELETE. Answers now or later; an error is the caller's to answer.
    pub(crate) fn modify(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &ModifyPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let kind = plan.write_kind();
        let deadline = Deadline::of_statement(options, kind);
        if kind == BatchKind::Counter {
            plan.check_counter_consistency(options)?;
        }
        let (session, stream) = (statement.request.session, statement.request.stream);
        if !plan.is_short_to_build() {
            if plan.is_long_to_build(values) {
                self.modify_beside(statement, kind, deadline, values, options);
                return Ok(());
            }
            if !plan.names_one_partition() {
                let build = |scratch: &mut Scratch, emit: &mut EmitUpdate<'_>| {
                    plan.updates(values, options, scratch, emit)
                };
                return self.modify_all(session, stream, kind, deadline, |_| None, build);
            }
        }
        let mut outcome = Outcome::Applied(None);
        let mut warnings = Vec::new();
        let guardrails = &self.context.options.guardrails.values;
        let scratch = &mut *self.scratch.borrow_mut();
        plan.updates(values, options, scratch, &mut |token, update| {
            if guardrails.is_enabled() {
                warnings = guardrails.check(&self.schema(), update)?;
            }
            let owner = self.context.owner_of(token);
            if owner != self.context.id {
                outcome = Outcome::Elsewhere(owner, packed(token, update.to_vec())?);
                return Ok(());
            }
            if self.hot_partitions.is_sampled() {
                self.sample_write_of(&plan.table, token, update);
            }
            self.rates
                .check(&plan.table, RateLimitedOperation::Write, token)?;
            outcome = match self.apply_now((plan.table.id, token), update, kind)? {
                Some(position) => Outcome::Applied(Some(position)),
                None => Outcome::NotYet(packed(token, update.to_vec())?),
            };
            Ok(())
        })?;
        match outcome {
            Outcome::Applied(position) if warnings.is_empty() => {
                self.context.trace(session, || {
                    format!("Added to the commit log and to {} memtable", plan.table.name)
                });
                self.persistence
                    .acknowledge_session(session, stream, position, deadline);
            }
            Outcome::Elsewhere(owner, update) if warnings.is_empty() => {
                self.context
                    .trace(session, || format!("Sending the mutation to shard-{}", owner.0));
                return self.forward_write(&statement.request, owner, (update, kind), deadline);
            }
            outcome => self.finish_later(session, stream, (outcome, kind), warnings, deadline),
        }
        Ok(())
    }

    /// Does what is left of a statement for one partition, and answers.
    fn finish_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        (outcome, kind): (Outcome, BatchKind),
        warnings: Vec<String>,
        deadline: Deadline,
    ) {
        let held = match &outcome {
            Outcome::Elsewhere(_, update) | Outcome::NotYet(update) => {
                self.context.waiting(session, update.bytes().len())
            }
            Outcome::Applied(_) => None,
        };
        let shard = self.clone();
        self.context
            .answer_write(session, stream, warnings, deadline, async move {
                let _charged_to_the_end = held;
                match outcome {
                    Outcome::Applied(None) => Ok(()),
                    Outcome::Applied(Some(position)) => shard.persistence.durable(position, deadline).await,
                    Outcome::Elsewhere(owner, update) => {
                        let updates = UpdatesByShard::from([(owner, vec![update])]);
                        shard.write_by_partition(updates, kind, deadline).await
                    }
                    Outcome::NotYet(update) => {
                        let written = shard.apply_durably(vec![update], kind, deadline).await;
                        written.map_err(|failed| failed.error)
                    }
                }
            });
    }

    /// Executes a batch, or a statement for several partitions: all updates are built before the first is applied, so
    /// that an invalid statement leaves nothing behind. `warning` learns how many partitions they cover.
    pub(crate) fn modify_all(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        kind: BatchKind,
        deadline: Deadline,
        warning: impl FnOnce(usize) -> Option<String>,
        build: impl FnOnce(&mut Scratch, &mut EmitUpdate<'_>) -> Result<(), CqlError>,
    ) -> Result<(), CqlError> {
        let BuiltUpdates {
            updates,
            written_bytes,
            warnings,
        } = {
            let (schema, scratch) = (self.schema.borrow(), &mut *self.scratch.borrow_mut());
            BuiltUpdates::new(&self.context.options, &schema, scratch, warning, build)?
        };
        if warnings.is_empty()
            && let Some(position) = self.apply_here(&updates, kind)?
        {
            self.persistence
                .acknowledge_session(session, stream, position, deadline);
            return Ok(());
        }
        let shard = self.clone();
        let held = self.context.waiting(session, written_bytes);
        self.context
            .answer_write(session, stream, warnings, deadline, async move {
                let _charged_to_the_end = held;
                shard.write_updates(updates, kind, deadline).await
            });
        Ok(())
    }

    /// Applies updates of this shard's partitions as one record of its log. `None` where that takes other shards, memory
    /// that is not there, or more than one record.
    fn apply_here(
        &self,
        updates: &UpdatesByShard,
        kind: BatchKind,
    ) -> Result<Option<Option<LogPosition>>, CqlError> {
        let own = match updates.first_key_value() {
            None => return Ok(Some(None)),
            // Each partition is counted in a turn of its own.
            Some(_) if kind == BatchKind::Counter => return Ok(None),
            // What need not be whole is applied in steps.
            Some((_, own)) if own.len() > APPLIED_PER_STEP_MAX && kind != BatchKind::Logged => {
                return Ok(None);
            }
            Some((owner, own)) if *owner == self.context.id && updates.len() == 1 => own,
            Some(_) => return Ok(None),
        };
        if self.rates.has_limits() {
            return Ok(None);
        }
        if self.views.concern_any_of(own.iter()) {
            return Ok(self.apply_viewed_now(own)?.map(Some));
        }
        let decoded = self.decode_sampled(own)?;
        let applied = self.store.borrow_mut().apply_all(&decoded);
        match applied {
            Ok(position) => {
                self.persistence.note_write();
                Ok(Some(Some(position)))
            }
            Err(
                WriteError::MemtablesFull { .. } | WriteError::Log(LogAppendError::RecordTooLarge { .. }),
            ) => Ok(None),
            Err(error) => Err(write_failure(&error)),
        }
    }

    /// Executes a batch whose statements came as one plan.
    pub(crate) fn modify_batch(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &BatchPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let kind = plan.write_kind();
        let deadline = Deadline::of_batch(options, kind);
        if plan.is_long_to_build(values) {
            self.modify_beside(statement, kind, deadline, values, options);
            return Ok(());
        }
        let warning = |partitions| unlogged_batch_warning(plan.kind, partitions, &plan.statements);
        let (session, stream) = (statement.request.session, statement.request.stream);
        self.modify_all(session, stream, kind, deadline, warning, |scratch, emit| {
            plan.updates(values, options, scratch, emit)
        })
    }

    #[cold]
    pub(crate) fn sample_write(&self, token: Token, update: &[u8]) {
        if let Some(update) = Update::decode_trusted(update)
            && let Some(table) = self.schema.borrow().table_by_id(update.table)
        {
            self.hot_partitions.note_sample(
                &self.context,
                table,
                RateLimitedOperation::Write,
                token,
                update.partition_key,
            );
        }
    }

    /// As [`Shard::sample_write`], where the table is known: to find it by its id takes as long as the sample.
    #[cold]
    fn sample_write_of(&self, table: &Arc<TableMetadata>, token: Token, update: &[u8]) {
        if let Some(update) = Update::decode_trusted(update) {
            self.hot_partitions.note_sample(
                &self.context,
                table,
                RateLimitedOperation::Write,
                token,
                update.partition_key,
            );
        }
    }

    fn forward_write(
        &self,
        request: &RequestContext<'_>,
        owner: ShardId,
        (update, kind): (PackedUpdate, BatchKind),
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        match self.sending(owner, request) {
            Sending::Now => {}
            Sending::Refused => return Err(not_begun_in_time()),
            Sending::PutBack => {
                self.context.metrics.forget_request(RequestKind::Write);
                return Ok(());
            }
        }
        let RequestContext { session, stream, .. } = *request;
        let ticket = self.forwards.borrow_mut().insert(Waiting {
            session: session.clone(),
            stream,
            deadline,
        });
        let write = ForwardedWrite {
            from: self.context.id,
            ticket,
            held: self.context.waiting(session, update.bytes().len()),
            update,
            kind,
            deadline,
            received_ns: request.received_ns,
            throws_on_overload: session.client().throws_on_overload,
        };
        if self.context.mailbox(owner).write(write).is_err() {
            self.forwards.borrow_mut().remove(ticket);
            return Err(crate::unavailable::inbox_full());
        }
        session.expect_answer();
        self.context.metrics.count_forwarded();
        Ok(())
    }

    pub(crate) fn write_forwarded(self: &Rc<Self>, write: ForwardedWrite) {
        let ForwardedWrite {
            from,
            ticket,
            update,
            kind,
            deadline,
            received_ns,
            throws_on_overload,
            held,
        } = write;
        if deadline.is_over(self.context.last_looked_ns())
            || self.forwarded_too_late(received_ns, throws_on_overload)
        {
            return self
                .context
                .answer_forwarded_write(from, ticket, Err(not_begun_in_time()));
        }
        let applied = catch(|| {
            let (table, token) = update.partition();
            if self.hot_partitions.is_sampled() {
                self.sample_write(token, update.bytes());
            }
            self.rates.check_write(&self.schema, table, token)?;
            self.apply_now((table, token), update.bytes(), kind)
        });
        match applied.unwrap_or_else(|panicked| Err(panicked.error())) {
            Ok(Some(position)) if self.persistence.waits_for_log(position) => {
                self.persistence.acknowledge_at(
                    position,
                    deadline,
                    Acknowledgement::Forwarded { from, ticket },
                );
            }
            Ok(Some(_)) => self.context.answer_forwarded_write(from, ticket, Ok(())),
            Ok(None) => {
                let shard = self.clone();
                self.context.spawn(async move {
                    let _charged_to_the_end = held;
                    let result = catch_async(shard.apply_durably(vec![update], kind, deadline)).await;
                    let result = result.unwrap_or_else(|panicked| Err(FailedWrite::whole(panicked.error())));
                    shard
                        .context
                        .answer_forwarded_write(from, ticket, result.map_err(|failed| failed.error));
                });
            }
            Err(error) => self.context.answer_forwarded_write(from, ticket, Err(error)),
        }
    }

    /// Writes what a batch of this kind has built, and waits until it is durable. Nothing of it was looked at before.
    pub(crate) async fn write_updates(
        self: &Rc<Self>,
        updates: UpdatesByShard,
        kind: BatchKind,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        let is_one_partition = updates.values().map(Vec::len).sum::<usize>() < 2;
        match kind {
            BatchKind::Logged if !is_one_partition => self.write_whole(updates, deadline).await,
            _ => self.write_by_partition(updates, kind, deadline).await,
        }
    }

    /// Writes the updates of each partition entirely or not at all. All shards work at the same time; the first error is
    /// the answer once all of them are done.
    pub(crate) async fn write_by_partition(
        self: &Rc<Self>,
        updates: UpdatesByShard,
        kind: BatchKind,
        deadline: Deadline,
    ) -> Result<(), CqlError> {
        if self.rates.has_limits() {
            self.check_rates_everywhere(partitions_of(&updates)).await?;
        }
        let mut results = Vec::new();
        for (owner, updates) in updates {
            let (sender, receiver) = oneshot::channel();
            self.context.mailbox(owner).run(move |owner| {
                let shard = owner.clone();
                owner.context.spawn(async move {
                    // The caller may have gone with its node.
                    let _gone = sender.send(shard.apply_durably(updates, kind, deadline).await);
                });
            });
            results.push((owner, receiver));
        }
        let mut first_failure = None;
        let mut is_partial = false;
        for (owner, result) in results {
            // Nobody knows how far a shard came that does not answer.
            let result = result.await.unwrap_or_else(|_| {
                Err(FailedWrite {
                    error: self.context.no_answer_from(owner),
                    is_partial: true,
                })
            });
            match result {
                Ok(()) => is_partial = true,
                Err(failed) => {
                    is_partial |= failed.is_partial;
                    first_failure = first_failure.or(Some(failed.error));
                }
            }
        }
        match first_failure {
            None => Ok(()),
            Some(error) if is_partial && error.promises_nothing_was_done() => Err(deadline.timed_out()),
            Some(error) => Err(error),
        }
    }

    /// Applies updates that this shard owns, waiting for memory where there is none, and for the log.
    async fn apply_durably(
        self: &Rc<Self>,
        updates: Vec<PackedUpdate>,
        kind: BatchKind,
        deadline: Deadline,
    ) -> Result<(), FailedWrite> {
        if deadline.is_over(self.context.clock.monotonic_ns()) {
            return Err(FailedWrite::whole(not_begun_in_time()));
        }
        // The log's positions ascend, but for writes that are not logged.
        let mut last = None;
        let mut is_partial = false;
        let mut steps = Steps::default();
        for update in updates {
            if steps.is_over(update.bytes().len()) {
                tokio::task::yield_now().await;
            }
            let applied = match kind {
                BatchKind::Counter => self.count_waiting(&update, deadline).await.map(Some),
                // Which waits for the log, too.
                _ if self.views.concern(update.partition()) => {
                    self.write_viewed(vec![update], deadline).await.map(|()| None)
                }
                _ => self.apply_waiting(&update, deadline).await.map(Some),
            };
            match applied {
                Ok(position) => last = last.max(position),
                Err(error) => return Err(FailedWrite { error, is_partial }),
            }
            is_partial = true;
        }
        let durable = match last {
            Some(position) => self.persistence.durable(position, deadline).await,
            None => Ok(()),
        };
        durable.map_err(|error| FailedWrite {
            error,
            is_partial: true,
        })
    }

    /// Applies one update, waiting for memory where there is none.
    async fn apply_waiting(
        &self,
        update: &PackedUpdate,
        deadline: Deadline,
    ) -> Result<LogPosition, CqlError> {
        if self.hot_partitions.is_sampled() {
            self.sample_write(update.token(), update.bytes());
        }
        self.apply_where_there_is_room(update.partition(), update.bytes(), deadline)
            .await
    }

    pub(crate) async fn apply_where_there_is_room(
        &self,
        partition: WrittenPartition,
        update: &[u8],
        deadline: Deadline,
    ) -> Result<LogPosition, CqlError> {
        let (_, token) = partition;
        loop {
            match self.persistence.apply(token, update) {
                Ok(position) => return Ok(position),
                Err(error @ WriteError::MemtablesFull { .. }) => {
                    if !self.persistence.wait_for_room(deadline).await {
                        return Err(write_failure(&error));
                    }
                    self.wait_for_turns(&[partition], deadline).await?;
                }
                Err(error) => return Err(write_failure(&error)),
            }
        }
    }
}

/// For a write of which nothing is stored.
pub(crate) fn write_failure(error: &WriteError) -> CqlError {
    match error {
        WriteError::MemtablesFull { .. }
        | WriteError::TableNotFlushed { .. }
        | WriteError::Log(LogAppendError::BufferFull { .. } | LogAppendError::CannotBegin { .. }) => {
            CqlError::overloaded(format_args!("{error}"))
        }
        _ => CqlError::server(format_args!("{error}")),
    }
}
