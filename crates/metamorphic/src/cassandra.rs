//! A real Cassandra that takes part in a history: it gets each statement, and must answer as the nodes do.
//!
//! Events are the nodes' alone, and its clock is its own: nothing that is told to it shows what time it is
//! ([`Audience::Cassandra`](crate::Audience)).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_protocol::request::{BindValues, QueryParameters, Value as BoundValue};
use helenus_protocol::{Consistency, ErrorCode, ProtocolVersion};
use helenus_test_node::Answer;
use helenus_test_service::Client;
use helenus_types::CqlType;
use helenus_types::value::collection::write_value;
use helenus_types::value::{CollectionElements, TupleComponents};

use crate::failure::{FailureKind, Trouble};
use crate::generate::KEYSPACE;
use crate::instance::{PAGES_MAX, is_being_built};
use crate::script::Statement;
use crate::seen::{Seen, difference};
use crate::value::Value;

/// An index over a few rows is built in less.
const INDEX_BUILT_WITHIN: Duration = Duration::from_secs(30);
const INDEX_ASKED_AFTER: Duration = Duration::from_millis(20);
/// Now and then it fails to write its schema, and does not the next time.
const DROP_ATTEMPTS: u32 = 3;
/// Count of a collection, before its elements.
const COUNT_BYTES: usize = 4;
/// Pages of its reads, by turns.
const PAGES_ROWS: [Option<i32>; 3] = [None, Some(3), Some(100)];

/// A connection to a Cassandra, whose keyspace of histories is dropped when one begins.
pub struct Cassandra {
    client: Client,
    /// True if a write failed for no fault of its own: what it has is not known any more.
    has_failed: bool,
}

/// Agreement of Cassandra with the nodes about a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    Same,
    /// It failed, now or before.
    Unknown,
}

impl Cassandra {
    /// Panics if nobody answers at `address`, or asks for a password.
    pub fn connect(address: SocketAddr) -> Cassandra {
        Cassandra {
            client: Client::open(address, ProtocolVersion::V5),
            has_failed: false,
        }
    }

    /// Leaves nothing of the history before.
    pub(crate) fn begin(&mut self) -> Result<(), Trouble> {
        self.has_failed = false;
        let drop = format!("DROP KEYSPACE IF EXISTS {KEYSPACE}");
        let mut refusal = String::new();
        for _ in 0..DROP_ATTEMPTS {
            match self.ask(&drop, &[], &QueryParameters::new(Consistency::One))? {
                Answer::Error { message, .. } => refusal = message,
                _ => return Ok(()),
            }
        }
        Err(Trouble::broken(&drop, refusal))
    }

    /// Executes a statement that the nodes have answered with `expected`.
    pub(crate) fn compare(&mut self, statement: &Statement, expected: &Seen) -> Result<Agreement, Trouble> {
        if self.has_failed {
            return Ok(Agreement::Unknown);
        }
        let seen = with_nulls_for_empties(self.execute(statement)?);
        let expected = &with_nulls_for_empties(expected.clone());
        if seen == *expected || are_of_one_json(&seen, expected) {
            return Ok(Agreement::Same);
        }
        if is_its_own(&seen) {
            self.has_failed = !statement.text.starts_with("SELECT ");
            return Ok(Agreement::Unknown);
        }
        let (difference, text) = difference(expected, &seen);
        Err(Trouble {
            kind: FailureKind::Disagreement(difference),
            text: format!("on Cassandra: {text}"),
        })
    }

    /// All pages of an answer, which an index may have to be built for.
    fn execute(&mut self, statement: &Statement) -> Result<Seen, Trouble> {
        let bytes: Vec<Option<Vec<u8>>> = statement
            .values
            .iter()
            .map(|value| value.as_ref().map(Value::bytes))
            .collect();
        let values: Vec<BoundValue<'_>> = bytes
            .iter()
            .map(|value| value.as_deref().map_or(BoundValue::Null, BoundValue::Bytes))
            .collect();
        let text = &statement.text;
        let began = Instant::now();
        let mut paging_state: Option<Vec<u8>> = None;
        let mut all: Option<Seen> = None;
        for _ in 0..PAGES_MAX {
            let parameters = QueryParameters {
                page_size: PAGES_ROWS[text.len() % PAGES_ROWS.len()],
                paging_state: paging_state.as_deref(),
                ..QueryParameters::new(Consistency::One)
            };
            match self.ask(text, &values, &parameters)? {
                Answer::Error { code, message }
                    if is_being_built(code, &message) && began.elapsed() < INDEX_BUILT_WITHIN =>
                {
                    std::thread::sleep(INDEX_ASKED_AFTER);
                }
                Answer::Rows(mut page) => {
                    paging_state = page.paging_state.take();
                    Seen::add_page(&mut all, page);
                    if paging_state.is_none() {
                        return Ok(all.unwrap_or(Seen::Done));
                    }
                }
                answer => return Ok(Seen::of(answer)),
            }
        }
        Err(Trouble::broken(
            "Cassandra",
            format_args!("more than {PAGES_MAX} pages"),
        ))
    }

