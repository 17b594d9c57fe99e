//! The session lives on over a restart of the server, with its prepared statements.

use std::io;

use scylla::client::session::Session;

use crate::{Outcome, schema, wait_until};

/// Asks the harness for a restart; `false` when the server is not its own.
pub async fn restart(session: &Session) -> Outcome<bool> {
    let select = session.prepare("SELECT v FROM kv WHERE k = ? AND c = ?").await?;
    session
        .query_unpaged("INSERT INTO kv (k, c, v) VALUES (40, 1, 'before')", ())
        .await?;
    println!("restart");
    let reply = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    })
    .await??;
    if reply.trim() != "restarted" {
        return Ok(false);
    }
    let read = async || -> Outcome<String> {
        let rows = session
            .execute_unpaged(&select, (40, 1))
            .await?
            .into_rows_result()?;
        Ok(rows.single_row::<(String,)>()?.0)
    };
    wait_until("reading after the restart", async || {
        read().await.is_ok_and(|value| value == "before")
    })
    .await?;
    // The connection that carries events has been made anew too.
    schema::events(session).await?;
    Ok(true)
}
