//! Requests and responses, encoded by one side and decoded by the other, in every version.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use helenus_protocol::extensions::{self, Sharding};
use helenus_protocol::frame::{Compression, Envelope, EnvelopeFlags, EnvelopeHeader};
use helenus_protocol::request::{
    BatchKind, BatchStatement, BindValues, EventKind, QueryParameters, Register, Request, StartupError,
    Value, write_auth_response, write_batch, write_execute, write_prepare, write_query, write_register,
    write_startup,
};
use helenus_protocol::response::{
    BindMetadata, ColumnSpec, ErrorBody, Event, MetadataFlags, MetadataForm, Prelude, ReceivedResult,
    Response, ResultMetadata, RowsWriter, SchemaChange, SchemaChangeKind, SchemaTarget, StatusChange,
    TopologyChange, write_auth_challenge, write_auth_success, write_authenticate, write_error, write_event,
    write_prepared, write_schema_change, write_set_keyspace, write_void,
};
use helenus_protocol::wire::DecodeError;
use helenus_protocol::{Consistency, ErrorCode, FailureReason, Opcode, ProtocolVersion, WriteType};
use helenus_types::{CqlType, UserType};

use crate::support::Random;

use ProtocolVersion::{V3, V4, V5};

fn envelope(version: ProtocolVersion, opcode: Opcode, flags: EnvelopeFlags, body: &[u8]) -> Envelope<'_> {
    let header = EnvelopeHeader {
        version,
        flags,
        stream: 1,
        opcode,
        body_bytes: body.len() as u32,
    };
    Envelope { header, body }
}

fn decode_request(version: ProtocolVersion, opcode: Opcode, body: &[u8]) -> Result<Request<'_>, DecodeError> {
    Request::decode(&envelope(version, opcode, EnvelopeFlags::NONE, body)).map(|(request, _)| request)
}

fn decode_response(version: ProtocolVersion, opcode: Opcode, body: &[u8]) -> Response<'_> {
    Response::decode(&envelope(version, opcode, EnvelopeFlags::NONE, body))
        .unwrap()
        .0
}

/// Drawn data that the random parameters borrow from.
struct Drawn {
    paging_state: Vec<u8>,
    keyspace: String,
    blobs: Vec<Vec<u8>>,
    names: Vec<String>,
}

impl Drawn {
    fn new(random: &mut Random) -> Self {
        let count = random.below(9);
        let length = random.below(40);
        Drawn {
            paging_state: random.bytes(length),
            keyspace: random.word(),
            blobs: (0..count)
                .map(|_| random.below(300))
                .map(|length| Random(length as u64).bytes(length))
                .collect(),
            names: (0..count).map(|_| random.word()).collect(),
        }
    }

    fn parameters(&self, random: &mut Random) -> QueryParameters<'_> {
        QueryParameters {
            skip_metadata: random.chance(2),
            page_size: random.chance(2).then(|| random.next() as i32),
            paging_state: random.chance(2).then_some(&self.paging_state[..]),
            serial_consistency: random.chance(2).then(|| random.pick(&Consistency::ALL)),
            default_timestamp: random.chance(2).then(|| (random.next() >> 1) as i64),
            keyspace: random.chance(2).then_some(&self.keyspace[..]),
            now_in_seconds: random.chance(2).then(|| random.next() as u32),
            ..QueryParameters::new(random.pick(&Consistency::ALL))
        }
    }

    fn values(&self, random: &mut Random, version: ProtocolVersion) -> Vec<Value<'_>> {
        self.blobs
            .iter()
            .map(|blob| match random.below(6) {
                0 => Value::Null,
                1 if version >= V4 => Value::Unset,
                _ => Value::Bytes(blob),
            })
            .collect()
    }
}

fn assert_parameters(version: ProtocolVersion, sent: &QueryParameters<'_>, got: &QueryParameters<'_>) {
    assert_eq!(got.consistency, sent.consistency);
    assert_eq!(got.skip_metadata, sent.skip_metadata);
    assert_eq!(got.page_size, sent.page_size);
    assert_eq!(got.paging_state, sent.paging_state);
    assert_eq!(got.serial_consistency, sent.serial_consistency);
    assert_eq!(got.default_timestamp, sent.default_timestamp);
    assert_eq!(got.keyspace, sent.keyspace.filter(|_| version >= V5));
    assert_eq!(got.now_in_seconds, sent.now_in_seconds.filter(|_| version >= V5));
}

