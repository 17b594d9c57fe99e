//! Stargate's queries and batches.

use std::rc::Rc;

use helenus_node::Handle;
use helenus_node::handle::{Answer, Outcome, RequestOptions, Rows, SchemaChange, SchemaChangeTarget};
use helenus_protocol::Consistency;
use helenus_protocol::request::BatchKind;
use helenus_protocol::response::SchemaChangeKind;
use prost::Message;

use super::answers::Answers;
use super::call::Context;
use super::messages::{Charged, Messages};
use super::proto::stargate::{
    self, Batch, BatchParameters, ColumnSpec, ConsistencyValue, Query, QueryParameters, Response, ResultSet,
    Row, StreamingResponse, response, streaming_response,
};
use super::proto::status::Status as RpcStatus;
use super::status::{Code, Status};
use super::values_in::GrpcValues;
use super::{traces, types, values_out};
use crate::drain::Stage;
use crate::failure::Failure;
use crate::statements::{Member, check_reads};

/// Stargate's page, in rows.
const PAGE_SIZE_DEFAULT: i32 = 100;

/// Executes a statement.
pub async fn query(context: &Context, asked: &Charged<Query>) -> Result<Response, Status> {
    let query = &asked.message;
    let client = context.client().await?;
    let default = QueryParameters::default();
    let parameters = query.parameters.as_ref().unwrap_or(&default);
    check_reads(&query.cql, context.caller.state.is_read_only)?;
    let options = query_options(context, parameters)?;
    let values = GrpcValues(query.values.as_ref());
    let statements = &context.caller.state.statements;
    let answer = statements.execute(&client, &query.cql, &values, &options).await?;
    let tracing = consistency(parameters.tracing_consistency)?.unwrap_or(Consistency::One);
    response(&client, &answer, parameters.skip_metadata, tracing).await
}

/// Executes several writes together.
pub async fn batch(context: &Context, asked: &Charged<Batch>) -> Result<Response, Status> {
    let batch = &asked.message;
    let client = context.client().await?;
    let default = BatchParameters::default();
    let parameters = batch.parameters.as_ref().unwrap_or(&default);
    let options = batch_options(context, parameters)?;
    let kind = match batch.r#type {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        2 => BatchKind::Counter,
        other => return Err(invalid(format!("There is no batch type {other}"))),
    };
    let values = batch
        .queries
        .iter()
        .map(|query| GrpcValues(query.values.as_ref()));
    let values: Vec<GrpcValues> = values.collect();
    let mut members = Vec::new();
    for (query, values) in batch.queries.iter().zip(&values) {
        check_reads(&query.cql, context.caller.state.is_read_only)?;
        members.push(Member {
            text: &query.cql,
            values,
        });
    }
    let statements = &context.caller.state.statements;
    let answer = statements
        .execute_batch(&client, kind, &members, &options)
        .await?;
    let tracing = consistency(parameters.tracing_consistency)?.unwrap_or(Consistency::One);
    response(&client, &answer, parameters.skip_metadata, tracing).await
}

/// Statements and their answers.
pub async fn query_stream(
    messages: Messages,
    context: Rc<Context>,
    answers: Rc<Answers>,
) -> Result<(), Status> {
    each(messages, &context, &answers, query).await
}

/// Batches and their answers.
pub async fn batch_stream(
    messages: Messages,
    context: Rc<Context>,
    answers: Rc<Answers>,
) -> Result<(), Status> {
    each(messages, &context, &answers, batch).await
}

/// One after the other, in their order. An error is an answer. A node that stops answers what has come, and then ends the stream:
/// of what comes later nothing is done.
async fn each<Q: Message + Default>(
    mut messages: Messages,
    context: &Context,
    answers: &Answers,
    work: impl AsyncFn(&Context, &Charged<Q>) -> Result<Response, Status>,
) -> Result<(), Status> {
    loop {
        let asked = tokio::select! {
            asked = messages.next::<Q>() => asked?,
            () = context.caller.state.reached(Stage::Draining) => return Err(Failure::Stopping.into()),
        };
        let Some(asked) = asked else {
            return Ok(());
        };
        let message = match work(context, &asked).await {
            Ok(response) => streaming_response::Message::Response(response),
            Err(status) => streaming_response::Message::Status(RpcStatus {
                code: status.code,
                message: status.message,
                details: Vec::new(),
            }),
        };
        answers
            .send(&StreamingResponse {
                message: Some(message),
            })
            .await?;
    }
}

