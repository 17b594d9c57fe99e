//! SELECTs of many partitions that turn out to be short: where a statement has been, it is answered in the turn that it arrives in,
//! without the queue, the task and the memory of a long read.
//!
//! A read of a row by an index costs half of what it does on the general way, and on the short way by an index, which is tried first,
//! a fifth. What does not end in one step has been tried in vain, and
//! takes its turn; a statement of which that happens often is seldom tried, and one that has become long is not.

use helenus_engine::CqlError;
use helenus_engine::execute::QueryOptions;
use helenus_engine::select::{DirectByIndex, SelectExecution, SelectPlan};
use helenus_engine::term::BoundValues;
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_storage::read_state::ReadProgress;

use crate::execution::Statement;
use crate::session::RequestContext;
use crate::shard::Shard;

/// A SELECT that is tried.
#[derive(Clone, Copy)]
struct Tried<'t> {
    statement: &'t Statement<'t>,
    plan: &'t SelectPlan,
    values: &'t BoundValues<'t>,
    options: &'t QueryOptions<'t>,
}

impl Shard {
    /// Answers a SELECT if it ends in one step; whether it did.
    pub(crate) fn answers_at_once(
        &self,
        statement: &Statement<'_>,
        plan: &SelectPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<bool, CqlError> {
        let tried = Tried {
            statement,
            plan,
            values,
            options,
        };
        if !self.may_answer_at_once(tried) {
            return Ok(false);
        }
        let (id, began_ns) = (&statement.prepared.id, self.context.look_at_clock());
        let is_answered = self.try_at_once(tried)?;
        if is_answered {
            let took_ns = self.context.look_at_clock().saturating_sub(began_ns);
            self.reader.learn_answered_at_once(id, took_ns);
            self.context.metrics.count_select_at_once();
        } else {
            self.reader.learn_tried_in_vain(id);
        }
        Ok(is_answered)
    }

    fn try_at_once(&self, tried: Tried<'_>) -> Result<bool, CqlError> {
        let Tried {
            statement,
            plan,
            values,
            options,
        } = tried;
        match self.try_by_index(tried)? {
            DirectByIndex::Done => return Ok(true),
            DirectByIndex::Long => return Ok(false),
            DirectByIndex::Unsuitable => {}
        }
        let bound = plan.bind(values, options, 1)?;
        let mut execution = SelectExecution::of_bound(plan, values, options, bound);
        if !self.warnings_of(plan, &execution, options)?.is_empty() {
            return Ok(false);
        }
        if let Some(read) = execution.next_read()? {
            let mut reading = plan.read_on_shard(options, read);
            let progress = reading.step(&mut self.reader.counting_store())?;
            let ReadProgress::Done = progress else {
                return Ok(false);
            };
            let rows = reading.finish();
            if execution.is_long_to_absorb(&rows) {
                return Ok(false);
            }
            execution.absorb(rows)?;
        }
        // A scan is many reads: between two of them the shard serves others.
        if execution.next_read()?.is_some()
            || execution.is_long_to_finish()
            || !execution.take_warnings().is_empty()
        {
            return Ok(false);
        }
        let body = execution.finish()?;
        let RequestContext { session, stream, .. } = statement.request;
        session.try_respond(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            out.extend_from_slice(&body);
            Ok::<_, CqlError>(true)
        })?;
        Ok(true)
    }

    /// Answers on the short way by an index, if that is open.
    fn try_by_index(&self, tried: Tried<'_>) -> Result<DirectByIndex, CqlError> {
        let Tried {
            statement,
            plan,
            values,
            options,
        } = tried;
        let mut outcome = DirectByIndex::Unsuitable;
        if !plan.may_be_direct_by_index() {
            return Ok(outcome);
        }
        let scratch = &mut *self.scratch.borrow_mut();
        let RequestContext { session, stream, .. } = statement.request;
        session.try_respond(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            let store = &mut self.reader.counting_store();
            outcome = plan.execute_by_index(values, options, scratch, store, out)?;
            Ok::<_, CqlError>(outcome == DirectByIndex::Done)
        })?;
        Ok(outcome)
    }

    /// Returns whether all is on this shard, what is done for each partition is not, and the statement has been short.
    fn may_answer_at_once(&self, tried: Tried<'_>) -> bool {
        let Tried {
            statement,
            plan,
            values,
            options,
        } = tried;
        self.context.options.shard_count == 1
            && plan.is_range_scan()
            && plan.warning().is_none()
            && (self.reader.is_known_as_short(&statement.prepared.id)
                || self.context.options.tries_all_at_once)
            && !self.reader.disk_is_busy.get()
            && !self.takes_long_way(options)
            && !statement.request.session.conversation.is_traced()
            && !plan.is_long_to_bind(values)
    }
}