#[test]
fn queries_prepares_and_executes_round_trip() {
    let mut random = Random(0xE8EC);
    for version in ProtocolVersion::ALL {
        for _ in 0..300 {
            let drawn = Drawn::new(&mut random);
            let sent = drawn.parameters(&mut random);
            let values = drawn.values(&mut random, version);
            let named: Vec<_> = drawn
                .names
                .iter()
                .map(String::as_str)
                .zip(values.iter().copied())
                .collect();
            let is_named = random.chance(2);
            let bound = if is_named {
                BindValues::Named(&named)
            } else {
                BindValues::Positional(&values)
            };

            let mut body = Vec::new();
            let text = format!("SELECT {}", drawn.keyspace);
            write_query(&mut body, version, &text, &sent, bound);
            let Ok(Request::Query(query)) = decode_request(version, Opcode::Query, &body) else {
                panic!()
            };
            assert_eq!(query.text, text);
            assert_parameters(version, &sent, &query.parameters);
            assert_eq!(query.parameters.values.iter().collect::<Vec<_>>(), values);
            if is_named {
                assert_eq!(query.parameters.values.named().collect::<Vec<_>>(), named);
            }

            // A coordinator passes received values on as they came.
            let received = BindValues::Received(query.parameters.values);
            let mut passed_on = Vec::new();
            write_execute(&mut passed_on, version, b"an id", b"metadata id", &sent, received);
            let Ok(Request::Execute(execute)) = decode_request(version, Opcode::Execute, &passed_on) else {
                panic!()
            };
            assert_eq!(execute.statement_id, b"an id");
            assert_eq!(
                execute.result_metadata_id,
                (version >= V5).then_some(&b"metadata id"[..])
            );
            assert_parameters(version, &sent, &execute.parameters);
            assert_eq!(execute.parameters.values.iter().collect::<Vec<_>>(), values);
            assert_eq!(execute.parameters.values.len(), values.len());

            let mut body = Vec::new();
            write_prepare(&mut body, version, &text, sent.keyspace);
            let Ok(Request::Prepare(prepare)) = decode_request(version, Opcode::Prepare, &body) else {
                panic!()
            };
            assert_eq!(
                (prepare.text, prepare.keyspace),
                (&text[..], sent.keyspace.filter(|_| version >= V5))
            );
        }
    }
}

#[test]
fn batches_round_trip() {
    let mut random = Random(0xBA7C);
    for version in ProtocolVersion::ALL {
        for _ in 0..200 {
            let drawn: Vec<Drawn> = (0..random.below(6)).map(|_| Drawn::new(&mut random)).collect();
            let values: Vec<Vec<Value<'_>>> = drawn
                .iter()
                .map(|drawn| drawn.values(&mut random, version))
                .collect();
            let queries: Vec<(BatchStatement<'_>, BindValues<'_>)> = drawn
                .iter()
                .zip(&values)
                .map(|(drawn, values)| {
                    let statement = if random.chance(2) {
                        BatchStatement::Text(&drawn.keyspace)
                    } else {
                        BatchStatement::Prepared(&drawn.paging_state)
                    };
                    (statement, BindValues::Positional(values))
                })
                .collect();
            let other = Drawn::new(&mut random);
            let sent = other.parameters(&mut random);
            let kind = random.pick(&[BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter]);
            let mut body = Vec::new();
            write_batch(&mut body, version, kind, &queries, &sent);
            let Ok(Request::Batch(batch)) = decode_request(version, Opcode::Batch, &body) else {
                panic!()
            };
            assert_eq!((batch.kind, batch.queries.len()), (kind, queries.len()));
            assert_parameters(version, &sent, &batch.parameters);
            for (got, (statement, values)) in batch.queries.iter().zip(&queries) {
                assert_eq!(got.statement, *statement);
                let BindValues::Positional(values) = values else {
                    panic!()
                };
                assert_eq!(got.values.iter().collect::<Vec<_>>(), *values);
            }
        }
    }
}

