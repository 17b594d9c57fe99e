//! A client for any CQL server: Helenus, Apache Cassandra, ScyllaDB.
//!
//! What sets it apart is what a caller does not have to do. Nobody tunes a number of requests in flight: a
//! [`throttle`] finds what the server can carry and lets the other callers wait, fairly and no longer than their
//! deadlines. Nobody retries what never reached the server: such a request goes out again on another connection
//! without being seen. And a node that drains is left before it closes.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use helenus_client::Session;
//!
//! let session = Session::builder().node("127.0.0.1:9042").connect().await?;
//! let insert = session.prepare("INSERT INTO shop.orders (id, item) VALUES (?, ?)").await?;
//! session.execute(&insert, (7_i64, "lamp")).await?;
//!
//! let select = session.prepare("SELECT id, item FROM shop.orders WHERE id = ?").await?;
//! for row in session.execute(&select, (7_i64,)).await?.rows::<(i64, String)>()? {
//!     let (id, item) = row?;
//!     println!("{id}: {item}");
//! }
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod error;
mod lock;

pub mod statement;

pub use helenus_values as values;

mod response;

pub mod buffer_pool;
mod connection;

pub mod throttle;

mod retry;
pub mod routing;

mod session;

#[cfg(feature = "tls")]
pub use connection::{Tls, TlsError, TlsOptions};
pub use error::{ConnectError, RequestError, ServerError};
pub use response::{Answer, Rows};
pub use retry::RetryPolicy;
pub use session::{Caller, Pager, Session, SessionBuilder, SessionStatistics};
pub use statement::{Batch, Prepared, Statement};
