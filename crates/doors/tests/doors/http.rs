//! HTTP with JSON, as a script sees it.

use std::sync::Arc;

use helenus_node::handle::{ClientOptions, Login};
use helenus_vfs::ManualClock;
use serde_json::{Value, json};

use crate::support::{Served, Serving};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn with_table() -> Served {
    let served = Served::start();
    served.execute(KEYSPACE);
    served.execute("CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))");
    served
}

#[test]
fn values_go_in_as_insert_json_takes_them_and_come_out_as_select_json_gives_them() {
    let served = Served::start();
    served.execute(KEYSPACE);
    served.execute("CREATE TYPE k.point (x int, y int)");
    served.execute(
        "CREATE TABLE k.all (id int PRIMARY KEY, a ascii, bi bigint, bl blob, bo boolean, da date, de decimal, do double, \
         du duration, fl float, ine inet, li list<text>, ma map<text, int>, se set<int>, si smallint, te text, ti time, \
         ts timestamp, tu timeuuid, ty tinyint, tup tuple<int, text>, ud frozen<point>, uu uuid, va varint, ve vector<float, 2>)",
    );
    let row = json!({
        "id": 1, "a": "ascii", "bi": 9007199254740993_i64, "bl": "0x00ff", "bo": true, "da": "2026-11-24", "de": 1.25, "do": 0.5,
        "du": "1mo2d3ns", "fl": 2.5, "ine": "127.0.0.1", "li": ["x", "y"], "ma": {"a": 1}, "se": [1, 2], "si": -3, "te": "\u{e9}\"\n",
        "ti": "08:12:54.123456789", "ts": "2026-01-01 00:00:00.000Z", "tu": "d6455256-e7f1-11f1-8258-79ec71bc39a4", "ty": 7,
        "tup": [1, "z"], "ud": {"x": 1, "y": null}, "uu": "6ab09bec-e68e-48d9-a5f8-97e6fb4c9b47", "va": 12345678901234567_i64,
        "ve": [1.0, 2.0]
    });
    let names: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    let markers = vec!["?"; names.len()].join(", ");
    let columns = names
        .iter()
        .map(|name| format!("\"{name}\""))
        .collect::<Vec<_>>()
        .join(", ");
    let insert = format!("INSERT INTO k.all ({columns}) VALUES ({markers})");
    let inserted = served.query(&insert, &format!(",\"values\":{row}"));
    assert_eq!((inserted.status, inserted.text().as_str()), (200, "{}"));

    let read = served
        .query("SELECT * FROM k.all WHERE id = ?", ",\"values\":[1]")
        .json();
    assert_eq!(read["rows"][0], row);
    assert_eq!(read["columns"].as_array().unwrap().len(), names.len());
    let selected = helenus_node::block_on(served.node.query("SELECT JSON * FROM k.all", ())).unwrap();
    let (selected,) = selected.read::<(String,)>().unwrap().remove(0);
    assert_eq!(serde_json::from_str::<Value>(&selected).unwrap(), row);
}

#[test]
fn pages_are_had_one_by_one_or_all_as_lines() {
    let served = with_table();
    for c in 0..10 {
        served.execute(&format!("INSERT INTO k.t (p, c, v) VALUES (1, {c}, 'v')"));
    }
    let select = "SELECT c FROM t WHERE p = 1";
    let mut seen = Vec::new();
    let mut state = String::new();
    loop {
        let rest = format!(",\"keyspace\":\"k\",\"rows\":\"arrays\",\"page_size\":3{state}");
        let page = served.query(select, &rest).json();
        seen.extend(page["rows"].as_array().unwrap().clone());
        match page["page_state"].as_str() {
            Some(next) => state = format!(",\"page_state\":\"{next}\""),
            None => break,
        }
    }
    let wanted: Vec<Value> = (0..10).map(|c| json!([c])).collect();
    assert_eq!(seen, wanted);

    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/x-ndjson"),
    ];
    let body = format!("{{\"query\":\"{select}\",\"keyspace\":\"k\",\"page_size\":3}}");
    let lines = served.ask("POST", "/v1/query", &headers, &body).text();
    let wanted: String = (0..10).map(|c| format!("{{\"c\":{c}}}\n")).collect();
    assert_eq!(lines, wanted);
}