#[test]
fn session_requests_round_trip() {
    let mut body = Vec::new();
    write_startup(
        &mut body,
        &[
            ("cql_version", "3.4.5"),
            ("COMPRESSION", "LZ4"),
            ("THROW_ON_OVERLOAD", "1"),
        ],
    );
    let Ok(Request::Startup(startup)) = decode_request(V4, Opcode::Startup, &body) else {
        panic!()
    };
    assert_eq!(startup.option("CQL_VERSION"), Some("3.4.5"));
    assert_eq!(startup.option("DRIVER_NAME"), None);
    assert_eq!(startup.negotiate(V5), Ok(Some(Compression::Lz4)));
    assert!(startup.throws_on_overload());

    let mut body = Vec::new();
    let events = Register::default()
        .with(EventKind::SchemaChange)
        .with(EventKind::StatusChange);
    write_register(&mut body, events);
    let Ok(Request::Register(register)) = decode_request(V4, Opcode::Register, &body) else {
        panic!()
    };
    assert_eq!(register, events);
    assert!(register.contains(EventKind::StatusChange) && !register.contains(EventKind::TopologyChange));

    let mut body = Vec::new();
    write_auth_response(&mut body, b"\0user\0password");
    let Ok(Request::AuthResponse(token)) = decode_request(V4, Opcode::AuthResponse, &body) else {
        panic!()
    };
    assert_eq!(token, b"\0user\0password");
    assert!(matches!(
        decode_request(V4, Opcode::Options, &[]),
        Ok(Request::Options)
    ));
}

#[test]
fn startup_is_refused_in_cassandras_words() {
    let negotiate = |version, options: &[(&str, &str)]| {
        let mut body = Vec::new();
        write_startup(&mut body, options);
        let Ok(Request::Startup(startup)) = decode_request(version, Opcode::Startup, &body) else {
            panic!()
        };
        startup
            .negotiate(version)
            .map_err(|error: StartupError| error.to_string())
    };
    assert_eq!(
        negotiate(V4, &[]),
        Err("Missing value CQL_VERSION in STARTUP message".into())
    );
    assert_eq!(
        negotiate(V4, &[("CQL_VERSION", "2.0.0")]),
        Err(
            "CQL version 2.0.0 is not supported by the binary protocol (supported version are >= 3.0.0)"
                .into()
        )
    );
    assert_eq!(
        negotiate(V4, &[("CQL_VERSION", "three")]),
        Err("Invalid version value: three".into())
    );
    let with = |compression| [("CQL_VERSION", "3.0.0"), ("COMPRESSION", compression)];
    assert_eq!(negotiate(V4, &with("Snappy")), Ok(Some(Compression::Snappy)));
    assert_eq!(
        negotiate(V5, &with("snappy")),
        Err("Snappy compression is not supported in protocol V5".into())
    );
    assert_eq!(
        negotiate(V5, &with("Zstd")),
        Err("Unknown compression algorithm: zstd".into())
    );
}

#[test]
fn broken_requests_are_refused_in_cassandras_words() {
    let refuse =
        |version, opcode, body: &[u8]| decode_request(version, opcode, body).unwrap_err().to_string();
    // QUERY "" at consistency 12.
    assert_eq!(
        refuse(V4, Opcode::Query, &[0, 0, 0, 0, 0, 12, 0]),
        "Unknown code 12 for a consistency level"
    );
    // QUERY "" at ONE with one value of length -3.
    let value = [0, 0, 0, 0, 0, 1, 1, 0, 1, 0xFF, 0xFF, 0xFF, 0xFD];
    assert_eq!(refuse(V4, Opcode::Query, &value), "Invalid ByteBuf length -3");
    let Ok(Request::Query(query)) = decode_request(V3, Opcode::Query, &value) else {
        panic!()
    };
    assert_eq!(query.parameters.values.iter().collect::<Vec<_>>(), [Value::Null]);
    // QUERY "" at ONE with the timestamp that means none.
    let timestamp = [0, 0, 0, 0, 0, 1, 0x20, 0x80, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        refuse(V4, Opcode::Query, &timestamp),
        "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] \
         (got -9223372036854775808)"
    );
    assert_eq!(
        refuse(V4, Opcode::Batch, &[3, 0, 0, 0, 1, 0]),
        "Invalid BATCH message type 3"
    );
    assert_eq!(
        refuse(V4, Opcode::Batch, &[0, 0, 1, 0xFE, 0, 0, 0, 0]),
        "Invalid query kind in BATCH messages. Must be 0 or 1 but got -2"
    );
    assert_eq!(
        refuse(V4, Opcode::Register, &[0, 1, 0, 2, b'U', b'P']),
        "Invalid value 'UP' for Type"
    );
    assert_eq!(refuse(V4, Opcode::Credentials, &[]), "Unsupported message");
    let payload = envelope(V3, Opcode::Options, EnvelopeFlags::CUSTOM_PAYLOAD, &[0, 0]);
    assert_eq!(
        Request::decode(&payload).unwrap_err().to_string(),
        "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4"
    );
}

