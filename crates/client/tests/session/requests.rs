//! Uses of a session by an application.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helenus_client::statement::ExecutionOptions;
use helenus_client::throttle::ThrottleMode;
use helenus_client::values::Unset;
use helenus_client::{Batch, RequestError, Session, Statement};
use helenus_protocol::frame::Compression;
use helenus_protocol::request::BatchKind;
use helenus_protocol::{Consistency, ErrorCode, ProtocolVersion};
use helenus_server::Server;
use helenus_vfs::{ManualClock, MemoryDisk};

use super::server::{any_port, block_on, builder, serve, serve_by};

async fn create_table(session: &Session) {
    for text in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.orders (id bigint, line int, item text, tags map<text, int>, PRIMARY KEY (id, line))",
    ] {
        session.query(text, ()).await.unwrap();
    }
}

/// Writes and reads every way there is.
async fn use_session(session: &Session) {
    create_table(session).await;
    let insert = session
        .prepare("INSERT INTO shop.orders (id, line, item, tags) VALUES (?, ?, ?, ?)")
        .await
        .unwrap();
    for line in 0..10 {
        let tags = BTreeMap::from([("line".to_owned(), line)]);
        session.execute(&insert, (7, line, "lamp", tags)).await.unwrap();
    }
    session
        .execute(&insert, (8, 0, None::<String>, Unset))
        .await
        .unwrap_or_else(|error| {
            // v3 has no unset values.
            assert!(matches!(error, RequestError::Server(_)), "{error}");
            panic!("{error}")
        });
    let select = session
        .prepare("SELECT line, item, tags FROM shop.orders WHERE id = ?")
        .await
        .unwrap()
        .with_page_size(3)
        .with_consistency(Consistency::One)
        // The longest time ended in a panic where it was added to the clock.
        .with_timeout(Duration::MAX);
    let mut pager = session.pages(&select, select.bind((7_i64,)).unwrap());
    let mut lines = Vec::new();
    while let Some(page) = pager.next_page().await.unwrap() {
        for row in page.rows::<(i32, String, BTreeMap<String, i32>)>().unwrap() {
            let (line, item, tags) = row.unwrap();
            assert_eq!((item.as_str(), tags["line"]), ("lamp", line));
            lines.push(line);
        }
    }
    assert_eq!(lines, Vec::from_iter(0..10));

    let mut batch = Batch::new(BatchKind::Unlogged);
    batch.push(&insert, (9, 1, "desk", Unset)).unwrap();
    batch
        .push_text(
            "UPDATE shop.orders SET item = 'chair' WHERE id = 9 AND line = 2",
            (),
        )
        .unwrap();
    session.batch(&batch).await.unwrap();
    let count = session
        .query("SELECT count(*) FROM shop.orders WHERE id = 9", ())
        .await
        .unwrap();
    assert_eq!(count.first_row::<(i64,)>().unwrap(), (2,));
}

#[test]
fn every_version_and_compression_reads_what_it_wrote() {
    for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
        for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
            let server = serve(2, any_port());
            block_on(async {
                let session = builder(&server)
                    .protocol_version_max(version)
                    .compression(compression)
                    .connect()
                    .await
                    .unwrap();
                use_session(&session).await;
                session.close();
                assert!(matches!(
                    session.query("SELECT * FROM shop.orders", ()).await,
                    Err(RequestError::Closed)
                ));
                server.stop().await;
            });
        }
    }
}

#[test]
fn an_error_of_the_server_is_told_with_its_code_and_words() {
    let server = serve(1, any_port());
    block_on(async {
        let session = builder(&server).connect().await.unwrap();
        let error = session
            .query("SELECT * FROM nowhere.at_all", ())
            .await
            .unwrap_err();
        let RequestError::Server(error) = error else {
            panic!("{error}")
        };
        assert_eq!(error.code, Some(ErrorCode::Invalid));
        assert_eq!(error.message, "keyspace nowhere does not exist");
        create_table(&session).await;
        let insert = session
            .prepare("INSERT INTO shop.orders (id, line) VALUES (?, ?)")
            .await
            .unwrap();
        let refused = session.execute(&insert, (1_i64, "two")).await;
        assert!(matches!(refused, Err(RequestError::Bind(_))), "{refused:?}");
        let refused = session.execute(&insert, (1_i64,)).await;
        assert!(matches!(refused, Err(RequestError::Bind(_))), "{refused:?}");
        server.stop().await;
    });
}

