//! Signals that tell the program to stop.

use crate::node::{Folder, Program, any_ports};

/// Enough for a busy machine to keep the program from what it does next.
const STARTS: usize = 8;

/// A caller that waited for the line "ready" and stopped the node at once ended it with signal 15: it listened only later.
#[test]
fn a_node_that_is_ready_stops_when_it_is_told() {
    for _ in 0..STARTS {
        let folder = Folder::new("signals");
        let node = Program::start(&folder.0, any_ports(), &["--shards", "1"]);
        node.terminate();
        node.end();
    }
}