fn errors() -> Vec<ErrorBody<'static>> {
    let failures = vec![
        (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), FailureReason::Timeout),
        (
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            FailureReason::ReadTooManyTombstones,
        ),
    ];
    let consistency = Consistency::LocalQuorum;
    let (received, block_for) = (1, 2);
    vec![
        ErrorBody::ServerError,
        ErrorBody::ProtocolError,
        ErrorBody::BadCredentials,
        ErrorBody::Unavailable {
            consistency,
            required: 2,
            alive: 1,
        },
        ErrorBody::Overloaded,
        ErrorBody::IsBootstrapping,
        ErrorBody::TruncateError,
        ErrorBody::WriteTimeout {
            consistency,
            received,
            block_for,
            write_type: WriteType::BatchLog,
            contentions: None,
        },
        ErrorBody::WriteTimeout {
            consistency,
            received,
            block_for,
            write_type: WriteType::Cas,
            contentions: Some(5),
        },
        ErrorBody::ReadTimeout {
            consistency,
            received,
            block_for,
            data_present: true,
        },
        ErrorBody::ReadFailure {
            consistency,
            received,
            block_for,
            failures: failures.clone(),
            data_present: false,
        },
        ErrorBody::FunctionFailure {
            keyspace: "ks",
            function: "f",
            argument_types: vec!["int", "text"],
        },
        ErrorBody::WriteFailure {
            consistency,
            received,
            block_for,
            failures,
            write_type: WriteType::Simple,
        },
        ErrorBody::CdcWriteFailure,
        ErrorBody::CasWriteUnknown {
            consistency,
            received,
            block_for,
        },
        ErrorBody::SyntaxError,
        ErrorBody::Unauthorized,
        ErrorBody::Invalid,
        ErrorBody::ConfigError,
        ErrorBody::AlreadyExists {
            keyspace: "ks",
            table: "",
        },
        ErrorBody::Unprepared {
            statement_id: b"0123456789abcdef",
        },
    ]
}

#[test]
fn errors_round_trip_in_v5() {
    for sent in errors() {
        let mut body = Vec::new();
        write_error(&mut body, V5, &sent, format_args!("{} of {}", 1, 2));
        let Response::Error(got) = decode_response(V5, Opcode::Error, &body) else {
            panic!()
        };
        assert_eq!((got.message, &got.body), ("1 of 2", &sent));
    }
}

#[test]
fn errors_a_version_does_not_know_are_sent_as_their_nearest_relative() {
    let send = |version, sent: &ErrorBody<'_>| {
        let mut body = Vec::new();
        write_error(&mut body, version, sent, "told");
        let Response::Error(got) = decode_response(version, Opcode::Error, &body) else {
            panic!()
        };
        (got.body.code(), got.message.to_owned())
    };
    let timed_out = "Operation timed out - received only 1 responses.";
    for sent in errors() {
        let v4 = match &sent {
            ErrorBody::CasWriteUnknown { .. }
            | ErrorBody::WriteTimeout {
                contentions: Some(_), ..
            } => (ErrorCode::WriteTimeout, timed_out.to_owned()),
            other => (other.code(), "told".to_owned()),
        };
        let v3 = match &sent {
            ErrorBody::ReadFailure { .. } => (ErrorCode::ReadTimeout, timed_out.to_owned()),
            ErrorBody::WriteFailure { .. } => (ErrorCode::WriteTimeout, timed_out.to_owned()),
            ErrorBody::FunctionFailure { .. } => {
                (ErrorCode::Invalid, "ERROR FUNCTION_FAILURE: told".to_owned())
            }
            ErrorBody::CdcWriteFailure => (ErrorCode::Invalid, "ERROR CDC_WRITE_FAILURE: told".to_owned()),
            _ => v4.clone(),
        };
        assert_eq!(send(V4, &sent), v4, "{sent:?}");
        assert_eq!(send(V3, &sent), v3, "{sent:?}");
    }
}

