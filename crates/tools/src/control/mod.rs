//! The operator's messages: what is asked, how it is done on a host, what is answered. One line of JSON each, over the
//! control socket of a running node; the command line carries them out itself where no node runs.

mod answer;
mod client;
mod execute;
mod request;

pub use answer::{Answer, Compactions, PendingTasks, RefusedSsTable, Reply, RunningTask, TableCount};
pub use client::{ClientError, ask, is_served};
pub use execute::{ExecuteError, execute};
pub use request::{Request, RequestError};

/// The socket's name in the data folder.
pub const SOCKET: &str = "control.sock";

/// A request is a few names and a path.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// A list of ten thousand snapshots still fits.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 20;
