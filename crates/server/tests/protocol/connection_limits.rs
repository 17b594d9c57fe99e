//! How many connections there may be, and how long one may take to introduce itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use helenus_test_service::header;
use helenus_transport::ConnectionLimits;

use crate::support::{Client, PATIENCE, Reply, assert_serves, each_service, each_service_within, stop};

const QUERY: &str = "SELECT release_version FROM system.local";

#[test]
fn the_connection_beyond_a_limit_is_closed_without_a_word_and_the_others_are_served() {
    for limits in [
        ConnectionLimits {
            connections_max: Some(3),
            ..ConnectionLimits::default()
        },
        ConnectionLimits {
            connections_per_address_max: Some(3),
            ..ConnectionLimits::default()
        },
    ] {
        for server in each_service_within(limits) {
            let mut served: Vec<Client> = (0..2)
                .map(|_| Client::open(server.address, ProtocolVersion::V4))
                .collect();
            // Who has not introduced itself counts too.
            let silent = TcpStream::connect(server.address).unwrap();
            let mut refused = Client::connect(server.address, ProtocolVersion::V4);
            assert_eq!(refused.reply(), Reply::Closed, "{limits:?}");
            for client in &mut served {
                assert_eq!(client.ask(QUERY), Reply::Message(Opcode::Result));
            }
            // A place that is given back is taken by the next, once the server has seen the end of the first.
            drop(silent);
            loop {
                let mut next = Client::connect(server.address, ProtocolVersion::V4);
                let startup = next.startup();
                next.send(&startup);
                if next.reply() == Reply::Message(Opcode::Ready) {
                    break;
                }
            }
            drop(served);
            stop(server);
        }
    }
}

#[test]
fn who_does_not_introduce_itself_in_time_is_closed() {
    for server in each_service_within(ConnectionLimits {
        handshake_timeout: Duration::from_millis(200),
        ..ConnectionLimits::default()
    }) {
        let mut ready = Client::open(server.address, ProtocolVersion::V4);
        let first_bytes: [(&str, Vec<u8>, usize); 4] = [
            ("silence", Vec::new(), 0),
            ("half a header", header(4, 1, 0)[..4].to_vec(), 0),
            ("half a body", header(4, 1, 100), 0),
            // It is answered, and the time runs on.
            ("OPTIONS and nothing more", header(4, 5, 0), 9),
        ];
        for (name, bytes, answer_bytes_min) in first_bytes {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&bytes).unwrap();
            let mut answer = Vec::new();
            stream
                .read_to_end(&mut answer)
                .unwrap_or_else(|error| panic!("{name}: the connection stays open: {error}"));
            assert!(answer.len() >= answer_bytes_min, "{name}");
        }
        // A byte now and then does not buy more time: the server ends it before the 10 s that 4,096 bytes would take.
        let mut trickling = TcpStream::connect(server.address).unwrap();
        trickling.write_all(&header(4, 1, 4_000)).unwrap();
        trickling
            .set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        let is_closed = (0..4_000).any(|_| match trickling.read(&mut [0]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                trickling.write_all(&[0]).is_err()
            }
            _ => true,
        });
        assert!(is_closed, "a trickle of bytes keeps a connection open");
        assert_eq!(ready.ask(QUERY), Reply::Message(Opcode::Result));
        assert_serves(server.address);
        drop(ready);
        stop(server);
    }
}

#[test]
fn a_refused_client_reads_why_whatever_it_has_sent_behind() {
    for server in each_service() {
        for behind in [0, 100, 100_000] {
            let mut client = Client::connect(server.address, ProtocolVersion::V4);
            let mut bytes = header(66, 5, 0);
            bytes.resize(bytes.len() + behind, 0xff);
            client.send(&bytes);
            let reply = client.reply();
            assert!(
                matches!(reply, Reply::Error(ErrorCode::ProtocolError, _)),
                "{behind} bytes behind: {reply:?}"
            );
            assert_eq!(client.reply(), Reply::Closed, "{behind} bytes behind");
        }
        stop(server);
    }
}

/// The server closes at once whoever has said one message to its end: what comes later finds a closed socket, and the answer
/// is there all the same.
#[test]
fn a_refused_client_that_goes_on_talking_reads_why() {
    for server in each_service() {
        let messages = [
            header(66, 5, 0),
            [header(4, 7, 4), vec![0; 4]].concat(),
            header(4, 0x55, 0),
        ];
        for round in 0..300 {
            let mut client = Client::connect(server.address, ProtocolVersion::V4);
            client.stream.set_nodelay(true).unwrap();
            client.send(&messages[round % messages.len()]);
            if round % 2 == 0 {
                client.stream.peek(&mut [0]).unwrap();
            }
            let _closed = client.stream.write_all(&header(4, 5, 0));
            let reply = client.reply();
            assert!(
                matches!(reply, Reply::Error(ErrorCode::ProtocolError, _)),
                "{round}: {reply:?}"
            );
        }
        assert_serves(server.address);
        stop(server);
    }
}

#[test]
fn a_first_message_may_come_in_pieces_and_with_the_next_one_behind_it() {
    for server in each_service() {
        for cut in 1..20 {
            let mut client = Client::connect(server.address, ProtocolVersion::V4);
            client.stream.set_nodelay(true).unwrap();
            let startup = client.startup();
            let query = client.query(QUERY);
            client.send(&startup[..cut]);
            client.send(&startup[cut..]);
            client.send(&query);
            assert_eq!(client.reply(), Reply::Message(Opcode::Ready));
            assert_eq!(client.reply(), Reply::Message(Opcode::Result));
            let mut hasty = Client::connect(server.address, ProtocolVersion::V4);
            let mut both = hasty.startup();
            for _ in 0..cut {
                both.extend(hasty.query(QUERY));
            }
            hasty.send(&both);
            assert_eq!(hasty.reply(), Reply::Message(Opcode::Ready));
            for _ in 0..cut {
                assert_eq!(hasty.reply(), Reply::Message(Opcode::Result));
            }
            // What has come is answered although nothing follows.
            assert_eq!(hasty.ask(QUERY), Reply::Message(Opcode::Result));
            let _closed = hasty.stream.shutdown(Shutdown::Write);
            assert_eq!(hasty.reply(), Reply::Closed);
        }
        stop(server);
    }
}

#[test]
fn a_bad_startup_is_refused_with_its_reason() {
    for server in each_service() {
        let mut client = Client::connect(server.address, ProtocolVersion::V4);
        let bytes = client.message(Opcode::Startup, |out| out.extend_from_slice(&[0, 0]));
        client.send(&bytes);
        assert_eq!(
            client.reply(),
            Reply::Error(
                ErrorCode::ProtocolError,
                "Missing value CQL_VERSION in STARTUP message".to_owned()
            )
        );
        assert_eq!(client.reply(), Reply::Closed);
        let mut client = Client::connect(server.address, ProtocolVersion::V4);
        client.send(&header(4, 1, 100_000));
        assert!(matches!(client.reply(), Reply::Error(ErrorCode::Invalid, _)));
        stop(server);
    }
}
