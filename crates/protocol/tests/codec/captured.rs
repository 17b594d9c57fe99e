//! Conversations between a real driver and a real Cassandra: decoded, and encoded again to the same bytes.

use helenus_protocol::extensions::write_supported;
use helenus_protocol::frame::{
    Compression, Envelope, EnvelopeFlags, EnvelopeHeader, FrameLimits, FrameReader, FrameWriter,
    ReceiveBuffer,
};
use helenus_protocol::request::{
    BatchStatement, BindValues, Request, Value, write_batch, write_execute, write_prepare, write_query,
    write_register, write_startup,
};
use helenus_protocol::response::{
    BindMetadata, ColumnSpec, MetadataFlags, MetadataForm, Prelude, ReceivedColumn, ReceivedPrepared,
    ReceivedResult, ReceivedRows, Response, ResultMetadata, RowsWriter, SchemaChange, SchemaTarget,
    write_error, write_event, write_prepared, write_refusal, write_schema_change, write_set_keyspace,
    write_void,
};
use helenus_protocol::{Direction, Opcode, ProtocolVersion};

use ProtocolVersion::{V3, V4, V5};

/// One piece of a stream, as a socket delivered it.
struct Piece {
    direction: Direction,
    bytes: Vec<u8>,
}

struct Conversation {
    name: &'static str,
    version: ProtocolVersion,
    compression: Option<Compression>,
    pieces: Vec<Piece>,
}

/// A message of a conversation, copied out of its frames.
#[derive(Clone, Debug)]
struct Captured {
    header: EnvelopeHeader,
    body: Vec<u8>,
    /// The number of the piece its last byte came in.
    piece: usize,
}

fn parse(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for line in text.lines() {
        let (direction, hex) = match line.as_bytes().first() {
            None | Some(b'#') => continue,
            Some(b'>') => (Some(Direction::Request), &line[2..]),
            Some(b'<') => (Some(Direction::Response), &line[2..]),
            Some(_) => (None, line.trim()),
        };
        if let Some(direction) = direction {
            pieces.push(Piece {
                direction,
                bytes: Vec::new(),
            });
        }
        let digits = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
        pieces.last_mut().unwrap().bytes.extend(digits);
    }
    pieces
}

fn conversations() -> Vec<Conversation> {
    let conversation = |name, version, compression, text| Conversation {
        name,
        version,
        compression,
        pieces: parse(text),
    };
    let (lz4, snappy) = (Some(Compression::Lz4), Some(Compression::Snappy));
    vec![
        conversation("v3_snappy", V3, snappy, include_str!("captured/v3_snappy.txt")),
        conversation("v4", V4, None, include_str!("captured/v4.txt")),
        conversation("v4_control", V4, None, include_str!("captured/v4_control.txt")),
        conversation("v4_lz4", V4, lz4, include_str!("captured/v4_lz4.txt")),
        conversation("v5", V5, None, include_str!("captured/v5.txt")),
        conversation("v5_lz4", V5, lz4, include_str!("captured/v5_lz4.txt")),
    ]
}

impl Conversation {
    fn messages(&self, direction: Direction) -> Vec<Captured> {
        let mut reader = FrameReader::new(direction, FrameLimits::default());
        if direction == Direction::Response {
            reader.startup_sent(self.version, self.compression);
        }
        let mut buffer = ReceiveBuffer::new();
        let mut messages = Vec::new();
        for (number, piece) in self
            .pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| piece.direction == direction)
        {
            buffer.feed(&piece.bytes);
            while let Some(Envelope { header, body }) = reader.next_envelope(&mut buffer).unwrap() {
                let body = body.to_vec();
                if matches!(header.opcode, Opcode::Startup | Opcode::Ready) {
                    reader.startup_answered(self.version, self.compression);
                    reader.ready();
                }
                assert_eq!(header.version, self.version);
                messages.push(Captured {
                    header,
                    body,
                    piece: number,
                });
            }
            assert!(
                buffer.unread().is_empty(),
                "{}: a piece ends inside a message",
                self.name
            );
        }
        messages
    }
}

/// Every captured message: what mutations start from.
pub fn bodies() -> Vec<(EnvelopeHeader, Vec<u8>)> {
    conversations()
        .iter()
        .flat_map(|conversation| {
            [Direction::Request, Direction::Response].map(|direction| conversation.messages(direction))
        })
        .flatten()
        .map(|captured| (captured.header, captured.body))
        .collect()
}