#[test]
fn ten_thousand_callers_wait_their_turn_and_none_fails() {
    let server = serve(2, any_port());
    block_on(async {
        let session = builder(&server)
            .throttle(ThrottleMode::Concurrency(50))
            .connect()
            .await
            .unwrap();
        create_table(&session).await;
        let insert = Arc::new(
            session
                .prepare("INSERT INTO shop.orders (id, line) VALUES (?, ?)")
                .await
                .unwrap(),
        );
        let callers: Vec<_> = (0..10_000_i64)
            .map(|id| {
                let (session, insert) = (session.clone(), insert.clone());
                tokio::spawn(async move { session.execute(&insert, (id, 0)).await.map(drop) })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        let statistics = session.statistics();
        let (_, status, _) = statistics.nodes[0];
        assert_eq!((status.limit, status.in_flight, status.waiting), (50, 0, 0));
        server.stop().await;
    });
}

#[test]
fn a_caller_that_gives_up_leaves_its_stream_to_the_late_answer() {
    let server = serve(1, any_port());
    block_on(async {
        let session = builder(&server).connect().await.unwrap();
        create_table(&session).await;
        let select = session
            .prepare("SELECT line FROM shop.orders WHERE id = ?")
            .await
            .unwrap();
        for id in 0..500_i64 {
            let given_up = tokio::time::timeout(Duration::ZERO, session.execute(&select, (id,)));
            drop(given_up.await);
            // The next one gets its own answer, not the late one.
            let text = format!("SELECT line FROM shop.orders WHERE id = {id} LIMIT 1");
            let answer = session.query(&text[..], ()).await.unwrap();
            assert_eq!(answer.row_count().unwrap(), 0);
        }
        assert_eq!(session.statistics().nodes[0].1.in_flight, 0);
        server.stop().await;
    });
}

#[test]
fn a_deadline_that_has_passed_is_said_clearly() {
    let server = serve(1, any_port());
    block_on(async {
        let session = builder(&server).connect().await.unwrap();
        let statement = Statement {
            text: "SELECT * FROM system.local".to_owned(),
            options: Some(ExecutionOptions {
                timeout: Duration::ZERO,
                ..ExecutionOptions::default()
            }),
        };
        let error = session.query(statement, ()).await.unwrap_err();
        assert!(matches!(error, RequestError::DeadlinePassed { .. }), "{error}");
        server.stop().await;
    });
}

async fn stop_and_serve_again(server: Server) -> Server {
    let address = server.address;
    server.stop().await;
    serve(2, address)
}

#[test]
fn a_restart_is_not_seen_by_callers_that_wait_for_ready() {
    let mut server = serve(2, any_port());
    block_on(async {
        let session = builder(&server).wait_for_ready().connect().await.unwrap();
        for _ in 0..3 {
            create_table(&session).await;
            let insert = session
                .prepare("INSERT INTO shop.orders (id, line) VALUES (?, ?)")
                .await
                .unwrap();
            session.execute(&insert, (1_i64, 1)).await.unwrap();
            server = stop_and_serve_again(server).await;
        }
        server.stop().await;
    });
}

#[test]
fn a_partition_over_its_limit_is_refused_with_the_error_that_was_negotiated() {
    // Time stands still: the burst of a limit of one a second is one request.
    let clock = Arc::new(ManualClock::starting_at(1_000_000_000));
    let server = serve_by(clock, Arc::new(MemoryDisk::new()), 2, any_port());
    block_on(async {
        let session = builder(&server).connect().await.unwrap();
        create_table(&session).await;
        let limit = "ALTER TABLE shop.orders WITH per_partition_rate_limit = {'max_writes_per_second': 1}";
        session.query(limit, ()).await.unwrap();
        let insert = session
            .prepare("INSERT INTO shop.orders (id, line) VALUES (?, ?)")
            .await
            .unwrap();
        for id in 0..8_i64 {
            session.execute(&insert, (id, 0)).await.unwrap();
            let Err(RequestError::Server(error)) = session.execute(&insert, (id, 1)).await else {
                panic!("the second write of a second was served");
            };
            assert_eq!(error.code, Some(ErrorCode::RateLimited));
            assert_eq!(
                error.message,
                "Per-partition rate limit of shop.orders reached: 1 writes per second"
            );
        }
        session.close();
        server.stop().await;
    });
}
