//! Bytes nobody meant well with: no panic, no endless loop, no memory for promises.

use helenus_protocol::Direction;
use helenus_protocol::frame::{FrameLimits, FrameReader, ReceiveBuffer, Recovery};
use helenus_protocol::request::{BindValues, QueryParameters, Request, Value, write_execute, write_query};
use helenus_protocol::response::Response;
use helenus_protocol::{Consistency, Opcode};

use crate::support::{COMPRESSIONS, Message, Random, Wire};
use helenus_test_heap::peak_bytes_of;

/// Walks everything a decoded request gives access to.
fn walk_request(request: &Request<'_>) -> usize {
    match request {
        Request::Startup(startup) => startup.iter().map(|(name, value)| name.len() + value.len()).sum(),
        Request::Query(query) => query.parameters.values.named().count(),
        Request::Execute(execute) => execute
            .parameters
            .values
            .iter()
            .filter_map(Value::bytes)
            .map(<[u8]>::len)
            .sum(),
        Request::Batch(batch) => batch
            .queries
            .iter()
            .map(|query| query.values.iter().count())
            .sum(),
        Request::AuthResponse(token) => token.len(),
        Request::Options | Request::Prepare(_) | Request::Register(_) => 0,
    }
}

/// Bytes that a reader may hold at once: LZ4 expands up to 255 times, a column of 4 bytes becomes a struct, the receive
/// buffer starts with 16 KiB, and the text of what was decoded is printed below.
fn peak_bytes_max(bytes: usize) -> i64 {
    400 * bytes as i64 + 64 * 1024
}

fn read_hostile(wire: &mut Wire, bytes: &[u8]) {
    let peak_bytes = peak_bytes_of(|| read_to_end(wire, bytes));
    assert!(
        peak_bytes <= peak_bytes_max(bytes.len()),
        "{peak_bytes} bytes held for {}",
        bytes.len()
    );
}

/// Reads a connection's bytes to the end, decoding whatever comes out as a request and as a response.
fn read_to_end(wire: &mut Wire, bytes: &[u8]) {
    let mut buffer = ReceiveBuffer::new();
    buffer.feed(bytes);
    // Each step consumes at least a byte or ends the loop.
    for _ in 0..=bytes.len() {
        let unread = buffer.unread().len();
        match wire.reader.next_envelope(&mut buffer) {
            Ok(None) => return,
            Ok(Some(envelope)) => {
                if let Ok((request, payload)) = Request::decode(&envelope) {
                    assert!(walk_request(&request) <= envelope.body.len() * 2);
                    assert!(payload.iter().count() <= envelope.body.len());
                }
                if let Ok((response, prelude)) = Response::decode(&envelope) {
                    assert!(format!("{response:?}").len() < 64 * (envelope.body.len() + 64));
                    assert!(prelude.warnings.iter().count() <= envelope.body.len());
                }
            }
            Err(error) if error.recovery() == Recovery::Continue => {
                assert!(!error.to_string().is_empty());
                assert!(buffer.unread().len() <= unread);
            }
            Err(_) => return,
        }
    }
    panic!("the reader went round more often than there are bytes");
}

fn request_corpus(wire: &mut Wire, random: &mut Random) -> Vec<u8> {
    let values = [Value::Bytes(b"value"), Value::Null, Value::Bytes(&[0; 40])];
    let parameters = QueryParameters {
        page_size: Some(100),
        paging_state: Some(b"state"),
        default_timestamp: Some(1),
        serial_consistency: Some(Consistency::Serial),
        ..QueryParameters::new(Consistency::One)
    };
    for stream in 0..3 {
        let mut body = Vec::new();
        let opcode = match random.below(4) {
            0 => {
                write_query(
                    &mut body,
                    wire.version,
                    "SELECT",
                    &parameters,
                    BindValues::Named(&[("a", values[0])]),
                );
                Opcode::Query
            }
            1 => {
                body = random.bytes(40);
                random.pick(&[
                    Opcode::Batch,
                    Opcode::Startup,
                    Opcode::Register,
                    Opcode::Prepare,
                    Opcode::AuthResponse,
                ])
            }
            _ => {
                let values = BindValues::Positional(&values);
                write_execute(&mut body, wire.version, &[7; 16], &[8; 16], &parameters, values);
                Opcode::Execute
            }
        };
        wire.send(&Message { stream, opcode, body });
    }
    wire.flush()
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
            3 => bytes.truncate(at + 1),
            4 => {
                let count = random.below(5);
                let inserted = random.bytes(count);
                bytes.splice(at..at, inserted);
            }
            _ => {
                let end = (at + random.below(9)).min(bytes.len());
                let copied = bytes[at..end].to_vec();
                bytes.splice(at..at, copied);
            }
        }
    }
}

#[test]
fn mutated_requests_never_panic_or_loop() {
    let mut random = Random(0xBAD5EED);
    for round in 0..60_000 {
        let (version, compression) = COMPRESSIONS[round % COMPRESSIONS.len()];
        let mut wire = Wire::new(Direction::Request, version, compression);
        let mut bytes = request_corpus(&mut wire, &mut random);
        mutate(&mut random, &mut bytes);
        read_hostile(&mut wire, &bytes);
    }
}

/// Mutations below the checksums, which would otherwise catch nearly all of them.
#[test]
fn mutated_bodies_never_panic_or_loop() {
    let mut random = Random(0xB0D1E5);
    let mut corpus = crate::captured::bodies();
    for round in 0..60_000 {
        let (header, body) = &corpus[round % corpus.len()];
        let mut body = body.clone();
        if body.is_empty() {
            continue;
        }
        mutate(&mut random, &mut body);
        let mut wire = Wire::new(header.opcode.direction(), header.version, None);
        let mark = wire.writer.begin(
            &mut wire.out,
            header.version,
            header.flags,
            header.stream,
            header.opcode,
        );
        wire.out.extend_from_slice(&body);
        wire.writer.finish(&mut wire.out, mark).unwrap();
        let bytes = wire.flush();
        read_hostile(&mut wire, &bytes);
        // A few mutants breed.
        if random.chance(50) {
            let index = random.below(corpus.len());
            corpus[index].1 = body;
        }
    }
}

#[test]
fn random_bytes_never_panic_or_loop() {
    let mut random = Random(0xDEAD);
    for round in 0..20_000 {
        let (version, compression) = COMPRESSIONS[round % COMPRESSIONS.len()];
        let length = random.below(200);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = version.number();
        }
        let mut wire = Wire::new(Direction::Request, version, compression);
        wire.reader = FrameReader::new(Direction::Request, FrameLimits::default());
        if random.chance(2) {
            wire.reader.startup_answered(version, compression);
        }
        read_hostile(&mut wire, &bytes);
    }
}
