//! Messages that break the protocol, 200 times each through a socket: each gets an error of its type and is counted under
//! it, nothing panics, and the next connection is served.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use helenus_protocol::ProtocolVersion;

use crate::support::{Client, Reply, assert_serves, serve_with_metrics, stop};

const TIMES: u64 = 200;

/// When, which type, which bytes, and what they are.
fn malformed() -> impl Iterator<Item = (&'static str, &'static str, Vec<u8>, &'static str)> {
    let lines = include_str!("../../../protocol/tests/codec/malformed.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.splitn(4, ' ');
        let mut field = || fields.next().expect("four fields");
        let (when, kind, hex, name) = (field(), field(), field(), field());
        let digits = hex.as_bytes().chunks(2);
        let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
        (when, kind, bytes.collect(), name)
    })
}

/// Errors by type, over all shards, as the metrics page tells.
fn counted(metrics: SocketAddr) -> BTreeMap<String, u64> {
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("\nhelenus_panics_total 0\n"));
    let mut counts = BTreeMap::new();
    for line in page.lines() {
        let Some(labels) = line.strip_prefix("helenus_cql_errors_total{") else {
            continue;
        };
        let kind = labels.split('"').nth(3).unwrap().to_owned();
        let count: u64 = labels.rsplit(' ').next().unwrap().parse().unwrap();
        *counts.entry(kind).or_default() += count;
    }
    counts
}

#[test]
fn every_malformed_message_is_answered_and_counted_under_its_type() {
    let server = serve_with_metrics();
    let metrics = server.metrics_address.unwrap();
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let mut negotiations = 0;
    for (when, kind, bytes, name) in malformed() {
        for _ in 0..TIMES {
            let mut client = match when {
                "first" => Client::connect(server.address, ProtocolVersion::V4),
                _ => Client::open(server.address, ProtocolVersion::V4),
            };
            client.send(&bytes);
            match client.reply() {
                Reply::Error(code, message) => {
                    assert_eq!(format!("{code:?}"), kind, "{name}");
                    // A driver that tries the newest version that it knows has made no error.
                    let is_negotiation = message.contains("unsupported protocol version");
                    *expected.entry(kind.to_owned()).or_default() += u64::from(!is_negotiation);
                    negotiations += u64::from(is_negotiation);
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        expected.retain(|_, count| *count > 0);
        assert_eq!(counted(metrics), expected, "{name}");
        let mut next = Client::open(server.address, ProtocolVersion::V5);
        let reply = next.ask("SELECT key FROM system.local");
        assert!(matches!(reply, Reply::Message(_)), "after {name}: {reply:?}");
    }
    assert!(negotiations > 0);
    assert_serves(server.address);
    stop(server);
}
