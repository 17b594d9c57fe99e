//! Clauses that list thousands of values come to keys, rows, filters and updates on the planner's thread: a shard would be held by
//! them for tens of milliseconds.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::ast::BatchKind;
use helenus_engine::execute::{QueryOptions, Scratch};
use helenus_engine::modify::unlogged_batch_warning;
use helenus_engine::select::{BoundSelect, SelectExecution, SelectProgress, ShardRows};
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan};
use helenus_protocol::Opcode;
use helenus_protocol::response::write_void;
use helenus_transport::request_memory::Account;

use crate::built_updates::BuiltUpdates;
use crate::deadline::{Deadline, not_begun_in_time};
use crate::execution::Statement;
use crate::forward::{OwnedBatch, OwnedExecution};
use crate::session::Session;
use crate::shard::Shard;

/// Bound parts of a long statement; they are not freed on the shard's thread.
pub(crate) struct FreedBeside<'a> {
    shard: &'a Shard,
    shared: Vec<Arc<dyn Send + Sync>>,
}

impl<'a> FreedBeside<'a> {
    pub fn of(shard: &'a Shard, bound: &BoundSelect) -> Self {
        let shared = bound.shared_if_long();
        FreedBeside { shard, shared }
    }
}

impl Drop for FreedBeside<'_> {
    fn drop(&mut self) {
        if !self.shared.is_empty() {
            self.shard.planner.retire(std::mem::take(&mut self.shared));
        }
    }
}

impl Shard {
    /// Binds a SELECT; where it waits behind others of the same account, they have their turns.
    pub(crate) async fn bind_beside(
        &self,
        owned: &Arc<OwnedExecution>,
        account: &Arc<Account>,
    ) -> Result<BoundSelect, CqlError> {
        let (owned, shard_count) = (owned.clone(), self.context.options.shard_count);
        let work = move || {
            owned.with(|plan, values, options| match plan {
                Plan::Select(plan) => Some(plan.bind(values, options, shard_count)),
                _ => None,
            })
        };
        let bound = self.planner.run(account, work).await?;
        bound.flatten().ok_or_else(|| self.no_plan())?
    }

    /// Takes the answer to a read of a SELECT; beside the shard, where that computes much.
    pub(crate) async fn absorb<'a>(
        &self,
        mut execution: SelectExecution<'a>,
        rows: ShardRows,
        owned: &Arc<OwnedExecution>,
        account: &Arc<Account>,
    ) -> Result<SelectExecution<'a>, CqlError> {
        if !execution.is_long_to_absorb(&rows) {
            execution.absorb(rows)?;
            return Ok(execution);
        }
        let (progress, go_on) = execution.divide();
        let absorb = move |mut execution: SelectExecution<'_>| {
            execution.absorb(rows)?;
            Ok(execution.into_progress())
        };
        let absorbed = self.compute_beside(progress, owned, account, absorb).await?;
        Ok(go_on(absorbed))
    }

    /// The body of a SELECT's answer, likewise.
    pub(crate) async fn finish(
        &self,
        execution: SelectExecution<'_>,
        owned: &Arc<OwnedExecution>,
        account: &Arc<Account>,
    ) -> Result<Vec<u8>, CqlError> {
        if !execution.is_long_to_finish() {
            return execution.finish();
        }
        let finish = |execution: SelectExecution<'_>| execution.finish();
        self.compute_beside(execution.into_progress(), owned, account, finish)
            .await
    }

    async fn compute_beside<T: Send + 'static>(
        &self,
        progress: Box<SelectProgress>,
        owned: &Arc<OwnedExecution>,
        account: &Arc<Account>,
        go_on: impl FnOnce(SelectExecution<'_>) -> Result<T, CqlError> + Send + 'static,
    ) -> Result<T, CqlError> {
        let owned = owned.clone();
        let work = move || {
            owned.with(|plan, values, options| match plan {
                Plan::Select(plan) => Some(go_on(SelectExecution::begun(plan, values, options, progress))),
                _ => None,
            })
        };
        let computed = self.planner.run(account, work).await?;
        computed.flatten().ok_or_else(|| self.no_plan())?
    }

    /// Executes a modification or batch whose updates take long to build.
    pub(crate) fn modify_beside(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        kind: BatchKind,
        deadline: Deadline,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) {
        let account = self.context.account_of_session(statement.request.session);
        let owned = Arc::new(OwnedExecution::new(statement, values, options, &account));
        let shard = self.clone();
        self.write_built(
            statement.request.session,
            statement.request.stream,
            kind,
            deadline,
            async move { shard.build_beside(&owned, &account).await },
        );
    }

    /// As [`modify_beside`](Self::modify_beside), of a BATCH message.
    pub(crate) fn batch_beside(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        kind: BatchKind,
        deadline: Deadline,
        batch: OwnedBatch,
    ) {
        let (shard, account) = (self.clone(), self.context.account_of_session(session));
        self.write_built(session, stream, kind, deadline, async move {
            let (node, schema) = (shard.context.options.clone(), shard.schema());
            let work = move || {
                let warning = |partitions| {
                    unlogged_batch_warning(kind, partitions, batch.plans().map(|(plan, _)| plan))
                };
                BuiltUpdates::new(
                    &node,
                    &schema,
                    &mut Scratch::default(),
                    warning,
                    |scratch, emit| {
                        batch.plans().try_for_each(|(plan, values)| {
                            plan.updates_in_batch(&values.bound(), &batch.options, scratch, emit)
                        })
                    },
                )
            };
            let built = shard.planner.run(&account, work).await?;
            built.ok_or_else(|| shard.no_plan())?
        });
    }

    /// Writes what is built beside the shard, and answers.
    fn write_built(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        kind: BatchKind,
        deadline: Deadline,
        built: impl Future<Output = Result<BuiltUpdates, CqlError>> + 'static,
    ) {
        let (shard, answered) = (self.clone(), session.clone());
        self.context.answer_later(session, stream, async move {
            let mut warnings = Vec::new();
            let written = async {
                let built = built.await?;
                if deadline.is_over(shard.context.clock.monotonic_ns()) {
                    return Err(not_begun_in_time());
                }
                warnings = built.warnings;
                let _held = shard.context.waiting(&answered, built.written_bytes);
                shard.write_updates(built.updates, kind, deadline).await
            };
            let result = shard.context.in_time(deadline, written).await;
            shard.context.count_failure(&result);
            let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
            answered.respond_later_warning(stream, Opcode::Result, &warnings, |out| {
                result?;
                write_void(out);
                Ok(())
            });
        });
    }

    async fn build_beside(
        &self,
        owned: &Arc<OwnedExecution>,
        account: &Arc<Account>,
    ) -> Result<BuiltUpdates, CqlError> {
        let (owned, node, schema) = (owned.clone(), self.context.options.clone(), self.schema());
        let work = move || {
            let scratch = &mut Scratch::default();
            owned.with(|plan, values, options| match plan {
                Plan::Modify(plan) => Some(BuiltUpdates::new(
                    &node,
                    &schema,
                    scratch,
                    |_| None,
                    |scratch, emit| plan.updates(values, options, scratch, emit),
                )),
                Plan::Batch(plan) => Some(BuiltUpdates::new(
                    &node,
                    &schema,
                    scratch,
                    |partitions| unlogged_batch_warning(plan.kind, partitions, &plan.statements),
                    |scratch, emit| plan.updates(values, options, scratch, emit),
                )),
                _ => None,
            })
        };
        let built = self.planner.run(account, work).await?;
        built.flatten().ok_or_else(|| self.no_plan())?
    }
}
