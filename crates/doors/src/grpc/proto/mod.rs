//! The messages of `proto/*.proto`, made from them by prost-build with comments and the names of enums left out.
#![allow(missing_docs, reason = "the .proto files have the comments")]

pub mod health;
pub mod reflection;
pub mod stargate;
pub mod status;

/// The files themselves, for reflection: a `google.protobuf.FileDescriptorSet`, as `protoc --include_imports` or protox write it.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../../proto/descriptors.bin");
