//! `cargo xtask compare instructions errors`: what each kind of error costs beside a success, in instructions and allocations.

use std::fmt::Write as _;

use crate::TaskError;
use crate::compare::{callgrind, files, programs};

const REPORT: &str = "docs/measurements/errors.md";

/// Kind of request, and the one that it is compared with, which is like it and succeeds.
struct Kind {
    asked: &'static str,
    request: &'static str,
    ends_in: &'static str,
    success: Success,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Success {
    Execute,
    Query,
    Schema,
}

const KINDS: [Kind; 12] = [
    kind("execute", "EXECUTE (read)", "rows", Success::Execute),
    kind(
        "refused",
        "EXECUTE that waited too long, refused by its header",
        "Overloaded",
        Success::Execute,
    ),
    kind(
        "protocol",
        "EXECUTE whose body is cut",
        "ProtocolError",
        Success::Execute,
    ),
    kind(
        "timed-out",
        "EXECUTE whose time was over before it was begun",
        "Overloaded",
        Success::Execute,
    ),
    kind(
        "invalid",
        "EXECUTE with a value too few",
        "Invalid",
        Success::Execute,
    ),
    kind(
        "unprepared",
        "EXECUTE of an unknown id",
        "Unprepared",
        Success::Execute,
    ),
    kind("query", "QUERY (read)", "rows", Success::Query),
    kind(
        "unknown-table",
        "QUERY of a table that is not there",
        "Invalid",
        Success::Query,
    ),
    kind(
        "syntax-error",
        "QUERY that is not CQL",
        "SyntaxError",
        Success::Query,
    ),
    kind(
        "alter-table",
        "ALTER TABLE ... WITH comment",
        "a schema change",
        Success::Schema,
    ),
    kind(
        "already-exists",
        "CREATE TABLE of one that is there",
        "AlreadyExists",
        Success::Schema,
    ),
    kind(
        "config-error",
        "CREATE TABLE with a bad option",
        "ConfigError",
        Success::Schema,
    ),
];

const fn kind(asked: &'static str, request: &'static str, ends_in: &'static str, success: Success) -> Kind {
    Kind {
        asked,
        request,
        ends_in,
        success,
    }
}

impl Success {
    fn name(self) -> &'static str {
        match self {
            Success::Execute => "EXECUTE (read)",
            Success::Query => "QUERY (read)",
            Success::Schema => "ALTER TABLE",
        }
    }

    /// Operations of the two runs whose difference is counted. A schema change takes a thousand times as long as a read,
    /// and every one of them is kept.
    fn operations(self) -> (u64, u64) {
        match self {
            Success::Execute => (2_000, 12_000),
            Success::Query => (2_000, 7_000),
            Success::Schema => (100, 600),
        }
    }
}

pub fn run() -> Result<(), TaskError> {
    programs::build()?;
    let mut page = String::from(
        "# What an error costs\n\n`cargo xtask compare instructions errors`: `helenus-perf simple-query --asked KIND` under callgrind, in process, from the bytes of\n\
         the request to the bytes of the answer; the same on every run. A schema statement is compared with one that changes the schema.\n\n\
         | request | ends in | instructions | allocations | of | in percent |\n|---|---|---|---|---|---|\n",
    );
    let mut success = 0;
    for kind in &KINDS {
        let (few, many) = kind.success.operations();
        let instructions =
            callgrind::instructions_per_operation(few, many, |operations| arguments(kind, operations))?;
        let report = callgrind::report(&arguments(kind, &many.to_string()))?;
        let allocations = report["allocations_per_op"].as_f64().unwrap_or_default();
        // The first of its group is what the others are compared with.
        let is_success = KINDS.iter().find(|other| other.success == kind.success);
        if is_success.is_some_and(|first| first.asked == kind.asked) {
            success = instructions;
        }
        let _infallible = writeln!(
            page,
            "| {} | {} | {instructions} | {allocations:.1} | {} | {} |",
            kind.request,
            kind.ends_in,
            kind.success.name(),
            instructions * 100 / success.max(1)
        );
        eprintln!("{}: {instructions}", kind.asked);
    }
    files::publish(REPORT, &page)
}

fn arguments(kind: &Kind, operations: &str) -> Vec<String> {
    let concurrency = match kind.success {
        Success::Schema => "1",
        Success::Execute | Success::Query => "100",
    };
    let flags = [
        "--partitions",
        "100",
        "--concurrency",
        concurrency,
        "--asked",
        kind.asked,
    ];
    callgrind::simple_query(&flags, operations)
}
