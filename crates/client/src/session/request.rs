//! A request in the form that it can be written any number of times, in the version of whichever connection takes it.

use helenus_protocol::request::{
    BatchStatement, BindValues, QueryParameters, write_batch, write_execute, write_prepare, write_query,
};
use helenus_protocol::{Opcode, ProtocolVersion};
use helenus_types::Token;

use crate::statement::{Batch, BatchMember, ExecutionOptions, Prepared, PreparedStatement, ResultShape};
use crate::values::BoundValues;

#[derive(Clone, Copy, Debug)]
pub(super) enum Request<'a> {
    Query {
        text: &'a str,
        options: &'a ExecutionOptions,
        values: &'a BoundValues,
    },
    Prepare {
        text: &'a str,
    },
    Execute {
        statement: &'a Prepared,
        shape: &'a ResultShape,
        values: &'a BoundValues,
        paging_state: Option<&'a [u8]>,
    },
    Batch {
        batch: &'a Batch,
    },
}

impl<'a> Request<'a> {
    pub fn opcode(&self) -> Opcode {
        match self {
            Request::Query { .. } => Opcode::Query,
            Request::Prepare { .. } => Opcode::Prepare,
            Request::Execute { .. } => Opcode::Execute,
            Request::Batch { .. } => Opcode::Batch,
        }
    }

    /// The partition that the request is about, and the keyspace that decides who holds it.
    pub fn partition(&self) -> Option<(&'a str, Token)> {
        let (statement, values) = match self {
            Request::Execute {
                statement, values, ..
            } => (&statement.shared, *values),
            Request::Batch { batch } => match batch.members.first()? {
                (BatchMember::Prepared(statement), values) => (statement, values),
                (BatchMember::Text(_), _) => return None,
            },
            Request::Query { .. } | Request::Prepare { .. } => return None,
        };
        Some((statement.keyspace.as_deref()?, statement.token(values)?))
    }

    /// PREPARE changes nothing.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Request::Prepare { .. })
    }

    /// Returns whether it is a transaction, whose writes follow from what it finds: run twice it may find what it wrote itself,
    /// whoever takes it for idempotent. BATCH messages have no transactions in them.
    pub fn is_transaction(&self) -> bool {
        match self {
            Request::Query { text, .. } => begins_transaction(text),
            Request::Execute { statement, .. } => begins_transaction(&statement.shared.text),
            Request::Prepare { .. } | Request::Batch { .. } => false,
        }
    }

    /// The statement with this id, for a server that has forgotten it.
    pub fn prepared_with(&self, id: &[u8]) -> Option<&'a PreparedStatement> {
        match self {
            Request::Execute { statement, .. } => Some(&*statement.shared).filter(|known| known.id == id),
            Request::Batch { batch } => batch.members.iter().find_map(|(member, _)| match member {
                BatchMember::Prepared(statement) if statement.id == id => Some(&**statement),
                _ => None,
            }),
            Request::Query { .. } | Request::Prepare { .. } => None,
        }
    }

    pub fn write(&self, out: &mut Vec<u8>, version: ProtocolVersion) {
        match self {
            Request::Query {
                text,
                options,
                values,
            } => write_query(out, version, text, &parameters(options, None), encoded(values)),
            Request::Prepare { text } => write_prepare(out, version, text, None),
            Request::Execute {
                statement,
                shape,
                values,
                paging_state,
            } => {
                let mut parameters = parameters(&statement.options, *paging_state);
                // Before v5 nothing tells a client that the columns have changed, so they always come along.
                parameters.skip_metadata = version >= ProtocolVersion::V5 && !shape.types.is_empty();
                write_execute(
                    out,
                    version,
                    &statement.shared.id,
                    &shape.metadata_id,
                    &parameters,
                    encoded(values),
                );
            }
            Request::Batch { batch } => {
                let queries: Vec<(BatchStatement<'_>, BindValues<'_>)> = batch
                    .members
                    .iter()
                    .map(|(member, values)| {
                        let statement = match member {
                            BatchMember::Text(text) => BatchStatement::Text(text),
                            BatchMember::Prepared(statement) => BatchStatement::Prepared(&statement.id),
                        };
                        (statement, encoded(values))
                    })
                    .collect();
                let mut parameters = parameters(&batch.options, None);
                parameters.page_size = None;
                write_batch(out, version, batch.kind, &queries, &parameters);
            }
        }
    }
}

/// Returns whether the first words of a statement, behind comments, are BEGIN TRANSACTION.
fn begins_transaction(text: &str) -> bool {
    let follows = |rest: &'_ str, word: &str| {
        let (found, rest) = rest.split_at_checked(word.len())?;
        let is_word = found.eq_ignore_ascii_case(word)
            && !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
        is_word.then_some(rest.len())
    };
    let begin = without_leading_comments(text);
    let Some(rest_bytes) = follows(begin, "BEGIN") else {
        return false;
    };
    let behind = without_leading_comments(&begin[begin.len() - rest_bytes..]);
    follows(behind, "TRANSACTION").is_some()
}

fn without_leading_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_ascii_start();
        let end = if text.starts_with("--") || text.starts_with("//") {
            text.find('\n')
        } else if let Some(comment) = text.strip_prefix("/*") {
            comment.find("*/").map(|place| place + "/**/".len())
        } else {
            return text;
        };
        text = &text[end.unwrap_or(text.len())..];
    }
}

fn encoded(values: &BoundValues) -> BindValues<'_> {
    BindValues::Encoded {
        count: values.count(),
        bytes: values.as_bytes(),
    }
}

fn parameters<'a>(options: &ExecutionOptions, paging_state: Option<&'a [u8]>) -> QueryParameters<'a> {
    QueryParameters {
        page_size: i32::try_from(options.page_size).ok().filter(|size| *size > 0),
        paging_state,
        serial_consistency: options.serial_consistency,
        default_timestamp: options.timestamp_us,
        ..QueryParameters::new(options.consistency)
    }
}

#[cfg(test)]
mod tests {
    use super::begins_transaction;

    #[test]
    fn transactions_are_known_by_their_first_words() {
        for text in [
            "BEGIN TRANSACTION SELECT a FROM t WHERE k = 1; COMMIT TRANSACTION",
            " begin\n\ttransaction",
            "-- why\n/* how */ // and\nBegin /* */Transaction\nLET",
        ] {
            assert!(begins_transaction(text), "{text}");
        }
        for text in [
            "",
            "BEGIN",
            "BEGIN ",
            "BEGIN BATCH",
            "BEGINTRANSACTION",
            "BEGIN TRANSACTIONS",
            "BEGIN_ TRANSACTION",
            "-- BEGIN TRANSACTION",
            "/* BEGIN TRANSACTION",
            "/*/ BEGIN TRANSACTION",
            "SELECT 'BEGIN TRANSACTION' FROM t",
            "bégin transaction",
        ] {
            assert!(!begins_transaction(text), "{text}");
        }
    }
}
