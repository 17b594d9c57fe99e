//! Tests of a server over sockets, as its clients see it. What is counted for a whole process has a program of its own,
//! beside this folder.

mod clients;
mod connection_limits;
mod drains;
mod hostile_connections;
mod logins;
mod malformed_messages;
mod queued_reads;
mod request_age;
#[path = "../support/mod.rs"]
mod support;
