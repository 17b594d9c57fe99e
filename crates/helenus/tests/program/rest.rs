//! Costs of a node to its machine while nobody asks it for anything.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use helenus_protocol::ProtocolVersion;
use helenus_test_service::{Client, Reply};

use super::node::{Folder, Program, any_ports, create_table};

/// Wakes of all threads of a node with two shards, in a second: four looks and what looks at rates take some 12 a shard.
const WAKES_MAX: u64 = 60;
/// A second each.
const LOOKS_MAX: u32 = 60;

/// How often the process's threads have slept and been woken, so far.
fn wakes(process_id: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process_id}/task")).unwrap();
    let of_thread = |status: String| -> u64 {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .map(of_thread)
        .sum()
}

/// Its shards woke five hundred times a second to look for what was not there, three hundredths of a core.
#[test]
fn a_node_that_nobody_asks_sleeps() {
    let folder = Folder::new("rest");
    let program = Program::start(&folder.0, any_ports(), &[]);
    create_table(program.cql);
    let mut client = Client::open(program.cql, ProtocolVersion::V4);
    let table = "CREATE TABLE k.values (id bigint PRIMARY KEY, value int)";
    assert!(matches!(client.ask(table), Reply::Message(_)));
    let write = "INSERT INTO k.values (id, value) VALUES (1, 2)";
    assert!(matches!(client.ask(write), Reply::Message(_)));
    let least = (0..LOOKS_MAX)
        .map(|_| {
            let before = wakes(program.id());
            sleep(Duration::from_secs(1));
            wakes(program.id()) - before
        })
        .scan(u64::MAX, |least, wakes| {
            let goes_on = *least > WAKES_MAX;
            *least = wakes.min(*least);
            goes_on.then_some(*least)
        })
        .last();
    assert!(least.is_some_and(|least| least <= WAKES_MAX), "{least:?} wakes");
    let read = "SELECT value FROM k.values WHERE id = 1";
    assert!(matches!(client.ask(read), Reply::Message(_)));
    program.terminate();
    program.end();
}
