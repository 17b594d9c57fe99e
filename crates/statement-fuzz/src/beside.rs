//! The same statements to a node and to a real Cassandra: what one answers must be what the other does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use helenus_protocol::request::{BindValues, QueryParameters, Value};
use helenus_protocol::{Consistency, ErrorCode, ProtocolVersion};
use helenus_storage_model::Chance;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_test_service::Client;
use helenus_types::CqlType;
use helenus_vfs::{MemoryDisk, SystemClock};

use crate::grammar::{Grammar, KEYSPACES, bound_value, first_statements};
use crate::mutate::mutate;

/// Longer texts say nothing to a person.
const TEXT_BYTES_MAX: usize = 2_000;
/// Characters of two answers that tell a difference from others.
const KIND_CHARACTERS: usize = 60;

/// Differences of all rounds, by what both answered: how many there were, and the shortest statement of each.
#[derive(Debug, Default)]
pub struct Differences {
    pub statements: u64,
    pub refused: u64,
    /// Rounds that ended because Cassandra failed.
    pub unknown: u64,
    pub by_kind: BTreeMap<String, (u64, Example)>,
}

#[derive(Clone, Debug, Default)]
pub struct Example {
    pub text: String,
    pub of_node: String,
    pub of_cassandra: String,
}

/// Sends the statements of a seed to a new node, and to the Cassandra at an address, whose keyspaces of the same names are dropped.
/// Ends with the first statement that only one of them did: from then on they have different schemas.
pub fn compare(seed: u64, statements: usize, address: SocketAddr, differences: &mut Differences) {
    let mut options = options(1, Arc::new(MemoryDisk::new()), Arc::new(SystemClock::new()));
    options.in_memory = true;
    let node = TestNode::start(options).expect("an empty disk in memory can be opened");
    let mut client = Client::open(address, ProtocolVersion::V5);
    for keyspace in KEYSPACES {
        let drop = format!("DROP KEYSPACE IF EXISTS {keyspace}");
        let _refused = ask(&mut client, &drop, &Execution::default());
    }
    let chance = Chance::new(seed);
    let first = first_statements();
    let mut schema = node.schema();
    let mut last_text = String::new();
    for number in 0..statements {
        let text = match first.get(number) {
            Some(text) => text.clone(),
            None => {
                let text = Grammar::new(&chance, &schema).statement();
                match chance.one_in(12) {
                    true => mutate(&chance, &text, &last_text),
                    false => text,
                }
            }
        };
        let keyspace = (number >= first.len()).then(|| KEYSPACES[0].to_owned());
        if text.len() > TEXT_BYTES_MAX || !is_known_to_cassandra(&text) {
            continue;
        }
        last_text.clone_from(&text);
        let mut execution = Execution {
            keyspace,
            ..Execution::default()
        };
        if text.contains(['?', ':'])
            && let Some(types) = marker_types(&node, &text, &execution)
        {
            execution.values = types.iter().map(|marker| bound_value(&chance, marker)).collect();
        }
        let Some(of_node) = node.submit(&text, &execution).wait() else {
            return;
        };
        let of_cassandra = ask(&mut client, &text, &execution);
        differences.statements += 1;
        differences.refused += u64::from(matches!(of_node, Answer::Error { .. }));
        schema = node.schema();
        if matches!(&of_cassandra, Answer::Error { code, .. } if !code.is_of_statement()) {
            differences.unknown += 1;
            return;
        }
        let (left, right) = (shown(&of_node), shown(&of_cassandra));
        if left == right {
            continue;
        }
        differences.note(&text, &left, &right);
        let is_done = |answer: &Answer| !matches!(answer, Answer::Error { .. });
        if is_done(&of_node) != is_done(&of_cassandra) && changes_something(&text) {
            return;
        }
    }
}

fn changes_something(text: &str) -> bool {
    !text.trim_start().to_ascii_uppercase().starts_with("SELECT")
}

/// Returns whether Cassandra 5.0 has such statements at all.
fn is_known_to_cassandra(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let unknown = [
        "TRANSACTION",
        "BYPASS CACHE",
        "PRUNE ",
        "PER_PARTITION_RATE",
        "USING TIMEOUT",
        "CLUDED_INDEXES",
        " ROLE",
        " USER",
        "GRANT",
        "REVOKE",
        "LIST ",
        "IDENTITY",
        "VECTOR_INDEX",
        "UUID()",
        "NOW()",
        "CURRENT_",
    ];
    let has_ttl_column = upper.contains(" TABLE ") && upper.contains(" TTL");
    !has_ttl_column && !unknown.iter().any(|word| upper.contains(word))
}

fn marker_types(node: &TestNode, text: &str, execution: &Execution) -> Option<Vec<CqlType>> {
    match node.submit_prepare(text, execution).wait() {
        Some(Answer::Prepared { markers, .. }) => {
            Some(markers.into_iter().map(|marker| marker.cql_type).collect())
        }
        _ => None,
    }
}

fn ask(client: &mut Client, text: &str, execution: &Execution) -> Answer {
    let values: Vec<Value<'_>> = execution
        .values
        .iter()
        .map(|value| value.as_deref().map_or(Value::Null, Value::Bytes))
        .collect();
    let parameters = QueryParameters {
        keyspace: execution.keyspace.as_deref(),
        ..QueryParameters::new(Consistency::One)
    };
    let query = client.query_with(text, &parameters, BindValues::Positional(&values));
    client.send(&query);
    client.received(Answer::received).unwrap_or(Answer::Error {
        code: ErrorCode::ServerError,
        message: "the connection ended".to_owned(),
    })
}

/// An answer without what differs by itself.
fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Error {
            code: ErrorCode::SyntaxError,
            ..
        } => "SyntaxError".to_owned(),
        Answer::Error { code, message } => {
            let lists = [
                " (known type signatures",
                " (can be matched by following signatures",
            ];
            let end = lists.iter().filter_map(|list| message.find(list)).min();
            format!("{code:?}: {}", &message[..end.unwrap_or(message.len())])
        }
        Answer::Rows(rows) => {
            let columns: Vec<String> = rows
                .columns
                .iter()
                .map(|column| format!("{} {}", column.name, column.cql_type))
                .collect();
            format!("{} rows of {}", rows.rows.len(), columns.join(", "))
        }
        Answer::Void => "void".to_owned(),
        Answer::SetKeyspace(keyspace) => format!("keyspace {keyspace}"),
        Answer::SchemaChange => "a schema change".to_owned(),
        Answer::Prepared { .. } => "prepared".to_owned(),
    }
}

impl Differences {
    fn note(&mut self, text: &str, of_node: &str, of_cassandra: &str) {
        let words = |answer: &str| -> String {
            let plain = answer
                .chars()
                .filter(|character| character.is_ascii_alphabetic() || " :.".contains(*character));
            plain.take(KIND_CHARACTERS).collect()
        };
        let kind = format!("{} | {}", words(of_node), words(of_cassandra));
        let (count, example) = self.by_kind.entry(kind).or_default();
        *count += 1;
        if example.text.is_empty() || text.len() < example.text.len() {
            *example = Example {
                text: text.to_owned(),
                of_node: of_node.to_owned(),
                of_cassandra: of_cassandra.to_owned(),
            };
        }
    }
}
