//! One request and its replies.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use helenus_node::Operator;
use helenus_tools::control::{REQUEST_BYTES_MAX, Reply, Request, execute};
use helenus_tools::progress::{Progress, Unit};

use super::places::Places;

/// A client sends its request at once, and takes what it is told.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two lines about how far the work is: smooth for the eye.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Reads a request, carries it out, answers. A client that went away stops nothing: half a restore would be worse.
pub fn hold(stream: UnixStream, operator: &Operator, places: &Places) {
    let Ok(request) = read(&stream) else { return };
    let replies = Replies {
        stream: RefCell::new(stream),
        last: Cell::new(None),
    };
    let result = match request {
        Ok(request) => match places.take(&request) {
            Ok(_place) => execute(operator, &request, &replies).map_err(|error| error.to_string()),
            Err(busy) => Err(busy.to_string()),
        },
        Err(message) => Err(message),
    };
    replies.send(&match result {
        Ok(answer) => Reply::Done { answer },
        Err(message) => Reply::Failed { message },
    });
}

pub fn refuse(stream: UnixStream) {
    let replies = Replies {
        stream: RefCell::new(stream),
        last: Cell::new(None),
    };
    replies.send(&Reply::Failed {
        message: "as many clients are connected as the node takes; try again".to_owned(),
    });
}

/// The outer error is the connection's, the inner one is for the client.
fn read(stream: &UnixStream) -> io::Result<Result<Request, String>> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = Vec::new();
    BufReader::new(stream)
        .take(REQUEST_BYTES_MAX as u64)
        .read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Ok(Err(format!(
            "a request is one line of at most {REQUEST_BYTES_MAX} bytes"
        )));
    }
    let text = String::from_utf8_lossy(&line);
    Ok(Request::parse(&text).map_err(|error| error.to_string()))
}

struct Replies {
    stream: RefCell<UnixStream>,
    /// When progress was last told.
    last: Cell<Option<Instant>>,
}

impl Replies {
    fn send(&self, reply: &Reply) {
        let mut line = serde_json::to_string(reply).unwrap_or_default();
        line.push('\n');
        // Nobody may be there any more.
        let _gone = self.stream.borrow_mut().write_all(line.as_bytes());
    }
}

impl Progress for Replies {
    fn begin(&self, task: &str, unit: Unit, total: u64) {
        self.last.set(None);
        self.send(&Reply::Begin {
            task: task.to_owned(),
            unit,
            total,
        });
    }

    fn at(&self, done: u64) {
        let is_due = self
            .last
            .get()
            .is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL);
        if is_due {
            self.last.set(Some(Instant::now()));
            self.send(&Reply::Progress { done });
        }
    }
}
