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
        let seen = with_one_nan(self.execute(statement)?);
        let expected = &with_one_nan(expected.clone());
        if seen == *expected || are_of_one_fault(&seen, expected) {
            return Ok(Agreement::Same);
        }
        if is_its_own(&seen) {
            if let Seen::Error { message, .. } = &seen
                && ["CREATE ", "ALTER ", "DROP "]
                    .iter()
                    .any(|start| statement.text.starts_with(start))
            {
                // Its schema does not recover from that, but for a start of its own.
                return Err(Trouble::broken(
                    "Cassandra failed, and has to be started again",
                    message,
                ));
            }
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
        ErrorCode::ProtocolError => message == "Invalid value for the paging state",
        // Nodes cut the terms of their indexes.
        ErrorCode::Invalid => {
            message.starts_with("Cannot index value of size ")
                || message == "Null value read when not allowed"
        }
        code => !code.is_of_statement(),
    }
}

/// Returns whether two errors differ in what is the order of a hash table in Cassandra: which of several wrong columns of a JSON text is
/// named, and in what order functions are listed.
fn are_of_one_fault(left: &Seen, right: &Seen) -> bool {
    let (Seen::Error { message: left, .. }, Seen::Error { message: right, .. }) = (left, right) else {
        return false;
    };
    const JSON: &str = "Error decoding JSON value for ";
    const LISTS: [&str; 2] = [
        " (known type signatures",
        " (can be matched by following signatures",
    ];
    let without_list = |message: &str| {
        let starts = LISTS.iter().filter_map(|list| message.find(list));
        message[..starts.min().unwrap_or(message.len())].to_owned()
    };
    left.starts_with(JSON) && right.starts_with(JSON) || without_list(left) == without_list(right)
}

/// The answer with one NaN for all: which one arithmetic gives depends on the processor.
fn with_one_nan(mut seen: Seen) -> Seen {
    let Seen::Rows { columns, rows, .. } = &mut seen else {
        return seen;
    };
    for (place, column) in columns.iter().enumerate() {
        for value in rows.iter_mut().filter_map(|row| row.get_mut(place)?.as_mut()) {
            let is_nan = match (&column.cql_type, &**value) {
                (CqlType::Float, &[a, b, c, d]) => f32::from_be_bytes([a, b, c, d]).is_nan(),
                (CqlType::Double, &[a, b, c, d, e, f, g, h]) => {
                    f64::from_be_bytes([a, b, c, d, e, f, g, h]).is_nan()
                }
                _ => false,
            };
            if is_nan {
                value.fill(u8::MAX);
            }
        }
    }
    seen
}
