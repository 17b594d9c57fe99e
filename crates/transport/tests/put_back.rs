//! Requests that are put back because the thread that has to do them is busy: each is answered once, when its turn comes.

use std::collections::BTreeSet;

use helenus_protocol::ProtocolVersion;
use helenus_test_service::{CannedOptions, CannedServer, Client, PATIENCE, PUT_BACK};

/// Many times as many as may be under way at a busy thread.
const REQUESTS: i16 = 5_000;

/// Requests went to the busy thread all the same, were begun there in the order of their arrival, and all of them were late.
#[test]
fn requests_that_are_put_back_are_each_answered_once() {
    let server = CannedServer::start(CannedOptions::default());
    let mut client = Client::open(server.address, ProtocolVersion::V4);
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut requests = Vec::new();
    for stream in 0..REQUESTS {
        // Those that are answered at once stand between them, and wait for none of them.
        let text = if stream % 3 == 0 {
            "SELECT anything"
        } else {
            PUT_BACK
        };
        let mut request = client.query(text);
        request[2..4].copy_from_slice(&stream.to_be_bytes());
        requests.extend(request);
    }
    client.send(&requests);
    let streams: BTreeSet<i16> = (0..REQUESTS).map(|_| client.answered_stream()).collect();
    assert_eq!(streams.len(), REQUESTS as usize);
    // And the connection goes on.
    assert_eq!(client.ask(PUT_BACK), client.ask("SELECT anything"));
    server.stop();
}
