//! `POST /v1/batch`: several writes together.

use std::borrow::Cow;
use std::rc::Rc;

use helenus_protocol::request::BatchKind;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bounded::Bounded;
use super::json_values::JsonValues;
use super::options::Execution;
use super::rows::{self, RowForm};
use super::{JSON, parse, read_json, whole};
use crate::body::Body;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::routes::Received;
use crate::statements::{Member, check_reads};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequest<'a> {
    #[serde(borrow)]
    statements: Bounded<MemberRequest<'a>>,
    #[serde(default, rename = "type")]
    kind: Kind,
    keyspace: Option<String>,
    consistency: Option<String>,
    serial_consistency: Option<String>,
    timestamp: Option<i64>,
    now_in_seconds: Option<u32>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    tracing: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberRequest<'a> {
    #[serde(borrow)]
    query: Cow<'a, str>,
    #[serde(borrow, default)]
    values: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    #[default]
    Logged,
    Unlogged,
    Counter,
}

impl From<Kind> for BatchKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Logged => BatchKind::Logged,
            Kind::Unlogged => BatchKind::Unlogged,
            Kind::Counter => BatchKind::Counter,
        }
    }
}

impl BatchRequest<'_> {
    fn execution(&mut self) -> Execution {
        Execution {
            keyspace: self.keyspace.take(),
            consistency: self.consistency.take(),
            serial_consistency: self.serial_consistency.take(),
            timestamp: self.timestamp,
            now_in_seconds: self.now_in_seconds,
            timeout_ms: self.timeout_ms,
            tracing: self.tracing,
            ..Execution::default()
        }
    }
}

/// Answers it.
pub async fn answer(caller: &Rc<Caller>, received: Received) -> Result<Response<Body>, Failure> {
    let client = caller.client(received.request.headers(), "helenus http").await?;
    let body = read_json(caller, received.request).await?;
    let mut request: BatchRequest = parse(&body.bytes)?;
    let options = request.execution().options(caller.since(received.received_ns))?;
    let clock = &*caller.state.clock;
    let values = request
        .statements
        .0
        .iter()
        .map(|member| JsonValues::of(member.values, clock));
    let values: Vec<JsonValues> = values.collect::<Result<_, _>>()?;
    let mut members = Vec::new();
    for (member, values) in request.statements.0.iter().zip(&values) {
        check_reads(&member.query, caller.state.is_read_only)?;
        let text = &*member.query;
        members.push(Member { text, values });
    }
    let statements = &caller.state.statements;
    let answer = statements
        .execute_batch(&client, request.kind.into(), &members, &options)
        .await?;
    let document = rows::document(&answer, RowForm::Objects)?;
    let taken = caller.memory.take(document.len())?;
    Ok(whole(StatusCode::OK, JSON, taken.charge(document)))
}
