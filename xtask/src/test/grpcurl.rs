//! `grpcurl` at the gRPC door: a client that knows of a service only what reflection says, or a file of ours.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Context;
use super::doors::{self, Door};
use crate::process::ProcessError;
use crate::program::Tally;
use crate::{TaskError, runtime, workspace};

const SERVICES: &str = "grpc.health.v1.Health\ngrpc.reflection.v1.ServerReflection\n\
                        grpc.reflection.v1alpha.ServerReflection\nstargate.Stargate\n";

/// With it, `grpcurl` ends when a call failed: 64 and the status's code.
const CODE_BASE: i32 = 64;

pub fn run(context: &Context) -> Result<Tally, TaskError> {
    let program = runtime::go_package(
        "grpcurl",
        &doors::go_tools(),
        "github.com/fullstorydev/grpcurl/cmd/grpcurl",
    )?;
    let door = Door::start(context, "grpcurl", &[])?;
    let client = Grpcurl {
        program,
        address: door.address.clone(),
    };
    let mut tally = Tally::default();
    tally.check("grpcurl list", client.lists());
    tally.check("grpcurl describe", client.describes());
    tally.check("grpcurl calls", client.calls());
    tally.check("grpcurl streams", client.streams());
    tally.check("grpcurl failures", client.fails());
    tally.check("grpcurl health", client.asks_for_health());
    tally.check("grpcurl with the repository's .proto", client.calls_by_file());
    door.stop("grpcurl", &mut tally);
    Ok(tally)
}

struct Grpcurl {
    program: PathBuf,
    address: String,
}

/// Output and exit code of one call.
struct Said {
    out: String,
    error: String,
    code: Option<i32>,
}

impl Grpcurl {
    /// `before` and `after` are the arguments around the address.
    fn say(&self, before: &[&str], after: &[&str], input: &str) -> Result<Said, String> {
        let start = |source| ProcessError::Start {
            program: "grpcurl".to_owned(),
            source,
        };
        let mut child = Command::new(&self.program)
            .arg("-plaintext")
            .args(before)
            .arg(&self.address)
            .args(after)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| start(source).to_string())?;
        if let Some(mut pipe) = child.stdin.take() {
            // One that has failed already reads nothing, and says so by how it ends.
            let _closed = pipe.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        Ok(Said {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            error: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        })
    }

    fn text(&self, arguments: &[&str]) -> Result<String, String> {
        let said = self.say(&[], arguments, "")?;
        match said.code {
            Some(0) => Ok(said.out),
            _ => Err(format!("{arguments:?}: {}", said.error)),
        }
    }

    /// Answers to `messages`, one document after the other.
    fn call(&self, options: &[&str], method: &str, messages: &[Value]) -> Result<Vec<Value>, String> {
        let input: String = messages.iter().map(Value::to_string).collect();
        let mut before = options.to_vec();
        before.extend(["-d", "@"]);
        let said = self.say(&before, &[method], &input)?;
        if said.code != Some(0) {
            return Err(format!("{method}: {}", said.error));
        }
        let answers = serde_json::Deserializer::from_str(&said.out).into_iter();
        answers
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{error}: {}", said.out))
    }

    fn query(&self, cql: &str, values: &[Value]) -> Result<Value, String> {
        let query = json!({"cql": cql, "values": {"values": values}});
        let mut answers = self.call(&[], "stargate.Stargate/ExecuteQuery", &[query])?;
        answers.pop().ok_or_else(|| "no answer".to_owned())
    }

    fn lists(&self) -> Result<(), String> {
        equal(self.text(&["list"])?.as_str(), SERVICES)?;
        let methods: Vec<String> = [
            "ExecuteBatch",
            "ExecuteBatchStream",
            "ExecuteQuery",
            "ExecuteQueryStream",
        ]
        .map(|method| format!("stargate.Stargate.{method}\n"))
        .into();
        equal(&self.text(&["list", "stargate.Stargate"])?, &methods.concat())
    }

    /// Whatever has a name, of every kind that there is.
    fn describes(&self) -> Result<(), String> {
        for (symbol, wanted) in [
            (
                "stargate.Stargate",
                "rpc ExecuteQuery ( .stargate.Query ) returns ( .stargate.Response );",
            ),
            ("stargate.Stargate.ExecuteQuery", "rpc ExecuteQuery"),
            ("stargate.Value", "sint64 int = 3;"),
            ("stargate.Query.cql", "string cql = 1;"),
            ("stargate.Value.inner", "oneof inner"),
            ("stargate.TypeSpec.Basic", "TINYINT = 20;"),
            ("stargate.SchemaChange.CREATED", "CREATED = 0;"),
            ("stargate.UdtValue", "map<string, .stargate.Value> fields = 1;"),
            ("google.rpc.Status", "repeated .google.protobuf.Any details = 3;"),
            (
                "grpc.reflection.v1alpha.ServerReflection",
                "stream .grpc.reflection.v1alpha.ServerReflectionRequest",
            ),
        ] {
            let text = self.text(&["describe", symbol])?;
            if !text.contains(wanted) {
                return Err(format!("{symbol} has no {wanted}: {text}"));
            }
        }
        let unknown = self.say(&[], &["describe", "none.None"], "")?;
        match unknown.code {
            Some(1) if unknown.error.contains("Symbol not found") => Ok(()),
            _ => Err(format!("none.None: {:?} {}", unknown.code, unknown.error)),
        }
    }