fn invalid(text: String) -> Status {
    Status::new(Code::InvalidArgument, text)
}

fn consistency(value: Option<ConsistencyValue>) -> Result<Option<Consistency>, Status> {
    let Some(value) = value else {
        return Ok(None);
    };
    let code = u16::try_from(value.value).ok();
    let known = code.and_then(Consistency::from_code);
    // The last one of the native protocol's is not among the published ones.
    known
        .filter(|known| *known != Consistency::NodeLocal)
        .map(Some)
        .ok_or_else(|| invalid(format!("There is no consistency {}", value.value)))
}

fn query_options(context: &Context, parameters: &QueryParameters) -> Result<RequestOptions, Status> {
    let page_size = parameters.page_size.unwrap_or(PAGE_SIZE_DEFAULT);
    let page_size = u32::try_from(page_size).ok().filter(|rows| *rows > 0);
    Ok(RequestOptions {
        consistency: consistency(parameters.consistency)?.unwrap_or(Consistency::LocalQuorum),
        serial_consistency: consistency(parameters.serial_consistency)?,
        page_size: Some(page_size.ok_or_else(|| invalid("The page size has to be positive".to_owned()))?),
        paging_state: parameters.paging_state.clone(),
        timestamp_us: parameters.timestamp,
        now_s: parameters.now_in_seconds.map(i32::cast_unsigned),
        keyspace: parameters.keyspace.clone(),
        timeout: context.time_left(),
        is_traced: parameters.tracing,
        ..RequestOptions::default()
    })
}

fn batch_options(context: &Context, parameters: &BatchParameters) -> Result<RequestOptions, Status> {
    Ok(RequestOptions {
        consistency: consistency(parameters.consistency)?.unwrap_or(Consistency::LocalQuorum),
        serial_consistency: consistency(parameters.serial_consistency)?,
        timestamp_us: parameters.timestamp,
        now_s: parameters.now_in_seconds.map(i32::cast_unsigned),
        keyspace: parameters.keyspace.clone(),
        timeout: context.time_left(),
        is_traced: parameters.tracing,
        ..RequestOptions::default()
    })
}

async fn response(
    client: &Handle,
    answer: &Answer,
    leaves_columns_out: bool,
    tracing: Consistency,
) -> Result<Response, Status> {
    let result = match &answer.outcome {
        Outcome::Rows(rows) => Some(response::Result::ResultSet(result_set(rows, leaves_columns_out))),
        Outcome::SchemaChange(change) => Some(response::Result::SchemaChange(schema_change(change))),
        _ => None,
    };
    let traces = match answer.tracing_id {
        Some(id) => Some(traces::read(client, id, tracing).await.map_err(Failure::from)?),
        None => None,
    };
    Ok(Response {
        result,
        warnings: answer.warnings.clone(),
        traces,
    })
}

fn result_set(rows: &Rows, leaves_columns_out: bool) -> ResultSet {
    let columns = rows.columns();
    let specs = columns
        .iter()
        .filter(|_| !leaves_columns_out)
        .map(|column| ColumnSpec {
            r#type: Some(types::type_spec(&column.data_type)),
            name: column.name.clone(),
        });
    let row = |values: Vec<Option<&[u8]>>| Row {
        values: columns
            .iter()
            .zip(values)
            .map(|(column, bytes)| values_out::value(&column.data_type, bytes))
            .collect(),
    };
    ResultSet {
        columns: specs.collect(),
        rows: rows.iter().map(row).collect(),
        paging_state: rows.paging_state().map(<[u8]>::to_vec),
    }
}

fn schema_change(change: &SchemaChange) -> stargate::SchemaChange {
    use stargate::schema_change::{Target, Type};
    let kind = match change.kind {
        SchemaChangeKind::Created => Type::Created,
        SchemaChangeKind::Updated => Type::Updated,
        SchemaChangeKind::Dropped => Type::Dropped,
    };
    let (target, name) = match &change.target {
        SchemaChangeTarget::Keyspace => (Target::Keyspace, None),
        SchemaChangeTarget::Table(name) => (Target::Table, Some(name.to_string())),
        SchemaChangeTarget::Type(name) => (Target::Type, Some(name.to_string())),
    };
    stargate::SchemaChange {
        change_type: kind as i32,
        target: target as i32,
        keyspace: change.keyspace.to_string(),
        name,
        argument_types: Vec::new(),
    }
}
