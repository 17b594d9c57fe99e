//! Statements to be executed, and the options of their execution.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use helenus_protocol::Consistency;
use helenus_protocol::request::BatchKind;
use helenus_protocol::response::{ReceivedColumns, ReceivedPrepared};
use helenus_types::partition_key::write_partition_key;
use helenus_types::{CqlType, Token, token_of};

use crate::lock::lock;
use crate::values::{BindError, BindValues, BoundValues};

/// How a statement is executed; each field may be set on the statement itself.
#[derive(Clone, Debug)]
pub struct ExecutionOptions {
    /// Replicas that must have answered before the coordinator does; default `LOCAL_QUORUM`.
    pub consistency: Consistency,
    /// Level of a conditional statement's Paxos rounds, `SERIAL` or `LOCAL_SERIAL`; `None`, the default: the
    /// server's (`SERIAL`).
    pub serial_consistency: Option<Consistency>,
    /// Rows of a page; 0 asks for all rows at once.
    pub page_size: u32,
    /// From the call to its result, waiting for a turn and every retry included.
    pub timeout: Duration,
    /// Executing it twice is as good as once: it may be sent again although it may have run. Transactions never are.
    pub is_idempotent: bool,
    /// Microseconds since 1970, unless the statement says `USING TIMESTAMP`.
    pub timestamp_us: Option<i64>,
}

/// The drivers' usual page.
pub const PAGE_SIZE_DEFAULT: u32 = 5000;

/// Longer than the servers' own timeouts (Cassandra's are 2 s to 10 s), so that it is the server who says what was
/// not done.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(12);

impl Default for ExecutionOptions {
    fn default() -> Self {
        ExecutionOptions {
            consistency: Consistency::LocalQuorum,
            serial_consistency: None,
            page_size: PAGE_SIZE_DEFAULT,
            timeout: TIMEOUT_DEFAULT,
            is_idempotent: false,
            timestamp_us: None,
        }
    }
}

/// A statement that is parsed by the server each time it is executed.
#[derive(Clone, Debug)]
pub struct Statement {
    /// CQL, with a marker (`?`) for each value that is bound.
    pub text: String,
    /// `None`: as the session executes.
    pub options: Option<ExecutionOptions>,
}

impl From<&str> for Statement {
    fn from(text: &str) -> Self {
        Statement {
            text: text.to_owned(),
            options: None,
        }
    }
}

/// A statement that the servers know by an id. Cheap to clone; a clone with other options leaves the first as it is.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) shared: Arc<PreparedStatement>,
    /// Options of its executions: those of the session that prepared it, until they are changed here.
    pub options: ExecutionOptions,
}

#[derive(Debug)]
pub(crate) struct PreparedStatement {
    pub text: String,
    /// Keyspace of the table that it is about; unknown without markers or columns.
    pub keyspace: Option<String>,
    pub id: Vec<u8>,
    pub marker_types: Vec<CqlType>,
    /// The markers that make up the partition key, in the key's order; empty where they do not.
    pub partition_key: Vec<u16>,
    result: Mutex<Arc<ResultShape>>,
}

/// The columns of a prepared statement's rows, as the server last said; rows come without them.
#[derive(Debug, Default)]
pub(crate) struct ResultShape {
    /// v5: what the server checks the client's knowledge by.
    pub metadata_id: Vec<u8>,
    pub names: Vec<String>,
    pub types: Vec<CqlType>,
}

impl ResultShape {
    pub fn of(prepared: &ReceivedPrepared<'_>) -> Self {
        let (names, types) = columns(&prepared.result);
        ResultShape {
            metadata_id: prepared.result_metadata_id.unwrap_or_default().to_vec(),
            names,
            types,
        }
    }

    /// Takes the columns of rows whose columns have changed since the statement was prepared (v5).
    pub fn of_changed(metadata: &ReceivedColumns<'_>) -> Option<Self> {
        let metadata_id = metadata.new_metadata_id?.to_vec();
        let (names, types) = columns(metadata);
        Some(ResultShape {
            metadata_id,
            names,
            types,
        })
    }
}

fn columns(metadata: &ReceivedColumns<'_>) -> (Vec<String>, Vec<CqlType>) {
    let columns = metadata.columns.iter();
    columns
        .map(|column| (column.name.to_owned(), column.data_type.clone()))
        .unzip()
}

impl PreparedStatement {
    /// Makes the statement of `text` from a server's PREPARED.
    pub fn of(text: &str, prepared: &ReceivedPrepared<'_>) -> Self {
        let named = prepared
            .markers
            .columns
            .first()
            .or(prepared.result.columns.first());
        PreparedStatement {
            text: text.to_owned(),
            keyspace: named.map(|column| column.keyspace.to_owned()),
            id: prepared.statement_id.to_vec(),
            marker_types: prepared
                .markers
                .columns
                .iter()
                .map(|marker| marker.data_type.clone())
                .collect(),
            partition_key: prepared.markers.partition_key.clone(),
            result: Mutex::new(Arc::new(ResultShape::of(prepared))),
        }
    }

    pub fn result(&self) -> Arc<ResultShape> {
        lock(&self.result).clone()
    }

