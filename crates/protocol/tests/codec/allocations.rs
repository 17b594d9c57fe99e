//! The hot path allocates nothing once its buffers have grown.

use helenus_protocol::frame::{EnvelopeFlags, FrameWriter, ReceiveBuffer};
use helenus_protocol::request::{BindValues, QueryParameters, Request, Value, write_execute};
use helenus_protocol::response::{
    ColumnSpec, ErrorBody, MetadataForm, ResultMetadata, RowsWriter, write_error, write_void,
};
use helenus_protocol::{Consistency, Direction, Opcode, ProtocolVersion};
use helenus_types::CqlType;

use crate::support::{COMPRESSIONS, Message, Wire};
use helenus_test_heap::allocations_of;

fn executes(wire: &mut Wire, count: i16) -> Vec<u8> {
    let values = [Value::Bytes(&[0; 8]), Value::Null, Value::Bytes(&[7; 700])];
    let parameters = QueryParameters::new(Consistency::LocalOne);
    for stream in 0..count {
        let mut body = Vec::new();
        write_execute(
            &mut body,
            wire.version,
            &[1; 16],
            &[2; 16],
            &parameters,
            BindValues::Positional(&values),
        );
        wire.send(&Message {
            stream,
            opcode: Opcode::Execute,
            body,
        });
    }
    wire.flush()
}

#[test]
fn executes_are_decoded_without_allocating() {
    for (version, compression) in COMPRESSIONS {
        let mut wire = Wire::new(Direction::Request, version, compression);
        let bytes = executes(&mut wire, 100);
        let mut buffer = ReceiveBuffer::new();
        let mut value_bytes = 0;
        let mut turn = |wire: &mut Wire| {
            buffer.feed(&bytes);
            while let Some(envelope) = wire.reader.next_envelope(&mut buffer).unwrap() {
                let (request, _) = Request::decode(&envelope).unwrap();
                let Request::Execute(execute) = request else {
                    panic!()
                };
                value_bytes += execute
                    .parameters
                    .values
                    .iter()
                    .filter_map(Value::bytes)
                    .map(<[u8]>::len)
                    .sum::<usize>();
            }
        };
        turn(&mut wire);
        assert_eq!(allocations_of(|| turn(&mut wire)), 0, "{version} {compression:?}");
        assert_eq!(value_bytes, 2 * 100 * 708);
    }
}

#[test]
fn responses_are_encoded_without_allocating() {
    let columns = [
        ColumnSpec {
            keyspace: "ks",
            table: "t",
            name: "k",
            data_type: &CqlType::Bigint,
        },
        ColumnSpec {
            keyspace: "ks",
            table: "t",
            name: "v",
            data_type: &CqlType::Blob,
        },
    ];
    for version in ProtocolVersion::ALL {
        let metadata = ResultMetadata::new(version, &columns);
        let mut writer = FrameWriter::new();
        writer.startup_answered(version, None);
        let mut out = Vec::new();
        let mut turn = || {
            out.clear();
            for stream in 0..100 {
                let mark = writer.begin(&mut out, version, EnvelopeFlags::NONE, stream, Opcode::Result);
                if stream % 2 == 0 {
                    write_void(&mut out);
                } else {
                    let mut rows = RowsWriter::begin(&mut out, &metadata, MetadataForm::Skipped);
                    rows.value(&mut out, Some(&[0; 8]));
                    rows.value(&mut out, None);
                    rows.end_row();
                    rows.finish(&mut out, Some(b"paging state"));
                }
                writer.finish(&mut out, mark).unwrap();
                let mark = writer.begin(&mut out, version, EnvelopeFlags::NONE, stream, Opcode::Error);
                let message = format_args!("Request {stream} refused, {} waiting", 7);
                write_error(&mut out, version, &ErrorBody::Overloaded, message);
                writer.finish(&mut out, mark).unwrap();
            }
            writer.flush(&mut out);
        };
        turn();
        assert_eq!(allocations_of(turn), 0, "{version}");
    }
}
