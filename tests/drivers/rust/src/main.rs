//! The ScyllaDB Rust driver as an application uses it: types, paging, batches, errors, restart.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::BufRead;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use bigdecimal::BigDecimal;
use futures::StreamExt;
use num_bigint::BigInt;
use scylla::client::Compression;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlDate, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, MaybeUnset};
use scylla::{DeserializeValue, SerializeValue};

type Outcome = Result<(), Box<dyn Error>>;

/// How long the driver may take to notice a restart.
const RESTART_WAIT_MAX: Duration = Duration::from_secs(60);

async fn connect(compression: Option<Compression>) -> Result<Session, Box<dyn Error>> {
    let address = format!("{}:{}", std::env::var("CQL_HOST")?, std::env::var("CQL_PORT")?);
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::One)
        .request_timeout(Some(Duration::from_secs(30)))
        .build();
    let session = SessionBuilder::new()
        .known_node(address)
        .compression(compression)
        .connection_timeout(Duration::from_secs(20))
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    Ok(session)
}

async fn schema(session: &Session) -> Outcome {
    for statement in [
        "DROP KEYSPACE IF EXISTS rust_driver",
        "CREATE KEYSPACE rust_driver WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE rust_driver.address (street text, zip int)",
        "CREATE TABLE rust_driver.kv (k int, c int, v text, PRIMARY KEY (k, c))",
    ] {
        session.query_unpaged(statement, ()).await?;
    }
    session.use_keyspace("rust_driver", false).await?;
    Ok(())
}

async fn metadata(session: &Session) -> Outcome {
    session.refresh_metadata().await?;
    let state = session.get_cluster_state();
    let keyspace = state
        .get_keyspace("rust_driver")
        .ok_or("the keyspace is unknown")?;
    let table = keyspace.tables.get("kv").ok_or("the table is unknown")?;
    check(
        table.partition_key == ["k"] && table.clustering_key == ["c"],
        || format!("keys {table:?}"),
    )?;
    check(keyspace.user_defined_types.contains_key("address"), || {
        "the type is unknown".to_owned()
    })
}

async fn native_types(session: &Session) -> Outcome {
    type Natives = (
        (
            i64,
            Vec<u8>,
            bool,
            CqlDate,
            BigDecimal,
            f64,
            CqlDuration,
            f32,
            IpAddr,
        ),
        (i16, String, CqlTime, CqlTimestamp, CqlTimeuuid, i8, BigInt),
    );
    session
        .query_unpaged(
            "CREATE TABLE rust_driver.natives (id int PRIMARY KEY, b bigint, bl blob, bo boolean, da date, \
             de decimal, d double, du duration, f float, ip inet, s smallint, t text, ti time, ts timestamp, \
             tu timeuuid, ty tinyint, vi varint)",
            (),
        )
        .await?;
    let written: Natives = (
        (
            i64::MIN,
            vec![0, 255],
            true,
            CqlDate((1 << 31) + 19_782),
            BigDecimal::from_str("-123.4500")?,
            2.5e-300,
            CqlDuration {
                months: 1,
                days: 2,
                nanoseconds: 3000,
            },
            0.5,
            IpAddr::from_str("2001:db8::1")?,
        ),
        (
            i16::MIN,
            "ünï 漢 😀".to_owned(),
            CqlTime(86_399_999_999_999),
            CqlTimestamp(1_709_168_523_456),
            CqlTimeuuid::from_str("50554d6e-29bb-11e5-b345-feff819cdc9f")?,
            i8::MIN,
            BigInt::from(-2).pow(101),
        ),
    );
    // The driver binds at most 16 values as one tuple, hence two statements for one row.
    let (first, second) = written.clone();
    let insert = "INSERT INTO rust_driver.natives (id, b, bl, bo, da, de, d, du, f, ip) \
                  VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    session
        .execute_unpaged(&session.prepare(insert).await?, first)
        .await?;
    let update =
        "UPDATE rust_driver.natives SET s = ?, t = ?, ti = ?, ts = ?, tu = ?, ty = ?, vi = ? WHERE id = 1";
    session
        .execute_unpaged(&session.prepare(update).await?, second)
        .await?;
    let select = "SELECT b, bl, bo, da, de, d, du, f, ip FROM rust_driver.natives WHERE id = 1";
    let first = session
        .query_unpaged(select, ())
        .await?
        .into_rows_result()?
        .single_row()?;
    let select = "SELECT s, t, ti, ts, tu, ty, vi FROM rust_driver.natives WHERE id = 1";
    let second = session
        .query_unpaged(select, ())
        .await?
        .into_rows_result()?
        .single_row()?;
    let read: Natives = (first, second);
    check(read == written, || format!("{read:?} instead of {written:?}"))?;
    session
        .query_unpaged(
            "INSERT INTO rust_driver.natives (id, t) VALUES (2, ?)",
            (None::<String>,),
        )
        .await?;
    let select = "SELECT t FROM rust_driver.natives WHERE id = 2";
    let (missing,): (Option<String>,) = session
        .query_unpaged(select, ())
        .await?
        .into_rows_result()?
        .single_row()?;
    check(missing.is_none(), || format!("null came back as {missing:?}"))
}

