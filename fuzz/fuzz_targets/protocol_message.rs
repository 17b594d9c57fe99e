//! The body of any message in any version: it decodes or is refused, and what decoded can be walked to its end.

#![no_main]

use helenus_protocol::frame::{Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::request::Request;
use helenus_protocol::response::{ReceivedResult, Response};
use helenus_protocol::{Opcode, ProtocolVersion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u8, u8, &[u8])| {
    let (version, opcode, flags, body) = input;
    let header = EnvelopeHeader {
        version: ProtocolVersion::ALL[usize::from(version & 3)],
        flags: EnvelopeFlags(flags),
        stream: 1,
        opcode: Opcode::ALL[usize::from(opcode) % Opcode::ALL.len()],
        body_bytes: body.len() as u32,
    };
    let envelope = Envelope { header, body };
    if let Ok((request, payload)) = Request::decode(&envelope) {
        let values = match &request {
            Request::Query(query) => query.parameters.values,
            Request::Execute(execute) => execute.parameters.values,
            Request::Batch(batch) => {
                let values: usize = batch
                    .queries
                    .iter()
                    .map(|query| query.values.iter().count())
                    .sum();
                assert!(values <= body.len());
                batch.parameters.values
            }
            _ => helenus_protocol::request::Values::EMPTY,
        };
        assert_eq!(values.named().count(), values.len());
        assert!(payload.iter().count() <= body.len());
    }
    if let Ok((response, prelude)) = Response::decode(&envelope) {
        assert!(prelude.warnings.iter().count() <= body.len());
        if let Response::Result(ReceivedResult::Rows(rows)) = &response {
            let columns = rows.metadata.column_count;
            assert!(rows.iter().all(|row| row.count() == columns));
            assert_eq!(rows.iter().count(), rows.len());
        }
    }
});
