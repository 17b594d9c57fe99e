//! Conditional statements and batches: brought to the shard that owns their partition, decided there in one turn
//! ([`crate::decide`]), and answered once that is durable.
//!
//! Where the partition is this shard's and what is read lies in memory, all of it is a function call.

use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::modify::{ConditionalMember, ConditionalOutcome, ConditionalRequest};
use helenus_engine::term::{BoundValues, OwnedValues};
use helenus_engine::{CqlError, Plan, Prepared, QueryOptions};
use helenus_protocol::extensions::RateLimitedOperation;
use helenus_storage::read_state::ReadState;
use helenus_transport::request_memory::Held;
use helenus_types::{ShardId, Token};

use crate::built_updates::packed;
use crate::deadline::Deadline;
use crate::decide::{Decide, Run, Tried, Updates};
use crate::execution::Statement;
use crate::forward::{ForwardedAnswer, OwnedExecution};
use crate::request::BatchMember;
use crate::session::Session;
use crate::shard::{Acknowledgement, Shard};

/// A conditional request, free of the message it came in.
enum OwnedConditional {
    /// Also a batch whose statements came as one text.
    Statement(OwnedExecution),
    Batch {
        members: Vec<(Arc<Prepared>, OwnedValues)>,
        options: QueryOptions<'static>,
        /// Memory that the batch keeps, charged to the client that sent it.
        _held: Option<Held>,
    },
}

/// One that is bound.
struct Conditional<'r> {
    request: &'r ConditionalRequest<'r>,
    server_timestamp_us: i64,
    partition: [Token; 1],
    state: ReadState,
}

/// One that is bound anew in each run.
struct OwnedDecision {
    owned: OwnedConditional,
    partition: [Token; 1],
    state: ReadState,
}

impl OwnedConditional {
    fn with<T>(
        &self,
        work: impl FnOnce(&ConditionalRequest<'_>, &QueryOptions<'_>) -> Result<T, CqlError>,
    ) -> Result<T, CqlError> {
        match self {
            OwnedConditional::Statement(owned) => owned.with(|plan, values, options| {
                let (members, is_batch) = members_of(plan, values);
                ConditionalRequest::with_bound(&members, is_batch, options, |request| work(request, options))
            }),
            OwnedConditional::Batch { members, options, .. } => {
                let values: Vec<BoundValues<'_>> = members.iter().map(|(_, values)| values.bound()).collect();
                let members: Vec<ConditionalMember<'_>> = members
                    .iter()
                    .zip(&values)
                    .filter_map(|((prepared, _), values)| member_of(prepared, values))
                    .collect();
                ConditionalRequest::with_bound(&members, true, options, |request| work(request, options))
            }
        }
    }
}

/// The statements of a plan, and whether they are a batch.
fn members_of<'r>(plan: &'r Plan, values: &'r BoundValues<'r>) -> (Vec<ConditionalMember<'r>>, bool) {
    match plan {
        Plan::Modify(plan) => (vec![ConditionalMember { plan, values }], false),
        Plan::Batch(batch) => {
            let members = batch.statements.iter();
            (
                members.map(|plan| ConditionalMember { plan, values }).collect(),
                true,
            )
        }
        _ => (Vec::new(), false),
    }
}

fn member_of<'r>(prepared: &'r Prepared, values: &'r BoundValues<'r>) -> Option<ConditionalMember<'r>> {
    match &prepared.plan {
        Plan::Modify(plan) => Some(ConditionalMember { plan, values }),
        _ => None,
    }
}

impl Decide for Conditional<'_> {
    type Answer = ForwardedAnswer;

    fn partitions(&self) -> &[Token] {
        &self.partition
    }

    fn run(&mut self, shard: &Rc<Shard>) -> Result<Run<ForwardedAnswer>, CqlError> {
        shard.run_conditional(self.request, self.server_timestamp_us, &mut self.state)
    }

    fn read_state(&self) -> &ReadState {
        &self.state
    }
}

impl Decide for OwnedDecision {
    type Answer = ForwardedAnswer;

    fn partitions(&self) -> &[Token] {
        &self.partition
    }

    fn run(&mut self, shard: &Rc<Shard>) -> Result<Run<ForwardedAnswer>, CqlError> {
        let state = &mut self.state;
        self.owned
            .with(|request, options| shard.run_conditional(request, options.server_timestamp_us, state))
    }

    fn read_state(&self) -> &ReadState {
        &self.state
    }
}

impl Shard {
    /// Executes a conditional statement, or a batch whose statements came as one plan.
    pub(crate) fn modify_conditionally(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let (session, stream) = (statement.request.session, statement.request.stream);
        let own = || {
            let account = self.context.account_of_session(session);
            OwnedConditional::Statement(OwnedExecution::new(statement, values, options, &account))
        };
        // Nearly all are no batches, and take nothing from the heap for this.
        if let Plan::Modify(plan) = &statement.prepared.plan {
            let member = [ConditionalMember { plan, values }];
            return ConditionalRequest::with_bound(&member, false, options, |request| {
                self.decide_conditionally(session, stream, request, options, own)
            });
        }
        let (members, is_batch) = members_of(&statement.prepared.plan, values);
        ConditionalRequest::with_bound(&members, is_batch, options, |request| {
            self.decide_conditionally(session, stream, request, options, own)
        })
    }

