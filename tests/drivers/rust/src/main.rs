//! The ScyllaDB Rust driver as an application uses it: types, paging, batches, errors, events, restart; and its library for CDC.

mod change_log;
mod collections;
mod errors;
mod natives;
mod restart;
mod rows;
mod schema;

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::query_result::QueryRowsResult;

pub const KEYSPACE: &str = "rust_driver";
/// How long the driver may take to notice a schema change or a restart.
const NOTICE_MAX: Duration = Duration::from_secs(60);

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Check = for<'a> fn(&'a Session) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

const CHECKS: &[(&str, Check)] = &[
    ("schema", |session| Box::pin(schema::create(session))),
    ("metadata", |session| Box::pin(schema::metadata(session))),
    ("native types", |session| Box::pin(natives::native_types(session))),
    ("inet", |session| Box::pin(natives::inet(session))),
    ("counters", |session| Box::pin(natives::counters(session))),
    ("collections", |session| {
        Box::pin(collections::collections(session))
    }),
    ("user types", |session| Box::pin(collections::user_types(session))),
    ("paging", |session| Box::pin(rows::paging(session))),
    ("batches", |session| Box::pin(rows::batches(session))),
    ("routing", |session| Box::pin(rows::routing(session))),
    ("errors", |session| Box::pin(errors::errors(session))),
    ("reprepare", |session| Box::pin(schema::reprepare(session))),
    ("schema events", |session| Box::pin(schema::events(session))),
    ("compression", |session| Box::pin(rows::compression(session))),
    ("tracing", |session| Box::pin(rows::tracing(session))),
    ("change log", |session| Box::pin(change_log::change_log(session))),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let session = match connect(None).await {
        Ok(session) => session,
        Err(error) => {
            println!("FAIL connect: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = false;
    for (name, check) in CHECKS {
        failed |= !report(name, check(&session).await);
    }
    match restart::restart(&session).await {
        Ok(true) => println!("ok restart"),
        Ok(false) => println!("skip restart: the server cannot be restarted from here"),
        Err(error) => failed |= !report("restart", Err(error)),
    }
    failed |= !report("clean up", drop_keyspace(&session).await);
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// `false` when the check failed.
fn report(name: &str, outcome: Outcome) -> bool {
    match outcome {
        Ok(()) => println!("ok {name}"),
        Err(error) if error.is::<Skipped>() => println!("skip {name}: {error}"),
        Err(error) => {
            println!("FAIL {name}: {}", error.to_string().replace('\n', " "));
            return false;
        }
    }
    true
}

/// Ends a check that cannot be made here, and says why.
#[derive(Debug)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Skipped {}

pub async fn connect(compression: Option<Compression>) -> Outcome<Session> {
    let address = format!("{}:{}", std::env::var("CQL_HOST")?, std::env::var("CQL_PORT")?);
    let session = SessionBuilder::new()
        .known_node(address)
        .compression(compression)
        .connection_timeout(Duration::from_secs(20))
        // Each turn reads again only the keyspaces that an event has named since the last one.
        .cluster_metadata_refresh_interval(Duration::from_secs(1));
    Ok(session.build().await?)
}

pub async fn drop_keyspace(session: &Session) -> Outcome {
    session
        .query_unpaged(format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"), ())
        .await?;
    Ok(())
}

/// The rows that an unprepared statement without values returns.
pub async fn query(session: &Session, statement: &str) -> Outcome<QueryRowsResult> {
    Ok(session.query_unpaged(statement, ()).await?.into_rows_result()?)
}

/// Every row of a result, as `R` reads it.
pub fn all<R>(result: &QueryRowsResult) -> Outcome<Vec<R>>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
    Ok(result.rows::<R>()?.collect::<Result<_, _>>()?)
}

/// Looks again until `condition` holds.
pub async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) -> Outcome {
    let end = Instant::now() + NOTICE_MAX;
    while Instant::now() < end {
        if condition().await {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("{what} did not happen").into())
}

pub fn equal<T: PartialEq + std::fmt::Debug>(actual: T, expected: T) -> Outcome {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{actual:?} instead of {expected:?}").into())
}

pub fn require(condition: bool, otherwise: impl Into<String>) -> Outcome {
    if condition {
        return Ok(());
    }
    Err(otherwise.into().into())
}