    fn ask(
        &mut self,
        text: &str,
        values: &[BoundValue<'_>],
        parameters: &QueryParameters<'_>,
    ) -> Result<Answer, Trouble> {
        let query = self
            .client
            .query_with(text, parameters, BindValues::Positional(values));
        self.client.send(&query);
        self.client
            .received(Answer::received)
            .ok_or_else(|| Trouble::broken("Cassandra", "the connection ended"))
    }
}

/// Returns whether an answer is an error of Cassandra's own: an exception that it does not expect, a page that it cannot go on behind,
/// a value that is too long for its index.
fn is_its_own(seen: &Seen) -> bool {
    let Seen::Error { code, message } = seen else {
        return false;
    };
    match code {
        ErrorCode::ServerError
        | ErrorCode::ReadFailure
        | ErrorCode::ReadTimeout
        | ErrorCode::WriteFailure
        | ErrorCode::WriteTimeout => true,
        ErrorCode::ProtocolError => message == "Invalid value for the paging state",
        // Nodes cut the terms of their indexes, and what is bound stays as it is.
        ErrorCode::Invalid => {
            message.starts_with("Cannot index value of size ")
                || message == "Null value read when not allowed"
        }
        _ => false,
    }
}

/// Returns whether two errors name faults of a JSON text that may have both: Cassandra looks at its columns in the order of a hash
/// table.
fn are_of_one_json(left: &Seen, right: &Seen) -> bool {
    let is_of_json = |seen: &Seen| matches!(seen, Seen::Error { message, .. } if message.starts_with("Error decoding JSON value for "));
    is_of_json(left) && is_of_json(right)
}

/// The answer as if the elements of lists that have no bytes, of types where that says nothing, were null: so they are once Cassandra
/// has bound them, and in a node they stay as they came.
fn with_nulls_for_empties(mut seen: Seen) -> Seen {
    let Seen::Rows { columns, rows, .. } = &mut seen else {
        return seen;
    };
    for (place, column) in columns.iter().enumerate() {
        if !has_lists(&column.cql_type) {
            continue;
        }
        for value in rows.iter_mut().filter_map(|row| row.get_mut(place)?.as_mut()) {
            *value = nulls_for_empties(&column.cql_type, value);
        }
    }
    seen
}

fn has_lists(cql_type: &CqlType) -> bool {
    matches!(cql_type, CqlType::List { .. }) || cql_type.sub_types().any(has_lists)
}

fn nulls_for_empties(cql_type: &CqlType, value: &[u8]) -> Vec<u8> {
    let mut out = match cql_type.is_collection() {
        true => value.get(..COUNT_BYTES).unwrap_or_default().to_vec(),
        false => Vec::new(),
    };
    let mut push = |cql_type: &CqlType, value: Option<&[u8]>| {
        write_value(
            &mut out,
            value.map(|value| nulls_for_empties(cql_type, value)).as_deref(),
        );
    };
    match cql_type {
        CqlType::List { element, .. } => {
            let is_said = |value: &&[u8]| !(value.is_empty() && element.is_empty_value_meaningless());
            let elements = CollectionElements::new(value, 1).into_iter().flatten();
            elements.for_each(|value| push(element, value.filter(is_said)));
        }
        CqlType::Set { element, .. } => {
            let elements = CollectionElements::new(value, 1).into_iter().flatten();
            elements.for_each(|value| push(element, value));
        }
        CqlType::Map { key, value: of, .. } => {
            let elements = CollectionElements::new(value, 2).into_iter().flatten();
            let types = [&**key, &**of].into_iter().cycle();
            types
                .zip(elements)
                .for_each(|(cql_type, value)| push(cql_type, value));
        }
        CqlType::Tuple(types) => {
            let components = types.iter().zip(TupleComponents::new(value));
            components.for_each(|(cql_type, value)| push(cql_type, value));
        }
        CqlType::UserDefined { definition, .. } => {
            let fields = definition.fields.iter().zip(TupleComponents::new(value));
            fields.for_each(|((_, cql_type), value)| push(cql_type, value));
        }
        _ => return value.to_vec(),
    }
    out
}
