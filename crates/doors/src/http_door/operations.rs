//! `POST /v1/operations`: what an operator asks of the node, as the operator's socket takes it, and how far it is, line by line.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_node::catch;
use helenus_node::handle::ServerError;
use helenus_protocol::response::ErrorBody;
use helenus_tools::control::{Answer, Reply, Request};
use helenus_tools::progress::{Progress, Unit};
use helenus_vfs::Clock;
use http::{Response, StatusCode};
use tokio::sync::mpsc;

use super::{pages, parse, read_json, set_headers};
use crate::body::{Body, Piece};
use crate::bounds::STREAM_ANSWERS_MAX;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::memory::Memory;
use crate::routes::Received;

/// An operation that has its place, to be run on a thread that may wait as long as the disk needs.
pub type Operation = Box<dyn FnOnce(&dyn Progress) -> Result<Answer, String> + Send>;

/// Operations of the node behind the doors.
pub trait Operations: Send + Sync {
    /// Takes a place for an operation, at once; an error says why there is none. Places are what bounds the threads of operations.
    fn begin(&self, request: Request) -> Result<Operation, String>;
}

/// Between two lines about how far the work is: smooth for the eye.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Answers it with a line for each step and a last one that says what came of it. A client that goes away stops nothing: half a restore
/// would be worse.
pub async fn answer(caller: &Rc<Caller>, received: Received) -> Result<Response<Body>, Failure> {
    caller.check_operator(received.request.headers()).await?;
    let body = read_json(caller, received.request).await?;
    let request: Request = parse(&body.bytes)?;
    check(&request, caller.state.is_read_only)?;
    let state = &caller.state;
    let operation = state.operations.begin(request).map_err(busy)?;
    let (pieces, lines) = mpsc::channel(STREAM_ANSWERS_MAX);
    let replies = Replies {
        pieces,
        memory: caller.memory.clone(),
        clock: state.clock.clone(),
        told_ns: Cell::new(None),
    };
    let begun = std::thread::Builder::new()
        .name("door-operation".to_owned())
        .spawn(move || replies.tell_of(operation));
    begun.map_err(|error| Failure::Internal(format!("There is no thread for the operation: {error}")))?;
    let mut response = Response::new(Body::Stream(lines));
    *response.status_mut() = StatusCode::OK;
    set_headers(&mut response, pages::LINES);
    Ok(response)
}

/// Refuses what is not for clients of a socket that others may reach.
fn check(request: &Request, is_read_only: bool) -> Result<(), Failure> {
    if is_read_only && !request.only_looks() {
        return Err(Failure::Forbidden("Only what changes nothing is done here"));
    }
    match request {
        // What is wrong with a schema is told with its words, and so would be those of any file.
        Request::Import {
            schema_file: Some(_), ..
        } => Err(Failure::Invalid(
            "A file with a schema cannot be named here; make the table, or use `helenus sstable import` on the node's machine".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// There is no place; nothing was done.
fn busy(message: String) -> Failure {
    Failure::Server(Box::new(ServerError::refused(&ErrorBody::Overloaded, &message)))
}

/// Lines on their way to the client.
struct Replies {
    pieces: mpsc::Sender<Piece>,
    memory: Arc<Memory>,
    clock: Arc<dyn Clock>,
    /// When progress was last told.
    told_ns: Cell<Option<u64>>,
}

impl Replies {
    fn tell_of(&self, operation: Operation) {
        let done = catch(|| operation(self));
        let done = done.unwrap_or_else(|_panicked| {
            Err("Internal error: the operation panicked, which is a bug".to_owned())
        });
        let last = match done {
            Ok(answer) => Reply::Done { answer },
            Err(message) => Reply::Failed { message },
        };
        let piece = self.piece(&last).unwrap_or(Piece::Broken);
        // Nobody may be there any more.
        let _gone = self.pieces.blocking_send(piece);
    }

    /// `None` where there is no room for the line.
    fn piece(&self, reply: &Reply) -> Option<Piece> {
        let mut line = serde_json::to_vec(reply).ok()?;
        line.push(b'\n');
        let taken = self.memory.take(line.len()).ok()?;
        Some(Piece::Data(taken.charge(line)))
    }

    /// A line that is left out where the client is slow: the next one says more.
    fn tell(&self, reply: &Reply) {
        if let Some(piece) = self.piece(reply) {
            let _left_out = self.pieces.try_send(piece);
        }
    }
}

impl Progress for Replies {
    fn begin(&self, task: &str, unit: Unit, total: u64) {
        self.told_ns.set(None);
        self.tell(&Reply::Begin {
            task: task.to_owned(),
            unit,
            total,
        });
    }

    fn at(&self, done: u64) {
        let now_ns = self.clock.monotonic_ns();
        let told_ns = self.told_ns.get();
        let passed_ns = told_ns.map(|told_ns| u128::from(now_ns.saturating_sub(told_ns)));
        if passed_ns.is_none_or(|passed_ns| passed_ns >= PROGRESS_INTERVAL.as_nanos()) {
            self.told_ns.set(Some(now_ns));
            self.tell(&Reply::Progress { done });
        }
    }
}
