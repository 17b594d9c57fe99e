//! Executing SELECTs: one partition of this shard straight into the response, anything else as reads on the shards that
//! own the rows, put together here.

use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::execute::{QueryOptions, RowStore};
use helenus_engine::select::{Direct, SelectExecution, SelectPlan, ShardRead, ShardRows};
use helenus_engine::system::{NodeState, is_made_from_code, read_system_table};
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan, Prepared};
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_schema::Schema;
use helenus_storage::error::ReadError;
use helenus_storage::read::{ReadCommand, ReadStatistics, RowSink};
use helenus_types::ShardId;

use crate::forward::{ForwardedRead, ForwardedResult, OwnedExecution, Ticket, Waiting};
use crate::panic_boundary::{catch, catch_async};
use crate::request::{Statement, inbox_full};
use crate::shard::Shard;

/// A shard's store that counts what it reads.
struct CountingStore<'a> {
    shard: &'a Shard,
}

/// The tables whose rows are made when they are asked for.
struct SystemTables {
    schema: Arc<Schema>,
    node: NodeState,
}

impl RowStore for CountingStore<'_> {
    #[inline]
    fn read<S: RowSink>(
        &mut self,
        command: &ReadCommand<'_>,
        sink: &mut S,
    ) -> Result<ReadStatistics, ReadError> {
        let statistics = self.shard.store.borrow_mut().read(command, sink)?;
        self.shard.metrics.count_read(&statistics);
        Ok(statistics)
    }
}

