//! All pages of a result as lines of JSON (NDJSON), each page read when the client has taken the one before it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use helenus_node::handle::{Answer, RequestOptions};
use helenus_node::{Handle, catch_async};
use http::{Response, StatusCode};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::json_values::JsonValues;
use super::rows::{RowForm, write_row};
use super::{problem, set_headers};
use crate::body::{Body, Piece};
use crate::bounds::STREAM_ANSWERS_MAX;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::memory::Memory;

/// The media type of lines.
pub const LINES: &str = "application/x-ndjson";

/// Query whose rows are asked for page by page.
pub struct Asked {
    pub text: String,
    pub values: Option<Box<RawValue>>,
    pub options: RequestOptions,
}

/// Answers with the first page's status: an error of the first page is a problem document. What fails later is the last line, an object
/// whose only name is `problem`, and ends the answer before its end, so that nobody takes it for whole.
pub async fn answer(
    caller: &Rc<Caller>,
    client: Handle,
    mut asked: Asked,
) -> Result<Response<Body>, Failure> {
    let first = page(caller, &client, &asked).await?;
    let (pieces, body) = mpsc::channel(STREAM_ANSWERS_MAX);
    let caller = caller.clone();
    tokio::task::spawn_local(async move {
        let sending = send_pages(&caller, &client, &mut asked, first, &pieces);
        // A client that has gone wants no more pages.
        tokio::select! {
            sent = catch_async(sending) => {
                if let Err(failure) = sent.unwrap_or_else(|_panicked| Err(Failure::Internal("Internal error".to_owned()))) {
                    let line = format!("{{\"problem\":{}}}\n", problem::document(&failure));
                    let _gone = pieces.send(Piece::Data(line.into())).await;
                    let _gone = pieces.send(Piece::Broken).await;
                }
            }
            () = pieces.closed() => {}
        }
    });
    let mut response = Response::new(Body::Stream(body));
    *response.status_mut() = StatusCode::OK;
    set_headers(&mut response, LINES);
    Ok(response)
}

async fn page(caller: &Caller, client: &Handle, asked: &Asked) -> Result<Answer, Failure> {
    let values = JsonValues::of(asked.values.as_deref(), &*caller.state.clock)?;
    let statements = &caller.state.statements;
    statements
        .execute(client, &asked.text, &values, &asked.options)
        .await
}

async fn send_pages(
    caller: &Caller,
    client: &Handle,
    asked: &mut Asked,
    first: Answer,
    pieces: &mpsc::Sender<Piece>,
) -> Result<(), Failure> {
    let mut answer = first;
    loop {
        let Some(rows) = answer.rows() else {
            return Ok(());
        };
        let lines = lines(&answer, &caller.memory)?;
        if !lines.is_empty() && pieces.send(Piece::Data(lines)).await.is_err() {
            return Ok(());
        }
        let Some(place) = rows.paging_state() else {
            return Ok(());
        };
        asked.options.paging_state = Some(place.to_vec());
        asked.options.waited = std::time::Duration::ZERO;
        answer = page(caller, client, asked).await?;
    }
}

fn lines(answer: &Answer, memory: &Arc<Memory>) -> Result<Bytes, Failure> {
    let mut out = String::new();
    if let Some(rows) = answer.rows() {
        for row in rows.iter() {
            write_row(&mut out, rows.columns(), &row, RowForm::Objects)?;
            out.push('\n');
        }
    }
    let taken = memory.take(out.len())?;
    Ok(taken.charge(out.into_bytes()))
}
