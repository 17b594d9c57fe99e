//! Statements and what becomes of them, as text.
//!
//! A case is a statement, whose lines begin with `> `, and the lines after it: the syntax tree, or the error's message
//! after `! `. Set `REWRITE_GOLDEN=1` to write the files anew from what the parser says, and read the difference.
//!
//! The messages in `rejected.txt` and `mutated.txt` were recorded from Cassandra 5.0.5; rewriting these two would
//! defeat them, so that is left out.

use std::fs;
use std::path::PathBuf;

use helenus_cql::parse_statement;

struct Case {
    statement: String,
    outcome: String,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn read_cases(name: &str) -> Vec<Case> {
    let text = fs::read_to_string(path(name)).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (statement, outcome): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| line.starts_with('>'));
        let statement: Vec<&str> = statement
            .iter()
            .map(|line| line.strip_prefix("> ").unwrap_or(&line[1..]))
            .collect();
        cases.push(Case {
            statement: statement.join("\n"),
            outcome: outcome.join("\n"),
        });
    }
    assert!(!cases.is_empty(), "{name} has no cases");
    cases
}

fn outcome(statement: &str) -> String {
    match parse_statement(statement) {
        Ok(parsed) => format!("{parsed:?}"),
        Err(error) => format!("! {error}"),
    }
}

/// Compares the syntax trees of a file, or writes them.
fn check_trees(name: &str) {
    let cases = read_cases(name);
    if std::env::var_os("REWRITE_GOLDEN").is_some() {
        let blocks: Vec<String> = cases
            .iter()
            .map(|case| {
                format!(
                    "> {}\n{}\n",
                    case.statement.replace('\n', "\n> "),
                    outcome(&case.statement)
                )
            })
            .collect();
        fs::write(path(name), blocks.join("\n")).unwrap();
        return;
    }
    for case in cases {
        assert_eq!(outcome(&case.statement), case.outcome, "{}", case.statement);
    }
}

/// Compares the messages of a file recorded from Cassandra; `accepted` stands for any syntax tree.
fn check_messages(name: &str) {
    for case in read_cases(name) {
        let outcome = match parse_statement(&case.statement) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => format!("! {error}").replace('\n', "\\n"),
        };
        assert_eq!(outcome, case.outcome, "{}", case.statement);
    }
}

#[test]
fn select_trees() {
    check_trees("select.txt");
}

#[test]
fn modification_trees() {
    check_trees("modifications.txt");
}

#[test]
fn schema_trees() {
    check_trees("schema.txt");
}

#[test]
fn role_trees() {
    check_trees("roles.txt");
}

#[test]
fn describe_trees() {
    check_trees("describe.txt");
}

#[test]
fn extension_trees() {
    check_trees("extensions.txt");
}

/// As Cassandra 6 reads them, but for the words of refusals.
#[test]
fn transaction_trees() {
    check_trees("transactions.txt");
}

/// Common mistakes, written by hand.
#[test]
fn rejections_say_what_cassandra_says() {
    check_messages("rejected.txt");
}

/// Valid statements with tokens and characters removed, added, exchanged and cut off.
#[test]
fn mutated_statements_fare_as_in_cassandra() {
    check_messages("mutated.txt");
}
