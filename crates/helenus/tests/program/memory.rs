//! Memory that the process takes of its system, beside what it was given.

use helenus_protocol::ProtocolVersion;
use helenus_protocol::request::Value;
use helenus_test_service::{Client, Reply};

use super::node::{Folder, Program, any_ports, create_table};

const MEMORY_BYTES: u64 = 128 << 20;
/// And a fifth.
const RESIDENT_BYTES_MAX: u64 = MEMORY_BYTES + MEMORY_BYTES / 5;

const VALUE_BYTES: usize = 32 << 10;
/// Rows of three halves of the node's memory.
const ROWS: u64 = MEMORY_BYTES * 3 / 2 / VALUE_BYTES as u64;
const READS: u64 = ROWS;
/// Requests from one look at the process to the next.
const LOOK_INTERVAL: u64 = 64;

/// Neither neighbours nor in the order in which they were written.
fn row(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ROWS
}

/// Bytes that do not compress.
fn value(id: u64) -> Vec<u8> {
    let mut state = id + 1;
    let words = (0..VALUE_BYTES / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()
    });
    words.collect()
}

fn resident_bytes(process_id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap() * 1_024
}

/// A node with `--memory 128MiB` took 290 MB of memory of its own from its first second of reads on.
#[test]
fn a_small_node_reads_more_than_its_memory_and_takes_a_fifth_more_at_most() {
    let folder = Folder::new("memory");
    let memory = MEMORY_BYTES.to_string();
    let options = ["--shards", "1", "--memory", &memory];
    let program = Program::start(&folder.0, any_ports(), &options);
    create_table(program.cql);
    let mut client = Client::open(program.cql, ProtocolVersion::V4);
    let table = "CREATE TABLE k.values (id bigint PRIMARY KEY, value blob)";
    assert!(matches!(client.ask(table), Reply::Message(_)));
    let write = client.prepare("INSERT INTO k.values (id, value) VALUES (?, ?)");
    let read = client.prepare("SELECT value FROM k.values WHERE id = ?");
    let mut most = 0;
    let mut look = |at: u64| {
        if at.is_multiple_of(LOOK_INTERVAL) {
            most = resident_bytes(program.id()).max(most);
        }
    };
    let mut execute = |statement: &[u8], values: &[Value<'_>]| {
        let request = client.execute(statement, values);
        client.send(&request);
        assert!(matches!(client.reply(), Reply::Message(_)));
    };
    for id in 0..ROWS {
        execute(
            &write,
            &[Value::Bytes(&id.to_be_bytes()), Value::Bytes(&value(id))],
        );
        look(id);
    }
    for number in 0..READS {
        execute(&read, &[Value::Bytes(&row(number).to_be_bytes())]);
        look(number);
    }
    assert!(
        most <= RESIDENT_BYTES_MAX,
        "{} MiB of {} MiB",
        most >> 20,
        RESIDENT_BYTES_MAX >> 20
    );
    program.terminate();
    program.end();
}
