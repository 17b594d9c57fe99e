//! The gRPC and HTTP doors as clients see them, over sockets.

mod compression;
mod ends;
mod grpc;
mod hostile;
mod http;
mod operations;
#[path = "../support/mod.rs"]
mod support;
