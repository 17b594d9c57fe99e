//! How old a request is taken to be.

use std::sync::Arc;

use helenus_node::Authenticator;
use helenus_protocol::{Opcode, ProtocolVersion};
use helenus_transport::ConnectionLimits;
use helenus_vfs::{Clock, SystemClock};

use crate::support::{Client, Reply, node_options, serve_node, stop};

/// The clock of a node that has run for long.
#[derive(Debug)]
struct LateClock(SystemClock);

const HOUR_NS: u64 = 3_600_000_000_000;

impl Clock for LateClock {
    fn wall_us(&self) -> i64 {
        self.0.wall_us()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns() + HOUR_NS
    }
}

/// More than is read of a connection before a shard has it.
const LARGE_BYTES: usize = 300_000;

/// The bytes that the shard found in the socket when it first looked were taken to be as old as the node: where it looked
/// late, the first request of a new connection was answered "Query timed out before it could start".
#[test]
fn what_a_new_connection_sends_came_after_it() {
    let mut options = node_options(Authenticator::AllowAll);
    options.clock = Arc::new(LateClock(SystemClock::new()));
    let server = serve_node(options, ConnectionLimits::default(), false);
    let mut client = Client::connect(server.address, ProtocolVersion::V4);
    let mut messages = client.startup();
    messages.extend(client.query(&format!(
        "SELECT key FROM system.local{}",
        " ".repeat(LARGE_BYTES)
    )));
    client.send(&messages);
    assert_eq!(client.reply(), Reply::Message(Opcode::Ready));
    assert_eq!(client.reply(), Reply::Message(Opcode::Result));
    stop(server);
}
