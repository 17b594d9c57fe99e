//! Traced requests: answered like any other, with the id of a trace that `system_traces` has by then.
//!
//! A traced request runs in a session of its own; its answer is then passed on with the trace's id in front. So the
//! ordinary path knows nothing of tracing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;

use helenus_cql::ast::BatchKind;
use helenus_engine::term::{BoundValues, ColumnSpec};
use helenus_engine::{CqlError, Plan, QueryOptions};
use helenus_events::Event;
use helenus_protocol::frame::{Envelope, EnvelopeFlags};
use helenus_protocol::request::{QueryParameters, Request, Value, Values};
use helenus_protocol::wire::DecodeError;
use helenus_protocol::{Consistency, Opcode, ProtocolVersion};
use helenus_types::value::write_collection;

use crate::built_updates::{by_owner, packed};
use crate::deadline::Deadline;
use crate::session::{RequestContext, Session, TraceEvent};
use crate::shard::Shard;

/// Seconds that a trace is kept: Cassandra's `trace_type_query_ttl`.
const TRACE_TTL_S: u32 = 24 * 60 * 60;

const INSERT_SESSION: &str = "INSERT INTO system_traces.sessions (session_id, client, command, coordinator, \
     coordinator_port, duration, request, started_at, parameters) VALUES (?, ?, 'QUERY', ?, ?, ?, ?, ?, ?) USING TTL ?";

const INSERT_EVENT: &str = "INSERT INTO system_traces.events (session_id, event_id, activity, source, source_elapsed, \
     source_port, thread) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?";

/// Trace of a request, apart from its events.
struct Trace {
    id: [u8; 16],
    request: &'static str,
    parameters: BTreeMap<String, String>,
    client: IpAddr,
    started_us: i64,
    started_ns: u64,
}

/// Characters of a bound value that a trace keeps, at most: Cassandra's bound.
const VALUE_CHARACTERS_MAX: usize = 1_000;

