//! Traced requests: answered like any other, with the id of a trace that `system_traces` has by then.
//!
//! A traced request runs in a session of its own; its answer is then passed on with the trace's id in front. So the
//! ordinary path knows nothing of tracing.

use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;

use helenus_engine::term::BoundValues;
use helenus_engine::{CqlError, Plan, QueryOptions};
use helenus_protocol::frame::Envelope;
use helenus_protocol::request::{QueryParameters, Request, Value};
use helenus_protocol::wire::DecodeError;
use helenus_protocol::{Consistency, ProtocolVersion};
use helenus_types::value::write_collection;

use crate::patience::Patience;
use crate::session::Session;
use crate::shard::Shard;

/// Seconds that a trace is kept: Cassandra's `trace_type_query_ttl`.
const TRACE_TTL_S: u32 = 24 * 60 * 60;

const INSERT_SESSION: &str = "INSERT INTO system_traces.sessions (session_id, client, command, coordinator, \
     coordinator_port, duration, request, started_at, parameters) VALUES (?, ?, 'QUERY', ?, ?, ?, ?, ?, ?) USING TTL ?";

const INSERT_EVENT: &str = "INSERT INTO system_traces.events (session_id, event_id, activity, source, source_elapsed, \
     source_port, thread) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?";

/// What a trace tells of a request.
struct Trace {
    id: [u8; 16],
    request: &'static str,
    query: Option<String>,
    client: IpAddr,
    started_us: i64,
}

impl Shard {
    pub(crate) fn handle_traced(
        self: &Rc<Self>,
        session: &Rc<Session>,
        envelope: &Envelope<'_>,
    ) -> Result<(), DecodeError> {
        let (request, query) = describe(envelope)?;
        let trace = Trace {
            id: *self.new_timeuuid().as_bytes(),
            request,
            query,
            client: session.peer(),
            started_us: self.clock.wall_us(),
        };
        let traced = Rc::new(Session::new(session.version()));
        if let Some(keyspace) = session.keyspace() {
            traced.set_keyspace(keyspace);
        }
        if let Some(user) = session.user() {
            traced.set_user(user);
        }
        traced.set_received_ns(session.received_ns());
        self.handle_untraced(&traced, envelope)?;
        let stream = envelope.header.stream;
        let shard = self.clone();
        let answered = session.clone();
        self.answer_later(session, stream, async move {
            let answer = answer_of(&traced).await;
            if let Some(keyspace) = traced.keyspace() {
                answered.set_keyspace(keyspace);
            }
            // A trace that cannot be stored must not fail the request that it is about.
            if let Err(error) = shard.store_trace(&trace, answer.len()).await {
                eprintln!("shard {}: a trace was not stored: {error}", shard.id.0);
            }
            answered.pass_on_traced(stream, &answer, trace.id);
        });
        Ok(())
    }

    async fn store_trace(self: &Rc<Self>, trace: &Trace, answer_bytes: usize) -> Result<(), CqlError> {
        let node = self.node_state();
        let coordinator = address_bytes(node.address);
        let port = i32::from(node.storage_port).to_be_bytes();
        let duration_us = self.clock.wall_us() - trace.started_us;
        let duration = i32::try_from(duration_us).unwrap_or(i32::MAX).to_be_bytes();
        let ttl = TRACE_TTL_S.to_be_bytes();
        let mut parameters = Vec::new();
        let pairs = trace
            .query
            .iter()
            .flat_map(|query| [b"query".as_slice(), query.as_bytes()]);
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
        let thread = format!("shard-{}", self.id.0);
        let answered = format!("Answered with {answer_bytes} bytes");
        for (activity, elapsed) in [
            (trace.request, 0_i32.to_be_bytes()),
            (answered.as_str(), duration),
        ] {
            let event_id = *self.new_timeuuid().as_bytes();
            let values: [&[u8]; 8] = [
                &trace.id,
                &event_id,
                activity.as_bytes(),
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
        let prepared = helenus_engine::prepare(&self.schema(), None, text)?;
        let Plan::Modify(plan) = &prepared.plan else {
            return Ok(());
        };
        let values = BoundValues::positional(values.iter().map(|value| Value::Bytes(value)));
        let parameters = QueryParameters::new(Consistency::One);
        let options = QueryOptions {
            deadline_ns: self.deadline_after(self.options.write_request_timeout),
            ..self.options_of(ProtocolVersion::CURRENT, &parameters)
        };
        let mut updates = Vec::new();
        plan.updates(
            &values,
            &options,
            &mut self.scratch.borrow_mut(),
            &mut |_, update| {
                updates.push(update.to_vec());
                Ok(())
            },
        )?;
        let patience = Patience::of_write(&options);
        self.write_by_partition(self.by_owner(updates), patience).await
    }
}

/// Cassandra's words for the kind of request, and the text of its statement if it has one.
fn describe(envelope: &Envelope<'_>) -> Result<(&'static str, Option<String>), DecodeError> {
    let (request, _payload) = Request::decode(envelope)?;
    Ok(match request {
        Request::Query(query) => ("Execute CQL3 query", Some(query.text.to_owned())),
        Request::Prepare(prepare) => ("Preparing CQL3 query", Some(prepare.text.to_owned())),
        Request::Execute(_) => ("Execute CQL3 prepared query", None),
        _ => ("Execute batch of CQL3 queries", None),
    })
}

/// The one envelope that a session of one request is answered with.
pub(crate) async fn answer_of(session: &Session) -> Vec<u8> {
    std::future::poll_fn(|context| {
        session.set_waker(context.waker());
        if session.has_output() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let mut answer = Vec::new();
    session.take_output(&mut answer);
    answer
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
