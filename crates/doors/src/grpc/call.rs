//! One call: what its headers say, its deadline, and who works on it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use helenus_node::{Handle, catch_async};
use http::{HeaderMap, HeaderName, Response, Uri};
use prost::Message;
use tokio::sync::mpsc;

use super::answers::{self, Answers};
use super::compression::Compression;
use super::messages::{Charged, Messages};
use super::status::{Code, Status};
use crate::body::Body;
use crate::bounds::{BODY_TIMEOUT, STREAM_ANSWERS_MAX};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::routes::Received;

/// A call whose headers are understood.
pub struct Call {
    pub messages: Messages,
    pub context: Context,
    pub uri: Uri,
}

/// Caller, headers, timeout and compression of a call, for the work on it.
pub struct Context {
    pub caller: Rc<Caller>,
    pub headers: HeaderMap,
    /// On the node's monotonic clock.
    pub received_ns: u64,
    /// From then on.
    pub timeout: Option<Duration>,
    /// How its answers may be compressed.
    pub compression: Cell<Option<Compression>>,
}

impl Context {
    /// The node's client of whoever calls.
    pub async fn client(&self) -> Result<Handle, Failure> {
        self.caller.client(&self.headers, "helenus grpc").await
    }

    /// Time that the call has left; `None` without a timeout.
    pub fn time_left(&self) -> Option<Duration> {
        let since = self.caller.since(self.received_ns);
        self.timeout.map(|timeout| timeout.saturating_sub(since))
    }
}

impl Call {
    pub fn of(caller: &Rc<Caller>, received: Received) -> Result<Call, Status> {
        let (parts, incoming) = received.request.into_parts();
        let encoding = Compression::of_request(&parts.headers)?;
        Ok(Call {
            uri: parts.uri,
            messages: Messages::new(incoming, encoding, &caller.memory),
            context: Context {
                caller: caller.clone(),
                received_ns: received.received_ns,
                timeout: timeout(&parts.headers)?,
                compression: Cell::new(Compression::accepted(&parts.headers)),
                headers: parts.headers,
            },
        })
    }

    /// A call with one message each way.
    pub async fn unary<Q: Message + Default, A: Message>(
        &mut self,
        work: impl AsyncFnOnce(&Context, &Charged<Q>) -> Result<A, Status>,
    ) -> Response<Body> {
        let time_left = self.context.time_left();
        // Polled where it is: it is large, and would be copied at each level on its way down.
        let working = pin!(async {
            let reading = pin!(only_message(&mut self.messages));
            let read = at_once_or_within(BODY_TIMEOUT, reading).await;
            let asked = read.ok_or_else(|| Status::of(&Failure::Slow))??;
            let answer = work(&self.context, &asked).await?;
            let caller = &self.context.caller;
            Ok(answers::answered(
                &answer,
                self.context.compression.get(),
                &caller.memory,
            )?)
        });
        within(time_left, working)
            .await
            .unwrap_or_else(|status| answers::failed(&status))
    }

    /// A call whose answer is a stream. The work is dropped when the client has gone, or its time is over.
    pub fn stream<F>(self, work: impl FnOnce(Messages, Rc<Context>, Rc<Answers>) -> F) -> Response<Body>
    where
        F: Future<Output = Result<(), Status>> + 'static,
    {
        let (pieces, body) = mpsc::channel(STREAM_ANSWERS_MAX);
        let compression = self.context.compression.get();
        let answers = Rc::new(Answers {
            pieces,
            compression,
            memory: self.context.caller.memory.clone(),
            trailers: RefCell::default(),
        });
        let time_left = self.context.time_left();
        let work = work(self.messages, Rc::new(self.context), answers.clone());
        tokio::task::spawn_local(async move {
            let working = async {
                let worked = catch_async(work).await;
                worked.unwrap_or_else(|_panicked| {
                    Err(Status::new(
                        Code::Internal,
                        "Internal error: the call panicked, which is a bug",
                    ))
                })
            };
            tokio::select! {
                ended = within(time_left, working) => {
                    answers.end(ended.err().unwrap_or_else(Status::ok)).await;
                }
                () = answers.pieces.closed() => {}
            }
        });
        answers::streamed(body, compression)
    }
}

/// `None` where it takes longer. What is there already needs no timer.
async fn at_once_or_within<F: Future>(limit: Duration, mut work: Pin<&mut F>) -> Option<F::Output> {
    let at_once = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    match at_once {
        Poll::Ready(worked) => Some(worked),
        Poll::Pending => tokio::time::timeout(limit, work).await.ok(),
    }
}

/// The message of a call that has one.
async fn only_message<M: Message + Default>(messages: &mut Messages) -> Result<Charged<M>, Status> {
    let message = messages.next::<M>().await?;
    let message = message.ok_or_else(|| Status::new(Code::Internal, "The call has no message"))?;
    match messages.next::<M>().await? {
        Some(_) => Err(Status::new(Code::Internal, "The call has more than one message")),
        None => Ok(message),
    }
}

async fn within<T>(
    time_left: Option<Duration>,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let Some(time_left) = time_left else {
        return work.await;
    };
    let over = || Err(Status::new(Code::DeadlineExceeded, "The call's time is over"));
    if time_left.is_zero() {
        return over();
    }
    let worked = tokio::time::timeout(time_left, work).await;
    worked.unwrap_or_else(|_| over())
}

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// `grpc-timeout`: at most eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get(GRPC_TIMEOUT) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let parsed = text
        .split_at_checked(text.len().saturating_sub(1))
        .and_then(|(digits, unit)| {
            let is_number =
                (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            let count: u64 = digits.parse().ok().filter(|_| is_number)?;
            Some(match unit {
                "H" => Duration::from_secs(count * 3_600),
                "M" => Duration::from_secs(count * 60),
                "S" => Duration::from_secs(count),
                "m" => Duration::from_millis(count),
                "u" => Duration::from_micros(count),
                "n" => Duration::from_nanos(count),
                _ => return None,
            })
        });
    match parsed {
        Some(timeout) => Ok(Some(timeout)),
        None => Err(Status::new(
            Code::Internal,
            format!("grpc-timeout {text} cannot be read"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_digits_and_a_unit() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", http::HeaderValue::from_static(text));
            timeout(&headers).ok().flatten()
        };
        assert_eq!(of("1S"), Some(Duration::from_secs(1)));
        assert_eq!(of("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        assert_eq!(of("250u"), Some(Duration::from_micros(250)));
        for wrong in ["", "S", "1", "123456789S", "-1S", "1s", "+1S"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
