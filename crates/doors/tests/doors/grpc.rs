//! gRPC, as a client of Stargate's sees it.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use helenus_doors::proto::health::{HealthCheckRequest, HealthCheckResponse};
use helenus_doors::proto::reflection::{
    ServerReflectionRequest, ServerReflectionResponse, server_reflection_request,
};
use helenus_doors::proto::stargate::value::{Inner, Null, Unset};
use helenus_doors::proto::stargate::{
    AlreadyExists, Batch, BatchQuery, ConsistencyValue, Decimal, Duration as StargateDuration, Inet, Query,
    QueryParameters, Response, StreamingResponse, UdtValue, Uuid, Value, Values, Varint, streaming_response,
};
use prost::Message;

use crate::support::grpc::{Client, ended, framed, int, list, messages, query, rows, run, text, value};
use crate::support::{Served, Serving};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn one_of_each_type() -> Vec<(&'static str, Value)> {
    let uuid = |bytes: [u8; 16]| {
        value(Inner::Uuid(Uuid {
            value: bytes.to_vec(),
        }))
    };
    let timeuuid = *b"\xd6\x45\x52\x56\xe7\xf1\x11\xf1\x82\x58\x79\xec\x71\xbc\x39\xa4";
    vec![
        ("ascii", text("a")),
        ("bigint", int(i64::MIN)),
        ("blob", value(Inner::Bytes(vec![0, 255]))),
        ("boolean", value(Inner::Boolean(true))),
        ("date", value(Inner::Date(1 << 31))),
        (
            "decimal",
            value(Inner::Decimal(Decimal {
                scale: 2,
                value: vec![0x7d],
            })),
        ),
        ("double", value(Inner::Double(0.5))),
        (
            "duration",
            value(Inner::Duration(StargateDuration {
                months: -1,
                days: -2,
                nanos: -3,
            })),
        ),
        ("float", value(Inner::Float(1.5))),
        (
            "inet",
            value(Inner::Inet(Inet {
                value: vec![127, 0, 0, 1],
            })),
        ),
        ("int", int(-7)),
        ("list<text>", list(vec![text("x"), text("y")])),
        ("map<text, int>", list(vec![text("k"), int(1)])),
        ("set<int>", list(vec![int(1), int(2)])),
        ("smallint", int(-3)),
        ("text", text("\u{e9}")),
        ("time", value(Inner::Time(86_399_999_999_999))),
        ("timestamp", int(1_767_225_600_000)),
        ("timeuuid", uuid(timeuuid)),
        ("tinyint", int(7)),
        (
            "tuple<int, text>",
            list(vec![int(1), value(Inner::Null(Null {}))]),
        ),
        (
            "frozen<k.point>",
            value(Inner::Udt(UdtValue {
                fields: HashMap::from([("x".to_owned(), int(1)), ("y".to_owned(), int(2))]),
            })),
        ),
        ("uuid", uuid([7; 16])),
        ("varint", value(Inner::Varint(Varint { value: vec![1, 0] }))),
        (
            "vector<float, 2>",
            list(vec![value(Inner::Float(1.0)), value(Inner::Float(2.0))]),
        ),
    ]
}

