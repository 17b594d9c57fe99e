//! gRPC: the services that Stargate's clients call, health, and reflection.

mod answers;
mod call;
mod compression;
mod execute;
mod health;
mod messages;
pub mod proto;
mod reflection;
mod status;
mod testing;
mod traces;
mod types;
mod values_in;
mod values_out;

use std::rc::Rc;

use http::{Method, Response};

use crate::body::Body;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::http_door::problem;
use crate::routes::Received;
use call::Call;
use status::{Code, Status};

/// Answers a call, whatever it is.
pub async fn call(caller: &Rc<Caller>, received: Received) -> Response<Body> {
    if received.request.method() != Method::POST {
        return problem::response(&Failure::Method("POST"));
    }
    let mut call = match Call::of(caller, received) {
        Ok(call) => call,
        Err(status) => return answers::failed(&status),
    };
    let uri = std::mem::take(&mut call.uri);
    match uri.path() {
        "/stargate.Stargate/ExecuteQuery" => call.unary(execute::query).await,
        "/stargate.Stargate/ExecuteBatch" => call.unary(execute::batch).await,
        "/stargate.Stargate/ExecuteQueryStream" => call.stream(execute::query_stream),
        "/stargate.Stargate/ExecuteBatchStream" => call.stream(execute::batch_stream),
        "/grpc.health.v1.Health/Check" => call.unary(health::check).await,
        "/grpc.health.v1.Health/Watch" => call.stream(health::watch),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => call.stream(reflection::answer),
        path if caller.state.serves_tests && path.starts_with(testing::SERVICE) => {
            let method = path.strip_prefix(testing::SERVICE).unwrap_or_default();
            testing::call(call, method).await
        }
        path => answers::failed(&Status::new(
            Code::Unimplemented,
            format!("There is no method {path}"),
        )),
    }
}

/// The answer to a call that could not be looked at.
pub fn failed(failure: &Failure) -> Response<Body> {
    answers::failed(&Status::of(failure))
}