#[test]
fn messages_too_long_for_a_string_are_cut_between_characters() {
    let mut body = Vec::new();
    write_error(
        &mut body,
        V4,
        &ErrorBody::Invalid,
        format_args!("{}{}{}", "x".repeat(65_534), "é", "never"),
    );
    let Response::Error(got) = decode_response(V4, Opcode::Error, &body) else {
        panic!()
    };
    assert_eq!(got.message, "x".repeat(65_534));
}

#[test]
fn session_responses_round_trip() {
    let mut body = Vec::new();
    write_authenticate(&mut body, "org.apache.cassandra.auth.PasswordAuthenticator");
    assert!(matches!(
        decode_response(V4, Opcode::Authenticate, &body),
        Response::Authenticate("org.apache.cassandra.auth.PasswordAuthenticator")
    ));
    let mut body = Vec::new();
    write_auth_challenge(&mut body, b"who");
    assert!(matches!(
        decode_response(V4, Opcode::AuthChallenge, &body),
        Response::AuthChallenge(Some(b"who"))
    ));
    let mut body = Vec::new();
    write_auth_success(&mut body, None);
    assert!(matches!(
        decode_response(V4, Opcode::AuthSuccess, &body),
        Response::AuthSuccess(None)
    ));
    assert!(matches!(decode_response(V4, Opcode::Ready, &[]), Response::Ready));

    let mut body = Vec::new();
    extensions::write_supported(
        &mut body,
        Some(Sharding {
            shard: 1,
            shards: 2,
            shard_aware_port: Some(19_042),
        }),
    );
    let Response::Supported(supported) = decode_response(V4, Opcode::Supported, &body) else {
        panic!()
    };
    let option = |name| supported.option(name).iter().collect::<Vec<_>>();
    assert_eq!(option("PROTOCOL_VERSIONS"), ["3/v3", "4/v4", "5/v5", "6/v6-beta"]);
    assert_eq!(option("COMPRESSION"), ["snappy", "lz4"]);
    assert_eq!(option("CQL_VERSION"), ["3.4.7"]);
    assert_eq!(
        (option("SCYLLA_SHARD"), option("SCYLLA_NR_SHARDS")),
        (vec!["1"], vec!["2"])
    );
    assert_eq!(option("SCYLLA_SHARD_AWARE_PORT"), ["19042"]);
    assert_eq!(option("SCYLLA_RATE_LIMIT_ERROR"), ["ERROR_CODE=17185"]);
}

fn types() -> Vec<CqlType> {
    use CqlType::*;
    let list = |element: CqlType| List {
        element: Arc::new(element),
        frozen: true,
    };
    let definition = Arc::new(UserType {
        keyspace: "ks".into(),
        name: "address".into(),
        fields: vec![("street".into(), Text), ("numbers".into(), list(Smallint))],
    });
    vec![
        Ascii,
        Bigint,
        Blob,
        Boolean,
        Counter,
        Date,
        Decimal,
        Double,
        Duration,
        Empty,
        Float,
        Inet,
        Int,
        Smallint,
        Text,
        Time,
        Timestamp,
        Timeuuid,
        Tinyint,
        Uuid,
        Varint,
        list(Duration),
        Set {
            element: Arc::new(Date),
            frozen: true,
        },
        Map {
            key: Arc::new(Text),
            value: Arc::new(list(Int)),
            frozen: true,
        },
        Tuple(vec![Int, list(Text)].into()),
        UserDefined {
            definition,
            frozen: true,
        },
        Vector {
            element: Arc::new(Float),
            dimension: 3,
        },
        Custom("org.example.Point".into()),
    ]
}

