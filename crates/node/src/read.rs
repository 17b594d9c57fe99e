//! Executing SELECTs: one partition of this shard straight into the response, anything else as reads on the shards that
//! own the rows, put together here.

use std::cell::RefMut;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::execute::{QueryOptions, Scratch};
use helenus_engine::select::{
    Direct, DirectRead, ReadPartitions, SelectExecution, SelectPlan, ShardRead, ShardRows,
};
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan, Prepared};
use helenus_protocol::Opcode;
use helenus_protocol::extensions::RateLimitedOperation;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_schema::TableKind;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_transport::request_memory::{Held, NoMemory};
use helenus_types::ShardId;

use crate::deadline::{Deadline, no_memory, not_begun_in_time};
use crate::execution::Statement;
use crate::forward::{ForwardedAnswer, ForwardedRead, ForwardedResult, OwnedExecution, Waiting};
use crate::long_clause::FreedBeside;
use crate::long_reads::executor::step_ended;
use crate::metrics::RequestKind;
use crate::panic_boundary::catch;
use crate::rate_limit::RateLimits;
use crate::reader::READ_TASK_BYTES;
use crate::reads_ahead::ReadsAhead;
use crate::sending::Sending;
use crate::session::RequestContext;
use crate::shard::Shard;
use crate::suspended_read::{Asker, SuspendedRead};
use crate::unavailable::inbox_full;

fn check_serial(plan: &SelectPlan, execution: &SelectExecution<'_>) -> Result<(), CqlError> {
    if plan.is_range_scan() || execution.partition_keys() <= 1 {
        return Ok(());
    }
    Err(CqlError::invalid(format_args!(
        "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time"
    )))
}

impl Shard {
    /// Executes one SELECT. Answers now or later; an error is the caller's to answer.
    pub(crate) fn select(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &SelectPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        if plan.table.kind == TableKind::Virtual {
            return self.select_from_system(statement, plan, values, options);
        }
        let takes_long_way = self.takes_long_way(options);
        let session = statement.request.session;
        let table = &plan.table.name;
        let mut scratch = self.scratch.borrow_mut();
        let read = plan.direct(values, options, &mut scratch)?;
        let Some(read) = read.filter(|_| !takes_long_way) else {
            return self.select_generally(statement, plan, values, options, scratch);
        };
        let owner = self.context.owner_of(read.token());
        if owner != self.context.id {
            drop(scratch);
            self.context.trace(session, || {
                format!("Executing single-partition query on {table} on shard-{}", owner.0)
            });
            return self.forward_read(statement, owner, values, options);
        }
        if self.hot_partitions.is_sampled() {
            self.sample_read(plan, &read);
        }
        self.rates
            .check(&plan.table, RateLimitedOperation::Read, read.token())?;
        self.context
            .trace(session, || format!("Executing single-partition query on {table}"));
        if self.reader.takes_its_turn(statement.prepared) {
            drop(scratch);
            return self.select_later(statement, values, options, RateLimits::Checked);
        }
        if self.reader.waits_for_disk(&statement.prepared.id) {
            drop(scratch);
            let read = self.suspended(statement, values, options, ReadState::suspending());
            self.reader.queue_miss(read, None);
            return Ok(());
        }
        let mut state = ReadState::suspending();
        let direct = self.select_here(statement, read, &mut state)?;
        drop(scratch);
        if self.reader.disk_is_busy.get() {
            self.reader
                .learn_miss(&statement.prepared.id, matches!(direct, Direct::Absent(_)));
        }
        if !matches!(direct, Direct::Done) {
            self.reader
                .go_on(self.suspended(statement, values, options, state), direct);
        }
        Ok(())
    }

    /// Any SELECT on the general way: all of it on the shard that it begins on, if that is known, or put together here. By itself, so that
    /// a read of one row does not pay for its place on the stack.
    #[inline(never)]
    fn select_generally(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &SelectPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        mut scratch: RefMut<'_, Scratch>,
    ) -> Result<(), CqlError> {
        let (session, table) = (statement.request.session, &plan.table.name);
        let other = self.other_owner_of(plan, values, options, &mut scratch);
        drop(scratch);
        if self.answers_at_once(statement, plan, values, options)? {
            return Ok(());
        }
        let Some(owner) = other else {
            self.context.trace(session, || {
                format!("Executing query on {table} on the shards that have its partitions")
            });
            return self.select_later(statement, values, options, RateLimits::Unchecked);
        };
        self.context.trace(session, || {
            format!("Executing query on {table} on shard-{}, where it begins", owner.0)
        });
        match self.sending_long_read(owner, statement) {
            Sending::Now => self.forward_read(statement, owner, values, options),
            Sending::Refused => Err(not_begun_in_time()),
            Sending::PutBack => {
                self.context.metrics.forget_request(RequestKind::Read);
                Ok(())
            }
        }
    }

