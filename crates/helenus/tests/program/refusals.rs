//! Replacements that come to nothing: the running node goes on.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use helenus_handover::{Channel, HandoverError, Kind, SOCKET};
use helenus_protocol::{Opcode, ProtocolVersion};
use helenus_test_service::{Client, PATIENCE, Reply};

use crate::node::{Folder, Program, any_ports, command, create_table};

/// Returns the complaint of a program that ends at once with an error.
fn complaint(mut command: std::process::Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn assert_answers(client: &mut Client) {
    assert_eq!(
        client.ask("SELECT id FROM k.rows"),
        Reply::Message(Opcode::Result)
    );
}

fn connect(folder: &Folder) -> Channel {
    helenus_handover::connect(&folder.0).unwrap().unwrap()
}

/// As a successor does, up to where it wants the data folder.
fn ask_for_sockets(folder: &Folder) -> Channel {
    let channel = connect(folder);
    channel.send(Kind::Hello, b"a test", &[]).unwrap();
    let listeners = channel.expect(Kind::Listeners, PATIENCE).unwrap();
    assert_eq!(listeners.payload, [1, 2, 3, 4]);
    assert_eq!(listeners.descriptors.len(), 4);
    channel
}

#[test]
fn bytes_that_are_no_handover_disturb_nobody() {
    let folder = Folder::new("bytes");
    let mut node = Program::start(&folder.0, any_ports(), &[]);
    create_table(node.cql);
    let mut client = Client::open(node.cql, ProtocolVersion::V5);
    let messages: [&[u8]; 8] = [
        b"",
        b"H",
        b"GET / HTTP/1.1\r\n\r\n",
        b"HLNH\x01\x01\0\0\xFF\xFF\xFF\xFF",
        b"HLNH\x01\x01\xFF\xFF\0\0\0\0",
        b"HLNH\x01\x03\0\0\0\0\0\0",
        b"HLNH\x01\x63\0\0\0\0\0\0",
        &[0xFF; 100_000],
    ];
    for message in messages {
        let mut stream = UnixStream::connect(folder.0.join(SOCKET)).unwrap();
        // The node may have closed before all of it was sent.
        let _closed = stream.write_all(message);
        drop(stream);
        assert_answers(&mut client);
    }
    // Whoever talks next is understood.
    ask_for_sockets(&folder);
    assert!(node.is_running());
    node.terminate();
    node.end();
}

#[test]
fn a_successor_of_another_version_is_told_which_one_the_node_speaks() {
    let folder = Folder::new("version");
    let node = Program::start(&folder.0, any_ports(), &[]);
    let mut stream = UnixStream::connect(folder.0.join(SOCKET)).unwrap();
    stream.write_all(b"HLNH\xC8\x01\0\0\0\0\0\0").unwrap();
    let told = Channel::new(stream).unwrap().receive(PATIENCE);
    let Err(HandoverError::Refused(text)) = told else {
        panic!("{told:?}")
    };
    let wanted =
        "the other process speaks version 200 of the handover, this one 1; this node goes on serving";
    assert_eq!(text, wanted);
    node.terminate();
    node.end();
}

#[test]
fn the_node_goes_on_where_its_successor_dies_before_it_takes_anything() {
    let folder = Folder::new("dies-early");
    let node = Program::start(&folder.0, any_ports(), &[]);
    create_table(node.cql);
    let mut client = Client::open(node.cql, ProtocolVersion::V5);
    drop(ask_for_sockets(&folder));
    assert_answers(&mut client);
    assert_answers(&mut Client::open(node.cql, ProtocolVersion::V4));
    node.terminate();
    node.end();
}

/// The node has closed everything by then: it opens its data folder again, and its clients notice nothing.
#[test]
fn the_node_takes_its_place_back_where_its_successor_dies_with_it() {
    let folder = Folder::new("dies-late");
    let node = Program::start(&folder.0, any_ports(), &[]);
    let addresses = node.addresses();
    create_table(node.cql);
    let mut client = Client::open(node.cql, ProtocolVersion::V5);
    let says = ["and tells why", ""];
    for (round, why) in says.into_iter().enumerate() {
        let reply = client.ask(&format!("INSERT INTO k.rows (id, value) VALUES ({round}, 1)"));
        assert_eq!(reply, Reply::Message(Opcode::Result));
        let channel = ask_for_sockets(&folder);
        channel.send(Kind::Take, &[], &[]).unwrap();
        let connections = channel.expect(Kind::Connections, PATIENCE).unwrap();
        assert_eq!(connections.descriptors.len(), 1 + round, "the clients'");
        channel.expect(Kind::Released, PATIENCE).unwrap();
        // Nobody answers now.
        let question = client.query("SELECT id FROM k.rows");
        client.send(&question);
        client
            .stream
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        client.stream.peek(&mut [0]).unwrap_err();
        client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if !why.is_empty() {
            channel.fail(why);
        }
        drop((channel, connections));
        assert_eq!(client.reply(), Reply::Message(Opcode::Result));
        let rows = client.ask_rows("SELECT id FROM k.rows");
        assert_eq!(rows.len(), round + 1);
        // A client that stays for the next round.
        std::mem::forget(Client::open(node.cql, ProtocolVersion::V4));
    }
    // It can still be replaced.
    let successor = Program::start(&folder.0, addresses, &["--replace"]);
    let log = node.end();
    assert!(
        log.contains("the one that was to replace it does not: and tells why"),
        "{log}"
    );
    assert!(
        log.contains("the one that was to replace it does not: the other process has gone"),
        "{log}"
    );
    assert_answers(&mut client);
    successor.terminate();
    successor.end();
}

#[test]
fn a_successor_that_cannot_serve_says_so_and_the_node_goes_on() {
    let folder = Folder::new("cannot");
    let node = Program::start(&folder.0, any_ports(), &[]);
    create_table(node.cql);
    let mut client = Client::open(node.cql, ProtocolVersion::V5);
    let mut addresses = node.addresses();
    // Somebody else's.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    addresses[1] = taken.local_addr().unwrap();
    let said = complaint(command(&folder.0, addresses, &["--replace"]));
    assert!(said.contains("cannot listen on"), "{said}");
    assert_answers(&mut client);
    let said = complaint(command(&folder.0, any_ports(), &["--replace", "--in-memory"]));
    assert!(said.contains("start it without --replace"), "{said}");
    let said = complaint(command(&folder.0, any_ports(), &[]));
    assert!(said.contains("is in use by another process"), "{said}");
    assert_answers(&mut client);
    node.terminate();
    node.end();
}

#[test]
fn where_no_node_runs_one_is_started_and_other_addresses_are_opened_anew() {
    let folder = Folder::new("anew");
    let node = Program::start(&folder.0, any_ports(), &["--replace"]);
    create_table(node.cql);
    let [cql, _, doors] = node.addresses();
    let mut client = Client::open(node.cql, ProtocolVersion::V5);
    let elsewhere = "127.0.0.2:0".parse().unwrap();
    let successor = Program::start(
        &folder.0,
        [cql, elsewhere, doors],
        &["--replace", "--shards", "3"],
    );
    let old = node.addresses();
    node.end();
    let new = successor.addresses();
    assert_eq!((new[0], new[2]), (old[0], old[2]));
    assert_eq!(new[1].ip(), elsewhere.ip());
    assert!(
        std::net::TcpStream::connect(old[1]).is_err(),
        "nobody serves metrics there"
    );
    assert_answers(&mut client);
    successor.terminate();
    successor.end();
    assert_eq!(client.ask("SELECT id FROM k.rows"), Reply::Closed);
}
