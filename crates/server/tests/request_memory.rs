//! Memory of requests: a large one has its memory before it is read, or is refused.

mod support;

use helenus_protocol::{ErrorCode, Opcode, ProtocolVersion};
use support::{Client, Reply, each_service, stop};

/// Two of them fit what a shard of the served node has for requests (2 MiB), and no third.
const LARGE_BYTES: usize = 900_000;

/// Bytes sent first: enough that the rest is known to be large.
const BEGINNING_BYTES: usize = 140_000;

const SHARDS: usize = 2;

/// Everything that had been read was kept until the last byte of each was there, however much was announced.
#[test]
fn what_is_announced_beyond_the_memory_of_requests_is_refused() {
    for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
        for server in each_service() {
            let text = format!("SELECT key FROM system.local{}", " ".repeat(LARGE_BYTES));
            let begin = |_| {
                let mut client = Client::open(server.address, version);
                let query = client.query(&text);
                client.send(&query[..BEGINNING_BYTES]);
                (client, query)
            };
            let mut begun: Vec<_> = (0..2 * SHARDS).map(begin).collect();
            for _ in 0..SHARDS {
                let mut client = Client::open(server.address, version);
                let Reply::Error(code, message) = client.ask(&text) else {
                    panic!("{version}: a request without memory was served")
                };
                assert_eq!(code, ErrorCode::Overloaded, "{message}");
                // What is small is served meanwhile, on this connection too.
                let small = "SELECT key FROM system.local";
                assert_eq!(client.ask(small), Reply::Message(Opcode::Result), "{version}");
            }
            for (client, query) in &mut begun {
                client.send(&query[BEGINNING_BYTES..]);
                assert_eq!(client.reply(), Reply::Message(Opcode::Result), "{version}");
            }
            let mut next = Client::open(server.address, version);
            assert_eq!(next.ask(&text), Reply::Message(Opcode::Result), "{version}");
            stop(server);
        }
    }
}
