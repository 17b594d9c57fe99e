//! The errors of statements, told apart as the driver tells them apart.

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::statement::{Consistency, Statement};

use crate::{KEYSPACE, Outcome, equal, require};

pub async fn errors(session: &Session) -> Outcome {
    let exists = |table: &str| DbError::AlreadyExists {
        keyspace: KEYSPACE.to_owned(),
        table: table.to_owned(),
    };
    for (statement, kind, words) in [
        ("SELEC * FROM kv", DbError::SyntaxError, "line 1:0"),
        (
            "SELECT nope FROM kv",
            DbError::Invalid,
            "Undefined column name nope",
        ),
        (
            "SELECT * FROM nope",
            DbError::Invalid,
            "table nope does not exist",
        ),
        (
            "SELECT * FROM kv WHERE v = 'x'",
            DbError::Invalid,
            "ALLOW FILTERING",
        ),
        (
            "CREATE TABLE kv (k int PRIMARY KEY)",
            exists("kv"),
            "add already existing table",
        ),
        (
            "CREATE KEYSPACE rust_driver WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            exists(""),
            "add existing keyspace",
        ),
        ("DROP KEYSPACE nokeyspace", DbError::Invalid, "nokeyspace"),
    ] {
        let error = failure(session, Statement::new(statement)).await?;
        equal(&error.0, &kind)?;
        require(error.1.contains(words), format!("{statement}: {}", error.1))?;
    }
    unavailable(session).await?;
    invalid_prepare(session).await
}

async fn unavailable(session: &Session) -> Outcome {
    let mut statement = Statement::new("SELECT * FROM kv");
    statement.set_consistency(Consistency::Three);
    let (error, message) = failure(session, statement).await?;
    let expected = DbError::Unavailable {
        consistency: Consistency::Three,
        required: 3,
        alive: 1,
    };
    equal(error, expected)?;
    require(
        message.contains("Cannot achieve consistency level THREE"),
        message,
    )
}

async fn invalid_prepare(session: &Session) -> Outcome {
    match session.prepare("SELECT nope FROM kv WHERE k = ?").await {
        Err(PrepareError::AllAttemptsFailed {
            first_attempt: RequestAttemptError::DbError(DbError::Invalid, message),
            ..
        }) => require(message.contains("nope"), message),
        Err(other) => Err(format!("a failed PREPARE gives {other}").into()),
        Ok(_) => Err("a statement with an unknown column was prepared".into()),
    }
}

/// The server's error for a statement that has to fail.
async fn failure(session: &Session, statement: Statement) -> Outcome<(DbError, String)> {
    let text = statement.contents.clone();
    match session.query_unpaged(statement, ()).await {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, message))) => {
            Ok((error, message))
        }
        Err(other) => Err(format!("{text}: {other}").into()),
        Ok(_) => Err(format!("{text}: no error").into()),
    }
}
