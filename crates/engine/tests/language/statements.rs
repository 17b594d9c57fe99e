//! Statements and their answers, as text, on one shard and on several.
//!
//! A case is a statement, whose lines begin with `> `, and the lines after it: names and types of the columns, then
//! the rows, or the error's message after `! `. `> @page N` before a statement reads it in pages of N rows and marks
//! where each ended. Set `REWRITE_GOLDEN=1` to write the files anew, and read the difference.

use std::fs;
use std::path::PathBuf;

use helenus_engine::QueryOptions;
use helenus_engine::functions::Clock;
use helenus_engine::term::{BoundValues, ColumnSpec};
use helenus_protocol::frame::{Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::response::{ReceivedResult, Response};
use helenus_protocol::wire::WireReader;
use helenus_protocol::{Opcode, ProtocolVersion};

use crate::node::{Shards, options};

struct Case {
    page_size: Option<i32>,
    statement: String,
    answer: String,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/statements")
}

fn read_cases(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (asked, answered): (Vec<&str>, Vec<&str>) =
            block.trim().lines().partition(|line| line.starts_with('>'));
        let mut asked: Vec<&str> = asked
            .iter()
            .map(|line| line.trim_start_matches('>').trim())
            .collect();
        let page_size = asked[0].strip_prefix("@page ").map(|size| size.parse().unwrap());
        if page_size.is_some() {
            asked.remove(0);
        }
        cases.push(Case {
            page_size,
            statement: asked.join("\n"),
            answer: answered.join("\n"),
        });
    }
    cases
}

fn answer(shards: &mut Shards, case: &Case) -> String {
    let columns = match shards.prepare(&case.statement) {
        Ok(prepared) => prepared.result.map(|result| result.columns.clone()),
        Err(error) => return format!("! {error}"),
    };
    let mut text = match &columns {
        None => String::new(),
        Some(columns) => {
            let named: Vec<String> = columns
                .iter()
                .map(|column| format!("{} {}", column.name, column.cql_type))
                .collect();
            named.join(", ")
        }
    };
    let mut paging_state: Option<Vec<u8>> = None;
    loop {
        let options = QueryOptions {
            paging_state: paging_state.as_deref(),
            ..options(case.page_size)
        };
        let body = match shards.execute(&case.statement, &options) {
            Ok(body) => body,
            Err(error) => return format!("! {error}"),
        };
        let Some(columns) = &columns else {
            // Only conditional statements answer with rows that preparing does not tell of.
            return if body.is_empty() {
                text
            } else {
                conditional_text(&body)
            };
        };
        paging_state = rows_text(&body, columns, &mut text);
        match paging_state {
            Some(_) => text.push_str("\n-- page"),
            None => return text,
        }
    }
}

/// Appends the rows of a RESULT; gives back its paging state.
fn rows_text(body: &[u8], columns: &[ColumnSpec], text: &mut String) -> Option<Vec<u8>> {
    let mut reader = WireReader::new(body);
    assert_eq!(reader.int("kind").unwrap(), 2);
    let flags = reader.int("flags").unwrap();
    assert_eq!(reader.int("columns").unwrap() as usize, columns.len());
    let paging_state = (flags & 2 != 0).then(|| reader.bytes("paging state").unwrap().unwrap().to_vec());
    reader.string().unwrap();
    reader.string().unwrap();
    for column in columns {
        assert_eq!(reader.string().unwrap(), &*column.name);
        let mut encoded = Vec::new();
        helenus_protocol::type_option::put_type(&mut encoded, ProtocolVersion::V5, &column.cql_type);
        assert_eq!(reader.take(encoded.len(), "type").unwrap(), encoded);
    }
    for _ in 0..reader.int("rows").unwrap() {
        let values = columns.iter().map(|column| match reader.bytes("value").unwrap() {
            Some(bytes) => column.cql_type.to_cql_literal(bytes),
            None => "null".to_owned(),
        });
        text.push('\n');
        text.push_str(&values.collect::<Vec<_>>().join(" | "));
    }
    assert!(reader.rest().is_empty());
    paging_state
}

/// The columns and rows of a RESULT that says itself what they are.
fn conditional_text(body: &[u8]) -> String {
    let header = EnvelopeHeader {
        version: ProtocolVersion::V5,
        flags: EnvelopeFlags::NONE,
        stream: 0,
        opcode: Opcode::Result,
        body_bytes: body.len() as u32,
    };
    let (response, _) = Response::decode(&Envelope { header, body }).unwrap();
    let Response::Result(ReceivedResult::Rows(rows)) = response else {
        panic!("{response:?}");
    };
    let columns = &rows.metadata.columns;
    let named = columns
        .iter()
        .map(|column| format!("{} {}", column.name, column.data_type));
    let mut text = named.collect::<Vec<_>>().join(", ");
    for row in rows.iter() {
        let values = row.zip(columns).map(|(value, column)| match value {
            Some(bytes) => column.data_type.to_cql_literal(bytes),
            None => "null".to_owned(),
        });
        text.push('\n');
        text.push_str(&values.collect::<Vec<_>>().join(" | "));
    }
    text
}

#[test]
fn statements_are_answered_as_recorded_on_any_number_of_shards() {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for shard_count in [1, 3] {
            let mut shards = Shards::new(shard_count);
            let mut written = Vec::new();
            for case in read_cases(&text) {
                let found = answer(&mut shards, &case);
                let page = case
                    .page_size
                    .map(|size| format!("> @page {size}\n"))
                    .unwrap_or_default();
                let asked = case.statement.replace('\n', "\n> ");
                written.push(format!("{page}> {asked}\n{found}").trim_end().to_owned());
                if std::env::var_os("REWRITE_GOLDEN").is_none() {
                    assert_eq!(found, case.answer, "{}: {}", file.display(), case.statement);
                }
            }
            if std::env::var_os("REWRITE_GOLDEN").is_some() && shard_count == 1 {
                fs::write(&file, written.join("\n\n") + "\n").unwrap();
            }
        }
    }
}

/// The wall clock of the process said it, whatever clock the node had.
#[test]
fn now_in_a_statement_is_the_time_of_the_given_clock() {
    let mut shards = Shards::new(1);
    let options = options(None);
    shards
        .execute("CREATE TABLE moments (k int PRIMARY KEY, at timestamp)", &options)
        .unwrap();
    let now = Clock {
        server_timestamp_us: 86_400_000_000,
    };
    for (key, value) in [(1, "'now'"), (2, "from_json('\"now\"')")] {
        let insert = format!("INSERT INTO moments (k, at) VALUES ({key}, {value})");
        let prepared = shards.prepare_at(now, &insert).unwrap();
        let options = QueryOptions {
            server_timestamp_us: now.server_timestamp_us,
            ..options
        };
        shards.run(&prepared, &BoundValues::EMPTY, &options).unwrap();
    }
    let columns = shards.prepare("SELECT at FROM moments").unwrap().result.unwrap();
    let body = shards.execute("SELECT at FROM moments", &options).unwrap();
    let mut text = String::new();
    rows_text(&body, &columns.columns, &mut text);
    assert_eq!(text, "\n'1970-01-02T00:00:00.000Z'\n'1970-01-02T00:00:00.000Z'");
}
