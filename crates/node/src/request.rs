//! From a whole message to its answer: find the plan, then read, write or do what is rarer.
//!
//! What needs only this shard is a plain function call from the envelope's bytes to the session's output. What needs
//! another shard, the log or the disk is answered later.

use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::{StatementClass, TokenBudget, ast};
use helenus_engine::error::PreparedId;
use helenus_engine::modify::{ModifyPlan, check_batch, unlogged_batch_warning, write_kind};
use helenus_engine::prepare::prepare_within;
use helenus_engine::select::BOUND_AT_ONCE_MAX;
use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan, Prepared};
use helenus_protocol::frame::{Envelope, EnvelopeFlags};
use helenus_protocol::request::{
    Batch, BatchKind, BatchQuery, BatchStatement, Execute, Prepare, Query, Request, Values,
};
use helenus_protocol::response::MetadataForm;
use helenus_protocol::wire::DecodeError;
use helenus_transport::deadline::nanoseconds;

use crate::deadline::Deadline;
use crate::execution::Statement;
use crate::forward::OwnedBatch;
use crate::metrics::RequestKind;
use crate::panic_boundary::catch;
use crate::session::RequestContext;
use crate::shard::Shard;

impl Shard {
    /// Takes one QUERY, PREPARE, EXECUTE or BATCH. Its answer is in the session's output when this returns, or comes
    /// there later and wakes the connection. An error means that the message could not be decoded; it has no answer yet.
    ///
    pub fn handle(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        envelope: &Envelope<'_>,
    ) -> Result<(), DecodeError> {
        if envelope.header.flags.contains(EnvelopeFlags::TRACING) {
            return self.handle_traced(context, envelope);
        }
        self.handle_untraced(context, envelope)
    }

    pub(crate) fn handle_untraced(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        envelope: &Envelope<'_>,
    ) -> Result<(), DecodeError> {
        let (request, _payload) = Request::decode(envelope)?;
        let begun_ns = self
            .context
            .foreground
            .is_sampled()
            .then(|| self.context.clock.monotonic_ns());
        let outcome = catch(|| match request {
            Request::Execute(execute) => Some(self.execute(context, &execute)),
            other => self.handle_text(context, envelope, &other),
        });
        let outcome = match outcome {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return Err(DecodeError::UnexpectedMessage(envelope.header.opcode)),
            Err(panicked) => Err(panicked.error()),
        };
        if let Err(error) = outcome {
            self.context.metrics.count_error(error.code());
            context.session.respond_error(context.stream, &error);
        }
        if let Some(begun_ns) = begun_ns {
            let took_ns = self.context.clock.monotonic_ns().saturating_sub(begun_ns);
            self.context.foreground.request_took(took_ns);
        }
        Ok(())
    }

    /// Handles a request that comes with a text; `None` for what is no statement. Apart, so that EXECUTE pays nothing for it.
    #[inline(never)]
    fn handle_text(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        envelope: &Envelope<'_>,
        request: &Request<'_>,
    ) -> Option<Result<(), CqlError>> {
        match request {
            Request::Query(query) if self.planner.plans_at_once(query.text) => {
                Some(self.query(context, query))
            }
            Request::Batch(batch) if self.planner.plans_batch_at_once(batch, envelope.body.len()) => {
                Some(self.batch(context, batch))
            }
            Request::Prepare(prepare) if self.planner.plans_at_once(prepare.text) => {
                Some(self.prepare(context, prepare))
            }
            Request::Query(Query { text, .. }) | Request::Prepare(Prepare { text, .. }) => {
                self.handle_beside(context, envelope, StatementClass::of(text));
                Some(Ok(()))
            }
            Request::Batch(_) => {
                self.handle_beside(context, envelope, StatementClass::Write);
                Some(Ok(()))
            }
            _ => None,
        }
    }

    fn execute(self: &Rc<Self>, context: RequestContext<'_>, execute: &Execute<'_>) -> Result<(), CqlError> {
        let prepared = self.find_prepared(execute.statement_id)?;
        self.context.metrics.count_prepared();
        self.run_statement(&Statement {
            request: context,
            prepared: &prepared,
            parameters: &execute.parameters,
            is_prepared: true,
            result_metadata_id: execute.result_metadata_id,
        })
    }

    fn query(self: &Rc<Self>, context: RequestContext<'_>, query: &Query<'_>) -> Result<(), CqlError> {
        let keyspace = context.session.conversation.keyspace();
        let keyspace = query.parameters.keyspace.or(keyspace.as_deref());
        self.context
            .trace(context.session, || format!("Parsing {}", query.text));
        let prepared = Arc::new(helenus_engine::prepare(
            &self.schema(),
            keyspace,
            self.context.now(),
            query.text,
        )?);
        self.context
            .trace(context.session, || "Preparing statement".to_owned());
        self.query_planned(context, query, &prepared)
    }

