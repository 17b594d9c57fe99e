//! What clients of the gRPC and HTTP doors see, over sockets.

mod compression;
mod ends;
mod grpc;
mod hostile;
mod http;
#[path = "../support/mod.rs"]
mod support;
