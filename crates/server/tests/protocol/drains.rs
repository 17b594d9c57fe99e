//! How connections end when the server stops.

use std::time::Instant;

use helenus_protocol::{ErrorCode, ProtocolVersion};

use crate::support::{Client, PATIENCE, Reply, each_service, stop};

/// Symptom: a driver whose connection was never quiet for 50 ms was refused for the whole drain timeout, and its node was
/// away for so long.
#[test]
fn a_client_that_never_pauses_is_refused_and_does_not_hold_up_the_stop() {
    for server in each_service() {
        let mut client = Client::open(server.address, ProtocolVersion::V4);
        let busy = std::thread::spawn(move || {
            let mut refused = 0;
            loop {
                match client.ask("SELECT key FROM system.local") {
                    Reply::Closed => return refused,
                    Reply::Error(ErrorCode::IsBootstrapping, _) => refused += 1,
                    _ => {}
                }
            }
        });
        let begun = Instant::now();
        stop(server);
        assert!(
            begun.elapsed() < PATIENCE,
            "it waited for a pause until its patience was over"
        );
        assert!(busy.join().unwrap() > 0, "it was told to ask another node");
    }
}