    pub(crate) fn query_planned(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        query: &Query<'_>,
        prepared: &Arc<Prepared>,
    ) -> Result<(), CqlError> {
        self.context.metrics.count_text();
        self.run_statement(&Statement {
            request: context,
            prepared,
            parameters: &query.parameters,
            is_prepared: false,
            result_metadata_id: None,
        })
    }

    pub(crate) fn find_prepared(&self, id: &[u8]) -> Result<Arc<Prepared>, CqlError> {
        // An id of another length cannot be ours; the error names its first bytes.
        let mut bytes = [0; 16];
        let known = id.len().min(bytes.len());
        bytes[..known].copy_from_slice(&id[..known]);
        let found = self.prepared.borrow_mut().find(&PreparedId(bytes)).cloned();
        found
            .filter(|_| id.len() == bytes.len())
            .ok_or(CqlError::Unprepared(PreparedId(bytes)))
    }

    fn run_statement(self: &Rc<Self>, statement: &Statement<'_>) -> Result<(), CqlError> {
        let Statement {
            request,
            prepared,
            parameters,
            is_prepared,
            ..
        } = *statement;
        let mut values = BoundValues::EMPTY;
        values.add(parameters.values, &prepared.bind_columns, is_prepared)?;
        let copies = self.context.options.copy_rule;
        copies.check(&self.schema.borrow(), &prepared.plan, parameters.consistency)?;
        let metadata_form = metadata_form(statement, prepared);
        // What only reads is given no time of its own, so that what the node asks itself changes no ballot.
        let server_timestamp_us = match &statement.prepared.plan {
            Plan::Select(_) => self.context.clock.wall_us(),
            _ => self.context.timestamps.next_us(),
        };
        let version = request.session.version();
        let mut options = self.context.options_of(version, parameters, server_timestamp_us);
        options.metadata_form = metadata_form;
        let own_timeout = match &prepared.timeout {
            None => None,
            Some(timeout) => timeout.evaluate(&values, &options)?.map(nanoseconds),
        };
        let timeout_ns = own_timeout.unwrap_or_else(|| self.context.timeouts.of_plan(&prepared.plan));
        options.deadline_ns = self.context.deadline_of(&request, timeout_ns)?;
        let RequestContext { session, stream, .. } = request;
        let kind = kind_of(&prepared.plan);
        self.context.metrics.count_request(kind, &request);
        match &prepared.plan {
            Plan::Select(plan) => self.select(statement, plan, &values, &options),
            Plan::Modify(plan) if plan.is_conditional() => {
                statement.with_made_keys(&values, &options, |made| {
                    self.modify_conditionally(made, &values, &options)
                })
            }
            Plan::Modify(plan) if plan.needs_read() => statement.with_made_keys(&values, &options, |made| {
                self.modify_reading(made, &values, &options)
            }),
            Plan::Modify(plan) => self.modify(statement, plan, &values, &options),
            Plan::Batch(plan) if plan.is_conditional() => {
                statement.with_made_keys(&values, &options, |made| {
                    self.modify_conditionally(made, &values, &options)
                })
            }
            Plan::Batch(plan) if plan.needs_read() => statement.with_made_keys(&values, &options, |made| {
                self.modify_reading(made, &values, &options)
            }),
            Plan::Batch(plan) => self.modify_batch(statement, plan, &values, &options),
            Plan::Transaction(_) => {
                statement.with_made_keys(&values, &options, |made| self.transact(made, &values, &options))
            }
            Plan::Use(keyspace) => self.use_keyspace(session, stream, keyspace),
            Plan::Truncate(table) => self.truncate_table(session, stream, table, &options),
            Plan::Prune(plan) => self.prune_view(statement, plan, &values, &options),
            Plan::Schema(change) => {
                self.change_schema_later(statement, change);
                Ok(())
            }
            Plan::Role(role) => {
                self.run_role_statement_later(session, stream, (**role).clone());
                Ok(())
            }
            Plan::Describe(description) => {
                self.describe_later(session, stream, description, &options);
                Ok(())
            }
        }
    }
}

fn kind_of(plan: &Plan) -> RequestKind {
    match plan {
        Plan::Select(_) => RequestKind::Read,
        Plan::Modify(_) => RequestKind::Write,
        Plan::Batch(_) | Plan::Transaction(_) => RequestKind::Batch,
        Plan::Use(_)
        | Plan::Truncate(_)
        | Plan::Prune(_)
        | Plan::Schema(_)
        | Plan::Role(_)
        | Plan::Describe(_) => RequestKind::Other,
    }
}

/// How much metadata the rows bring: what the client asked for, unless it holds an old one (v5).
fn metadata_form<'a>(statement: &Statement<'_>, prepared: &'a Prepared) -> MetadataForm<'a> {
    match (statement.result_metadata_id, &prepared.result) {
        (Some(held), Some(result)) if held != result.id => MetadataForm::Changed { new_id: &result.id },
        _ if statement.parameters.skip_metadata => MetadataForm::Skipped,
        _ => MetadataForm::Full,
    }
}

