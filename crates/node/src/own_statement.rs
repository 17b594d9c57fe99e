//! Statements that the node executes for itself, the way a client's are executed: parsed, planned, sent to the shards
//! that own what they are about. For what is rare and lives in tables, such as roles.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::request::Value;
use helenus_values::{BindError, BoundValues, Unset};

use crate::handle::{Answer, Message, RequestError, RequestOptions};
use crate::shard::Shard;

/// A row's values, in the order of the selection; `None` is null.
pub(crate) type OwnRow = Vec<Option<Vec<u8>>>;

/// Executes statements of the node's own, on a shard.
#[derive(Clone)]
pub(crate) struct OwnStatements(Rc<Shard>);

impl OwnStatements {
    pub fn on(shard: &Rc<Shard>) -> Self {
        OwnStatements(shard.clone())
    }

    /// Executes a statement of the node's own; empty unless it selects. Not paged: the caller bounds what it asks for.
    ///
    /// An error of the statement is the node's fault, whatever its code was.
    pub async fn execute(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<OwnRow>, CqlError> {
        let failed = |error: RequestError| match error {
            RequestError::Server(error) => CqlError::server(format_args!("{}", error.message)),
            other => CqlError::server(format_args!("The node's own statement failed: {other}")),
        };
        let bound = bound(values).map_err(|error| failed(error.into()))?;
        let options = RequestOptions {
            page_size: None,
            ..RequestOptions::default()
        };
        let message = Message::query(text, &bound, &options);
        let received_ns = self.0.context.clock.monotonic_ns();
        let reply = self.0.answer(&message, EnvelopeFlags::NONE, received_ns).await;
        let answer = reply.and_then(|reply| Answer::of(reply, Opcode::Query, None));
        let (answer, _columns) = answer.map_err(failed)?;
        let rows = answer.rows().into_iter().flat_map(|rows| rows.iter());
        Ok(rows
            .map(|row| row.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect())
            .collect())
    }
}

fn bound(values: &[Value<'_>]) -> Result<BoundValues, BindError> {
    let mut bound = BoundValues::new();
    for value in values {
        match value {
            Value::Bytes(bytes) => bound.push_serialized(Some(bytes))?,
            Value::Null => bound.push_serialized(None)?,
            Value::Unset => bound.push(&Unset, None)?,
        }
    }
    Ok(bound)
}
