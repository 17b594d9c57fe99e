//! Signals that tell the program to stop.

#![cfg(feature = "cli")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Enough for a busy machine to keep the program from what it does next.
const STARTS: usize = 8;

/// A caller that waited for the line "ready" and stopped the node at once ended it with signal 15: it listened only later.
#[test]
fn a_node_that_is_ready_stops_when_it_is_told() {
    for _ in 0..STARTS {
        let mut node = Command::new(env!("CARGO_BIN_EXE_helenus"))
            .args(["serve", "--in-memory", "--shards", "1"])
            .args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(node.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("helenus ready"), "{line}");
        let told = Command::new("kill").arg(node.id().to_string()).status().unwrap();
        assert!(told.success());
        let ended = node.wait().unwrap();
        assert!(ended.success(), "{ended}");
    }
}