    /// Returns whether a read goes the general way, whatever its plan: its client may have to be warned, or it is SERIAL.
    pub(crate) fn takes_long_way(&self, options: &QueryOptions<'_>) -> bool {
        let page_rows_unwarned = self.context.page_rows_unwarned();
        let page_rows = options.page_rows();
        page_rows.is_some_and(|rows| u64::from(rows) > page_rows_unwarned) || options.consistency.is_serial()
    }

    /// The other shard that a read which goes the general way begins on: it does all of that, and knows what it has to do before it.
    fn other_owner_of(
        &self,
        plan: &SelectPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        scratch: &mut Scratch,
    ) -> Option<ShardId> {
        if self.context.options.shard_count == 1 {
            return None;
        }
        let owner = self.context.owner_of(plan.begins_at(values, options, scratch)?);
        (owner != self.context.id).then_some(owner)
    }

    /// The hot path: nothing is allocated between the request's bytes and the response's.
    fn select_here(
        &self,
        statement: &Statement<'_>,
        read: DirectRead<'_>,
        state: &mut ReadState,
    ) -> Result<Direct, CqlError> {
        let mut direct = Direct::Done;
        let RequestContext { session, stream, .. } = statement.request;
        session.try_respond(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            direct = read.execute(&mut self.reader.counting_store(), state, out)?;
            Ok(matches!(direct, Direct::Done))
        })?;
        Ok(direct)
    }

    /// Builds the rest of a read that could not answer at once.
    fn suspended(
        &self,
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        state: ReadState,
    ) -> Box<SuspendedRead> {
        let RequestContext { session, stream, .. } = statement.request;
        Box::new(SuspendedRead {
            execution: self.owned(statement, values, options),
            asker: self.context.asker(session, stream),
            state,
            has_waited: false,
        })
    }

    fn forward_read(
        &self,
        statement: &Statement<'_>,
        owner: ShardId,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        match self.sending(owner, &statement.request) {
            Sending::Now => {}
            Sending::Refused => return Err(not_begun_in_time()),
            Sending::PutBack => {
                self.context.metrics.forget_request(RequestKind::Read);
                return Ok(());
            }
        }
        let waiting = Waiting {
            session: statement.request.session.clone(),
            stream: statement.request.stream,
            deadline: Deadline::of_read(options),
        };
        let ticket = self.forwards.borrow_mut().insert(waiting);
        let account = self.context.account_of_session(statement.request.session);
        let execution = OwnedExecution::new(statement, values, options, &account);
        if self
            .context
            .mailbox(owner)
            .read(ForwardedRead {
                from: self.context.id,
                ticket,
                execution,
                account,
            })
            .is_err()
        {
            self.forwards.borrow_mut().remove(ticket);
            return Err(inbox_full());
        }
        statement.request.session.expect_answer();
        self.context.metrics.count_forwarded();
        Ok(())
    }

    pub(crate) fn read_forwarded(self: &Rc<Self>, read: ForwardedRead) {
        let ForwardedRead {
            from,
            ticket,
            execution,
            account,
        } = read;
        if Deadline::of_read(&execution.options()).is_over(self.context.last_looked_ns())
            || self.forwarded_too_late(execution.received_ns, execution.throws_on_overload)
        {
            return self
                .context
                .mailbox(from)
                .answered(ticket, Err(not_begun_in_time()));
        }
        if account.is_closed() || !account.has_room() {
            return self
                .context
                .mailbox(from)
                .answered(ticket, Err(no_memory(NoMemory)));
        }
        let asker = Asker::Shard {
            from,
            ticket,
            account,
        };
        if self.goes_general_way(&execution) {
            return self
                .reader
                .queue_read(execution, asker, RateLimits::Unchecked, None);
        }
        let checked = catch(|| self.check_rate_of_read(&execution));
        if let Err(error) = checked.unwrap_or_else(|panicked| Err(panicked.error())) {
            return self.context.answer_asker(&asker, Err(error));
        }
        if self.reader.takes_its_turn(&execution.prepared) {
            return self
                .reader
                .queue_read(execution, asker, RateLimits::Checked, None);
        }
        let waits_for_disk = self.reader.waits_for_disk(&execution.prepared.id);
        let read = Box::new(SuspendedRead {
            execution,
            asker,
            state: ReadState::suspending(),
            has_waited: false,
        });
        match waits_for_disk {
            true => self.reader.queue_miss(read, None),
            false => self.reader.try_directly(read),
        }
    }

    /// Returns whether a read that was sent here, for a partition of this shard, is not even tried on the short way.
    fn goes_general_way(&self, execution: &OwnedExecution) -> bool {
        let options = execution.options();
        let is_direct = match &execution.prepared.plan {
            Plan::Select(plan) => plan.may_be_direct(&options),
            _ => true,
        };
        !is_direct || self.takes_long_way(&options)
    }

    #[cold]
    fn sample_read(&self, plan: &SelectPlan, read: &DirectRead<'_>) {
        self.hot_partitions.note_sample(
            &self.context,
            &plan.table,
            RateLimitedOperation::Read,
            read.token(),
            read.partition_key(),
        );
    }

    /// Checks the rate of a read that was sent here because this shard owns the partition.
    fn check_rate_of_read(&self, execution: &OwnedExecution) -> Result<(), CqlError> {
        let Plan::Select(plan) = &execution.prepared.plan else {
            return Ok(());
        };
        let is_sampled = self.hot_partitions.is_sampled();
        if plan.table.params.per_partition_rate_limit.is_none() && !is_sampled {
            return Ok(());
        }
        execution.with(|_, values, options| {
            let scratch = &mut *self.scratch.borrow_mut();
            let Some(read) = plan.direct(values, options, scratch)? else {
                return Ok(());
            };
            if is_sampled {
                self.sample_read(plan, &read);
            }
            self.rates
                .check(&plan.table, RateLimitedOperation::Read, read.token())
        })
    }

    /// Any SELECT, on as many shards as it takes.
    fn select_later(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
        rate_limits: RateLimits,
    ) -> Result<(), CqlError> {
        if self.reader.has_no_time_for_statement(statement) {
            return Err(not_begun_in_time());
        }
        let execution = self.owned(statement, values, options);
        let asker = self
            .context
            .asker(statement.request.session, statement.request.stream);
        self.reader.queue_read(execution, asker, rate_limits, None);
        Ok(())
    }

    fn owned(
        &self,
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> OwnedExecution {
        let account = self.context.account_of_session(statement.request.session);
        OwnedExecution::new(statement, values, options, &account)
    }

    /// Executes a SELECT on the shards that own its partitions; of one that was begun already, `begun` has what was brought.
    pub(crate) async fn select_everywhere(
        self: &Rc<Self>,
        owned: OwnedExecution,
        rate_limits: RateLimits,
        mut begun: Option<ReadState>,
        held: Held,
    ) -> ForwardedResult {
        let owned = Arc::new(owned);
        let prepared: &Prepared = &owned.prepared;
        let Plan::Select(plan) = &prepared.plan else {
            return Ok(ForwardedAnswer::default());
        };
        let (values, options) = (owned.values.bound(), owned.options());
        let bound = match plan.is_long_to_bind(&values) {
            true => self.bind_beside(&owned, held.account()).await?,
            false => plan.bind(&values, &options, self.context.options.shard_count)?,
        };
        let _freed_beside = FreedBeside::of(self, &bound);
        let mut execution = SelectExecution::of_bound(plan, &values, &options, bound);
        let mut warnings = self.warnings_of(plan, &execution, &options)?;
        let is_serial = options.consistency.is_serial();
        if is_serial {
            check_serial(plan, &execution)?;
        }
        let mut read_on = BTreeSet::new();
        let (mut partition, mut is_first, mut ahead) = (None, true, ReadsAhead::default());
        let has_others = self.context.options.shard_count > 1;
        while let Some(read) = execution.next_read()? {
            let target = execution.next_index();
            if has_others && ahead.is_behind(target) {
                ahead = self.read_ahead(&mut execution, &owned, rate_limits, held.account());
            }
            // A partition that is read in parts counts once.
            let is_begun = match &read.partitions {
                ReadPartitions::Key { token, .. } => partition.replace(*token) == Some(*token),
                ReadPartitions::Range { .. } => true,
            };
            let rate_limits = match is_begun || ahead.has(target) {
                true => RateLimits::Checked,
                false => rate_limits,
            };
            if is_serial {
                read_on.insert(read.shard);
            }
            let (rows, rows_held) = match ahead.take(self, target, &read).await? {
                Some(rows) => rows,
                None => {
                    let rows_held = Held::nothing_of(held.account());
                    self.read_on((read, is_first), &owned, rate_limits, begun.take(), rows_held)
                        .await?
                }
            };
            is_first = false;
            execution = self.absorb(execution, rows, &owned, held.account()).await?;
            drop(rows_held);
            held.try_set(READ_TASK_BYTES + execution.output_bytes())
                .map_err(no_memory)?;
            // A scan is many reads: between two of them the shard serves others.
            step_ended().await;
        }
        self.certain(read_on, Deadline::of_read(&options)).await?;
        warnings.extend(execution.take_warnings());
        let body = self.finish(execution, &owned, held.account()).await?;
        held.set(body.capacity());
        Ok(ForwardedAnswer {
            body,
            warnings,
            held: Some(held),
        })
    }

    /// Warnings of what is known before anything is read; an error where a guardrail forbids it.
    pub(crate) fn warnings_of(
        &self,
        plan: &SelectPlan,
        execution: &SelectExecution<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<Vec<String>, CqlError> {
        let (table, guardrails) = (&plan.table.name, &self.context.options.guardrails);
        let mut warnings: Vec<String> = plan.warning().map(str::to_owned).into_iter().collect();
        warnings.extend(guardrails.check_partition_keys(table, execution.partition_keys())?);
        warnings.extend(guardrails.check_in_products(execution.in_products())?);
        warnings.extend(guardrails.check_page_size(table, options.page_rows().map_or(0, u64::from))?);
        Ok(warnings)
    }

    async fn read_on(
        self: &Rc<Self>,
        (read, is_first): (ShardRead, bool),
        owned: &Arc<OwnedExecution>,
        rate_limits: RateLimits,
        begun: Option<ReadState>,
        held: Held,
    ) -> Result<(ShardRows, Held), CqlError> {
        let (execution, shard) = (owned.clone(), read.shard);
        let account = held.account().clone();
        self.call_in_turn((shard, is_first), owned, &account, move |shard| async move {
            let rows = shard
                .read_here(read, &execution, rate_limits, begun, &held)
                .await?;
            Ok((rows, held))
        })
        .await
    }

    /// A read of rows that this shard owns. Between its steps, and while it waits for the disk, the shard serves others.
    /// What it has is charged to the client that asked.
    pub(crate) async fn read_here(
        &self,
        read: ShardRead,
        owned: &OwnedExecution,
        rate_limits: RateLimits,
        begun: Option<ReadState>,
        held: &Held,
    ) -> Result<ShardRows, CqlError> {
        let Plan::Select(plan) = &owned.prepared.plan else {
            return Ok(ShardRows::default());
        };
        if let (RateLimits::Unchecked, ReadPartitions::Key { token, key }) = (rate_limits, &read.partitions) {
            if self.hot_partitions.is_sampled() {
                self.hot_partitions.note_sample(
                    &self.context,
                    &plan.table,
                    RateLimitedOperation::Read,
                    *token,
                    key,
                );
            }
            self.rates
                .check(&plan.table, RateLimitedOperation::Read, *token)?;
        }
        let mut reading = plan.read_on_shard(&owned.options(), read);
        if let Some(begun) = begun {
            reading.begin_with(begun);
        }
        loop {
            let progress = self.reader.counted(owned.traced.as_ref(), || {
                reading.step(&mut self.reader.counting_store())
            });
            if let (Some(traced), Ok(ReadProgress::Done) | Err(_)) = (&owned.traced, &progress) {
                traced.note_indexes(reading.index_names());
            }
            let progress = progress?;
            held.try_set(reading.bytes()).map_err(no_memory)?;
            match progress {
                ReadProgress::Done => return Ok(reading.finish()),
                ReadProgress::Yield => step_ended().await,
                ReadProgress::Absent(absent) => self.reader.bring(reading.state(), &absent).await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the future of a waiting read that goes the general way, at most: two of the smallest pages of memory.
    const READ_FUTURE_BYTES_MAX: usize = 8 * 1024;

    fn bytes_of<F>(
        _: impl FnOnce(&'static Rc<Shard>, OwnedExecution, RateLimits, Option<ReadState>, Held) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// Each cold read made, moved and copied one of 37 KB, four times over.
    #[test]
    fn the_futures_of_reads_stay_small() {
        let all = bytes_of(Shard::select_everywhere);
        assert!(all <= READ_FUTURE_BYTES_MAX, "{all}");
    }
}
