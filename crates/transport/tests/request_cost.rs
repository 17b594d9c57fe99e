//! Cost of a request between the socket and the service: nothing from the heap.

use std::io::{Read, Write};
use std::net::TcpStream;

use helenus_protocol::ProtocolVersion;
use helenus_test_heap::of_process;
use helenus_test_service::{CannedOptions, CannedServer, Client, PATIENCE};

const OPERATIONS: u64 = 16_000;

/// Requests in one write.
const AT_ONCE: u64 = 16;

/// Sends requests again and again and reads their answers. Allocates nothing itself.
fn ask(stream: &mut TcpStream, requests: &[u8], answer: &mut [u8], operations: u64) {
    for _ in 0..operations / AT_ONCE {
        stream.write_all(requests).unwrap();
        for _ in 0..AT_ONCE {
            let (header, body) = answer.split_at_mut(9);
            stream.read_exact(header).unwrap();
            assert_eq!(header[4], 8, "a RESULT");
            let bytes = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
            stream.read_exact(&mut body[..bytes]).unwrap();
        }
    }
}

#[test]
fn a_request_takes_nothing_from_the_heap_on_its_way_to_its_service_and_back() {
    let server = CannedServer::start(CannedOptions::default());
    let mut client = Client::open(server.address, ProtocolVersion::V4);
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let requests = client.query("SELECT anything").repeat(AT_ONCE as usize);
    let mut answer = vec![0; 4_096];
    ask(&mut client.stream, &requests, &mut answer, OPERATIONS / 10);
    let before = of_process().allocations;
    ask(&mut client.stream, &requests, &mut answer, OPERATIONS);
    let allocations = of_process().allocations - before;
    println!("{allocations} allocations for {OPERATIONS} requests");
    // Timers of the threads go on meanwhile.
    assert!(allocations < OPERATIONS / 100, "{allocations} allocations");
    drop(client);
    server.stop();
}
