//! `POST /v1/operations`: what operators ask of the node, who may, and what they are told meanwhile.

use serde_json::{Value, json};

use crate::support::{Answer, Served, Serving};

const PATH: &str = "/v1/operations";

fn with_table(serving: Serving) -> Served {
    let served = Served::start_as(Serving {
        keeps_files: true,
        ..serving
    });
    served
        .execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    served.execute("CREATE TABLE k.t (p int PRIMARY KEY, v int)");
    for p in 0..20 {
        served.execute(&format!("INSERT INTO k.t (p, v) VALUES ({p}, {p})"));
    }
    served
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.head.contains("application/x-ndjson"), "{}", answer.head);
    let text = answer.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The last line, which must say that all is done.
fn done(served: &Served, request: &Value) -> Value {
    let mut lines = lines(&served.post(PATH, &request.to_string()));
    let mut last = lines.pop().unwrap();
    assert_eq!(last["reply"], "done", "{last}");
    last["answer"].take()
}

fn count(served: &Served) -> Value {
    served.query("SELECT count(*) FROM k.t", "").json()["rows"][0]["count"].take()
}

#[test]
fn tables_are_compacted_and_who_asked_is_told_how_far_it_is() {
    let served = with_table(Serving::default());
    let request = json!({"request": "compaction_major", "tables": {"keyspace": "k", "table": "t"}});
    let lines = lines(&served.post(PATH, &request.to_string()));
    assert_eq!(
        lines[0],
        json!({"reply": "begin", "task": "compacting tables", "unit": "files", "total": 1})
    );
    assert_eq!(
        lines.last().unwrap(),
        &json!({"reply": "done", "answer": {"compacted": {"tables": 1}}})
    );
    let absent = json!({"request": "compaction_major", "tables": {"keyspace": "k", "table": "absent"}});
    assert_eq!(
        served.post(PATH, &absent.to_string()).text().trim_end(),
        r#"{"reply":"failed","message":"there is no table k.absent"}"#
    );
}

#[test]
fn a_snapshot_brings_back_what_was_deleted() {
    let served = with_table(Serving::default());
    let created = done(&served, &json!({"request": "snapshot_create", "name": "s"}));
    assert_eq!(created["snapshots_created"][0]["table"], "t");
    served.execute("TRUNCATE k.t");
    assert_eq!(count(&served), 0);
    let restored = done(
        &served,
        &json!({"request": "snapshot_restore", "name": "s", "replace": true}),
    );
    assert_eq!(restored["snapshots_restored"][0]["rows"], 20);
    assert_eq!(count(&served), 20);
    let snapshots = |name: &str| done(&served, &json!({"request": "snapshot_list", "name": name}));
    let folder = snapshots("s")["snapshots"][0]["folder"].take();
    served.execute("TRUNCATE k.t");
    let imported = done(
        &served,
        &json!({"request": "import", "folder": folder, "tables": {"keyspace": "k", "table": "t"}}),
    );
    assert_eq!(imported["imported"]["rows"], 20);
    assert_eq!(count(&served), 20);
    done(&served, &json!({"request": "snapshot_remove", "name": "s"}));
    assert_eq!(snapshots("s"), json!({"snapshots": []}));
}

/// Errors in a schema are told with its words: somebody could have read any file of the machine.
#[test]
fn a_file_with_a_schema_cannot_be_named() {
    let served = with_table(Serving::default());
    let request = json!({"request": "import", "folder": "/data", "schema_file": "/etc/passwd"});
    let refused = served.post(PATH, &request.to_string());
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("cannot be named here"),
        "{}",
        refused.text()
    );
}

#[test]
fn a_door_that_only_reads_changes_no_files() {
    let served = with_table(Serving {
        is_read_only: true,
        ..Serving::default()
    });
    for request in [
        json!({"request": "compaction_major"}),
        json!({"request": "compaction_cleanup"}),
        json!({"request": "compaction_stop"}),
        json!({"request": "flush"}),
        json!({"request": "snapshot_create", "name": "s"}),
        json!({"request": "snapshot_restore", "name": "s"}),
        json!({"request": "snapshot_remove", "name": "s"}),
        json!({"request": "import", "folder": "/data"}),
    ] {
        assert_eq!(served.post(PATH, &request.to_string()).status, 403, "{request}");
    }
    for request in [
        "snapshot_list",
        "compaction_status",
        "view_status",
        "refused_ss_tables",
    ] {
        done(&served, &json!({"request": request}));
    }
}

#[test]
fn other_origins_and_forms_have_nothing_done() {
    let served = with_table(Serving::default());
    let request = json!({"request": "flush"}).to_string();
    let json = ("Content-Type", "application/json");
    let foreign = [json, ("Origin", "http://evil.example")];
    assert_eq!(served.ask("POST", PATH, &foreign, &request).status, 403);
    let form = [("Content-Type", "text/plain")];
    assert_eq!(served.ask("POST", PATH, &form, &request).status, 415);
}

#[test]
fn where_users_log_in_operations_are_superusers() {
    let served = with_table(Serving {
        asks_for_passwords: true,
        ..Serving::default()
    });
    let status = |token: Option<&str>| {
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(token.map(|token| ("x-cassandra-token", token)));
        let answer = served.ask("POST", PATH, &headers, r#"{"request":"compaction_status"}"#);
        answer.status
    };
    let token = |name: &str| {
        let login = json!({"username": name, "password": name}).to_string();
        let issued = served.post("/v1/auth", &login).json();
        issued["authToken"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(None), 401);
    let superuser = token("cassandra");
    assert_eq!(status(Some(&superuser)), 200);
    let execute = |text: &str| {
        let headers = [
            ("Content-Type", "application/json"),
            ("x-cassandra-token", &*superuser),
        ];
        let answer = served.ask("POST", "/v1/query", &headers, &json!({"query": text}).to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    execute("CREATE ROLE \"App\" WITH PASSWORD = 'App' AND LOGIN = true");
    let app = token("App");
    assert_eq!(status(Some(&app)), 403);
    // By a role that it is granted.
    execute("GRANT cassandra TO \"App\"");
    assert_eq!(status(Some(&app)), 200);
}

#[test]
fn an_operation_without_a_place_is_refused_as_overload() {
    let served = with_table(Serving {
        is_busy: true,
        ..Serving::default()
    });
    let refused = served.post(PATH, r#"{"request":"flush"}"#);
    assert_eq!(refused.status, 503);
    let problem = refused.json();
    assert_eq!(
        (problem["title"].as_str(), problem["detail"].as_str()),
        (Some("OVERLOADED"), Some("the node is busy"))
    );
}
