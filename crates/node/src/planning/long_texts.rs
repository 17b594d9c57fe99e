//! Requests whose texts take too long to be planned on the shard's thread.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_cql::StatementClass;
use helenus_engine::{CqlError, Prepared};
use helenus_protocol::Opcode;
use helenus_protocol::frame::{Envelope, EnvelopeFlags};
use helenus_protocol::request::Request;
use helenus_transport::request_memory::{Account, Held};

use super::{Message, PLANNINGS_MAX, Plans};
use crate::deadline::not_begun_in_time;
use crate::panic_boundary::Panicked;
use crate::session::{RequestContext, Session};
use crate::shard::{Shard, is_valid};
use crate::unavailable::node_is_stopping;

impl Shard {
    /// Takes a request whose texts are too long to be planned on this thread. How long it may wait goes by its class:
    /// preparing takes no longer than what is prepared.
    pub(crate) fn handle_beside(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        envelope: &Envelope<'_>,
        class: StatementClass,
    ) {
        let RequestContext {
            session,
            stream,
            received_ns,
            latest_ns,
            ..
        } = context;
        let held = Held::nothing_of(&self.context.account_of_session(session));
        // The connection begins no more while memory is full; this one was let in.
        held.set(envelope.body.len());
        let message = Arc::new(Message {
            header: envelope.header,
            body: envelope.body.into(),
        });
        let keyspace = session.conversation.keyspace();
        let (shard, answered) = (self.clone(), session.clone());
        self.context.answer_later(session, stream, async move {
            let timeout_ns = shard.context.timeouts.of_class(class);
            let deadline_ns = received_ns.saturating_add(timeout_ns).min(latest_ns);
            let outcome = match shard
                .plan_beside(held.account(), &message, &keyspace, deadline_ns)
                .await
            {
                Ok(plans) => {
                    shard.context.look_at_clock();
                    let used: Vec<_> = plans.iter().flatten().cloned().collect();
                    let context = RequestContext {
                        session: &answered,
                        stream,
                        received_ns,
                        latest_ns,
                        may_be_put_back: false,
                    };
                    let outcome = shard.handle_planned(context, &message, plans);
                    // What was prepared is kept, unless it is refused: for its size, as a rule.
                    if message.header.opcode != Opcode::Prepare || outcome.is_err() {
                        shard.planner.retire(used.into_iter().map(|plan| plan as _));
                    }
                    outcome
                }
                Err(error) => Err(error),
            };
            shard.context.count_failure(&outcome);
            match outcome {
                Ok(()) => answered.answer_came(),
                Err(error) => {
                    answered.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error))
                }
            }
        });
    }

    /// Plans that are of this shard's schema when they come.
    async fn plan_beside(
        &self,
        asker: &Arc<Account>,
        message: &Arc<Message>,
        keyspace: &Option<Arc<str>>,
        deadline_ns: u64,
    ) -> Result<Plans, CqlError> {
        for _ in 0..PLANNINGS_MAX {
            let (schema, message, keyspace) = (self.schema(), message.clone(), keyspace.clone());
            let now = self.context.now();
            let work = move || message.plan(&schema, keyspace.as_deref(), now);
            let left_ns = deadline_ns.saturating_sub(self.context.clock.monotonic_ns());
            let planned = self.planner.run(asker, work);
            let planned = tokio::time::timeout(Duration::from_nanos(left_ns), planned).await;
            let plans = planned
                .map_err(|_| not_begun_in_time())??
                .ok_or_else(|| self.no_plan())?;
            let schema = self.schema();
            if plans.iter().flatten().all(|plan| is_valid(&plan.plan, &schema)) {
                return Ok(plans);
            }
        }
        Err(CqlError::overloaded(format_args!(
            "The schema has changed {PLANNINGS_MAX} times while the statement was planned"
        )))
    }

    /// A statement's plan for the schema that there is now.
    pub(crate) async fn plan_again(
        &self,
        session: &Rc<Session>,
        prepared: &Arc<Prepared>,
    ) -> Result<Prepared, CqlError> {
        let (schema, outdated, now) = (self.schema(), prepared.clone(), self.context.now());
        let plan =
            move || helenus_engine::prepare(&schema, outdated.keyspace.as_deref(), now, &outdated.query);
        if self.planner.plans_at_once(&prepared.query) {
            return plan();
        }
        self.planner
            .run(&self.context.account_of_session(session), plan)
            .await?
            .ok_or_else(|| self.no_plan())?
    }

    /// The planner has given no answer.
    pub(crate) fn no_plan(&self) -> CqlError {
        if self.context.mailbox(self.context.id).is_closed() {
            node_is_stopping()
        } else {
            Panicked.error()
        }
    }

    fn handle_planned(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        message: &Message,
        plans: Plans,
    ) -> Result<(), CqlError> {
        let mut plans = plans.into_iter();
        let mut next = || plans.next().unwrap_or_else(|| Err(self.no_plan()));
        match Request::decode(&message.envelope()) {
            Ok((Request::Query(query), _)) => self.query_planned(context, &query, &next()?),
            Ok((Request::Prepare(_), _)) => self.prepare_planned(context, next()),
            Ok((Request::Batch(batch), _)) => {
                let members = self.batch_members(&context, &batch, |_| next());
                self.batch_planned(context, &batch, &members?)
            }
            _ => Err(self.no_plan()),
        }
    }
}