#[test]
fn every_type_goes_in_and_comes_out_as_it_was() {
    let served = Served::start();
    served.execute(KEYSPACE);
    served.execute("CREATE TYPE k.point (x int, y int)");
    let all = one_of_each_type();
    let columns: Vec<String> = (0..all.len()).map(|index| format!("c{index:02}")).collect();
    let declared: Vec<String> = all
        .iter()
        .zip(&columns)
        .map(|((of, _), name)| format!("{name} {of}"))
        .collect();
    served.execute(&format!(
        "CREATE TABLE k.t (id int PRIMARY KEY, {})",
        declared.join(", ")
    ));
    run(async {
        let mut client = Client::connect(&served).await;
        let mut given = vec![int(1)];
        given.extend(all.iter().map(|(_, value)| value.clone()));
        let markers = vec!["?"; given.len()].join(", ");
        let insert = format!("INSERT INTO k.t (id, {}) VALUES ({markers})", columns.join(", "));
        client.query(&insert, given.clone()).await.unwrap();
        let read = rows(
            client
                .query("SELECT * FROM k.t WHERE id = ?", vec![int(1)])
                .await
                .unwrap(),
        );
        assert_eq!(read.columns.len(), given.len());
        assert_eq!(read.rows[0].values, given);
        for (index, (of, _)) in all.iter().enumerate() {
            let wrong = client
                .query(
                    &format!("UPDATE k.t SET c{index:02} = ? WHERE id = 1"),
                    vec![value(Inner::Udt(UdtValue {
                        fields: HashMap::from([("none".to_owned(), int(1))]),
                    }))],
                )
                .await
                .unwrap_err();
            assert_eq!(wrong.code, 3, "{of}: {}", wrong.message);
        }
        // A client of a later version wrote null where its value was of a kind that was not known here.
        let kinds = [
            (Value { inner: None }, "no kind that is known"),
            (
                value(Inner::Duration(StargateDuration {
                    months: 1,
                    days: -1,
                    nanos: 0,
                })),
                "duration",
            ),
        ];
        for (given, wanted) in kinds {
            let wrong = client
                .query("UPDATE k.t SET c07 = ? WHERE id = 1", vec![given])
                .await
                .unwrap_err();
            assert!(
                wrong.code == 3 && wrong.message.contains(wanted),
                "{}",
                wrong.message
            );
        }
        let as_bytes = vec![value(Inner::Bytes(vec![1, 3, 5]))];
        client
            .query("UPDATE k.t SET c07 = ? WHERE id = 1", as_bytes)
            .await
            .unwrap();
        let read = rows(
            client
                .query("SELECT c07, c11 FROM k.t WHERE id = 1", vec![])
                .await
                .unwrap(),
        );
        assert_eq!(read.rows[0].values[0], given[8]);
        let unset = vec![value(Inner::Unset(Unset {})), value(Inner::Null(Null {}))];
        client
            .query("UPDATE k.t SET c10 = ?, c15 = ? WHERE id = 1", unset)
            .await
            .unwrap();
        let read = rows(
            client
                .query("SELECT c10, c15 FROM k.t WHERE id = 1", vec![])
                .await
                .unwrap(),
        );
        assert_eq!(read.rows[0].values, [int(-7), value(Inner::Null(Null {}))]);
        let out_of_range = client
            .query("UPDATE k.t SET c19 = ? WHERE id = 1", vec![int(128)])
            .await
            .unwrap_err();
        assert_eq!(
            (out_of_range.code, out_of_range.message.contains("128")),
            (3, true)
        );
    });
}

#[test]
fn pages_names_traces_and_batches() {
    let served = Served::start();
    served.execute(KEYSPACE);
    served.execute("CREATE TABLE k.t (p int, c int, PRIMARY KEY (p, c))");
    run(async {
        let mut client = Client::connect(&served).await;
        let member = |c: i64| BatchQuery {
            cql: "INSERT INTO k.t (p, c) VALUES (?, ?)".to_owned(),
            values: Some(Values {
                values: vec![int(1), int(c)],
                value_names: Vec::new(),
            }),
        };
        let batch = Batch {
            r#type: 1,
            queries: (0..250).map(member).collect(),
            parameters: None,
        };
        client
            .call::<Response>("stargate.Stargate/ExecuteBatch", &batch)
            .await
            .unwrap();
        let mut asked = Query {
            cql: "SELECT c FROM t WHERE p = :q".to_owned(),
            values: Some(Values {
                values: vec![int(1)],
                value_names: vec!["q".to_owned()],
            }),
            parameters: Some(QueryParameters {
                keyspace: Some("k".to_owned()),
                consistency: Some(ConsistencyValue { value: 4 }),
                tracing: true,
                ..QueryParameters::default()
            }),
        };
        let mut sizes = Vec::new();
        loop {
            let page: Response = client
                .call("stargate.Stargate/ExecuteQuery", &asked)
                .await
                .unwrap();
            let traces = page.traces.clone().unwrap();
            assert!(traces.duration > 0 && !traces.events.is_empty(), "{traces:?}");
            let page = rows(page);
            sizes.push(page.rows.len());
            let parameters = asked.parameters.as_mut().unwrap();
            parameters.paging_state = page.paging_state;
            if parameters.paging_state.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [100, 100, 50]);
    });
}

#[test]
fn a_stream_answers_in_order_and_goes_on_after_an_error() {
    let served = Served::start();
    run(async {
        let mut client = Client::connect(&served).await;
        let mut frames = BytesMut::new();
        for cql in [
            "SELECT key FROM system.local",
            "SELEC",
            "SELECT key FROM system.local",
        ] {
            frames.put(framed(&query(cql, vec![])));
        }
        let ended = client
            .call_with("stargate.Stargate/ExecuteQueryStream", frames.freeze())
            .await;
        let kinds: Vec<Option<i32>> = messages::<StreamingResponse>(&ended.data)
            .into_iter()
            .map(|response| match response.message.unwrap() {
                streaming_response::Message::Response(_) => None,
                streaming_response::Message::Status(status) => Some(status.code),
            })
            .collect();
        assert_eq!((ended.code, kinds), (0, vec![None, Some(3), None]));
    });
}