impl RowStore for SystemTables {
    fn read<S: RowSink>(
        &mut self,
        command: &ReadCommand<'_>,
        sink: &mut S,
    ) -> Result<ReadStatistics, ReadError> {
        read_system_table(command, &self.schema, &self.node, sink)
    }
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
        if is_made_from_code(&plan.table.keyspace) {
            return self.select_from_system(statement, plan, values, options);
        }
        let token = plan.direct_token(values, options, &mut self.scratch.borrow_mut())?;
        match token.map(|token| self.owner_of(token)) {
            Some(owner) if owner == self.id => self.select_here(statement, plan, values, options),
            Some(owner) => self.forward_read(statement, owner, values, options),
            None => {
                self.select_later(statement, values, options);
                Ok(())
            }
        }
    }

    /// The hot path: nothing is allocated between the request's bytes and the response's.
    fn select_here(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &SelectPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let mut direct = Direct::Done;
        let result =
            statement
                .session
                .try_respond(statement.stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                    let scratch = &mut *self.scratch.borrow_mut();
                    direct = plan.execute_direct(
                        &mut CountingStore { shard: self },
                        values,
                        options,
                        scratch,
                        out,
                    )?;
                    Ok(direct == Direct::Done)
                });
        result?;
        if direct == Direct::Unsuitable {
            self.select_later(statement, values, options);
        }
        Ok(())
    }

    fn select_from_system(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &SelectPlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let mut tables = SystemTables {
            schema: self.schema(),
            node: self.node_state(),
        };
        let mut execution = SelectExecution::new(plan, values, options, 1)?;
        while let Some(read) = execution.next_read() {
            execution.absorb(plan.read_on_shard(&mut tables, values, options, &read)?)?;
        }
        let mut body = Vec::new();
        execution.finish(&mut body)?;
        statement
            .session
            .respond(statement.stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                out.extend_from_slice(&body);
                Ok(())
            });
        Ok(())
    }

    fn forward_read(
        &self,
        statement: &Statement<'_>,
        owner: ShardId,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let waiting = Waiting {
            session: statement.session.clone(),
            stream: statement.stream,
        };
        let ticket = self.forwards.borrow_mut().insert(waiting);
        let execution = OwnedExecution::new(statement.prepared, values, options);
        if self
            .mailbox(owner)
            .read(ForwardedRead {
                from: self.id,
                ticket,
                execution,
            })
            .is_err()
        {
            self.forwards.borrow_mut().remove(ticket);
            return Err(inbox_full());
        }
        statement.session.expect_answer();
        self.metrics.count_forwarded();
        Ok(())
    }

    pub(crate) fn read_forwarded(self: &Rc<Self>, read: &ForwardedRead) {
        let result = catch(|| self.read_directly(&read.execution));
        let mailbox = self.mailbox(read.from);
        match result.unwrap_or_else(|panicked| Err(panicked.error())) {
            Ok(Some(body)) => mailbox.answered(read.ticket, Ok(body)),
            Err(error) => mailbox.answered(read.ticket, Err(error)),
            Ok(None) => {
                let shard = self.clone();
                let (from, ticket, execution) = (read.from, read.ticket, read.execution.clone());
                self.spawn(async move {
                    let result = catch_async(shard.select_in_time(execution)).await;
                    let result = result.unwrap_or_else(|panicked| Err(panicked.error()));
                    shard.mailbox(from).answered(ticket, result);
                });
            }
        }
    }

    /// `None` if the read takes more than one step.
    fn read_directly(&self, execution: &OwnedExecution) -> Result<Option<Vec<u8>>, CqlError> {
        execution.with(|plan, values, options| {
            let Plan::Select(plan) = plan else { return Ok(None) };
            let mut body = Vec::new();
            let scratch = &mut *self.scratch.borrow_mut();
            let direct = plan.execute_direct(
                &mut CountingStore { shard: self },
                values,
                options,
                scratch,
                &mut body,
            )?;
            Ok((direct == Direct::Done).then_some(body))
        })
    }

    pub(crate) fn forward_answered(&self, ticket: Ticket, result: ForwardedResult) {
        let Some(Waiting { session, stream }) = self.forwards.borrow_mut().remove(ticket) else {
            return;
        };
        self.count_failure(&result);
        session.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
            out.extend_from_slice(&result?);
            Ok(())
        });
    }

    /// Any SELECT, on as many shards as it takes.
    fn select_later(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) {
        let execution = OwnedExecution::new(statement.prepared, values, options);
        let (session, stream) = (statement.session.clone(), statement.stream);
        let warning = match &statement.prepared.plan {
            Plan::Select(plan) => plan.warning(),
            _ => None,
        };
        let shard = self.clone();
        self.answer_later(statement.session, stream, async move {
            let result = shard.select_in_time(execution).await;
            shard.count_failure(&result);
            session.respond_later_warning(stream, Opcode::Result, warning.as_slice(), |out| {
                out.extend_from_slice(&result?);
                Ok(())
            });
        });
    }

    /// As [`Shard::select_everywhere`], given up when the configured time is over.
    async fn select_in_time(self: &Rc<Self>, owned: OwnedExecution) -> ForwardedResult {
        let timeout = match &owned.prepared.plan {
            Plan::Select(plan) if plan.is_range_scan() => self.options.range_request_timeout,
            _ => self.options.read_request_timeout,
        };
        let consistency = owned.options().consistency;
        let timed_out = CqlError::ReadTimeout {
            consistency,
            received: 0,
            block_for: 1,
            data_present: false,
        };
        tokio::time::timeout(timeout, self.select_everywhere(owned))
            .await
            .unwrap_or(Err(timed_out))
    }

    async fn select_everywhere(self: &Rc<Self>, owned: OwnedExecution) -> ForwardedResult {
        let owned = Arc::new(owned);
        let prepared: &Prepared = &owned.prepared;
        let Plan::Select(plan) = &prepared.plan else {
            return Ok(Vec::new());
        };
        let (values, options) = (owned.values.bound(), owned.options());
        let mut execution = SelectExecution::new(plan, &values, &options, self.options.shard_count)?;
        while let Some(read) = execution.next_read() {
            let rows = self.read_on(read, &owned).await?;
            execution.absorb(rows)?;
            // A scan is many reads: between two of them the shard serves others.
            tokio::task::yield_now().await;
        }
        let mut body = Vec::new();
        execution.finish(&mut body)?;
        Ok(body)
    }

    async fn read_on(
        self: &Rc<Self>,
        read: ShardRead,
        owned: &Arc<OwnedExecution>,
    ) -> Result<ShardRows, CqlError> {
        let (owned, shard) = (owned.clone(), read.shard);
        let answer = self.call(shard, move |shard| {
            owned.with(|plan, values, options| match plan {
                Plan::Select(plan) => {
                    plan.read_on_shard(&mut CountingStore { shard }, values, options, &read)
                }
                _ => Ok(ShardRows::default()),
            })
        });
        answer.await.unwrap_or_else(|| Err(self.no_answer_from(shard)))
    }
}