#[test]
fn errors_are_problem_documents_with_cassandras_words() {
    let served = with_table();
    let cases = [
        (
            served.query("SELEC", ""),
            400,
            0x2000,
            "line 1:0 no viable alternative at input 'SELEC' ([SELEC])",
        ),
        (
            served.query("SELECT * FROM k.none", ""),
            400,
            0x2200,
            "table none does not exist",
        ),
        (
            served.query(KEYSPACE, ""),
            409,
            0x2400,
            "Cannot add existing keyspace \"k\"",
        ),
        (
            served.query("SELECT * FROM k.t WHERE p = ?", ",\"values\":[\"x\"]"),
            400,
            0x2200,
            "Error decoding JSON value for p: Unable to make int from 'x'",
        ),
        (
            served.query("SELECT * FROM k.t WHERE p = ?", ",\"values\":{\"q\":1}"),
            400,
            0x2200,
            "There is no value for the marker p at 0",
        ),
        (
            served.query("SELECT * FROM k.t WHERE p = ?", ",\"values\":[1,2]"),
            400,
            0x2200,
            "the statement has 1 markers, and 2 values were given",
        ),
        (
            served.query("TRUNCATE k.t", ",\"read_only\":true"),
            403,
            0x2100,
            "Only statements that read are taken here",
        ),
        (
            served.get("/nothing"),
            404,
            0x0a,
            "There is nothing here; /v1/openapi.json says what there is",
        ),
        (
            served.get("/v1/query"),
            405,
            0x0a,
            "Only POST can be asked for here",
        ),
        (
            served.ask("POST", "/v1/query", &[("Content-Type", "text/plain")], "{}"),
            415,
            0x0a,
            "The body has to be application/json",
        ),
    ];
    for (answer, status, code, detail) in cases {
        let problem = answer.json();
        assert_eq!(
            (answer.status, problem["detail"].as_str().unwrap()),
            (status, detail)
        );
        assert_eq!(
            (problem["status"].as_u64(), problem["code"].as_u64()),
            (Some(status.into()), Some(code))
        );
        assert!(
            answer.head.contains("content-type: application/problem+json"),
            "{}",
            answer.head
        );
    }
}

/// Another's requests on the same connection would have had its keyspace.
#[test]
fn use_is_refused_however_it_is_written() {
    let served = with_table();
    for text in ["USE k", "/* x */ use k", "-- x\nUSE \"k\""] {
        assert_eq!(served.query(text, "").status, 400, "{text}");
    }
}

#[test]
fn a_batch_is_written_as_one() {
    let served = with_table();
    let batch = r#"{"statements": [
        {"query": "INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)", "values": [1, 1, "a"]},
        {"query": "INSERT INTO k.t (p, c, v) VALUES (:p, :c, :v)", "values": {"p": 1, "c": 2, "v": "b"}},
        {"query": "DELETE FROM k.t WHERE p = 1 AND c = 3"}], "type": "UNLOGGED"}"#;
    let written = served.post("/v1/batch", batch);
    assert_eq!((written.status, written.text().as_str()), (200, "{}"));
    let read = served
        .query("SELECT c, v FROM k.t", ",\"rows\":\"arrays\"")
        .json();
    assert_eq!(read["rows"], json!([[1, "a"], [2, "b"]]));
    let read = served.post("/v1/batch", r#"{"statements": [{"query": "SELECT c FROM k.t"}]}"#);
    assert_eq!(read.status, 400);
}

/// The statement was prepared when the column was an int.
#[test]
fn a_statement_that_was_prepared_before_its_table_was_made_anew_takes_the_new_types() {
    let served = Served::start();
    served.execute(KEYSPACE);
    for (data_type, value) in [("int", "1"), ("text", "\"one\""), ("boolean", "true")] {
        served.execute("DROP TABLE IF EXISTS k.t");
        served.execute(&format!("CREATE TABLE k.t (p int PRIMARY KEY, v {data_type})"));
        let rest = format!(",\"values\":[1,{value}]");
        let written = served.query("INSERT INTO k.t (p, v) VALUES (?, ?)", &rest);
        assert_eq!(written.status, 200, "{}", written.text());
        let read = served.query(
            "SELECT v FROM k.t WHERE p = ?",
            ",\"values\":[1],\"rows\":\"arrays\"",
        );
        assert_eq!(read.json()["rows"][0][0].to_string(), value);
    }
}