#[test]
fn errors_have_stargates_codes_and_details() {
    let served = Served::start();
    served.execute(KEYSPACE);
    run(async {
        let mut client = Client::connect(&served).await;
        let exists = client.query(KEYSPACE, vec![]).await.unwrap_err();
        let detail = exists
            .trailers
            .get("stargate.alreadyexists-bin")
            .unwrap()
            .to_str()
            .unwrap();
        let detail = base64::Engine::decode(&base64::prelude::BASE64_STANDARD_NO_PAD, detail).unwrap();
        let detail = AlreadyExists::decode(&*detail).unwrap();
        assert_eq!((exists.code, detail.keyspace.as_str()), (6, "k"));
        assert_eq!(exists.message, "Cannot add existing keyspace \"k\"");
        for (cql, code) in [("SELEC", 3), ("SELECT * FROM k.none", 3), ("USE k", 3)] {
            assert_eq!(client.query(cql, vec![]).await.unwrap_err().code, code, "{cql}");
        }
        for (method, code) in [("stargate.Stargate/None", 12), ("none.None/None", 12)] {
            assert_eq!(
                client.call_with(method, Bytes::new()).await.code,
                code,
                "{method}"
            );
        }
        client.headers = vec![("grpc-timeout", "0m".to_owned())];
        assert_eq!(
            client
                .query("SELECT key FROM system.local", vec![])
                .await
                .unwrap_err()
                .code,
            4
        );
    });
}

/// Strangers' interop clients have it where a flag says so, and nobody else.
#[test]
fn the_test_service_is_not_there_unless_it_is_asked_for() {
    for (serves_tests, code) in [(false, 12), (true, 0)] {
        let served = Served::start_as(Serving {
            serves_tests,
            ..Serving::default()
        });
        let frame = Bytes::from_static(&[0; 5]);
        let method = "grpc.testing.TestService/EmptyCall";
        let called = run(async { Client::connect(&served).await.call_with(method, frame).await });
        assert_eq!(called.code, code);
    }
}