fn encode_request(request: &Request<'_>, version: ProtocolVersion) -> Vec<u8> {
    let mut out = Vec::new();
    match request {
        Request::Startup(startup) => write_startup(&mut out, &startup.iter().collect::<Vec<_>>()),
        Request::Options => {}
        Request::AuthResponse(_) => panic!("not captured"),
        Request::Query(query) => {
            let values = BindValues::Received(query.parameters.values);
            write_query(&mut out, version, query.text, &query.parameters, values);
        }
        Request::Prepare(prepare) => write_prepare(&mut out, version, prepare.text, prepare.keyspace),
        Request::Execute(execute) => {
            let metadata_id = execute.result_metadata_id.unwrap_or_default();
            let values = BindValues::Received(execute.parameters.values);
            write_execute(
                &mut out,
                version,
                execute.statement_id,
                metadata_id,
                &execute.parameters,
                values,
            );
        }
        Request::Batch(batch) => {
            let queries: Vec<(BatchStatement<'_>, Vec<Value<'_>>)> = batch
                .queries
                .iter()
                .map(|query| (query.statement, query.values.iter().collect()))
                .collect();
            let queries: Vec<_> = queries
                .iter()
                .map(|(statement, values)| (*statement, BindValues::Positional(values)))
                .collect();
            write_batch(&mut out, version, batch.kind, &queries, &batch.parameters);
        }
        Request::Register(register) => write_register(&mut out, *register),
    }
    out
}

#[test]
fn the_drivers_requests_are_encoded_to_the_same_bytes() {
    let mut kinds = std::collections::HashSet::new();
    for conversation in conversations() {
        for captured in conversation.messages(Direction::Request) {
            let Captured { header, body, .. } = &captured;
            kinds.insert(header.opcode);
            let (request, payload) = Request::decode(&Envelope {
                header: *header,
                body,
            })
            .unwrap();
            assert!(payload.is_empty());
            let encoded = encode_request(&request, conversation.version);
            // The driver sends a value count of 0 where none would do.
            let has_empty_values = encoded.len() + 2 == body.len() && matches!(request, Request::Execute(_));
            // A set of events has no order.
            let is_set = header.opcode == Opcode::Register;
            assert!(
                is_set || has_empty_values || encoded == *body,
                "{}: {request:?}",
                conversation.name
            );
        }
    }
    for opcode in [
        Opcode::Startup,
        Opcode::Options,
        Opcode::Query,
        Opcode::Prepare,
        Opcode::Execute,
        Opcode::Batch,
    ] {
        assert!(kinds.contains(&opcode), "no {opcode} was captured");
    }
}

