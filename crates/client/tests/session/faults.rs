//! Servers that stall, trickle, lie or vanish: one clear error by the deadline, nothing leaks, and the session
//! recovers.

use std::time::{Duration, Instant};

use helenus_client::{RequestError, Session};
use helenus_protocol::ProtocolVersion;

use super::fault_proxy::{FaultProxy, Rule};
use super::server::{PATIENCE, any_port, block_on, serve};

const DEADLINE: Duration = Duration::from_millis(400);

/// What a request may be told while its answers are spoilt.
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
