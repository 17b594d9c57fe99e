//! Many rows: paging, batches, where the driver sends what, compression and traces.

use std::ops::ControlFlow;

use futures_util::TryStreamExt;
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::response::PagingState;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};

use crate::{Outcome, all, connect, equal, query, require};

const ROWS: i32 = 500;

pub async fn paging(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO kv (k, c, v) VALUES (1, ?, ?)")
        .await?;
    for c in 0..ROWS {
        session.execute_unpaged(&insert, (c, format!("v{c}"))).await?;
    }
    let expected: Vec<i32> = (0..ROWS).rev().collect();
    for page_rows in [7, 100, 500, 5000] {
        let mut select = session.prepare("SELECT c FROM kv WHERE k = ?").await?;
        select.set_page_size(page_rows);
        let stream = session
            .execute_iter(select, (1,))
            .await?
            .rows_stream::<(i32,)>()?;
        let seen: Vec<i32> = stream.map_ok(|(c,)| c).try_collect().await?;
        require(
            seen == expected,
            format!("pages of {page_rows} gave {} rows", seen.len()),
        )?;
    }
    resume(session).await
}

/// The state of one page leads to the next, also in another order.
async fn resume(session: &Session) -> Outcome {
    let statement = Statement::new("SELECT c FROM kv WHERE k = 1 ORDER BY c ASC").with_page_size(200);
    let mut state = PagingState::start();
    let mut pages = Vec::new();
    let mut seen = Vec::new();
    loop {
        let (result, next) = session.query_single_page(statement.clone(), (), state).await?;
        let rows = all::<(i32,)>(&result.into_rows_result()?)?;
        pages.push(rows.len());
        seen.extend(rows.into_iter().map(|(c,)| c));
        match next.into_paging_control_flow() {
            ControlFlow::Continue(following) => state = following,
            ControlFlow::Break(()) => break,
        }
    }
    equal(pages, vec![200, 200, 100])?;
    require(
        seen == (0..ROWS).collect::<Vec<_>>(),
        "the pages do not fit together",
    )
}

pub async fn batches(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO kv (k, c, v) VALUES (?, ?, 'batched')")
        .await?;
    for (kind, key) in [(BatchType::Logged, 20), (BatchType::Unlogged, 21)] {
        let mut batch = Batch::new(kind);
        let mut values = Vec::new();
        for c in 0..10 {
            batch.append_statement(insert.clone());
            values.push((key, c));
        }
        batch.append_statement("DELETE FROM kv WHERE k = ? AND c = ?");
        values.push((key, 3));
        session.batch(&batch, values).await?;
        let count = query(session, &format!("SELECT count(*) FROM kv WHERE k = {key}")).await?;
        equal(count.single_row::<(i64,)>()?, (9,))?;
    }
    let other = query(session, "SELECT count(*) FROM kv").await?;
    require(
        other.warnings().next().is_some(),
        "an aggregate without partition key warns",
    )
}

/// The driver computes a row's token from the prepared statement's key columns, as the server does.
pub async fn routing(session: &Session) -> Outcome {
    session
        .query_unpaged(
            "CREATE TABLE routed (a int, b text, v int, PRIMARY KEY ((a, b)))",
            (),
        )
        .await?;
    let insert = session
        .prepare("INSERT INTO routed (v, b, a) VALUES (?, ?, ?)")
        .await?;
    require(insert.is_token_aware(), "the statement's key columns are unknown")?;
    for a in -20..20 {
        let values = (0, format!("b{a}"), a);
        session.execute_unpaged(&insert, &values).await?;
        let token = insert.calculate_token(&values)?.ok_or("no token")?;
        let select = format!("SELECT token(a, b) FROM routed WHERE a = {a} AND b = 'b{a}'");
        equal(
            query(session, &select).await?.single_row::<(i64,)>()?,
            (token.value(),),
        )?;
    }
    Ok(())
}

pub async fn compression(_: &Session) -> Outcome {
    let text = "compressible ".repeat(20_000);
    for (c, compression) in [Compression::Lz4, Compression::Snappy].into_iter().enumerate() {
        let session = connect(Some(compression)).await?;
        let insert = session
            .prepare("INSERT INTO rust_driver.kv (k, c, v) VALUES (30, ?, ?)")
            .await?;
        session.execute_unpaged(&insert, (c as i32, &text)).await?;
        let select = format!("SELECT v FROM rust_driver.kv WHERE k = 30 AND c = {c}");
        let rows = query(&session, &select).await?;
        require(
            rows.single_row::<(String,)>()? == (text.clone(),),
            format!("{compression:?}"),
        )?;
    }
    Ok(())
}

pub async fn tracing(session: &Session) -> Outcome {
    let mut statement = Statement::new("SELECT * FROM kv LIMIT 1");
    statement.set_tracing(true);
    let result = session.query_unpaged(statement, ()).await?;
    require(result.tracing_id().is_some(), "no trace id")
}