#[test]
fn prepared_and_rows_metadata_round_trip_with_every_type() {
    let types = types();
    let columns: Vec<ColumnSpec<'_>> = types
        .iter()
        .map(|data_type| ColumnSpec {
            keyspace: "ks",
            table: "t",
            name: "naïve",
            data_type,
        })
        .collect();
    let mut joined = columns.clone();
    joined[3].table = "other";
    for version in ProtocolVersion::ALL {
        for (columns, is_global) in [(&columns, true), (&joined, false)] {
            let result = ResultMetadata::new(version, columns);
            let markers = BindMetadata::new(version, columns, &[2, 0]);
            let mut body = Vec::new();
            write_prepared(
                &mut body,
                version,
                b"statement id 16.",
                b"metadata id 16..",
                &markers,
                &result,
            );
            let Response::Result(ReceivedResult::Prepared(got)) =
                decode_response(version, Opcode::Result, &body)
            else {
                panic!()
            };
            assert_eq!(got.statement_id, b"statement id 16.");
            assert_eq!(
                got.result_metadata_id,
                (version >= V5).then_some(&b"metadata id 16.."[..])
            );
            let positions: &[u16] = if is_global && version >= V4 { &[2, 0] } else { &[] };
            assert_eq!(got.markers.partition_key, positions);
            assert_eq!(got.markers.columns, got.result.columns);
            for (got, sent) in got.result.columns.iter().zip(columns.iter()) {
                assert_eq!(
                    (got.keyspace, got.table, got.name),
                    (sent.keyspace, sent.table, sent.name)
                );
                assert_eq!(got.data_type, *sent.data_type, "{version}");
            }
            assert_eq!(got.result.columns.len(), columns.len());
        }
    }
}

#[test]
fn types_a_version_does_not_know_are_sent_as_classes() {
    let option = |version, data_type: &CqlType| {
        let mut out = Vec::new();
        helenus_protocol::type_option::put_type(&mut out, version, data_type);
        out
    };
    let class = |name: &str| [&[0, 0, 0, name.len() as u8], name.as_bytes()].concat();
    assert_eq!(option(V5, &CqlType::Duration), [0, 0x15]);
    assert_eq!(
        option(V4, &CqlType::Duration),
        class("org.apache.cassandra.db.marshal.DurationType")
    );
    assert_eq!(option(V4, &CqlType::Date), [0, 0x11]);
    assert_eq!(
        option(V3, &CqlType::Date),
        class("org.apache.cassandra.db.marshal.SimpleDateType")
    );
    let vector = CqlType::Vector {
        element: Arc::new(CqlType::Float),
        dimension: 3,
    };
    assert_eq!(
        option(V5, &vector),
        class("org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)")
    );
}

#[test]
fn rows_round_trip_in_every_form_of_their_metadata() {
    let columns = [
        ColumnSpec {
            keyspace: "ks",
            table: "t",
            name: "k",
            data_type: &CqlType::Int,
        },
        ColumnSpec {
            keyspace: "ks",
            table: "t",
            name: "v",
            data_type: &CqlType::Text,
        },
    ];
    let rows: [[Option<&[u8]>; 2]; 3] = [
        [Some(&[0, 0, 0, 1]), Some(b"one")],
        [Some(&[0, 0, 0, 2]), None],
        [None, Some(b"")],
    ];
    for version in ProtocolVersion::ALL {
        let metadata = ResultMetadata::new(version, &columns);
        for paging_state in [None, Some(&b"where to go on"[..])] {
            for form in [
                MetadataForm::Full,
                MetadataForm::Skipped,
                MetadataForm::Changed {
                    new_id: b"metadata id 16..",
                },
            ] {
                let mut body = b"in front".to_vec();
                let mut writer = RowsWriter::begin(&mut body, &metadata, form);
                for row in rows {
                    row.iter().for_each(|value| writer.value(&mut body, *value));
                    writer.end_row();
                }
                assert_eq!(writer.row_count(), 3);
                writer.finish(&mut body, paging_state);
                let body = body.strip_prefix(b"in front").unwrap();
                let Response::Result(ReceivedResult::Rows(got)) =
                    decode_response(version, Opcode::Result, body)
                else {
                    panic!()
                };
                assert_eq!(
                    got.iter().map(Iterator::collect::<Vec<_>>).collect::<Vec<_>>(),
                    rows
                );
                assert_eq!((got.len(), got.metadata.column_count), (3, 2));
                assert_eq!(got.metadata.paging_state, paging_state);
                assert_eq!(
                    got.metadata.flags.contains(MetadataFlags::HAS_MORE_PAGES),
                    paging_state.is_some()
                );
                assert_eq!(got.metadata.columns.is_empty(), form == MetadataForm::Skipped);
                let is_changed = matches!(form, MetadataForm::Changed { .. });
                assert_eq!(got.metadata.new_metadata_id.is_some(), is_changed);
            }
        }
    }
}

