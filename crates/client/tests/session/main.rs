//! Sessions against a real server in this process.

mod requests;
mod server;