#[derive(SerializeValue, DeserializeValue, Clone, PartialEq, Debug)]
struct Address {
    street: Option<String>,
    zip: Option<i32>,
}

async fn collections(session: &Session) -> Outcome {
    type Nested = (
        Vec<i32>,
        HashSet<String>,
        HashMap<String, f64>,
        (i32, String),
        Address,
        Vec<Address>,
        Vec<f32>,
    );
    session
        .query_unpaged(
            "CREATE TABLE rust_driver.nested (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, double>, \
             t tuple<int, text>, a frozen<address>, la list<frozen<address>>, v vector<float, 3>)",
            (),
        )
        .await?;
    let home = Address {
        street: Some("Main".to_owned()),
        zip: None,
    };
    let written: Nested = (
        vec![3, 1, 2],
        HashSet::from(["b".to_owned(), "a".to_owned()]),
        HashMap::from([("x".to_owned(), 1.5)]),
        (7, "seven".to_owned()),
        home.clone(),
        vec![home],
        vec![1.0, 2.5, -3.0],
    );
    let insert = "INSERT INTO rust_driver.nested (id, l, s, m, t, a, la, v) VALUES (1, ?, ?, ?, ?, ?, ?, ?)";
    session
        .execute_unpaged(&session.prepare(insert).await?, &written)
        .await?;
    let select = "SELECT l, s, m, t, a, la, v FROM rust_driver.nested WHERE id = 1";
    let read: Nested = session
        .query_unpaged(select, ())
        .await?
        .into_rows_result()?
        .single_row()?;
    check(read == written, || format!("{read:?} instead of {written:?}"))?;
    let insert = session
        .prepare("INSERT INTO rust_driver.nested (id, l) VALUES (?, ?)")
        .await?;
    session
        .execute_unpaged(&insert, (2, MaybeUnset::<Vec<i32>>::Unset))
        .await?;
    Ok(())
}

async fn paging(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO rust_driver.kv (k, c, v) VALUES (1, ?, ?)")
        .await?;
    for c in 0..300 {
        session.execute_unpaged(&insert, (c, format!("v{c}"))).await?;
    }
    for size in [7, 100, 300, 5000] {
        let select = Statement::new("SELECT c FROM rust_driver.kv WHERE k = 1").with_page_size(size);
        let mut rows = session.query_iter(select, ()).await?.rows_stream::<(i32,)>()?;
        let mut expected = 0;
        while let Some(row) = rows.next().await {
            let (c,) = row?;
            check(c == expected, || {
                format!("page size {size}: row {expected} is {c}")
            })?;
            expected += 1;
        }
        check(expected == 300, || format!("page size {size}: {expected} rows"))?;
    }
    let select = Statement::new("SELECT c FROM rust_driver.kv WHERE k = 1").with_page_size(200);
    let (page, state) = session
        .query_single_page(select, (), PagingState::start())
        .await?;
    let rows = page.into_rows_result()?.rows_num();
    check(rows == 200 && !state.finished(), || {
        format!("a first page of {rows} rows")
    })
}

async fn batches(session: &Session) -> Outcome {
    for (key, kind) in [(20, BatchType::Logged), (21, BatchType::Unlogged)] {
        let insert = session
            .prepare("INSERT INTO rust_driver.kv (k, c, v) VALUES (?, ?, ?)")
            .await?;
        let mut batch = Batch::new(kind);
        batch.append_statement(insert.clone());
        batch.append_statement(insert);
        batch.append_statement("DELETE FROM rust_driver.kv WHERE k = ? AND c = ?");
        session
            .batch(&batch, ((key, 1, "a"), (key, 2, "b"), (key, 3)))
            .await?;
        let select = "SELECT count(*) FROM rust_driver.kv WHERE k = ?";
        let (count,): (i64,) = session
            .query_unpaged(select, (key,))
            .await?
            .into_rows_result()?
            .single_row()?;
        check(count == 2, || format!("{count} rows after the batch"))?;
    }
    Ok(())
}

