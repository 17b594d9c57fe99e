//! All pages of a result, as lines of JSON (NDJSON) or as record batches of Arrow, each page read when the client has taken the one
//! before it.

use std::rc::Rc;

use helenus_arrow::RecordBatch;
use helenus_node::handle::{Answer, RequestOptions, Rows};
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

/// In which form pages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageForm {
    /// A line of JSON for each row.
    Lines,
    /// Arrow's IPC streaming format, a record batch for each page.
    Arrow,
}

pub const LINES: &str = "application/x-ndjson";

impl PageForm {
    /// The form of a media type, if it is one's.
    pub fn of_media_type(name: &str) -> Option<PageForm> {
        match name.to_ascii_lowercase().as_str() {
            LINES | "application/ndjson" => Some(PageForm::Lines),
            helenus_arrow::MEDIA_TYPE => Some(PageForm::Arrow),
            _ => None,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            PageForm::Lines => LINES,
            PageForm::Arrow => helenus_arrow::MEDIA_TYPE,
        }
    }

    /// Comes before the first page. An answer without rows has no columns.
    fn begin(self, first: &Answer) -> Vec<u8> {
        match self {
            PageForm::Lines => Vec::new(),
            PageForm::Arrow => {
                let columns = first.rows().map_or(&[][..], |rows| rows.columns());
                let columns = columns.iter().map(|column| (&*column.name, &column.data_type));
                helenus_arrow::schema_message(columns)
            }
        }
    }

    fn page(self, rows: &Rows) -> Result<Vec<u8>, Failure> {
        match self {
            PageForm::Lines => lines(rows),
            PageForm::Arrow => record_batch(rows),
        }
    }

    /// Comes after the last page.
    fn end(self) -> &'static [u8] {
        match self {
            PageForm::Lines => &[],
            PageForm::Arrow => &helenus_arrow::END_OF_STREAM,
        }
    }

    /// Comes after a page where another one cannot be had.
    fn failure(self, failure: &Failure) -> Option<String> {
        match self {
            PageForm::Lines => Some(format!("{{\"problem\":{}}}\n", problem::document(failure))),
            PageForm::Arrow => None,
        }
    }
}

/// Query whose rows are asked for page by page.
pub struct Asked {
    pub text: String,
    pub values: Option<Box<RawValue>>,
    pub options: RequestOptions,
    pub form: PageForm,
}

/// Answers with the first page's status: an error of the first page is a problem document. What fails later ends the answer before its
/// end, so that nobody takes it for whole; of lines the last one is an object whose only name is `problem`.
pub async fn answer(
    caller: &Rc<Caller>,
    client: Handle,
    mut asked: Asked,
) -> Result<Response<Body>, Failure> {
    let first = page(caller, &client, &asked).await?;
    let (pieces, body) = mpsc::channel(STREAM_ANSWERS_MAX);
    let caller = caller.clone();
    let form = asked.form;
    tokio::task::spawn_local(async move {
        let sending = send_pages(&caller, &client, &mut asked, first, &pieces);
        // A client that has gone wants no more pages.
        tokio::select! {
            sent = catch_async(sending) => {
                if let Err(failure) = sent.unwrap_or_else(|_panicked| Err(Failure::Internal("Internal error".to_owned()))) {
                    if let Some(line) = form.failure(&failure) {
                        let _gone = pieces.send(Piece::Data(line.into())).await;
                    }
                    let _gone = pieces.send(Piece::Broken).await;
                }
            }
            () = pieces.closed() => {}
        }
    });
    let mut response = Response::new(Body::Stream(body));
    *response.status_mut() = StatusCode::OK;
    set_headers(&mut response, form.media_type());
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
    let form = asked.form;
    let mut answer = first;
    let mut piece = form.begin(&answer);
    loop {
        let mut place = None;
        if let Some(rows) = answer.rows() {
            piece.extend(form.page(rows)?);
            place = rows.paging_state();
        }
        if place.is_none() {
            piece.extend(form.end());
        }
        let taken = caller.memory.take(piece.len())?;
        let data = taken.charge(std::mem::take(&mut piece));
        if !data.is_empty() && pieces.send(Piece::Data(data)).await.is_err() {
            return Ok(());
        }
        let Some(place) = place else {
            return Ok(());
        };
        asked.options.paging_state = Some(place.to_vec());
        asked.options.waited = std::time::Duration::ZERO;
        answer = page(caller, client, asked).await?;
    }
}

fn lines(rows: &Rows) -> Result<Vec<u8>, Failure> {
    let mut out = String::new();
    for row in rows.iter() {
        write_row(&mut out, rows.columns(), &row, RowForm::Objects)?;
        out.push('\n');
    }
    Ok(out.into_bytes())
}

fn record_batch(rows: &Rows) -> Result<Vec<u8>, Failure> {
    let types = rows.columns().iter().map(|column| &column.data_type);
    let mut batch = RecordBatch::new(types);
    for row in rows.iter() {
        let added = batch.push(&row);
        added.map_err(|error| Failure::Invalid(error.to_string()))?;
    }
    Ok(batch.message())
}
