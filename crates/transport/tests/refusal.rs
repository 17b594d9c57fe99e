//! Cost of a refusal: nothing from the heap, whatever the version; and its text.

use helenus_protocol::frame::{FrameLimits, FrameReader, ReceiveBuffer};
use helenus_protocol::response::Response;
use helenus_protocol::{Direction, ErrorCode, Opcode, ProtocolVersion};
use helenus_test_heap::allocations_of;
use helenus_test_service::{BEYOND_RATE, CannedOptions, CannedServer, Client, Reply};
use helenus_transport::{Outbox, overloaded_template};

/// Refuses streams 0 to 99 and takes the output.
fn refuse_hundred(outbox: &Outbox, version: ProtocolVersion, output: &mut Vec<u8>) {
    output.clear();
    for stream in 0..100 {
        outbox.append_template(stream, overloaded_template(version));
    }
    outbox.take(output);
}

#[test]
fn a_refusal_allocates_nothing_and_names_its_stream() {
    for version in [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5] {
        let outbox = Outbox::new();
        outbox.startup_answered(version, None);
        let mut output = Vec::new();
        // Twice: the outbox and its taker exchange two buffers.
        refuse_hundred(&outbox, version, &mut output);
        refuse_hundred(&outbox, version, &mut output);
        let allocations = allocations_of(|| refuse_hundred(&outbox, version, &mut output));
        assert_eq!(allocations, 0, "{version:?}");

        let mut received = ReceiveBuffer::new();
        received.feed(&output);
        let mut reader = FrameReader::new(Direction::Response, FrameLimits::default());
        reader.startup_answered(version, None);
        for stream in 0..100 {
            let envelope = reader.next_envelope(&mut received).unwrap().unwrap();
            assert_eq!(envelope.header.stream, stream);
            let (response, _prelude) = Response::decode(&envelope).unwrap();
            let Response::Error(error) = response else {
                panic!("{version:?}: {response:?}")
            };
            assert_eq!(error.body.code(), ErrorCode::Overloaded);
        }
        assert!(reader.next_envelope(&mut received).unwrap().is_none());
    }
}

/// Requests for a greedy table were only refused once it had waited, when what comes for the others had waited as long.
#[test]
fn what_is_beyond_its_rate_is_refused_as_it_comes_if_its_client_asked_to_be_told() {
    let server = CannedServer::start(CannedOptions::default());
    let (version, throws) = (ProtocolVersion::V5, [("THROW_ON_OVERLOAD", "1")]);
    let mut client = Client::open_with(server.address, version, &throws);
    let refused = client.ask(BEYOND_RATE);
    assert!(
        matches!(refused, Reply::Error(ErrorCode::Overloaded, _)),
        "{refused:?}"
    );
    assert_eq!(client.ask("SELECT anything"), Reply::Message(Opcode::Result));
    // Others are promised half of a request's time first.
    let mut client = Client::open(server.address, version);
    assert_eq!(client.ask(BEYOND_RATE), Reply::Message(Opcode::Result));
    server.stop();
}
