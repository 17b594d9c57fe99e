//! What connections cost in memory: one that is refused, and one at rest.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use helenus_protocol::{Opcode, ProtocolVersion};
use support::{Client, PATIENCE, Reply, header, serve, stop};

struct CountingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches only atomics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

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
    let server = serve();
    let wrong_version = header(66, 5, 0);
    let bad_first_message = [header(4, 7, 4), vec![0; 4]].concat();
    let bad_login = [header(4, 15, 4), vec![0; 4]].concat();
    for first_bytes in [&wrong_version, &bad_first_message, &bad_login] {
        const CONNECTIONS: u64 = 300;
        // More than the lobby lets leave at their ease: its table has its full size then.
        (0..400).for_each(|_| refused(server.address, first_bytes));
        let before = (
            ALLOCATIONS.load(Ordering::Relaxed),
            ALLOCATED_BYTES.load(Ordering::Relaxed),
        );
        (0..CONNECTIONS).for_each(|_| refused(server.address, first_bytes));
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before.0;
        let bytes = ALLOCATED_BYTES.load(Ordering::Relaxed) - before.1;
        println!("{CONNECTIONS} refused connections: {allocations} allocations, {bytes} bytes");
        // The node's own clockwork goes on meanwhile.
        assert!(allocations < 2 * CONNECTIONS, "{allocations} allocations");
        assert!(bytes < 256 * CONNECTIONS, "{bytes} bytes");
    }

    const AT_REST: i64 = 400;
    let startup = Client::connect(server.address, ProtocolVersion::V4).startup();
    let query = Client::connect(server.address, ProtocolVersion::V4).query("SELECT key FROM system.local");
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
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    (0..AT_REST).for_each(|_| open_one());
    let bytes = (LIVE_BYTES.load(Ordering::Relaxed) - before) / AT_REST;
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
