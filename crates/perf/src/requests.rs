//! Requests of `helenus-perf simple-query`: one that succeeds, or one that ends in an error of each kind.

use std::io;

use helenus_protocol::request::{BindValues, QueryParameters, Value, write_execute, write_query};
use helenus_protocol::{Consistency, Opcode};

use crate::simple_query::{VERSION, execute_frame, frame};
use crate::workload::{COLUMNS, VALUE_BYTES};

/// Kind of each request, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Asked {
    /// EXECUTE that reads or writes.
    Execute,
    /// QUERY that reads: prepared each time.
    Query,
    /// EXECUTE with an id that nobody prepared.
    Unprepared,
    /// EXECUTE with a value too few.
    Invalid,
    /// EXECUTE whose body ends too early.
    Protocol,
    /// EXECUTE whose time was over before it was begun.
    TimedOut,
    /// EXECUTE that is refused by its header.
    Refused,
    /// QUERY that is not CQL.
    SyntaxError,
    /// QUERY of a table that is not there.
    UnknownTable,
    /// QUERY that changes the schema.
    AlterTable,
    /// QUERY that creates the table that is there.
    AlreadyExists,
    /// QUERY that gives a table an option that it cannot have.
    ConfigError,
}

impl Asked {
    pub(crate) fn is_error(self) -> bool {
        !matches!(self, Asked::Execute | Asked::Query | Asked::AlterTable)
    }

    pub(crate) fn frame(self, statement_id: &[u8], write: bool, key: u32) -> io::Result<Vec<u8>> {
        match self {
            Asked::Execute | Asked::TimedOut | Asked::Refused => execute_frame(statement_id, write, key),
            Asked::Unprepared => execute_frame(&[0x5a; 16], write, key),
            Asked::Invalid => execute_without_values(statement_id),
            Asked::Protocol => {
                let mut frame = execute_frame(statement_id, write, key)?;
                frame.truncate(frame.len() - VALUE_BYTES.min(4));
                let body_bytes = (frame.len() - 9) as u32;
                frame[5..9].copy_from_slice(&body_bytes.to_be_bytes());
                Ok(frame)
            }
            Asked::Query => {
                let columns: Vec<String> = (0..COLUMNS).map(|column| format!("c{column}")).collect();
                query_frame(&format!(
                    "SELECT {} FROM perf.cf WHERE key = {key}",
                    columns.join(", ")
                ))
            }
            Asked::SyntaxError => query_frame(&format!("SELECT c0, c1, FROM perf.cf WHERE key = {key}")),
            Asked::UnknownTable => query_frame(&format!("SELECT c0, c1 FROM perf.absent WHERE key = {key}")),
            Asked::AlterTable => query_frame(&format!("ALTER TABLE perf.cf WITH comment = '{key}'")),
            Asked::AlreadyExists => query_frame("CREATE TABLE perf.cf (key bigint PRIMARY KEY, c0 blob)"),
            Asked::ConfigError => {
                query_frame("CREATE TABLE perf.other (key bigint PRIMARY KEY) WITH gc_grace_seconds = -1")
            }
        }
    }
}

fn query_frame(text: &str) -> io::Result<Vec<u8>> {
    let parameters = QueryParameters::new(Consistency::One);
    frame(Opcode::Query, |out| {
        write_query(out, VERSION, text, &parameters, BindValues::NONE);
    })
}

fn execute_without_values(statement_id: &[u8]) -> io::Result<Vec<u8>> {
    let parameters = QueryParameters::new(Consistency::One);
    let none: [Value<'_>; 0] = [];
    frame(Opcode::Execute, |out| {
        let values = BindValues::Positional(&none);
        write_execute(out, VERSION, statement_id, &[], &parameters, values);
    })
}
