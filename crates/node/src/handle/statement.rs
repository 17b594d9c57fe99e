//! Statements that are asked for more than once, or together: prepared ones, and batches.

use std::sync::{Arc, PoisonError, RwLock};

use helenus_protocol::Opcode;
use helenus_protocol::request::{BatchKind, BatchStatement};
use helenus_protocol::response::{ReceivedPrepared, ReceivedResult, Response};
use helenus_types::partition_key::write_partition_key;
use helenus_types::{CqlType, Token, token_of};
use helenus_values::{BindError, BindValues, BoundValues};

use super::answer::{Column, Columns, Reply};
use super::error::RequestError;
use super::message::Message;
use super::options::RequestOptions;

/// A statement that the node knows by an id. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prepared(Arc<PreparedStatement>);

#[derive(Debug)]
struct PreparedStatement {
    text: String,
    keyspace: Option<String>,
    id: Box<[u8]>,
    markers: Box<[Column]>,
    marker_types: Box<[CqlType]>,
    /// The markers that make up the partition key, in the key's order; empty where they do not.
    partition_key: Box<[u16]>,
    /// As the node last said.
    result: RwLock<Arc<Columns>>,
}

impl Prepared {
    pub(super) fn of(reply: Reply, text: &str, keyspace: Option<&str>) -> Result<Self, RequestError> {
        let reply = reply.checked()?;
        match reply.decode()?.0 {
            Response::Result(ReceivedResult::Prepared(prepared)) => Ok(Prepared(Arc::new(
                PreparedStatement::of(&prepared, text, keyspace),
            ))),
            _ => Err(RequestError::Unexpected {
                asked: Opcode::Prepare,
                found: reply.opcode,
            }),
        }
    }

    /// The statement.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// By which the node knows it.
    pub fn id(&self) -> &[u8] {
        &self.0.id
    }

    /// The values that it takes, in order.
    pub fn markers(&self) -> &[Column] {
        &self.0.markers
    }

    /// The columns of its rows, as the node last said; none for a statement without rows.
    pub fn columns(&self) -> Vec<Column> {
        self.known().columns.to_vec()
    }

    /// The keyspace of its names without one, if it was prepared with one.
    pub(super) fn keyspace(&self) -> Option<&str> {
        self.0.keyspace.as_deref()
    }

    pub(super) fn known(&self) -> Arc<Columns> {
        let known = self.0.result.read();
        known.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn learn(&self, columns: Arc<Columns>) {
        let mut known = self.0.result.write().unwrap_or_else(PoisonError::into_inner);
        *known = columns;
    }

    /// Values for its markers, checked against their types.
    pub fn bind(&self, values: impl BindValues) -> Result<BoundValues, BindError> {
        let mut bound = BoundValues::new();
        values.bind(&self.0.marker_types, &mut bound)?;
        let (wanted, found) = (self.0.marker_types.len(), usize::from(bound.count()));
        match wanted == found {
            true => Ok(bound),
            false => Err(BindError::Count { wanted, found }),
        }
    }

    /// The token of the partition that the values name; `None` where they do not name one.
    pub(super) fn token(&self, values: &BoundValues) -> Option<Token> {
        match *self.0.partition_key {
            [] => None,
            // A key of one column is its value as it is.
            [index] => values.value(index).filter(|key| !key.is_empty()).map(token_of),
            ref indexes => {
                let components: Option<Vec<&[u8]>> =
                    indexes.iter().map(|index| values.value(*index)).collect();
                let mut key = Vec::new();
                let is_written = write_partition_key(&mut key, components?.into_iter());
                (is_written && !key.is_empty()).then(|| token_of(&key))
            }
        }
    }
}

impl PreparedStatement {
    fn of(prepared: &ReceivedPrepared<'_>, text: &str, keyspace: Option<&str>) -> Self {
        let markers = prepared.markers.columns.iter();
        let metadata_id = prepared.result_metadata_id.unwrap_or_default();
        PreparedStatement {
            text: text.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            id: prepared.statement_id.into(),
            markers: markers.clone().map(Column::of).collect(),
            marker_types: markers.map(|marker| marker.data_type.clone()).collect(),
            partition_key: prepared.markers.partition_key.clone().into(),
            result: RwLock::new(Arc::new(Columns::of(&prepared.result, metadata_id))),
        }
    }
}

/// Several writes in one message: all of them or none, where it is LOGGED.
#[derive(Clone, Debug)]
pub struct Batch {
    kind: BatchKind,
    members: Vec<(Member, BoundValues)>,
}

#[derive(Clone, Debug)]
enum Member {
    Text(String),
    Prepared(Prepared),
}

impl Batch {
    /// Without statements.
    pub fn new(kind: BatchKind) -> Self {
        let members = Vec::new();
        Batch { kind, members }
    }

    /// Adds a statement that is prepared.
    pub fn push(&mut self, statement: &Prepared, values: impl BindValues) -> Result<(), BindError> {
        let bound = statement.bind(values)?;
        self.members.push((Member::Prepared(statement.clone()), bound));
        Ok(())
    }

    /// Adds a statement's text; its values' types are taken from the Rust types.
    pub fn push_text(&mut self, text: &str, values: impl BindValues) -> Result<(), BindError> {
        let bound = bind_untyped(&values)?;
        self.members.push((Member::Text(text.to_owned()), bound));
        Ok(())
    }

    /// Statements in it.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether it has no statement.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.members.iter().filter_map(|(member, _)| match member {
            Member::Prepared(prepared) => Some(prepared),
            Member::Text(_) => None,
        })
    }

    pub(super) fn message(&self, options: &RequestOptions) -> Message {
        let members = self.members.iter().map(|(member, values)| {
            let statement = match member {
                Member::Text(text) => BatchStatement::Text(text),
                Member::Prepared(prepared) => BatchStatement::Prepared(prepared.id()),
            };
            (statement, values)
        });
        Message::batch(self.kind, members, options)
    }
}

/// Values of a statement whose markers are not known: as the Rust types say.
pub(super) fn bind_untyped(values: &impl BindValues) -> Result<BoundValues, BindError> {
    let mut bound = BoundValues::new();
    values.bind(&[], &mut bound)?;
    Ok(bound)
}
