//! gRPC's `TestService`, which interop clients of all languages call (grpc/doc/interop-test-descriptions.md). It is there only where the
//! doors are told to serve it, and goes through what all other calls go through.

mod messages;

use std::rc::Rc;
use std::time::Duration;

use helenus_http2::Trailers;
use http::{HeaderMap, HeaderName, Response};

use super::answers::{self, Answers};
use super::call::{Call, Context};
use super::messages::{Charged, Messages};
use super::status::{Code, Status};
use crate::body::Body;
use messages::{
    BoolValue, EchoStatus, Empty, Payload, ResponseParameters, SimpleRequest, SimpleResponse,
    StreamingInputCallRequest, StreamingInputCallResponse, StreamingOutputCallRequest,
    StreamingOutputCallResponse,
};

/// In front of the names of its methods.
pub const SERVICE: &str = "/grpc.testing.TestService/";

/// A header that comes back as one,
const ECHO_HEADER: HeaderName = HeaderName::from_static("x-grpc-test-echo-initial");

/// and one that comes back behind the answer.
const ECHO_TRAILER: HeaderName = HeaderName::from_static("x-grpc-test-echo-trailing-bin");

/// By which a client tells servers apart; there is one.
const SERVER_ID: &str = "helenus";

/// Time between the end of a stream of requests that had none and its answer. The interop case `cancel_after_begin` ends its requests
/// and cancels in one breath, and grpc-go's client hands out an answer that has come by then before it looks at the cancellation.
const EMPTY_INPUT_PAUSE: Duration = Duration::from_millis(100);

/// Answers a call of the method of this name.
pub async fn call(mut call: Call, method: &str) -> Response<Body> {
    let asked = call.context.headers.clone();
    let mut response = match method {
        "EmptyCall" => call.unary(empty).await,
        "UnaryCall" => call.unary(unary).await,
        "StreamingInputCall" => call.stream(streaming_input),
        "StreamingOutputCall" => call.stream(streaming_output),
        "FullDuplexCall" => call.stream(full_duplex),
        "HalfDuplexCall" => call.stream(half_duplex),
        other => answers::failed(&Status::new(
            Code::Unimplemented,
            format!("There is no method {SERVICE}{other}"),
        )),
    };
    echo(&asked, &ECHO_HEADER, response.headers_mut());
    if let Body::Whole {
        trailers: Some(trailers),
        ..
    } = response.body_mut()
    {
        let mut own = Box::new(trailers.clone().into_headers());
        echo(&asked, &ECHO_TRAILER, &mut own);
        *trailers = Trailers::Own(own);
    }
    response
}

fn echo(asked: &HeaderMap, name: &HeaderName, answered: &mut HeaderMap) {
    if let Some(value) = asked.get(name) {
        answered.insert(name, value.clone());
    }
}

async fn empty(_: &Context, _: &Charged<Empty>) -> Result<Empty, Status> {
    Ok(Empty {})
}

async fn unary(context: &Context, asked: &Charged<SimpleRequest>) -> Result<SimpleResponse, Status> {
    let request = &asked.message;
    check_compressed(request.expect_compressed.as_ref(), asked.is_compressed)?;
    check_status(request.response_status.as_ref())?;
    if is_plain(request.response_compressed.as_ref()) {
        context.compression.set(None);
    }
    Ok(SimpleResponse {
        payload: Some(payload(context, request.response_size)?),
        server_id: match request.fill_server_id {
            true => SERVER_ID.to_owned(),
            false => String::new(),
        },
    })
}

async fn streaming_input(mut asked: Messages, _: Rc<Context>, answers: Rc<Answers>) -> Result<(), Status> {
    let mut bytes = 0_i32;
    let mut is_empty = true;
    while let Some(next) = asked.next::<StreamingInputCallRequest>().await? {
        check_compressed(next.message.expect_compressed.as_ref(), next.is_compressed)?;
        let length = next.message.payload.map_or(0, |payload| payload.body.len());
        bytes = bytes.saturating_add(i32::try_from(length).unwrap_or(i32::MAX));
        is_empty = false;
    }
    if is_empty {
        tokio::time::sleep(EMPTY_INPUT_PAUSE).await;
    }
    let answer = StreamingInputCallResponse {
        aggregated_payload_size: bytes,
    };
    answers.send(&answer).await
}

async fn streaming_output(
    mut asked: Messages,
    context: Rc<Context>,
    answers: Rc<Answers>,
) -> Result<(), Status> {
    while let Some(next) = asked.next::<StreamingOutputCallRequest>().await? {
        answer(&context, &answers, &next.message).await?;
    }
    Ok(())
}

async fn full_duplex(asked: Messages, context: Rc<Context>, answers: Rc<Answers>) -> Result<(), Status> {
    echo(
        &context.headers,
        &ECHO_TRAILER,
        &mut answers.trailers.borrow_mut(),
    );
    streaming_output(asked, context, answers).await
}

/// Answers once all is asked; of that it keeps as much as a message may have.
async fn half_duplex(mut asked: Messages, context: Rc<Context>, answers: Rc<Answers>) -> Result<(), Status> {
    let mut requests = Vec::new();
    while let Some(next) = asked.next::<StreamingOutputCallRequest>().await? {
        requests.push(next);
    }
    for request in &requests {
        answer(&context, &answers, &request.message).await?;
    }
    Ok(())
}

async fn answer(
    context: &Context,
    answers: &Answers,
    request: &StreamingOutputCallRequest,
) -> Result<(), Status> {
    check_status(request.response_status.as_ref())?;
    for ResponseParameters {
        size,
        interval_us,
        compressed,
    } in &request.response_parameters
    {
        if let Ok(interval_us @ 1..) = u64::try_from(*interval_us) {
            tokio::time::sleep(Duration::from_micros(interval_us)).await;
        }
        let answer = StreamingOutputCallResponse {
            payload: Some(payload(context, *size)?),
        };
        match is_plain(compressed.as_ref()) {
            true => answers.send_plain(&answer).await?,
            false => answers.send(&answer).await?,
        }
    }
    Ok(())
}

fn is_plain(compressed: Option<&BoolValue>) -> bool {
    compressed.is_some_and(|compressed| !compressed.value)
}

fn check_status(wanted: Option<&EchoStatus>) -> Result<(), Status> {
    match wanted {
        Some(EchoStatus { code: 1.., .. }) => {}
        _ => return Ok(()),
    }
    let mut status = Status::new(Code::Unknown, wanted.map_or("", |wanted| &wanted.message));
    status.code = wanted.map_or(status.code, |wanted| wanted.code);
    Err(status)
}

fn check_compressed(expected: Option<&BoolValue>, is_compressed: bool) -> Result<(), Status> {
    match expected {
        Some(expected) if expected.value != is_compressed => Err(Status::new(
            Code::InvalidArgument,
            "The message is not compressed as the call expects",
        )),
        _ => Ok(()),
    }
}

/// So many zeros, if a message may have as many.
fn payload(context: &Context, bytes: i32) -> Result<Payload, Status> {
    let bytes = usize::try_from(bytes).ok();
    let allowed = bytes.filter(|bytes| *bytes <= context.caller.memory.body_bytes_max());
    let bytes =
        allowed.ok_or_else(|| Status::new(Code::InvalidArgument, "An answer cannot have that size"))?;
    Ok(Payload {
        r#type: 0,
        body: vec![0; bytes],
    })
}
