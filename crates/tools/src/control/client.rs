//! Asking a running node.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::{Answer, REPLY_BYTES_MAX, Reply, Request, SOCKET};
use crate::progress::Progress;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    #[error("{}: {source}", socket.display())]
    Io { socket: PathBuf, source: io::Error },
    #[error("{} answered what is no reply: {reason}; is it another release?", socket.display())]
    Reply { socket: PathBuf, reason: String },
    #[error("the node at {} closed the connection before it was done; its own messages may say why", socket.display())]
    Closed { socket: PathBuf },
    /// The node has refused or could not do it.
    #[error("{0}")]
    Refused(String),
}

/// Returns whether a node answers on a data folder's control socket.
pub fn is_served(root: &Path) -> bool {
    UnixStream::connect(root.join(SOCKET)).is_ok()
}

/// Sends one request to the node that runs on a data folder, and waits for the end of it.
pub fn ask(root: &Path, request: &Request, progress: &dyn Progress) -> Result<Answer, ClientError> {
    let socket = root.join(SOCKET);
    let failed = |source| ClientError::Io {
        socket: socket.clone(),
        source,
    };
    let broken = |reason: serde_json::Error| ClientError::Reply {
        socket: socket.clone(),
        reason: reason.to_string(),
    };
    let mut stream = UnixStream::connect(&socket).map_err(failed)?;
    let mut line = serde_json::to_string(request).map_err(broken)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(failed)?;
    let mut replies = BufReader::new(stream);
    loop {
        let mut line = String::new();
        let read = (&mut replies)
            .take(REPLY_BYTES_MAX as u64)
            .read_line(&mut line)
            .map_err(failed)?;
        if read == 0 {
            return Err(ClientError::Closed { socket });
        }
        match serde_json::from_str(&line).map_err(broken)? {
            Reply::Begin { task, unit, total } => progress.begin(&task, unit, total),
            Reply::Progress { done } => progress.at(done),
            Reply::Done { answer } => return Ok(answer),
            Reply::Failed { message } => return Err(ClientError::Refused(message)),
        }
    }
}