#[test]
fn messages_that_are_not_what_they_say_are_named() {
    let served = Served::start();
    run(async {
        let mut client = Client::connect(&served).await;
        let method = "stargate.Stargate/ExecuteQuery";
        let cases: [(&'static [u8], &str); 5] = [
            (
                b"\x01\x00\x00\x00\x00",
                "the header grpc-encoding does not say how",
            ),
            (b"\x02\x00\x00\x00\x00", "neither 0 nor 1"),
            (b"\x00\x00\x00", "within a message's length"),
            (b"\x00\x00\x00\x00\x09x", "within a message"),
            (b"\x00\x00\x00\x00\x01x", "cannot be read"),
        ];
        for (bytes, wanted) in cases {
            let ended = client.call_with(method, Bytes::from_static(bytes)).await;
            assert_eq!(
                (ended.code, ended.message.contains(wanted)),
                (13, true),
                "{}",
                ended.message
            );
        }
        let ended = client
            .call_with(method, Bytes::from_static(b"\x00\xff\xff\xff\xff"))
            .await;
        assert_eq!(
            (
                ended.code,
                ended
                    .trailers
                    .get("grpc-retry-pushback-ms")
                    .unwrap()
                    .to_str()
                    .unwrap()
            ),
            (8, "-1")
        );
        client.headers = vec![("grpc-encoding", "snappy".to_owned())];
        let ended = client.call_with(method, Bytes::new()).await;
        assert_eq!(
            (
                ended.code,
                ended
                    .trailers
                    .get("grpc-accept-encoding")
                    .unwrap()
                    .to_str()
                    .unwrap()
            ),
            (12, "gzip,zstd")
        );
    });
}

#[test]
fn answers_are_compressed_only_where_that_is_accepted_and_worth_it() {
    let served = Served::start();
    run(async {
        let mut client = Client::connect(&served).await;
        let ask = async |client: &mut Client, cql: &str| {
            let ended = client
                .call_with("stargate.Stargate/ExecuteQuery", framed(&query(cql, vec![])))
                .await;
            assert_eq!(ended.code, 0);
            let encoding = ended
                .headers
                .get("grpc-encoding")
                .map(|value| value.to_str().unwrap().to_owned());
            (encoding, ended.data[0])
        };
        let long = "SELECT * FROM system_schema.columns";
        assert_eq!(ask(&mut client, long).await, (None, 0));
        for name in ["gzip", "zstd"] {
            client.headers = vec![("grpc-accept-encoding", name.to_owned())];
            assert_eq!(ask(&mut client, long).await, (Some(name.to_owned()), 1));
            assert_eq!(
                ask(&mut client, "SELECT key FROM system.local").await,
                (Some(name.to_owned()), 0)
            );
        }
    });
}

#[test]
fn a_token_says_who_calls_where_users_log_in() {
    let served = Served::start_as(Serving {
        asks_for_passwords: true,
        ..Serving::default()
    });
    let login = served
        .post("/v1/auth", r#"{"username":"cassandra","password":"cassandra"}"#)
        .json();
    run(async {
        let mut client = Client::connect(&served).await;
        assert_eq!(
            client
                .query("SELECT key FROM system.local", vec![])
                .await
                .unwrap_err()
                .code,
            16
        );
        client.headers = vec![(
            "x-cassandra-token",
            login["authToken"].as_str().unwrap().to_owned(),
        )];
        client
            .query("SELECT key FROM system.local", vec![])
            .await
            .unwrap();
    });
}

#[test]
fn reflection_describes_what_is_served() {
    let served = Served::start();
    run(async {
        let mut client = Client::connect(&served).await;
        for version in ["v1", "v1alpha"] {
            let request = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(server_reflection_request::MessageRequest::ListServices(
                    String::new(),
                )),
            };
            let method = format!("grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
            let ended = client.call_with(&method, framed(&request)).await;
            let response = messages::<ServerReflectionResponse>(&ended.data).remove(0);
            assert!(
                format!("{response:?}").contains("stargate.Stargate"),
                "{response:?}"
            );
        }
    });
}

/// A balancer has to know of the drain before the connection goes.
#[test]
fn a_drain_tells_health_first_then_ends_streams_and_connections() {
    let served = Served::start();
    run(async {
        let mut client = Client::connect(&served).await;
        let health = HealthCheckRequest {
            service: "stargate.Stargate".to_owned(),
        };
        let checked: HealthCheckResponse = client.call("grpc.health.v1.Health/Check", &health).await.unwrap();
        assert_eq!(checked.status, 1);
        let unknown = HealthCheckRequest {
            service: "none".to_owned(),
        };
        assert_eq!(
            client
                .call::<HealthCheckResponse>("grpc.health.v1.Health/Check", &unknown)
                .await
                .unwrap_err()
                .code,
            5
        );

        let (response, mut body) = client.begin("grpc.health.v1.Health/Watch").await;
        body.send_data(framed(&health), true).unwrap();
        let mut watched = response.await.unwrap().into_body();
        let first = watched.data().await.unwrap().unwrap();
        assert_eq!(messages::<HealthCheckResponse>(&first)[0].status, 1);
        let (streamed, _kept_open) = client.begin("stargate.Stargate/ExecuteQueryStream").await;

        served.doors().begin_drain();
        let second = watched.data().await.unwrap().unwrap();
        assert_eq!(messages::<HealthCheckResponse>(&second)[0].status, 2);
        // Nothing of what it would ask was done.
        let ended = ended(streamed.await.unwrap()).await;
        assert_eq!(ended.code, 14);
        assert_eq!(
            ended
                .trailers
                .get("grpc-retry-pushback-ms")
                .unwrap()
                .to_str()
                .unwrap(),
            "0"
        );
        drop((watched, client));
        served.doors().drained().await;
    });
}

/// The next one waited for ever for the place of one that nobody wanted any more.
#[test]
fn cancelled_calls_free_their_places() {
    let served = Served::start();
    run(async {
        let mut client = Client::connect(&served).await;
        for _ in 0..2_000 {
            let (response, mut body) = client.begin("stargate.Stargate/ExecuteQueryStream").await;
            body.send_data(framed(&query("SELECT key FROM system.local", vec![])), false)
                .unwrap();
            body.send_reset(h2::Reason::CANCEL);
            drop(response);
            tokio::time::sleep(Duration::ZERO).await;
        }
        client
            .query("SELECT key FROM system.local", vec![])
            .await
            .unwrap();
    });
}
