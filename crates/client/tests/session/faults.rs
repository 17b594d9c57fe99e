//! Servers that stall, trickle, lie or vanish: one clear error by the deadline, nothing leaks, and the session
//! recovers.

use std::time::{Duration, Instant};

use helenus_client::{RequestError, Session};
use helenus_protocol::ProtocolVersion;

use super::fault_proxy::{FaultProxy, Habits, Rule};
use super::server::{PATIENCE, any_port, block_on, serve};

const DEADLINE: Duration = Duration::from_millis(400);

/// Returns whether a request may be told of this error while its answers are spoilt.
fn is_clear(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::DeadlinePassed { .. }
            | RequestError::ConnectionLost { .. }
            | RequestError::Unreachable(_)
            | RequestError::Unreadable { .. }
    )
}

async fn until_served(session: &Session, rule: Rule) {
    let begun = Instant::now();
    loop {
        match session.query("SELECT key FROM system.local", ()).await {
            Ok(answer) if answer.row_count().is_ok_and(|count| count == 1) => return,
            other => assert!(begun.elapsed() < PATIENCE, "{rule:?}: {other:?}"),
        }
    }
}

async fn spoil(rule: Rule) {
    let server = serve(1, any_port());
    let proxy = FaultProxy::start(server.address).await;
    let session = Session::builder()
        .node(proxy.address.to_string())
        .only_these_nodes()
        .protocol_version_max(ProtocolVersion::V4)
        .connections_per_node(1)
        .connect_timeout(PATIENCE)
        .timeout(DEADLINE)
        .connect()
        .await
        .unwrap();
    until_served(&session, rule).await;
    proxy.set(rule);
    let mut failed = 0;
    for _ in 0..3 {
        let asked: Vec<_> = (0..8)
            .map(|_| {
                let session = session.clone();
                tokio::spawn(async move {
                    let answer = session.query("SELECT key FROM system.local", ()).await?;
                    answer.row_count().map(|count| assert_eq!(count, 1))
                })
            })
            .collect();
        for asked in asked {
            // A request that hangs would hang the test: each ends by its own deadline.
            match tokio::time::timeout(PATIENCE, asked)
                .await
                .expect("an end")
                .unwrap()
            {
                Ok(()) => {}
                Err(error) => {
                    assert!(is_clear(&error), "{rule:?}: {error:?}");
                    failed += 1;
                }
            }
        }
    }
    assert!(
        failed > 0 && proxy.applied() > 0,
        "{rule:?} was not seen: {failed} failed"
    );
    proxy.set(Rule::Pass);
    until_served(&session, rule).await;
    let (_, status, _) = session.statistics().nodes[0];
    assert_eq!((status.in_flight, status.waiting), (0, 0), "{rule:?}");
    session.close();
    server.stop().await;
}

#[test]
fn a_server_that_never_answers() {
    block_on(spoil(Rule::NeverAnswer));
}

#[test]
fn a_server_that_trickles() {
    block_on(spoil(Rule::Trickle));
}

#[test]
fn a_server_that_sends_garbage() {
    block_on(spoil(Rule::Garbage));
}

#[test]
fn a_server_that_closes_in_the_middle_of_a_frame() {
    block_on(spoil(Rule::CloseMidFrame));
}

#[test]
fn a_server_that_answers_on_the_wrong_stream() {
    block_on(spoil(Rule::WrongStream));
}

#[test]
fn a_server_that_lies_about_lengths() {
    block_on(spoil(Rule::LieAboutLength));
}

#[test]
fn a_server_that_changes_its_version() {
    block_on(spoil(Rule::WrongVersion));
}

#[test]
fn a_server_whose_bodies_end_too_early() {
    block_on(spoil(Rule::ShortBody));
}

async fn session_through(proxy: &FaultProxy) -> Session {
    Session::builder()
        .node(proxy.address.to_string())
        .only_these_nodes()
        .protocol_version_max(ProtocolVersion::V4)
        .connections_per_node(1)
        .connect_timeout(PATIENCE)
        .timeout(PATIENCE)
        .connect()
        .await
        .unwrap()
}

