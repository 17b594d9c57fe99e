//! `POST /v1/query`: one statement.

use std::borrow::Cow;
use std::rc::Rc;

use helenus_node::Handle;
use helenus_node::handle::RequestOptions;
use http::header::ACCEPT;
use http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::json_values::JsonValues;
use super::options::Execution;
use super::pages::PageForm;
use super::rows::{self, RowForm};
use super::{JSON, pages, parse, read_json, whole};
use crate::body::Body;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::routes::Received;
use crate::statements::check_reads;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryRequest<'a> {
    #[serde(borrow)]
    query: Cow<'a, str>,
    #[serde(borrow, default)]
    values: Option<&'a RawValue>,
    #[serde(default)]
    rows: RowForm,
    /// Takes only what changes nothing.
    #[serde(default)]
    read_only: bool,
    keyspace: Option<String>,
    consistency: Option<String>,
    serial_consistency: Option<String>,
    timestamp: Option<i64>,
    now_in_seconds: Option<u32>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    tracing: bool,
    page_size: Option<u32>,
    page_state: Option<String>,
}

impl QueryRequest<'_> {
    fn execution(&mut self) -> Execution {
        Execution {
            keyspace: self.keyspace.take(),
            consistency: self.consistency.take(),
            serial_consistency: self.serial_consistency.take(),
            timestamp: self.timestamp,
            now_in_seconds: self.now_in_seconds,
            timeout_ms: self.timeout_ms,
            tracing: self.tracing,
            page_size: self.page_size,
            page_state: self.page_state.take(),
        }
    }
}

/// Answers it.
pub async fn answer(caller: &Rc<Caller>, received: Received) -> Result<Response<Body>, Failure> {
    let client = caller.client(received.request.headers(), "helenus http").await?;
    let form = asked_form(received.request.headers());
    let body = read_json(caller, received.request).await?;
    let mut request: QueryRequest = parse(&body.bytes)?;
    check_reads(&request.query, request.read_only || caller.state.is_read_only)?;
    let values = JsonValues::of(request.values, &*caller.state.clock)?;
    let options = request.execution().options(caller.since(received.received_ns))?;
    if let Some(form) = form {
        let asked = pages::Asked {
            text: request.query.into_owned(),
            values: request.values.map(ToOwned::to_owned),
            options,
            form,
        };
        return pages::answer(caller, client, asked).await;
    }
    document(caller, &client, (&request.query, &values), &options, request.rows).await
}

async fn document(
    caller: &Caller,
    client: &Handle,
    (text, values): (&str, &JsonValues<'_>),
    options: &RequestOptions,
    form: RowForm,
) -> Result<Response<Body>, Failure> {
    let statements = &caller.state.statements;
    let answer = statements.execute(client, text, values, options).await?;
    let document = rows::document(&answer, form)?;
    let taken = caller.memory.take(document.len())?;
    Ok(whole(StatusCode::OK, JSON, taken.charge(document)))
}

/// The form of the rows, all pages of them, if they are not wanted as a document.
fn asked_form(headers: &HeaderMap) -> Option<PageForm> {
    let accepted = headers
        .get_all(ACCEPT)
        .into_iter()
        .flat_map(|value| value.to_str());
    let mut kinds = accepted.flat_map(|value| value.split(',')).map(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim()
    });
    kinds.find_map(PageForm::of_media_type)
}