    pub fn set_result(&self, shape: ResultShape) {
        *lock(&self.result) = Arc::new(shape);
    }

    /// The token of the partition that the values name; `None` where they do not name one.
    pub fn token(&self, values: &BoundValues) -> Option<Token> {
        if self.partition_key.is_empty() {
            return None;
        }
        // A key of one column is its value as it is.
        if let [index] = self.partition_key[..] {
            return values.value(index).filter(|key| !key.is_empty()).map(token_of);
        }
        let mut key = Vec::new();
        let components: Option<Vec<&[u8]>> = self
            .partition_key
            .iter()
            .map(|index| values.value(*index))
            .collect();
        let is_written = write_partition_key(&mut key, components?.into_iter());
        (is_written && !key.is_empty()).then(|| token_of(&key))
    }

    pub fn bind(&self, values: &(impl BindValues + ?Sized)) -> Result<BoundValues, BindError> {
        self.bind_within(Vec::new(), values)
    }

    /// As [`PreparedStatement::bind`], in a buffer that has been used before.
    pub fn bind_within(
        &self,
        buffer: Vec<u8>,
        values: &(impl BindValues + ?Sized),
    ) -> Result<BoundValues, BindError> {
        let mut bound = BoundValues::within(buffer);
        values.bind(&self.marker_types, &mut bound)?;
        let (wanted, found) = (self.marker_types.len(), usize::from(bound.count()));
        if wanted != found {
            return Err(BindError::Count { wanted, found });
        }
        Ok(bound)
    }
}

impl Prepared {
    /// Returns the CQL that was given to [`Session::prepare`](crate::Session::prepare).
    pub fn text(&self) -> &str {
        &self.shared.text
    }

    /// The types of its markers, in order.
    pub fn marker_types(&self) -> &[CqlType] {
        &self.shared.marker_types
    }

    /// Binds values for [`Session::execute`](crate::Session::execute), checked against the markers' types.
    pub fn bind(&self, values: impl BindValues) -> Result<BoundValues, BindError> {
        self.shared.bind(&values)
    }

    /// Sets the replicas that must have answered; the session's level (default `LOCAL_QUORUM`) otherwise.
    #[must_use]
    pub fn with_consistency(mut self, consistency: Consistency) -> Self {
        self.options.consistency = consistency;
        self
    }

    /// Sets the time from the call to its result, waiting for a turn and every retry included; the session's
    /// (default [`TIMEOUT_DEFAULT`]) otherwise.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Declares that executing it twice is as good as once: it is retried, as
    /// [`RetryPolicy`](crate::RetryPolicy) says, also where it may have run. Without effect on a transaction.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.options.is_idempotent = true;
        self
    }

    /// Sets the rows of a page, [`PAGE_SIZE_DEFAULT`] otherwise; 0 asks for all rows at once.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u32) -> Self {
        self.options.page_size = page_size;
        self
    }
}

/// Several writes in one message.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Logged (all of it in the end, or nothing), unlogged, or of counter updates.
    pub kind: BatchKind,
    /// Options of the batch as a whole: those of its statements and of the session do not count, nor does the
    /// page size.
    pub options: ExecutionOptions,
    pub(crate) members: Vec<(BatchMember, BoundValues)>,
}

#[derive(Clone, Debug)]
pub(crate) enum BatchMember {
    Text(String),
    Prepared(Arc<PreparedStatement>),
}

impl Batch {
    /// Makes an empty batch with [`ExecutionOptions::default`], whatever the session's options are.
    pub fn new(kind: BatchKind) -> Self {
        Batch {
            kind,
            options: ExecutionOptions::default(),
            members: Vec::new(),
        }
    }

    /// Appends a prepared statement; an error leaves the batch as it was. A batch has 65,535 statements at most.
    pub fn push(&mut self, statement: &Prepared, values: impl BindValues) -> Result<(), BindError> {
        self.check_room()?;
        let bound = statement.shared.bind(&values)?;
        self.members
            .push((BatchMember::Prepared(statement.shared.clone()), bound));
        Ok(())
    }

    /// As [`push`](Self::push), a statement that is not prepared; its values' types are taken from the Rust types.
    pub fn push_text(&mut self, text: &str, values: impl BindValues) -> Result<(), BindError> {
        self.check_room()?;
        let mut bound = BoundValues::new();
        values.bind(&[], &mut bound)?;
        self.members.push((BatchMember::Text(text.to_owned()), bound));
        Ok(())
    }

    fn check_room(&self) -> Result<(), BindError> {
        match self.members.len() < usize::from(u16::MAX) {
            true => Ok(()),
            false => Err(BindError::TooManyStatements),
        }
    }

    /// Returns the number of statements.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether no statement was pushed.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executing a batch of more statements than the protocol can count ended in a panic while the connection was locked.
    #[test]
    fn a_batch_has_room_for_what_the_protocol_can_count() {
        let mut batch = Batch::new(BatchKind::Unlogged);
        for _ in 0..u16::MAX {
            batch.push_text("", ()).unwrap();
        }
        assert_eq!(batch.push_text("", ()), Err(BindError::TooManyStatements));
        assert_eq!(batch.len(), usize::from(u16::MAX));
    }
}