    fn calls(&self) -> Result<(), String> {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let made = self.query(
            &format!("CREATE KEYSPACE grpcurl WITH replication = {replication}"),
            &[],
        )?;
        equal(&made, &json!({"schemaChange": {"keyspace": "grpcurl"}}))?;
        self.query(
            "CREATE TABLE grpcurl.t (k int PRIMARY KEY, v text, m map<text, bigint>, b blob)",
            &[],
        )?;
        let values = [
            json!({"int": "1"}),
            json!({"string": "\u{fc}"}),
            json!({"collection": {"elements": [{"string": "a"}, {"int": "9007199254740993"}]}}),
            json!({"bytes": "AP8="}),
        ];
        let inserted = self.query("INSERT INTO grpcurl.t (k, v, m, b) VALUES (?, ?, ?, ?)", &values)?;
        equal(&inserted, &json!({}))?;
        let read = self.query("SELECT k, v, m, b FROM grpcurl.t WHERE k = ?", &values[..1])?;
        equal(&read["resultSet"]["rows"], &json!([{"values": values}]))?;
        equal(
            &read["resultSet"]["columns"][2]["type"]["map"]["value"],
            &json!({"basic": "BIGINT"}),
        )?;
        let batch = json!({"type": "UNLOGGED", "queries": [
            {"cql": "UPDATE grpcurl.t SET v = ? WHERE k = ?", "values": {"values": [{"string": "w"}, {"int": "1"}]}},
            {"cql": "INSERT INTO grpcurl.t (k) VALUES (2)"},
        ]});
        self.call(&[], "stargate.Stargate/ExecuteBatch", &[batch])?;
        let read = self.query("SELECT v FROM grpcurl.t WHERE k = 1", &[])?;
        equal(
            &read["resultSet"]["rows"],
            &json!([{"values": [{"string": "w"}]}]),
        )
    }

    /// In order, and on after an error.
    fn streams(&self) -> Result<(), String> {
        let queries = [
            "SELECT k FROM grpcurl.t WHERE k = 1",
            "SELEC",
            "SELECT k FROM grpcurl.t WHERE k = 2",
        ];
        let queries: Vec<Value> = queries.iter().map(|cql| json!({"cql": cql})).collect();
        let answers = self.call(&[], "stargate.Stargate/ExecuteQueryStream", &queries)?;
        let seen: Vec<Value> = answers
            .iter()
            .map(|answer| match &answer["status"]["code"] {
                Value::Null => answer["response"]["resultSet"]["rows"][0]["values"][0]["int"].clone(),
                code => code.clone(),
            })
            .collect();
        equal(&Value::Array(seen), &json!(["1", 3, "2"]))
    }

    fn fails(&self) -> Result<(), String> {
        for (cql, code, message) in [
            ("SELEC", 3, "no viable alternative at input 'SELEC'"),
            ("SELECT * FROM grpcurl.none", 3, "table none does not exist"),
            (
                "CREATE TABLE grpcurl.t (k int PRIMARY KEY)",
                6,
                "Cannot add already existing table",
            ),
        ] {
            let data = json!({"cql": cql}).to_string();
            let said = self.say(&["-d", &data], &["stargate.Stargate/ExecuteQuery"], "")?;
            if said.code != Some(CODE_BASE + code) || !said.error.contains(message) {
                return Err(format!("{cql}: {:?} {}", said.code, said.error));
            }
        }
        Ok(())
    }

    fn asks_for_health(&self) -> Result<(), String> {
        let check = |service: &str| {
            let asked = json!({"service": service});
            self.call(&[], "grpc.health.v1.Health/Check", &[asked])
        };
        for service in ["", "stargate.Stargate"] {
            equal(&check(service)?, &vec![json!({"status": "SERVING"})])?;
        }
        match check("none") {
            Err(why) if why.contains("NotFound") => Ok(()),
            other => Err(format!("health of a service that is not there: {other:?}")),
        }
    }

    /// Somebody who has the file and does not ask.
    fn calls_by_file(&self) -> Result<(), String> {
        let folder = workspace::path("crates/doors/proto").display().to_string();
        let options = [
            "-import-path",
            &folder,
            "-proto",
            "stargate.proto",
            "-use-reflection=false",
        ];
        let query = json!({"cql": "SELECT key FROM system.local"});
        let answers = self.call(&options, "stargate.Stargate/ExecuteQuery", &[query])?;
        let local = json!({"values": [{"string": "local"}]});
        equal(&answers[0]["resultSet"]["rows"], &json!([local]))
    }
}

fn equal<T: PartialEq + std::fmt::Debug + ?Sized>(found: &T, wanted: &T) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?} instead of {wanted:?}")),
    }
}