impl Shard {
    pub(crate) fn handle_traced(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        envelope: &Envelope<'_>,
    ) -> Result<(), DecodeError> {
        let RequestContext { session, stream, .. } = context;
        let (request, parameters) = self.describe_request(envelope)?;
        let mut trace = Trace {
            id: *self.context.timestamps.new_timeuuid().as_bytes(),
            request,
            parameters,
            client: session.client().peer.ip(),
            started_us: self.context.clock.wall_us(),
            started_ns: self.context.clock.monotonic_ns(),
        };
        let traced = Rc::new(session.apart(session.conversation.traced()));
        self.context.trace(&traced, || request.to_owned());
        let traced_context = RequestContext {
            session: &traced,
            may_be_put_back: false,
            ..context
        };
        self.reader.counted(traced.conversation.traced_reads(), || {
            self.handle_untraced(traced_context, envelope)
        })?;
        let shard = self.clone();
        let answered = session.clone();
        self.context.answer_later(session, stream, async move {
            let answer = answer_of(&traced).await;
            answered.conversation.adopt_choices_of(&traced.conversation);
            shard
                .context
                .trace(&traced, || format!("Answered with {} bytes", answer.len()));
            if let Some(reads) = traced.conversation.traced_reads() {
                let read = reads.describe();
                trace
                    .parameters
                    .extend(read.map(|(name, value)| (name.to_owned(), value)));
            }
            // A trace that cannot be stored must not fail the request that it is about.
            if let Err(error) = shard.store_trace(&trace, traced.conversation.take_events()).await {
                shard.context.options.events.event(&Event::TraceNotStored {
                    shard: shard.context.id.0,
                    error: &error,
                });
            }
            if !answered.pass_on_traced(stream, &answer, trace.id) {
                // A session's output starts with a whole envelope, so this is a bug; the client still gets an answer.
                let error = CqlError::server(format_args!("The answer to a traced request was lost"));
                answered.respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error));
            }
        });
        Ok(())
    }

    /// Cassandra's words for the kind of request, and what it was sent with, by Cassandra's names.
    fn describe_request(
        &self,
        envelope: &Envelope<'_>,
    ) -> Result<(&'static str, BTreeMap<String, String>), DecodeError> {
        let (request, _payload) = Request::decode(envelope)?;
        let mut described = BTreeMap::new();
        let request = match request {
            Request::Query(query) => {
                describe_parameters(&mut described, &query.parameters);
                described.insert("query".to_owned(), query.text.to_owned());
                "Execute CQL3 query"
            }
            Request::Prepare(prepare) => {
                described.insert("query".to_owned(), prepare.text.to_owned());
                "Preparing CQL3 query"
            }
            Request::Execute(execute) => {
                describe_parameters(&mut described, &execute.parameters);
                if let Ok(prepared) = self.find_prepared(execute.statement_id) {
                    described.insert("query".to_owned(), prepared.query.to_string());
                    describe_values(&mut described, execute.parameters.values, &prepared.bind_columns);
                }
                "Execute CQL3 prepared query"
            }
            Request::Batch(batch) => {
                describe_parameters(&mut described, &batch.parameters);
                "Execute batch of CQL3 queries"
            }
            _ => return Err(DecodeError::UnexpectedMessage(envelope.header.opcode)),
        };
        Ok((request, described))
    }

    async fn store_trace(self: &Rc<Self>, trace: &Trace, events: Vec<TraceEvent>) -> Result<(), CqlError> {
        let node = self.node_state();
        let coordinator = address_bytes(node.address);
        let port = i32::from(node.storage_port).to_be_bytes();
        let elapsed = |at_ns: u64| {
            let elapsed_us = at_ns.saturating_sub(trace.started_ns) / 1_000;
            i32::try_from(elapsed_us).unwrap_or(i32::MAX).to_be_bytes()
        };
        let duration = elapsed(self.context.clock.monotonic_ns());
        let ttl = TRACE_TTL_S.to_be_bytes();
        let mut parameters = Vec::new();
        let pairs = trace
            .parameters
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        write_collection(&mut parameters, 2, pairs.collect::<Vec<_>>());
        let client = address_bytes(trace.client);
        let started_ms = (trace.started_us / 1_000).to_be_bytes();
        self.insert(
            INSERT_SESSION,
            &[
                &trace.id,
                &client,
                &coordinator,
                &port,
                &duration,
                trace.request.as_bytes(),
                &started_ms,
                &parameters,
                &ttl,
            ],
        )
        .await?;
        let thread = format!("shard-{}", self.context.id.0);
        for event in &events {
            let elapsed = elapsed(event.at_ns);
            let values: [&[u8]; 8] = [
                &trace.id,
                &event.id,
                event.activity.as_bytes(),
                &coordinator,
                &elapsed,
                &port,
                thread.as_bytes(),
                &ttl,
            ];
            self.insert(INSERT_EVENT, &values).await?;
        }
        Ok(())
    }

    /// Executes an INSERT of the node's own.
    async fn insert(self: &Rc<Self>, text: &str, values: &[&[u8]]) -> Result<(), CqlError> {
        let prepared = helenus_engine::prepare(&self.schema(), None, self.context.now(), text)?;
        let Plan::Modify(plan) = &prepared.plan else {
            return Ok(());
        };
        let values = BoundValues::positional(values.iter().map(|value| Value::Bytes(value)));
        let parameters = QueryParameters::new(Consistency::One);
        let options = QueryOptions {
            deadline_ns: self
                .context
                .deadline_after(self.context.options.write_request_timeout),
            ..self.context.options_of(
                ProtocolVersion::CURRENT,
                &parameters,
                self.context.timestamps.next_us(),
            )
        };
        let mut updates = Vec::new();
        plan.updates(
            &values,
            &options,
            &mut self.scratch.borrow_mut(),
            &mut |token, update| {
                updates.push(packed(token, update.to_vec())?);
                Ok(())
            },
        )?;
        let deadline = Deadline::of_write(&options);
        let updates = by_owner(updates, self.context.options.shard_count);
        self.write_by_partition(updates, BatchKind::Unlogged, deadline)
            .await
    }
}

fn describe_parameters(described: &mut BTreeMap<String, String>, parameters: &QueryParameters<'_>) {
    let mut describe = |name: &str, value: String| described.insert(name.to_owned(), value);
    describe("consistency_level", parameters.consistency.to_string());
    let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
    describe("serial_consistency_level", serial.to_string());
    if let Some(page_size) = parameters.page_size.filter(|page_size| *page_size > 0) {
        describe("page_size", page_size.to_string());
    }
}

fn describe_values(described: &mut BTreeMap<String, String>, values: Values<'_>, columns: &[ColumnSpec]) {
    for (index, column) in columns.iter().enumerate() {
        let value = if values.has_names() {
            let mut named = values.named();
            named
                .find(|(name, _)| *name == &*column.name)
                .map(|(_, value)| value)
        } else {
            values.iter().nth(index)
        };
        let bytes = value.and_then(Value::bytes);
        let mut literal = bytes.map_or("null".to_owned(), |bytes| column.cql_type.to_cql_literal(bytes));
        if let Some((end, _)) = literal.char_indices().nth(VALUE_CHARACTERS_MAX) {
            literal.truncate(end);
            literal.push_str("...'");
        }
        described.insert(format!("bound_var_{index}_{}", column.name), literal);
    }
}

/// The one envelope that a session of one request is answered with.
pub(crate) async fn answer_of(session: &Session) -> Vec<u8> {
    std::future::poll_fn(|context| {
        session.outbox().set_waker(context.waker());
        if session.outbox().has_output() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let mut answer = Vec::new();
    session.outbox().take(&mut answer);
    answer
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
