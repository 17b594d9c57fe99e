//! Memory cost of connections: one that is refused, and one at rest.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use helenus_protocol::{Opcode, ProtocolVersion};
use helenus_test_heap::of_process;
use helenus_test_service::header;
use support::{Client, PATIENCE, Reply, each_service, stop};

/// Connects, sends `bytes`, reads the answer and then the end. Allocates nothing itself.
fn refused(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = [0; 512];
    let count = stream.read(&mut answer).unwrap();
    assert_eq!(answer[..count].get(4), Some(&0), "an ERROR");
    assert_eq!(stream.read(&mut answer).unwrap(), 0);
}

/// One test, because the counters are the process's.
#[test]
fn a_refused_connection_allocates_nothing_big_and_one_at_rest_holds_two_kibibytes() {
    for server in each_service() {
        let wrong_version = header(66, 5, 0);
        let bad_first_message = [header(4, 7, 4), vec![0; 4]].concat();
        let bad_login = [header(4, 15, 4), vec![0; 4]].concat();
        for first_bytes in [&wrong_version, &bad_first_message, &bad_login] {
            const CONNECTIONS: u64 = 300;
            // More than the acceptor lets linger: its table has its full size then.
            (0..400).for_each(|_| refused(server.address, first_bytes));
            let before = of_process();
            (0..CONNECTIONS).for_each(|_| refused(server.address, first_bytes));
            let after = of_process();
            let allocations = after.allocations - before.allocations;
            let bytes = after.allocated_bytes - before.allocated_bytes;
            println!("{CONNECTIONS} refused connections: {allocations} allocations, {bytes} bytes");
            // The node's own clockwork goes on meanwhile.
            assert!(allocations < 2 * CONNECTIONS, "{allocations} allocations");
            assert!(bytes < 256 * CONNECTIONS, "{bytes} bytes");
        }

        const AT_REST: i64 = 400;
        let startup = Client::connect(server.address, ProtocolVersion::V4).startup();
        let query =
            Client::connect(server.address, ProtocolVersion::V4).query("SELECT key FROM system.local");
        let mut open: Vec<TcpStream> = Vec::with_capacity(1_000);
        let mut open_one = || {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            for (request, opcode) in [(&startup, Opcode::Ready), (&query, Opcode::Result)] {
                stream.write_all(request).unwrap();
                let mut answer = [0; 512];
                let count = stream.read(&mut answer).unwrap();
                assert_eq!(answer[..count].get(4), Some(&opcode.number()));
            }
            open.push(stream);
        };
        (0..100).for_each(|_| open_one());
        let before = of_process().live_bytes;
        (0..AT_REST).for_each(|_| open_one());
        let bytes = (of_process().live_bytes - before) / AT_REST;
        println!("a connection at rest holds {bytes} bytes");
        assert!(bytes <= 2_048, "{bytes} bytes");
        let mut last = Client::open(server.address, ProtocolVersion::V5);
        assert_eq!(
            last.ask("SELECT key FROM system.local"),
            Reply::Message(Opcode::Result)
        );
        drop((open, last));
        stop(server);
    }
}
