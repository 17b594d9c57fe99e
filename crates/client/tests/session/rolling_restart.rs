//! Two nodes behind a session, restarted in turns under load: no caller sees an error, and nothing is executed twice.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use helenus_client::Session;
use helenus_server::Server;
use helenus_vfs::MemoryDisk;

use super::server::{PATIENCE, any_port, block_on, serve_on};

const RESTARTS: usize = 6;
const CALLERS: usize = 32;

async fn create_ledger(address: SocketAddr) {
    let session = session(&[address]).await;
    for text in [
        "CREATE KEYSPACE ledger WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ledger.marks (id bigint PRIMARY KEY)",
    ] {
        session.query(text, ()).await.unwrap();
    }
    session.close();
}

async fn session(nodes: &[SocketAddr]) -> Session {
    let mut builder = Session::builder()
        .only_these_nodes()
        .timeout(PATIENCE)
        .connect_timeout(PATIENCE);
    for node in nodes {
        builder = builder.node(node.to_string());
    }
    builder.connect().await.unwrap()
}

async fn entries(address: SocketAddr) -> HashSet<i64> {
    let session = session(&[address]).await;
    let select = session.prepare("SELECT id FROM ledger.marks").await.unwrap();
    let mut pager = session.pages(&select, select.bind(()).unwrap());
    let mut ids = HashSet::new();
    while let Some(page) = pager.next_page().await.unwrap() {
        ids.extend(page.rows::<(i64,)>().unwrap().map(|row| row.unwrap().0));
    }
    session.close();
    ids
}

#[test]
fn callers_see_no_error_and_nothing_runs_twice() {
    block_on(async {
        let disks = [Arc::new(MemoryDisk::new()), Arc::new(MemoryDisk::new())];
        let mut servers: Vec<Server> = disks
            .iter()
            .map(|disk| serve_on(disk.clone(), 1, any_port()))
            .collect();
        let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
        for address in &addresses {
            create_ledger(*address).await;
        }
        let session = session(&addresses).await;
        // Not idempotent: only what provably did not run may be sent again.
        let insert = session
            .prepare("INSERT INTO ledger.marks (id) VALUES (?)")
            .await
            .unwrap();
        let (next, is_over) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (session, insert) = (session.clone(), insert.clone());
                let (next, is_over) = (next.clone(), is_over.clone());
                tokio::spawn(async move {
                    let mut written = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        session
                            .execute(&insert, (id,))
                            .await
                            .map_err(|error| (id, error))?;
                        written.push(id);
                    }
                    Ok::<_, (i64, helenus_client::RequestError)>(written)
                })
            })
            .collect();
        for restart in 0..RESTARTS {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let index = restart % servers.len();
            let server = servers.remove(index);
            server.stop().await;
            servers.insert(index, serve_on(disks[index].clone(), 1, addresses[index]));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        is_over.store(true, Ordering::Relaxed);
        let mut written = HashSet::new();
        for caller in callers {
            written.extend(caller.await.unwrap().unwrap());
        }
        session.close();
        let (first, second) = (entries(addresses[0]).await, entries(addresses[1]).await);
        assert_eq!(first.intersection(&second).count(), 0, "executed twice");
        let found: HashSet<i64> = first.union(&second).copied().collect();
        assert_eq!(found, written);
        assert!(written.len() > 100 && !first.is_empty() && !second.is_empty());
        for server in servers {
            server.stop().await;
        }
    });
}
