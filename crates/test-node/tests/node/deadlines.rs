//! A request whose time is over before it is begun is refused, and nothing of it is done; on whichever shard it comes in.

use std::sync::Arc;
use std::time::Duration;

use helenus_protocol::ErrorCode;
use helenus_test_node::{Answer, Execution, TestNode, options};
use helenus_vfs::{ManualClock, MemoryDisk};

const SHARDS: u16 = 2;

const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_secs(5);

fn node() -> TestNode {
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    // A request can have waited for hours only where the clock has run for hours.
    clock.advance_s(100_000);
    let mut options = options(SHARDS, Arc::new(MemoryDisk::new()), clock);
    options.write_request_timeout = WRITE_TIMEOUT;
    options.read_request_timeout = READ_TIMEOUT;
    let node = TestNode::start(options).unwrap();
    node.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    node.run("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    node
}

fn after(waited: Duration, shard: u16) -> Execution {
    Execution {
        waited,
        shard,
        // Which refuses what has waited half of its time.
        past_admission: true,
        ..Execution::default()
    }
}

fn is_refused(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Error { code: ErrorCode::Overloaded, message } if message == "Query timed out before it could start"
    )
}

#[test]
fn a_write_that_waited_too_long_is_refused_and_leaves_nothing() {
    let node = node();
    for shard in 0..SHARDS {
        for p in 0..8 {
            let insert = format!("INSERT INTO k.t (p, v) VALUES ({p}, 1)");
            let batch = format!("BEGIN UNLOGGED BATCH {insert}; {insert} APPLY BATCH");
            for statement in [insert, batch] {
                let answer = node.execute_with(&statement, &after(WRITE_TIMEOUT * 2, shard));
                assert!(is_refused(&answer), "{statement}: {answer:?}");
            }
        }
    }
    assert!(node.rows("SELECT p FROM k.t").is_empty());
    let in_time = node.execute_with(
        "INSERT INTO k.t (p, v) VALUES (1, 1)",
        &after(WRITE_TIMEOUT / 2, 0),
    );
    assert_eq!(in_time, Answer::Void);
}

/// A write to a keyspace without a log waited for the next write that has one, and where there was none for its timeout:
/// "Operation timed out" after two seconds, although it was done.
#[test]
fn a_write_that_no_log_takes_does_not_wait_for_the_log() {
    let node = node();
    node.run(
        "CREATE KEYSPACE nolog WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} \
         AND durable_writes = false",
    );
    node.run("CREATE TABLE nolog.t (p int PRIMARY KEY, v int)");
    for shard in 0..SHARDS {
        for p in 0..8 {
            let insert = format!("INSERT INTO nolog.t (p, v) VALUES ({p}, 1)");
            let batch = format!("BEGIN UNLOGGED BATCH {insert}; {insert} APPLY BATCH");
            for statement in [insert, batch] {
                let answer = node.execute_with(&statement, &after(Duration::ZERO, shard));
                assert_eq!(answer, Answer::Void, "{statement}");
            }
        }
    }
    assert_eq!(node.rows("SELECT p FROM nolog.t").len(), 8);
}

#[test]
fn each_kind_of_request_has_the_time_that_is_configured_for_it() {
    let node = node();
    let select = "SELECT v FROM k.t WHERE p = 1";
    assert!(is_refused(
        &node.execute_with(select, &after(READ_TIMEOUT * 2, 0))
    ));
    assert!(matches!(
        node.execute_with(select, &after(WRITE_TIMEOUT * 2, 0)),
        Answer::Rows(_)
    ));
    assert!(matches!(
        node.execute_with("SELECT v FROM k.t", &after(READ_TIMEOUT + READ_TIMEOUT / 2, 1)),
        Answer::Rows(_)
    ));
}

#[test]
fn the_statements_own_timeout_counts_before_the_configured_one() {
    let node = node();
    let waited = after(Duration::from_millis(500), 1);
    let short = node.execute_with(
        "INSERT INTO k.t (p, v) VALUES (1, 1) USING TIMEOUT 100ms",
        &waited,
    );
    assert!(is_refused(&short), "{short:?}");
    let short = node.execute_with("SELECT v FROM k.t WHERE p = 1 USING TIMEOUT 100ms", &waited);
    assert!(is_refused(&short), "{short:?}");
    let long = node.execute_with(
        "INSERT INTO k.t (p, v) VALUES (1, 1) USING TIMEOUT 1h",
        &after(WRITE_TIMEOUT * 2, 1),
    );
    assert_eq!(long, Answer::Void);
}

#[test]
fn a_timeout_has_no_days_and_is_not_negative() {
    let node = node();
    for timeout in ["2d", "1mo", "-1s"] {
        let answer = node.execute(&format!(
            "INSERT INTO k.t (p, v) VALUES (1, 1) USING TIMEOUT {timeout}"
        ));
        assert!(
            matches!(
                answer,
                Answer::Error {
                    code: ErrorCode::Invalid | ErrorCode::SyntaxError,
                    ..
                }
            ),
            "{timeout}: {answer:?}"
        );
    }
}
