//! Messages that are longer than they have a reason to be: nobody's memory is theirs.

mod support;

use std::net::{Shutdown, SocketAddr};

use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_test_heap::of_process;
use support::{Client, Reply, Served, assert_serves, each_service, each_service_asking_for_passwords, stop};

const ANNOUNCED_BYTES: usize = 15 << 20;

/// Before the server can have answered, and more than it takes.
const SENT_BYTES: usize = 1 << 20;

/// Bytes that the server may hold of a connection whose message it refuses: a turn's worth of reading, and buffers.
const HELD_BYTES_MAX: i64 = 512 * 1024;

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V4, ProtocolVersion::V5];

/// The message is announced and begun, and never ends.
fn begun(client: &mut Client, opcode: Opcode) -> Vec<u8> {
    let mut message = client.message(opcode, |out| out.resize(out.len() + ANNOUNCED_BYTES, b' '));
    message.truncate(SENT_BYTES);
    message
}

fn refusal(opcode: Opcode, bytes_max: usize, when: &str) -> Reply {
    Reply::Error(
        ErrorCode::ProtocolError,
        format!("{opcode} of {ANNOUNCED_BYTES} bytes is too long: at most {bytes_max} are taken{when}"),
    )
}

/// Sends the beginning on ten connections, of which none may be left.
fn refuse_all(address: SocketAddr, opcode: Opcode, open: impl Fn(SocketAddr) -> Client, wanted: &Reply) {
    let mut clients: Vec<Client> = (0..10).map(|_| open(address)).collect();
    let messages: Vec<Vec<u8>> = clients.iter_mut().map(|client| begun(client, opcode)).collect();
    let before = of_process().live_bytes;
    for (client, message) in clients.iter_mut().zip(&messages) {
        client.send(message);
        assert_eq!(client.reply(), *wanted);
    }
    let held = (of_process().live_bytes - before) / clients.len() as i64;
    assert!(held < HELD_BYTES_MAX, "{opcode}: {held} bytes a connection");
    for client in &mut clients {
        // What the server waits for, for two seconds.
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.reply(), Reply::Closed);
    }
}

/// OPTIONS, REGISTER and AUTH_RESPONSE of 16 MiB were received to the end, before a login too, and kept: 60 connections
/// held 1 GB, and everybody else's statements were refused for as long.
#[test]
fn messages_that_are_no_statements_are_short() {
    for server in each_service() {
        refuse_later_ones(server);
    }
    for server in each_service_asking_for_passwords() {
        refuse_those_before_a_login(server);
    }
}

fn refuse_later_ones(server: Served) {
    const LATER_MAX: usize = 64 * 1024;
    for version in VERSIONS {
        for opcode in [Opcode::Options, Opcode::Register, Opcode::AuthResponse] {
            let open = |address| Client::open(address, version);
            refuse_all(server.address, opcode, open, &refusal(opcode, LATER_MAX, ""));
        }
    }
    assert_serves(server.address);
    stop(server);
}

fn refuse_those_before_a_login(server: Served) {
    // Before a login the frames of v5 take no message that is longer than one of them.
    for opcode in [Opcode::AuthResponse, Opcode::Options, Opcode::Query] {
        let open = |address| Client::start(address, ProtocolVersion::V4);
        let wanted = refusal(opcode, 4_096, " before the connection is ready");
        refuse_all(server.address, opcode, open, &wanted);
    }
    Client::log_in_as(server.address, "cassandra", "cassandra");
    stop(server);
}

/// A whole message of a length that no reason calls for, in pieces of which none is long.
#[test]
fn a_long_message_is_refused_also_where_it_has_arrived() {
    for server in each_service() {
        for version in VERSIONS {
            let mut client = Client::open(server.address, version);
            let fits = client.message(Opcode::Options, |out| out.resize(out.len() + 64 * 1024, 0));
            client.send(&fits);
            assert_eq!(client.reply(), Reply::Message(Opcode::Supported));
            let too_long = client.message(Opcode::Options, |out| out.resize(out.len() + 64 * 1024 + 1, 0));
            client.send(&too_long);
            let Reply::Error(ErrorCode::ProtocolError, message) = client.reply() else {
                panic!("{version}: taken");
            };
            assert!(message.contains("too long"), "{message}");
            assert_eq!(client.reply(), Reply::Closed);
        }
        stop(server);
    }
}
