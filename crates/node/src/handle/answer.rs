//! Answers to requests.

use std::sync::Arc;

use helenus_catalog::ddl::{SchemaChange, SchemaChangeTarget};
use helenus_protocol::Opcode;
use helenus_protocol::frame::{ENVELOPE_HEADER_BYTES, Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::response::{
    self, ReceivedColumn, ReceivedColumns, ReceivedPrelude, ReceivedResult, ReceivedRows, Response,
    SchemaTarget,
};
use helenus_protocol::wire::DecodeError;
use helenus_transport::overloaded_template;
use helenus_types::CqlType;
use helenus_values::{FromRow, Row, RowError};

use super::VERSION;
use super::error::{RequestError, ServerError};

/// One response as the shard has made it.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) flags: EnvelopeFlags,
    pub(super) opcode: Opcode,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn of(header: &EnvelopeHeader, body: Vec<u8>) -> Self {
        Reply {
            flags: header.flags,
            opcode: header.opcode,
            body,
        }
    }

    /// Returns the answer of admission to requests that it does not begin.
    pub(super) fn overloaded() -> Self {
        Reply {
            flags: EnvelopeFlags::NONE,
            opcode: Opcode::Error,
            body: overloaded_template(VERSION)
                .get(ENVELOPE_HEADER_BYTES..)
                .unwrap_or_default()
                .to_vec(),
        }
    }

    /// Decodes the response, and the prelude in front of it.
    pub fn decode(&self) -> Result<(Response<'_>, ReceivedPrelude<'_>), DecodeError> {
        Response::decode(&Envelope {
            header: EnvelopeHeader {
                version: VERSION,
                flags: self.flags,
                stream: 0,
                opcode: self.opcode,
                body_bytes: u32::try_from(self.body.len()).unwrap_or(u32::MAX),
            },
            body: &self.body,
        })
    }

    /// The same, unless it is an ERROR.
    pub(super) fn checked(self) -> Result<Reply, RequestError> {
        match self.opcode {
            Opcode::Error => Err(ServerError::decode(self.flags, &self.body)?.into()),
            _ => Ok(self),
        }
    }
}

/// A column of a result, or a marker of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Keyspace of its table.
    pub keyspace: String,
    /// Name of its table.
    pub table: String,
    /// As the selection calls it.
    pub name: String,
    /// Type of its values.
    pub data_type: CqlType,
}

impl Column {
    pub(super) fn of(received: &ReceivedColumn<'_>) -> Self {
        Column {
            keyspace: received.keyspace.to_owned(),
            table: received.table.to_owned(),
            name: received.name.to_owned(),
            data_type: received.data_type.clone(),
        }
    }
}

/// The columns of a result, which a prepared statement knows before there are rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// Id by which the node checks the client's knowledge of the columns.
    pub metadata_id: Box<[u8]>,
    pub columns: Box<[Column]>,
    pub types: Box<[CqlType]>,
}

impl Columns {
    pub fn of(metadata: &ReceivedColumns<'_>, metadata_id: &[u8]) -> Self {
        let columns = metadata.columns.iter();
        Columns {
            metadata_id: metadata_id.into(),
            columns: columns.clone().map(Column::of).collect(),
            types: columns.map(|column| column.data_type.clone()).collect(),
        }
    }
}

/// The answer to a statement or a batch.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Outcome of the statement.
    pub outcome: Outcome,
    /// Warnings of the node about the request, in Cassandra's words.
    pub warnings: Vec<String>,
    /// Key of a traced request's rows in `system_traces`.
    pub tracing_id: Option<[u8; 16]>,
}

/// Outcome of a statement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// There is nothing to tell.
    Void,
    /// A page of rows.
    Rows(Rows),
    /// USE: names without a keyspace are of this one from now on.
    SetKeyspace(String),
    /// The schema is another one now, on all shards.
    SchemaChange(SchemaChange),
}