async fn errors(session: &Session) -> Outcome {
    for (statement, expected, words) in [
        ("SELEC * FROM rust_driver.kv", DbError::SyntaxError, "line 1:0"),
        (
            "SELECT nope FROM rust_driver.kv",
            DbError::Invalid,
            "Undefined column name nope",
        ),
        (
            "SELECT * FROM rust_driver.nope",
            DbError::Invalid,
            "table nope does not exist",
        ),
    ] {
        match session.query_unpaged(statement, ()).await {
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(kind, message))) => {
                check(kind == expected && message.contains(words), || {
                    format!("{kind:?}: {message}")
                })?;
            }
            other => return Err(format!("{statement}: {other:?}").into()),
        }
    }
    let exists = session
        .query_unpaged("CREATE TABLE rust_driver.kv (k int PRIMARY KEY)", ())
        .await;
    match exists {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::AlreadyExists { keyspace, table },
            _,
        ))) => check(keyspace == "rust_driver" && table == "kv", || {
            format!("{keyspace}.{table} exists")
        }),
        other => Err(format!("a second table kv: {other:?}").into()),
    }
}

async fn reprepare(session: &Session) -> Outcome {
    session
        .query_unpaged("CREATE TABLE rust_driver.again (k int PRIMARY KEY, v int)", ())
        .await?;
    let insert = session
        .prepare("INSERT INTO rust_driver.again (k, v) VALUES (?, ?)")
        .await?;
    session.execute_unpaged(&insert, (1, 1)).await?;
    session.query_unpaged("DROP TABLE rust_driver.again", ()).await?;
    session
        .query_unpaged(
            "CREATE TABLE rust_driver.again (k int PRIMARY KEY, v int, w text)",
            (),
        )
        .await?;
    session.execute_unpaged(&insert, (2, 2)).await?;
    let select = "SELECT k, v FROM rust_driver.again";
    let row: (i32, i32) = session
        .query_unpaged(select, ())
        .await?
        .into_rows_result()?
        .single_row()?;
    check(row == (2, 2), || format!("{row:?} in the new table"))
}

async fn compression(_: &Session) -> Outcome {
    let text = "compressible ".repeat(20_000);
    for (key, compression) in [(30, Compression::Lz4), (31, Compression::Snappy)] {
        let session = connect(Some(compression)).await?;
        let insert = "INSERT INTO rust_driver.kv (k, c, v) VALUES (?, 1, ?)";
        session.query_unpaged(insert, (key, &text)).await?;
        let select = "SELECT v FROM rust_driver.kv WHERE k = ?";
        let (read,): (String,) = session
            .query_unpaged(select, (key,))
            .await?
            .into_rows_result()?
            .single_row()?;
        check(read == text, || {
            format!("{compression:?}: {} bytes came back", read.len())
        })?;
    }
    Ok(())
}

async fn restart(session: &Session) -> Outcome {
    let insert = "INSERT INTO rust_driver.kv (k, c, v) VALUES (40, 1, 'before')";
    session.query_unpaged(insert, ()).await?;
    let select = session
        .prepare("SELECT v FROM rust_driver.kv WHERE k = ? AND c = ?")
        .await?;
    println!("restart");
    let mut reply = String::new();
    std::io::stdin().lock().read_line(&mut reply)?;
    if reply.trim() != "restarted" {
        println!("skip restart: the server cannot be restarted from here");
        return Ok(());
    }
    let deadline = Instant::now() + RESTART_WAIT_MAX;
    loop {
        match session.execute_unpaged(&select, (40, 1)).await {
            Ok(result) => {
                let (value,): (String,) = result.into_rows_result()?.single_row()?;
                return check(value == "before", || format!("{value:?} after the restart"));
            }
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn check(condition: bool, why: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(why().into()) }
}

fn report(name: &str, outcome: Outcome, failures: &mut usize) {
    match outcome {
        Ok(()) => println!("ok {name}"),
        Err(error) => {
            println!("FAIL {name}: {error}");
            *failures += 1;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let session = connect(None).await?;
    let mut failures = 0;
    report("schema", schema(&session).await, &mut failures);
    report("metadata", metadata(&session).await, &mut failures);
    report("native types", native_types(&session).await, &mut failures);
    report("collections", collections(&session).await, &mut failures);
    report("paging", paging(&session).await, &mut failures);
    report("batches", batches(&session).await, &mut failures);
    report("errors", errors(&session).await, &mut failures);
    report("reprepare", reprepare(&session).await, &mut failures);
    report("compression", compression(&session).await, &mut failures);
    report("restart", restart(&session).await, &mut failures);
    check(failures == 0, || format!("{failures} failed"))
}