fn specs<'a>(columns: &'a [ReceivedColumn<'a>]) -> Vec<ColumnSpec<'a>> {
    columns
        .iter()
        .map(|column| ColumnSpec {
            keyspace: column.keyspace,
            table: column.table,
            name: column.name,
            data_type: &column.data_type,
        })
        .collect()
}

fn encode_prepared(out: &mut Vec<u8>, version: ProtocolVersion, prepared: &ReceivedPrepared<'_>) {
    let markers = BindMetadata::new(
        version,
        &specs(&prepared.markers.columns),
        &prepared.markers.partition_key,
    );
    let result = if prepared.result.flags.contains(MetadataFlags::NO_METADATA) {
        ResultMetadata::none()
    } else {
        ResultMetadata::new(version, &specs(&prepared.result.columns))
    };
    let statement_id = prepared.statement_id.try_into().unwrap();
    let metadata_id = prepared
        .result_metadata_id
        .map_or([0; 16], |id| id.try_into().unwrap());
    write_prepared(out, version, statement_id, &metadata_id, &markers, &result);
}

/// `known` is the metadata that the statement was prepared with, which stands in for what the rows leave out.
fn encode_rows(
    out: &mut Vec<u8>,
    rows: &ReceivedRows<'_>,
    known: Option<&ResultMetadata>,
    version: ProtocolVersion,
) {
    let metadata = ResultMetadata::new(version, &specs(&rows.metadata.columns));
    let changed: Option<[u8; 16]> = rows.metadata.new_metadata_id.map(|id| id.try_into().unwrap());
    let is_skipped = rows.metadata.flags.contains(MetadataFlags::NO_METADATA);
    let (metadata, form) = match &changed {
        Some(new_id) => (&metadata, MetadataForm::Changed { new_id }),
        None if is_skipped => (known.unwrap(), MetadataForm::Skipped),
        None => (&metadata, MetadataForm::Full),
    };
    let mut writer = RowsWriter::begin(out, metadata, form);
    for row in rows.iter() {
        row.for_each(|value| writer.value(out, value));
        writer.end_row();
    }
    writer.finish(out, rows.metadata.paging_state);
}

#[test]
fn cassandras_responses_are_encoded_to_the_same_bytes() {
    let mut kinds = std::collections::HashSet::new();
    for conversation in conversations() {
        let version = conversation.version;
        let mut known = None;
        for captured in conversation.messages(Direction::Response) {
            let Captured { header, body, .. } = &captured;
            let (response, prelude) = Response::decode(&Envelope {
                header: *header,
                body,
            })
            .unwrap();
            let warnings: Vec<&str> = prelude.warnings.iter().collect();
            let prelude = Prelude {
                tracing_id: prelude.tracing_id,
                warnings: &warnings,
                custom_payload: &[],
            };
            let is_compressed = header.flags.contains(EnvelopeFlags::COMPRESSED);
            let expected = if is_compressed {
                EnvelopeFlags::COMPRESSED
            } else {
                EnvelopeFlags::NONE
            };
            assert_eq!(header.flags, prelude.flags(version).with(expected));
            let mut out = Vec::new();
            prelude.write(&mut out, version);
            let kind = match &response {
                Response::Error(error) => {
                    write_error(&mut out, version, &error.body, error.message);
                    "error"
                }
                Response::Ready => "ready",
                Response::Supported(_) => {
                    write_supported(&mut out, None);
                    "supported"
                }
                Response::Event(event) => {
                    write_event(&mut out, version, event);
                    "event"
                }
                Response::Result(ReceivedResult::Void) => {
                    write_void(&mut out);
                    "void"
                }
                Response::Result(ReceivedResult::SetKeyspace(keyspace)) => {
                    write_set_keyspace(&mut out, keyspace);
                    "set keyspace"
                }
                Response::Result(ReceivedResult::SchemaChange(change)) => {
                    // In v3 the change of a function is told as its keyspace's, with an empty name behind.
                    let is_function = version == V3 && body.ends_with(&[0, 0]);
                    let target = SchemaTarget::Function {
                        name: "f",
                        argument_types: Vec::new(),
                    };
                    let function = SchemaChange {
                        target,
                        ..change.clone()
                    };
                    write_schema_change(&mut out, version, if is_function { &function } else { change });
                    "schema change"
                }
                Response::Result(ReceivedResult::Prepared(prepared)) => {
                    encode_prepared(&mut out, version, prepared);
                    known = Some(ResultMetadata::new(version, &specs(&prepared.result.columns)));
                    "prepared"
                }
                Response::Result(ReceivedResult::Rows(rows)) => {
                    encode_rows(&mut out, rows, known.as_ref(), version);
                    if rows.metadata.paging_state.is_some() {
                        "page"
                    } else {
                        "rows"
                    }
                }
                other => panic!("not captured: {other:?}"),
            };
            assert!(
                out == *body,
                "{}: {response:?}\n{out:02x?}\n{body:02x?}",
                conversation.name
            );
            kinds.insert(kind);
        }
    }
    assert_eq!(kinds.len(), 10, "{kinds:?}");
}

/// Uncompressed frames have one form only: the pieces are written again byte for byte.
#[test]
fn frames_are_written_as_the_driver_and_cassandra_write_them() {
    for conversation in conversations()
        .iter()
        .filter(|conversation| conversation.compression.is_none())
    {
        for direction in [Direction::Request, Direction::Response] {
            let mut writer = FrameWriter::new();
            let mut written = vec![Vec::new(); conversation.pieces.len()];
            let messages = conversation.messages(direction);
            for (number, captured) in messages.iter().enumerate() {
                let out = &mut written[captured.piece];
                let EnvelopeHeader {
                    version,
                    flags,
                    stream,
                    opcode,
                    ..
                } = captured.header;
                let mark = writer.begin(out, version, flags, stream, opcode);
                out.extend_from_slice(&captured.body);
                writer.finish(out, mark).unwrap();
                // Cassandra packs the answers it sends together into one segment, the driver each request into its own.
                let next = messages.get(number + 1);
                if direction == Direction::Request || next.is_none_or(|next| next.piece != captured.piece) {
                    writer.flush(out);
                }
                if matches!(opcode, Opcode::Startup | Opcode::Ready) {
                    writer.startup_answered(version, conversation.compression);
                }
            }
            for (piece, written) in conversation.pieces.iter().zip(&written) {
                if piece.direction == direction {
                    assert_eq!(piece.bytes, *written, "{}", conversation.name);
                }
            }
        }
    }
}

#[test]
fn versions_are_refused_as_cassandra_refuses_them() {
    let pieces = parse(include_str!("captured/refused_versions.txt"));
    assert_eq!(pieces.len(), 10);
    for [question, answer] in pieces.as_chunks::<2>().0 {
        let mut reader = FrameReader::new(Direction::Request, FrameLimits::default());
        let mut buffer = ReceiveBuffer::new();
        buffer.feed(&question.bytes);
        let error = reader.next_envelope(&mut buffer).unwrap_err();
        let mut out = Vec::new();
        write_refusal(&mut FrameWriter::new(), &mut out, None, &error).unwrap();
        assert_eq!(out, answer.bytes, "{error}");
    }
}