#[test]
fn small_results_events_and_schema_changes_round_trip() {
    for version in ProtocolVersion::ALL {
        let mut body = Vec::new();
        write_void(&mut body);
        assert!(matches!(
            decode_response(version, Opcode::Result, &body),
            Response::Result(ReceivedResult::Void)
        ));
        let mut body = Vec::new();
        write_set_keyspace(&mut body, "ks");
        assert!(matches!(
            decode_response(version, Opcode::Result, &body),
            Response::Result(ReceivedResult::SetKeyspace("ks"))
        ));
        let node: SocketAddr = "[2001:db8::7]:9042".parse().unwrap();
        let targets = [
            SchemaTarget::Keyspace,
            SchemaTarget::Table("t"),
            SchemaTarget::Type("u"),
            SchemaTarget::Function {
                name: "f",
                argument_types: vec!["int"],
            },
            SchemaTarget::Aggregate {
                name: "a",
                argument_types: Vec::new(),
            },
        ];
        let changes = targets
            .into_iter()
            .zip(SchemaChangeKind::ALL.into_iter().cycle())
            .map(|(target, change)| {
                Event::SchemaChange(SchemaChange {
                    change,
                    keyspace: "ks",
                    target,
                })
            });
        let events = TopologyChange::ALL
            .into_iter()
            .map(|change| Event::TopologyChange { change, node })
            .chain(
                StatusChange::ALL
                    .into_iter()
                    .map(|status| Event::StatusChange { status, node }),
            )
            .chain(changes);
        for sent in events {
            let mut body = Vec::new();
            write_event(&mut body, version, &sent);
            let Response::Event(got) = decode_response(version, Opcode::Event, &body) else {
                panic!()
            };
            let is_told = match &sent {
                Event::SchemaChange(change) => {
                    let mut body = Vec::new();
                    write_schema_change(&mut body, version, change);
                    let Response::Result(ReceivedResult::SchemaChange(result)) =
                        decode_response(version, Opcode::Result, &body)
                    else {
                        panic!()
                    };
                    assert_eq!(Event::SchemaChange(result), got);
                    let is_function = matches!(
                        change.target,
                        SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. }
                    );
                    version >= V4 || !is_function
                }
                _ => true,
            };
            let keyspace_updated = Event::SchemaChange(SchemaChange {
                change: SchemaChangeKind::Updated,
                keyspace: "ks",
                target: SchemaTarget::Keyspace,
            });
            assert_eq!(got, if is_told { sent } else { keyspace_updated });
        }
    }
}

#[test]
fn preludes_round_trip() {
    let custom_payload = [("key", Some(&b"value"[..])), ("null", None)];
    let prelude = Prelude {
        tracing_id: Some([9; 16]),
        warnings: &["slow", "large"],
        custom_payload: &custom_payload,
    };
    for version in [V3, V4, V5] {
        let mut written = Vec::new();
        prelude.write(&mut written, version);
        write_set_keyspace(&mut written, "ks");
        let envelope = envelope(version, Opcode::Result, prelude.flags(version), &written);
        let (response, got) = Response::decode(&envelope).unwrap();
        assert!(matches!(
            response,
            Response::Result(ReceivedResult::SetKeyspace("ks"))
        ));
        assert_eq!(got.tracing_id, Some([9; 16]));
        let (warnings, payload): (Vec<_>, Vec<_>) =
            (got.warnings.iter().collect(), got.custom_payload.iter().collect());
        if version == V3 {
            assert!(warnings.is_empty() && payload.is_empty());
        } else {
            assert_eq!(
                (warnings, payload),
                (vec!["slow", "large"], custom_payload.to_vec())
            );
        }
    }
}