#[test]
fn where_users_log_in_a_token_stands_for_the_user() {
    let served = Served::start_as(Serving {
        asks_for_passwords: true,
        ..Serving::default()
    });
    assert_eq!(served.query("SELECT key FROM system.local", "").status, 401);
    let wrong = served.post("/v1/auth", r#"{"username":"cassandra","password":"x"}"#);
    let detail = "Provided username cassandra and/or password are incorrect";
    assert_eq!(
        (wrong.status, wrong.json()["detail"].as_str()),
        (401, Some(detail))
    );
    let login = served.post("/v1/auth", r#"{"username":"cassandra","password":"cassandra"}"#);
    assert_eq!(login.status, 201);
    let token = login.json()["authToken"].as_str().unwrap().to_owned();
    let ask = |token: &str, text: &str| {
        let headers = [("Content-Type", "application/json"), ("X-Cassandra-Token", token)];
        served.ask(
            "POST",
            "/v1/query",
            &headers,
            &format!("{{\"query\":\"{text}\"}}"),
        )
    };
    let clients = ask(&token, "SELECT username, driver_name FROM system_views.clients").json();
    let wanted = json!({"username": "cassandra", "driver_name": "helenus http"});
    assert!(clients["rows"].as_array().unwrap().contains(&wanted), "{clients}");
    assert_eq!(
        ask(
            "d6455256-e7f1-41f1-8258-79ec71bc39a4",
            "SELECT key FROM system.local"
        )
        .status,
        401
    );
    for open in ["/healthz", "/readyz", "/", "/metrics"] {
        assert_eq!(served.get(open).status, 200, "{open}");
    }
}

/// A token went on after its role was dropped: with it even roles could be made.
#[test]
fn a_token_ends_with_its_role_its_right_to_log_in_and_its_password() {
    let clock = Arc::new(ManualClock::starting_at(0));
    let served = Served::start_as(Serving {
        asks_for_passwords: true,
        clock: Some(clock.clone()),
        ..Serving::default()
    });
    let log_in = |user: &str, password: &str| {
        let login = served.post(
            "/v1/auth",
            &format!(r#"{{"username":"{user}","password":"{password}"}}"#),
        );
        assert_eq!(login.status, 201, "{}", login.text());
        login.json()["authToken"].as_str().unwrap().to_owned()
    };
    let ask = |token: &str| {
        let headers = [("Content-Type", "application/json"), ("X-Cassandra-Token", token)];
        let body = r#"{"query":"SELECT key FROM system.local"}"#;
        served.ask("POST", "/v1/query", &headers, body).status
    };
    let first = log_in("cassandra", "cassandra");
    for (end, again) in [
        (
            "ALTER ROLE bob WITH LOGIN = false",
            "ALTER ROLE bob WITH LOGIN = true",
        ),
        (
            "ALTER ROLE bob WITH PASSWORD = 'y'",
            "ALTER ROLE bob WITH PASSWORD = 'x'",
        ),
        ("DROP ROLE bob", "SELECT key FROM system.local"),
    ] {
        let admin = served.node.client(&ClientOptions {
            login: Login::As("cassandra".into()),
            ..ClientOptions::default()
        });
        let execute = |text: &str| drop(helenus_node::block_on(admin.query(text, ())).unwrap());
        execute("CREATE ROLE IF NOT EXISTS bob WITH PASSWORD = 'x' AND LOGIN = true");
        let token = log_in("bob", "x");
        assert_eq!(ask(&token), 200);
        clock.advance_s(2);
        assert_eq!(ask(&token), 200, "before {end}");
        execute(end);
        assert_eq!(ask(&token), 200, "{end}: not looked up within two seconds");
        clock.advance_s(2);
        assert_eq!(ask(&token), 401, "{end}");
        execute(again);
        assert_eq!(ask(&token), 401, "after {again}");
    }
    assert_eq!(ask(&first), 200);
}

#[test]
fn a_read_only_door_writes_nothing() {
    let served = Served::start_as(Serving {
        is_read_only: true,
        ..Serving::default()
    });
    assert_eq!(served.query("SELECT key FROM system.local", "").status, 200);
    assert_eq!(served.query(KEYSPACE, "").status, 403);
    let batch = r#"{"statements": [{"query": "INSERT INTO k.t (p) VALUES (1)"}]}"#;
    assert_eq!(served.post("/v1/batch", batch).status, 403);
}

/// A page that somebody looks at could write to the node on the machine of whoever looks.
#[test]
fn pages_of_other_origins_get_nothing() {
    let served = with_table();
    let own = format!("http://{}", served.address);
    let ask = |origin: &str| {
        let headers = [("Content-Type", "application/json"), ("Origin", origin)];
        served.ask(
            "POST",
            "/v1/query",
            &headers,
            r#"{"query":"SELECT key FROM system.local"}"#,
        )
    };
    assert_eq!(ask(&own).status, 200);
    for foreign in ["http://evil.example", "http://127.0.0.1:1", "null"] {
        let refused = ask(foreign);
        assert_eq!(refused.status, 403, "{foreign}");
        assert!(!refused.head.contains("access-control"), "{}", refused.head);
    }
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(served.ask("POST", "/v1/query", &form, "query=x").status, 415);
}

#[test]
fn the_openapi_document_says_what_the_door_takes_and_nothing_else() {
    let served = Served::start();
    let document = served.get("/v1/openapi.json").json();
    let mut checked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let content = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let Some(schema) = content
                .as_str()
                .and_then(|name| name.strip_prefix("#/components/schemas/"))
            else {
                assert!(
                    matches!(served.ask(&method.to_uppercase(), path, &[], "").status, 200),
                    "{path}"
                );
                checked += 1;
                continue;
            };
            for schema in alternatives(&document, schema) {
                checked += check_schema(&served, path, schema);
            }
        }
    }
    assert!(checked > 40, "{checked}");
}

/// The schemas of which a document has to have one.
fn alternatives<'d>(document: &'d Value, name: &str) -> Vec<&'d Value> {
    let schema = &document["components"]["schemas"][name];
    let Some(all) = schema["oneOf"].as_array() else {
        return vec![schema];
    };
    let name_of = |one: &'d Value| one["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
    all.iter()
        .map(|one| &document["components"]["schemas"][name_of(one)])
        .collect()
}