/// A statement of a BATCH message, with its values still in the message.
pub(crate) struct BatchMember<'a> {
    pub(crate) prepared: Arc<Prepared>,
    values: Values<'a>,
    is_prepared: bool,
}

impl Shard {
    fn batch(self: &Rc<Self>, context: RequestContext<'_>, batch: &Batch<'_>) -> Result<(), CqlError> {
        let keyspace = context.session.conversation.keyspace();
        let keyspace = batch.parameters.keyspace.or(keyspace.as_deref());
        let (schema, now) = (self.schema(), self.context.now());
        let mut budget = TokenBudget::default();
        let members = self.batch_members(&context, batch, |text| {
            prepare_within(&schema, keyspace, now, text, &mut budget).map(Arc::new)
        });
        self.batch_planned(context, batch, &members?)
    }

    pub(crate) fn batch_planned(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        batch: &Batch<'_>,
        members: &[BatchMember<'_>],
    ) -> Result<(), CqlError> {
        let RequestContext { session, stream, .. } = context;
        let plans = || {
            members.iter().filter_map(|member| match &member.prepared.plan {
                Plan::Modify(plan) => Some(&**plan),
                _ => None,
            })
        };
        if plans().count() != members.len() {
            return Err(CqlError::invalid(format_args!(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
            )));
        }
        let kind = match batch.kind {
            BatchKind::Logged => ast::BatchKind::Logged,
            BatchKind::Unlogged => ast::BatchKind::Unlogged,
            BatchKind::Counter => ast::BatchKind::Counter,
        };
        check_batch(kind, false, false, plans())?;
        for member in members {
            let (copies, consistency) = (self.context.options.copy_rule, batch.parameters.consistency);
            copies.check(&self.schema.borrow(), &member.prepared.plan, consistency)?;
        }
        let server_timestamp_us = self.context.timestamps.next_us();
        let mut options = self
            .context
            .options_of(session.version(), &batch.parameters, server_timestamp_us);
        options.deadline_ns = self
            .context
            .deadline_of(&context, self.context.timeouts.write_ns)?;
        let bound = bound_values(members)?;
        if plans().any(ModifyPlan::is_conditional) {
            return self.batch_conditionally(session, stream, members, &bound, &options);
        }
        if plans().any(ModifyPlan::needs_read) {
            return Err(CqlError::invalid(format_args!(
                "List operations that read before they write are not supported yet in a BATCH message; send a batch \
                 statement instead"
            )));
        }
        let kind = write_kind(kind, plans().next());
        let warning = |partitions| unlogged_batch_warning(kind, partitions, plans());
        let deadline = Deadline::of_batch(&options, kind);
        let long = plans().zip(&bound).filter(|(plan, _)| !plan.is_short_to_build());
        let long_count = long.map(|(plan, values)| plan.named_count(values));
        if long_count.fold(0, u64::saturating_add) > BOUND_AT_ONCE_MAX {
            let owned = members.iter().zip(&bound);
            let owned = owned.map(|(member, values)| (member.prepared.clone(), values.to_owned_values()));
            let owned = OwnedBatch::new(
                owned.collect(),
                &options,
                &self.context.account_of_session(session),
            );
            self.batch_beside(session, stream, kind, deadline, owned);
            return Ok(());
        }
        self.modify_all(session, stream, kind, deadline, warning, |scratch, emit| {
            plans()
                .zip(&bound)
                .try_for_each(|(plan, values)| plan.updates_in_batch(values, &options, scratch, emit))
        })
    }

    /// `plan` is asked for a plan of each text in its turn.
    pub(crate) fn batch_members<'a>(
        &self,
        context: &RequestContext<'_>,
        batch: &Batch<'a>,
        mut plan: impl FnMut(&str) -> Result<Arc<Prepared>, CqlError>,
    ) -> Result<Vec<BatchMember<'a>>, CqlError> {
        self.context.metrics.count_request(RequestKind::Batch, context);
        let member = |query: BatchQuery<'a>| {
            let (prepared, is_prepared) = match query.statement {
                BatchStatement::Prepared(id) => (self.find_prepared(id)?, true),
                BatchStatement::Text(text) => (plan(text)?, false),
            };
            Ok(BatchMember {
                prepared,
                values: query.values,
                is_prepared,
            })
        };
        batch.queries.iter().map(member).collect()
    }
}

/// The values of each statement of a batch, still in its message.
fn bound_values<'a>(members: &'a [BatchMember<'_>]) -> Result<Vec<BoundValues<'a>>, CqlError> {
    let bound = members.iter().map(|member| {
        let columns = &member.prepared.bind_columns;
        BoundValues::resolve(member.values, columns, member.is_prepared)
    });
    bound.collect()
}
