//! Memory cost of requests and waiting callers, counted by the allocator on the client's thread; the server's threads are
//! not counted.

#[path = "../session/server.rs"]
mod server;

use std::sync::Arc;

use helenus_client::throttle::ThrottleMode;
use helenus_client::{Prepared, Session, SessionBuilder};
use helenus_server::Server;
use helenus_test_heap::{Heap, of_thread};
use server::{any_port, block_on, builder, serve};

const LARGE: usize = 8 << 10;
const REQUESTS: u64 = 200;

async fn session_with_table(builder: SessionBuilder) -> Session {
    let session = builder.connect().await.unwrap();
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS memory WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS memory.bodies (id bigint PRIMARY KEY, body blob)",
    ] {
        session.query(text, ()).await.unwrap();
    }
    session
}

/// Bytes and allocations of one request.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: f64,
    allocations: f64,
}

/// The cost of a write and of a read of a body.
async fn costs(session: &Session, body: &[u8]) -> [Cost; 2] {
    let insert = prepare(session, "INSERT INTO memory.bodies (id, body) VALUES (?, ?)").await;
    let select = prepare(session, "SELECT body FROM memory.bodies WHERE id = ?").await;
    let write = async |id: i64| drop(session.execute(&insert, (id, body)).await.unwrap());
    let read =
        async |id: i64| assert!(session.execute(&select, (id,)).await.unwrap().body_bytes() > body.len());
    // What grows once has grown.
    for id in 0..REQUESTS as i64 {
        write(id).await;
        read(id).await;
    }
    let start = of_thread();
    for id in 0..REQUESTS as i64 {
        write(id).await;
    }
    let written = of_thread();
    for id in 0..REQUESTS as i64 {
        read(id).await;
    }
    let cost = |from: Heap, to: Heap| Cost {
        bytes: (to.allocated_bytes - from.allocated_bytes) as f64 / REQUESTS as f64,
        allocations: (to.allocations - from.allocations) as f64 / REQUESTS as f64,
    };
    [cost(start, written), cost(written, of_thread())]
}

async fn prepare(session: &Session, text: &str) -> Prepared {
    session.prepare(text).await.unwrap()
}

fn one_connection(server: &Server) -> SessionBuilder {
    builder(server).connections_per_node(1)
}

#[test]
fn pooled_buffers_save_a_quarter_and_cost_small_bodies_nothing() {
    block_on(async {
        let server = serve(1, any_port());
        let pooled = session_with_table(one_connection(&server)).await;
        let fresh = session_with_table(one_connection(&server).buffer_pool(false)).await;
        for (name, body) in [("8 KiB", &[7; LARGE][..]), ("1 byte", &[7][..])] {
            let (with, without) = (costs(&pooled, body).await, costs(&fresh, body).await);
            for (kind, with, without) in [("write", with[0], without[0]), ("read", with[1], without[1])] {
                println!(
                    "| {kind} of {name} | {:.0} | {:.0} | {:.1} | {:.1} |",
                    without.bytes, with.bytes, without.allocations, with.allocations
                );
                if body.len() == LARGE {
                    assert!(
                        with.bytes <= 0.78 * without.bytes,
                        "{kind}: {with:?}, {without:?}"
                    );
                    assert!(
                        with.allocations <= 0.78 * without.allocations,
                        "{kind}: {with:?}, {without:?}"
                    );
                } else {
                    assert!(with.bytes <= without.bytes + 1.0, "{kind}: {with:?}, {without:?}");
                    assert!(
                        with.allocations <= without.allocations + 0.1,
                        "{kind}: {with:?}, {without:?}"
                    );
                }
            }
        }
        pooled.close();
        fresh.close();
        server.stop().await;
    });
}

const WAITING: usize = 20_000;
const WAITING_BYTES_MAX: usize = 2048;

#[test]
fn a_waiting_caller_costs_less_than_two_kibibytes() {
    block_on(async {
        let server = serve(1, any_port());
        let session =
            session_with_table(one_connection(&server).throttle(ThrottleMode::Concurrency(1))).await;
        let select = Arc::new(prepare(&session, "SELECT body FROM memory.bodies WHERE id = ?").await);
        let future_bytes = size_of_val(&session.execute(&select, (1_i64,)));
        let before = of_thread().live_bytes;
        let callers: Vec<_> = (0..WAITING)
            .map(|id| {
                let (session, select) = (session.for_new_caller(), select.clone());
                tokio::spawn(async move { session.execute(&select, (id as i64,)).await.map(drop) })
            })
            .collect();
        let mut waiting = 0;
        // The runtime looks at its socket after every 61 callers, so a few of them are answered meanwhile.
        for _ in 0..WAITING {
            tokio::task::yield_now().await;
            waiting = session.statistics().nodes[0].1.waiting;
            if waiting >= WAITING * 3 / 4 {
                break;
            }
        }
        assert!(waiting >= WAITING * 3 / 4, "{waiting} wait");
        let bytes = (of_thread().live_bytes - before) as usize / waiting;
        println!("{bytes} bytes for each of {waiting} waiting callers; the future has {future_bytes}");
        assert!(bytes <= WAITING_BYTES_MAX, "{bytes} bytes for each caller");
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        session.close();
        server.stop().await;
    });
}