/// Executes a statement that is not idempotent while the proxy exchanges results for OVERLOADED; how many answers that
/// were, and what became of it.
async fn overloaded(habits: Habits, words: &'static str) -> (u64, Result<(), RequestError>) {
    let server = serve(1, any_port());
    let proxy = FaultProxy::start_with(server.address, habits).await;
    let session = session_through(&proxy).await;
    proxy.set(Rule::Overloaded(words));
    let asked = tokio::spawn({
        let session = session.clone();
        async move { session.query("SELECT key FROM system.local", ()).await.map(drop) }
    });
    let begun = Instant::now();
    while proxy.applied() < 3 && !asked.is_finished() && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let applied = proxy.applied();
    proxy.set(Rule::Pass);
    let outcome = tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("an end")
        .unwrap();
    session.close();
    server.stop().await;
    (applied, outcome)
}

/// Cassandra's coordinator says OVERLOADED also in the middle of batches, conditional writes and counters: sent again,
/// a list append or an increment ran twice.
#[test]
fn what_an_overloaded_coordinator_may_have_done_is_not_sent_again() {
    let other = Habits {
        hides_helenus: true,
        ..Habits::default()
    };
    block_on(async {
        let (applied, outcome) = overloaded(other, "Too many in flight hints: 128").await;
        assert_eq!(applied, 1);
        assert!(matches!(outcome, Err(RequestError::Server(_))), "{outcome:?}");
        // What its transport refuses it has not begun.
        for words in [
            "Request breached limit on bytes in flight. (Endpoint: 1/1 bytes, Global: 1/1 bytes.)",
            "Query timed out before it could start",
        ] {
            let (applied, outcome) = overloaded(other, words).await;
            assert!(applied >= 3 && outcome.is_ok(), "{words}: {applied} {outcome:?}");
        }
        // Helenus promises it of all.
        let (applied, outcome) = overloaded(Habits::default(), "memtables are full").await;
        assert!(applied >= 3 && outcome.is_ok(), "{applied} {outcome:?}");
    });
}

/// Run twice, a transaction may find what it wrote itself: whatever its options say, it goes out again only where it has not run.
#[test]
fn a_transaction_that_may_have_run_is_not_sent_again() {
    const TRANSACTION: &str = "BEGIN TRANSACTION \
         LET row = (SELECT n FROM doubt.t WHERE k = 1); \
         IF row.n >= 0 THEN UPDATE doubt.t SET n = row.n + 1 WHERE k = 1; END IF \
         COMMIT TRANSACTION";
    let other = Habits {
        hides_helenus: true,
        ..Habits::default()
    };
    block_on(async {
        let server = serve(1, any_port());
        let proxy = FaultProxy::start_with(server.address, other).await;
        let session = session_through(&proxy).await;
        for statement in [
            "CREATE KEYSPACE doubt WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE doubt.t (k int PRIMARY KEY, n int)",
            "INSERT INTO doubt.t (k, n) VALUES (1, 0)",
        ] {
            session.query(statement, ()).await.unwrap();
        }
        let insert = session.prepare("INSERT INTO doubt.t (k, n) VALUES (2, 0)").await;
        let transaction = session.prepare(TRANSACTION).await;
        proxy.set(Rule::Overloaded("Too many in flight hints: 128"));
        for (prepared, tries) in [(insert, 3), (transaction, 1)] {
            let (prepared, before) = (prepared.unwrap().idempotent(), proxy.applied());
            let outcome = session.execute(&prepared, ()).await;
            assert!(matches!(outcome, Err(RequestError::Server(_))), "{outcome:?}");
            assert_eq!(proxy.applied() - before, tries, "{}", prepared.text());
        }
        proxy.set(Rule::Pass);
        let ran = session.query("SELECT n FROM doubt.t WHERE k = 1", ()).await;
        assert_eq!(ran.unwrap().first_row::<(i32,)>().unwrap(), (1,));
        session.close();
        server.stop().await;
    });
}

/// A proxy that did not know CEP-59's event left each connection hanging until its time to connect was over.
#[test]
fn a_proxy_that_swallows_a_registration_costs_the_event_and_not_the_connection() {
    block_on(async {
        let server = serve(1, any_port());
        let habits = Habits {
            swallows_disconnects: true,
            ..Habits::default()
        };
        let proxy = FaultProxy::start_with(server.address, habits).await;
        let session = session_through(&proxy).await;
        until_served(&session, Rule::Pass).await;
        session.close();
        server.stop().await;
    });
}
