//! Clients that send anything but CQL, or do not read: the right error or a closed connection, memory stays bounded,
//! nothing panics, and the next connection is served.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_test_service::header;
use helenus_vfs::{Random, SeededRandom};

use crate::support::{Client, PATIENCE, Reply, assert_serves, each_service, stop};

/// Far more than the buffers of both kernels hold: as requests of 60 bytes with answers of 400 KB, 400 GB of them.
const SENT_BYTES_MAX: usize = 64 << 20;

#[test]
fn what_is_not_the_protocol_gets_an_error_or_an_end() {
    for server in each_service() {
        // Each as the first bytes of a connection, whose writing side is closed then.
        let mut first_bytes: Vec<(String, Vec<u8>)> = vec![
            (
                "HTTP".to_owned(),
                b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            ),
            ("nothing".to_owned(), Vec::new()),
            ("half a header".to_owned(), vec![4, 0, 0]),
            (
                "half a body".to_owned(),
                [header(4, 7, 100), vec![0; 10]].concat(),
            ),
            ("a huge length".to_owned(), header(4, 7, u32::MAX)),
            ("a length above the limit".to_owned(), header(4, 7, 300 << 20)),
            ("an unknown opcode".to_owned(), header(4, 0x55, 0)),
            ("a response".to_owned(), header(0x84, 8, 0)),
            (
                "a query before STARTUP".to_owned(),
                [header(4, 7, 4), vec![0; 4]].concat(),
            ),
            (
                "REGISTER before STARTUP".to_owned(),
                [header(4, 0x0b, 2), vec![0; 2]].concat(),
            ),
        ];
        for version in [0, 1, 2, 6, 66, 127] {
            first_bytes.push((format!("version {version}"), header(version, 5, 0)));
        }
        let random = SeededRandom::new(11);
        for round in 0..100 {
            let mut garbage = vec![0; 1 + random.below(200) as usize];
            random.fill(&mut garbage);
            first_bytes.push((format!("garbage {round}"), garbage));
        }
        for (name, bytes) in first_bytes {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let _closed = stream.write_all(&bytes);
            let _closed = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                Err(error) => panic!("{name}: the connection stays open: {error}"),
            }
            // ERROR or, where garbage asks for OPTIONS, SUPPORTED.
            let is_answer = answer.get(4).is_none_or(|opcode| [0, 6].contains(opcode));
            assert!(is_answer, "{name}: answered with {answer:02x?}");
        }
        assert_serves(server.address);
        stop(server);
    }
}

#[test]
fn messages_out_of_turn_get_protocol_errors() {
    for server in each_service() {
        let mut early = Client::connect(server.address, ProtocolVersion::V4);
        let query = early.query("SELECT * FROM system.local");
        early.send(&query);
        assert!(matches!(early.reply(), Reply::Error(ErrorCode::ProtocolError, _)));
        let mut wrong_version = Client::connect(server.address, ProtocolVersion::V4);
        wrong_version.send(&header(66, 5, 0));
        let Reply::Error(ErrorCode::ProtocolError, message) = wrong_version.reply() else {
            panic!("version 66 is not spoken");
        };
        assert!(message.contains("66"), "{message}");
        for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
            let mut twice = Client::open(server.address, version);
            let startup = twice.startup();
            twice.send(&startup);
            assert!(
                matches!(twice.reply(), Reply::Error(ErrorCode::ProtocolError, _)),
                "{version:?}"
            );
        }
        assert_serves(server.address);
        stop(server);
    }
}

#[test]
fn a_damaged_v5_frame_is_never_executed() {
    for server in each_service() {
        for at in 0..30 {
            let mut client = Client::open(server.address, ProtocolVersion::V5);
            let mut query = client.query(
            "CREATE KEYSPACE damaged WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
            query[at] ^= 0x10;
            client.send(&query);
            let _closed = client.stream.shutdown(Shutdown::Write);
            let reply = client.reply();
            assert!(
                matches!(reply, Reply::Closed | Reply::Error(..)),
                "byte {at}: {reply:?}"
            );
        }
        let mut client = Client::open(server.address, ProtocolVersion::V5);
        assert!(matches!(
            client.ask("USE damaged"),
            Reply::Error(ErrorCode::Invalid, _)
        ));
        stop(server);
    }
}

#[test]
fn a_byte_at_a_time_is_a_message_in_the_end() {
    for server in each_service() {
        for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
            let mut client = Client::open(server.address, version);
            client.stream.set_nodelay(true).unwrap();
            for byte in client.query("SELECT release_version FROM system.local") {
                client.send(&[byte]);
            }
            assert_eq!(client.reply(), Reply::Message(Opcode::Result));
        }
        stop(server);
    }
}

#[test]
fn two_thousand_connections_come_and_go() {
    for server in each_service() {
        for round in 0..2_000 {
            let mut client = Client::connect(server.address, ProtocolVersion::V5);
            if round % 2 == 0 {
                let startup = client.startup();
                let cut = startup.len() * (round % 3) / 2;
                client.send(&startup[..cut.min(startup.len())]);
            }
        }
        assert_serves(server.address);
        stop(server);
    }
}

#[test]
fn a_client_that_does_not_read_is_not_asked_for_more() {
    for server in each_service() {
        let mut client = Client::open(server.address, ProtocolVersion::V4);
        client
            .ask("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        client.ask("CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))");
        for c in 0..20 {
            let insert = format!(
                "INSERT INTO k.t (p, c, v) VALUES (0, {c}, '{}')",
                "x".repeat(20_000)
            );
            assert_eq!(client.ask(&insert), Reply::Message(Opcode::Result));
        }
        // 400 KB an answer. Once answers of a few MiB wait (in the server and in both kernels) the server reads no more
        // requests, the kernels' buffers fill, and this write stops.
        let select = client.query("SELECT v FROM k.t WHERE p = 0");
        client.stream.set_nonblocking(true).unwrap();
        let mut sent_bytes = 0;
        let mut stalls = 0;
        while stalls < 20 && sent_bytes < SENT_BYTES_MAX {
            match client.stream.write(&select) {
                Ok(count) if count < select.len() => break,
                Ok(count) => {
                    sent_bytes += count;
                    stalls = 0;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    stalls += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(
            sent_bytes < SENT_BYTES_MAX,
            "the server takes any number of requests"
        );
        assert_serves(server.address);
        drop(client);
        stop(server);
    }
}

#[test]
fn what_was_accepted_before_the_stop_is_answered() {
    const WRITES: usize = 500;
    for server in each_service() {
        let mut client = Client::open(server.address, ProtocolVersion::V4);
        client
            .ask("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        client.ask("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
        let mut pipelined = Vec::new();
        for p in 0..WRITES {
            pipelined.extend(client.query(&format!("INSERT INTO k.t (p, v) VALUES ({p}, 0)")));
        }
        client.send(&pipelined);
        assert_eq!(client.reply(), Reply::Message(Opcode::Result));
        stop(server);
        // What the server had not read yet is not accepted; all it did read has its answer before the end.
        let mut answered = 1;
        loop {
            match client.reply() {
                Reply::Message(Opcode::Result) => answered += 1,
                Reply::Closed => break,
                other => panic!("after {answered} answers: {other:?}"),
            }
        }
        assert!(answered <= WRITES);
        assert!(TcpStream::connect(client.stream.peer_addr().unwrap()).is_err());
    }
}