    /// Executes a BATCH message of which a statement is conditional.
    pub(crate) fn batch_conditionally(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        members: &[BatchMember<'_>],
        values: &[BoundValues<'_>],
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let made = members
            .iter()
            .zip(values)
            .map(|(member, values)| match member.prepared.makes_keys() {
                true => member.prepared.with_made_keys(values, options),
                false => Ok(member.prepared.clone()),
            });
        let members: Vec<Arc<Prepared>> = made.collect::<Result<_, CqlError>>()?;
        let bound: Vec<ConditionalMember<'_>> = members
            .iter()
            .zip(values)
            .filter_map(|(prepared, values)| member_of(prepared, values))
            .collect();
        let own = || {
            let members: Vec<_> = members
                .iter()
                .zip(values)
                .map(|(prepared, values)| (prepared.clone(), values.to_owned_values()))
                .collect();
            let kept = members.iter().map(|(_, values)| values.heap_bytes()).sum();
            OwnedConditional::Batch {
                members,
                options: options.without_paging(),
                _held: self.context.waiting(session, kept),
            }
        };
        ConditionalRequest::with_bound(&bound, true, options, |request| {
            self.decide_conditionally(session, stream, request, options, own)
        })
    }

    fn decide_conditionally(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        request: &ConditionalRequest<'_>,
        options: &QueryOptions<'_>,
        own: impl FnOnce() -> OwnedConditional,
    ) -> Result<(), CqlError> {
        let deadline = Deadline::of_conditional(options);
        let owner = self.context.owner_of(request.token());
        let mut state = ReadState::suspending();
        self.context.trace(session, || {
            format!("Deciding on {} on shard-{}", request.table().name, owner.0)
        });
        if owner == self.context.id {
            self.rates
                .check(request.table(), RateLimitedOperation::Write, request.token())?;
            let mut decision = Conditional {
                request,
                server_timestamp_us: options.server_timestamp_us,
                partition: [request.token()],
                state,
            };
            let tried = self.try_decide(&mut decision)?;
            if let Tried::Decided { answer, certain_at } = tried {
                session.expect_answer();
                match certain_at {
                    None => {
                        self.context.answer_with(session, stream, &answer);
                        self.scratch.borrow_mut().give_back_answer(answer.body);
                    }
                    Some(position) => {
                        let acknowledgement = Acknowledgement::Answer {
                            session: session.clone(),
                            stream,
                            answer,
                        };
                        self.persistence
                            .acknowledge_at(position, deadline, acknowledgement);
                    }
                }
                return Ok(());
            }
            state = decision.state;
        }
        let decision = OwnedDecision {
            owned: own(),
            partition: [request.token()],
            state,
        };
        self.decide_later(session, stream, owner, decision, deadline);
        Ok(())
    }

    /// On the shard that owns the partition, and after what has to be waited for.
    fn decide_later(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        owner: ShardId,
        decision: OwnedDecision,
        deadline: Deadline,
    ) {
        let (shard, answered) = (self.clone(), session.clone());
        self.context.answer_later(session, stream, async move {
            let is_elsewhere = owner != shard.context.id;
            let mut decision = decision;
            let decided = shard.ask(owner, move |shard| async move {
                if is_elsewhere {
                    shard.check_rate_of_conditional(&decision)?;
                }
                shard.decide(&mut decision, deadline).await
            });
            let in_time = shard.context.in_time(deadline, decided).await;
            shard.context.answer_read(&answered, stream, in_time);
        });
    }

    fn check_rate_of_conditional(&self, decision: &OwnedDecision) -> Result<(), CqlError> {
        if !self.rates.has_limits() {
            return Ok(());
        }
        decision.owned.with(|request, _| {
            self.rates
                .check(request.table(), RateLimitedOperation::Write, request.token())
        })
    }

    /// One run, in one turn.
    fn run_conditional(
        &self,
        request: &ConditionalRequest<'_>,
        server_timestamp_us: i64,
        state: &mut ReadState,
    ) -> Result<Run<ForwardedAnswer>, CqlError> {
        let scratch = &mut *self.scratch.borrow_mut();
        let store = &mut self.reader.counting_store();
        let ballot_us = &mut |newest_us| self.context.timestamps.ballot_us(newest_us, server_timestamp_us);
        let (update, body) = match request.run(store, state, scratch, ballot_us)? {
            ConditionalOutcome::Absent(absent) => return Ok(Run::Absent(absent)),
            ConditionalOutcome::Decided { update, body } => (update, body),
        };
        let update = update.map(|update| packed(request.token(), update)).transpose()?;
        let mut answer = ForwardedAnswer::from(body);
        let guardrails = &self.context.options.guardrails.values;
        if let Some(update) = update.as_ref().filter(|_| guardrails.is_enabled()) {
            answer.warnings = guardrails.check(&self.schema(), update.bytes())?;
        }
        Ok(Run::Decided {
            updates: Updates::OfOne(update),
            answer,
        })
    }
}