impl Answer {
    /// The rows; `None` for a statement that has none.
    pub fn rows(&self) -> Option<&Rows> {
        match &self.outcome {
            Outcome::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// The rows as Rust values; [`RowError::NoRows`] for a statement that has none.
    pub fn read<T: FromRow>(&self) -> Result<Vec<T>, RequestError> {
        let rows = self.rows().ok_or(RowError::NoRows)?;
        rows.read().collect::<Result<_, _>>().map_err(RequestError::from)
    }

    /// `known`: the columns, if the client asked to leave them out. Also what the columns are now, if they are others.
    pub(crate) fn of(
        reply: Reply,
        asked: Opcode,
        known: Option<&Arc<Columns>>,
    ) -> Result<(Answer, Option<Arc<Columns>>), RequestError> {
        let reply = reply.checked()?;
        let (response, prelude) = reply.decode()?;
        let warnings = prelude.warnings.iter().map(str::to_owned).collect();
        let tracing_id = prelude.tracing_id;
        let read = Read::of(&response, known)?.ok_or(RequestError::Unexpected {
            asked,
            found: reply.opcode,
        })?;
        let mut changed = None;
        let outcome = match read {
            Read::Other(outcome) => outcome,
            Read::Rows(page) => {
                changed = page.has_changed.then(|| page.columns.clone());
                Outcome::Rows(Rows { page, reply })
            }
        };
        let answer = Answer {
            outcome,
            warnings,
            tracing_id,
        };
        Ok((answer, changed))
    }
}

/// Contents of a RESULT, without the values of its rows.
enum Read {
    Other(Outcome),
    Rows(Page),
}

impl Read {
    /// `None` for what is no answer to a statement.
    fn of(response: &Response<'_>, known: Option<&Arc<Columns>>) -> Result<Option<Read>, RequestError> {
        let Response::Result(result) = response else {
            return Ok(None);
        };
        Ok(match result {
            ReceivedResult::Void => Some(Read::Other(Outcome::Void)),
            ReceivedResult::SetKeyspace(keyspace) => {
                Some(Read::Other(Outcome::SetKeyspace((*keyspace).to_owned())))
            }
            ReceivedResult::SchemaChange(change) => {
                owned_change(change).map(|change| Read::Other(Outcome::SchemaChange(change)))
            }
            ReceivedResult::Prepared(_) => None,
            ReceivedResult::Rows(rows) => Some(Read::Rows(Page::of(rows, known)?)),
        })
    }
}

/// Metadata of a page of rows.
#[derive(Clone, Debug)]
struct Page {
    columns: Arc<Columns>,
    /// They are others than the client knew.
    has_changed: bool,
    row_count: usize,
    paging_state: Option<Vec<u8>>,
}

impl Page {
    fn of(rows: &ReceivedRows<'_>, known: Option<&Arc<Columns>>) -> Result<Page, RowError> {
        let metadata = &rows.metadata;
        let columns = match known {
            Some(known) if metadata.columns.is_empty() => known.clone(),
            _ => Arc::new(Columns::of(
                metadata,
                metadata.new_metadata_id.unwrap_or_default(),
            )),
        };
        let (wanted, found) = (columns.columns.len(), metadata.column_count);
        if wanted != found {
            return Err(RowError::ColumnCount { wanted, found });
        }
        Ok(Page {
            columns,
            has_changed: metadata.new_metadata_id.is_some(),
            row_count: rows.len(),
            paging_state: metadata.paging_state.map(<[u8]>::to_vec),
        })
    }
}

fn owned_change(change: &response::SchemaChange<'_>) -> Option<SchemaChange> {
    let target = match change.target {
        SchemaTarget::Keyspace => SchemaChangeTarget::Keyspace,
        SchemaTarget::Table(name) => SchemaChangeTarget::Table(name.into()),
        SchemaTarget::Type(name) => SchemaChangeTarget::Type(name.into()),
        SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. } => return None,
    };
    Some(SchemaChange {
        kind: change.change,
        keyspace: change.keyspace.into(),
        target,
    })
}

/// A page of rows, in the form in which they travel; values are read where somebody looks at them.
#[derive(Clone, Debug)]
pub struct Rows {
    page: Page,
    reply: Reply,
}

impl Rows {
    /// In the order of the selection.
    pub fn columns(&self) -> &[Column] {
        &self.page.columns.columns
    }

    /// Rows of this page.
    pub fn len(&self) -> usize {
        self.page.row_count
    }

    /// Returns whether this page has no rows; the next may have some.
    pub fn is_empty(&self) -> bool {
        self.page.row_count == 0
    }

    /// Where the next page begins; `None` on the last one.
    pub fn paging_state(&self) -> Option<&[u8]> {
        self.page.paging_state.as_deref()
    }

    fn received(&self) -> Option<ReceivedRows<'_>> {
        // It was decoded before.
        match self.reply.decode() {
            Ok((Response::Result(ReceivedResult::Rows(rows)), _)) => Some(rows),
            _ => None,
        }
    }

    /// Each row's values in their serialized form, in the order of the columns; `None` is null.
    pub fn iter(&self) -> impl Iterator<Item = Vec<Option<&[u8]>>> {
        let rows = self.received();
        rows.into_iter()
            .flat_map(|rows| rows.iter().map(Iterator::collect).collect::<Vec<_>>())
    }

    /// Each row as Rust values.
    pub fn read<T: FromRow>(&self) -> impl Iterator<Item = Result<T, RowError>> {
        self.iter().map(|values| {
            T::from_row(Row {
                types: &self.page.columns.types,
                values: &values,
            })
        })
    }
}