/// Sends a document with each property of a schema, and one that has another; returns how many properties there are.
fn check_schema(served: &Served, path: &str, schema: &Value) -> usize {
    let required = schema["required"].as_array().unwrap().iter();
    let required: serde_json::Map<String, Value> = required
        .map(|name| name.as_str().unwrap())
        .map(|name| (name.to_owned(), example(&schema["properties"][name])))
        .collect();
    let properties = schema["properties"].as_object().unwrap();
    for (name, property) in properties {
        let mut body = required.clone();
        body.insert(name.clone(), example(property));
        let answer = served.post(path, &Value::Object(body).to_string());
        assert!(answer.status < 300, "{path} {name}: {}", answer.text());
    }
    let mut unknown = required;
    unknown.insert("unknown".to_owned(), json!(1));
    let problem = served.post(path, &Value::Object(unknown).to_string()).json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("unknown field `unknown`"), "{problem}");
    for name in ["type", "title", "status", "detail", "code"] {
        assert!(!problem[name].is_null(), "{name}");
    }
    properties.len()
}

fn example(property: &Value) -> Value {
    let written = [
        &property["examples"][0],
        &property["default"],
        &property["enum"][0],
    ];
    written
        .into_iter()
        .find(|value| !value.is_null())
        .unwrap_or(&Value::Null)
        .clone()
}

#[test]
fn a_door_that_drains_says_so_answers_what_is_under_way_and_takes_nobody_new() {
    let served = Served::start();
    assert_eq!(served.get("/readyz").text(), "ready\n");
    served.doors().begin_drain();
    helenus_node::block_on(served.doors().drained());
    assert!(std::net::TcpStream::connect(served.address).is_err());
}
