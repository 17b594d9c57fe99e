//! Connections of HTTP/2: `helenus_http2` says what bytes mean; here are the socket, the timers and a task for each request.

mod answer;
mod requests;

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use helenus_http2::Event;
use http::{Method, Request};
use tokio::time::Sleep;

use crate::body::Incoming;
use crate::bounds::{HALF_CLOSED, PING_INTERVAL, PING_TIMEOUT};
use crate::caller::Caller;
use crate::routes;
use crate::socket::{SCRATCH, Socket};

pub use requests::{Arriving, Requests};

/// Reads of a connection before others have their turn.
const READS_MAX: usize = 2;

/// Pieces of the output that are sent by one call.
const SLICES: usize = 16;

/// A connection, until it has ended.
pub struct Connection {
    socket: Socket,
    caller: Rc<Caller>,
    requests: Requests,
    /// The beginning of a frame that has not come in full.
    rest: Vec<u8>,
    silence: Silence,
    end: End,
}

/// How much the client will still say.
enum End {
    Open,
    /// It sends no more; it is answered what it has asked until then.
    HalfClosed(Pin<Box<Sleep>>),
    /// It is not understood, and told so.
    Failed,
}

/// Time since the client was heard last.
struct Silence {
    timer: Pin<Box<Sleep>>,
    heard_ns: u64,
    /// True if it was asked whether it is still there.
    is_asked: bool,
}

impl Silence {
    /// Ready when the client has gone without a word. Calls `ask` when it should be asked.
    fn poll_gone(
        &mut self,
        now_ns: impl Fn() -> u64,
        ask: impl FnOnce(),
        context: &mut Context<'_>,
    ) -> Poll<()> {
        ready!(self.timer.as_mut().poll(context));
        let silent = Duration::from_nanos(now_ns().saturating_sub(self.heard_ns));
        if silent >= PING_INTERVAL + PING_TIMEOUT && self.is_asked {
            return Poll::Ready(());
        }
        let left = match silent < PING_INTERVAL {
            true => PING_INTERVAL - silent,
            false => {
                ask();
                PING_TIMEOUT
            }
        };
        self.is_asked = silent >= PING_INTERVAL;
        let fired = self.timer.deadline();
        self.timer.as_mut().reset(fired + left);
        // It has to be heard of the next time, too.
        self.timer.as_mut().poll(context)
    }
}

impl Connection {
    pub fn new(socket: Socket, caller: Rc<Caller>) -> Self {
        Connection {
            requests: Requests::new(&caller.memory),
            silence: Silence {
                timer: Box::pin(tokio::time::sleep(PING_INTERVAL)),
                heard_ns: caller.state.clock.monotonic_ns(),
                is_asked: false,
            },
            socket,
            caller,
            rest: Vec::new(),
            end: End::Open,
        }
    }

    /// Its requests, which are asked and told things from outside, too.
    pub fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Reads what has come. Returns whether there may be more, which is not read before the client has taken something.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..READS_MAX {
            if !matches!(self.end, End::Open) {
                return false;
            }
            if self.requests.is_congested() {
                return true;
            }
            match self.poll_read(context) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) => {}
                // Nothing is to be said to a client whose socket is broken.
                Poll::Ready(Err(_broken)) => {
                    self.requests.forget();
                    self.end = End::Failed;
                }
            }
        }
        context.waker().wake_by_ref();
        false
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            // The beginning of a frame is put before what comes.
            let kept = self.rest.len();
            let (front, place) = scratch
                .split_at_mut_checked(kept)
                .ok_or(io::ErrorKind::InvalidData)?;
            front.copy_from_slice(&self.rest);
            let count = ready!(self.socket.poll_receive(context, place))?;
            if count == 0 {
                self.end = End::HalfClosed(Box::pin(tokio::time::sleep(HALF_CLOSED)));
                self.requests.nothing_more_comes();
                return Poll::Ready(Ok(()));
            }
            let input = scratch.get(..kept + count).unwrap_or_default();
            self.received(input);
            Poll::Ready(Ok(()))
        })
    }

    fn received(&mut self, mut input: &[u8]) {
        self.silence.heard_ns = self.caller.state.clock.monotonic_ns();
        loop {
            let next = self.requests.connection().next(&mut input);
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_told) => {
                    self.requests.forget();
                    self.end = End::Failed;
                    return;
                }
            };
            match event {
                Event::Begun {
                    stream,
                    head,
                    is_whole,
                    body_bytes,
                } => {
                    let body = Arriving::new(&self.requests, stream, body_bytes);
                    if is_whole {
                        self.requests.arrived(stream, &[], true);
                    }
                    self.answer(stream, Request::from_parts(*head, Incoming::Http2(body)));
                }
                Event::Data {
                    stream,
                    bytes,
                    is_last,
                } => self.requests.arrived(stream, bytes, is_last),
                Event::Reset { state, .. } => state.abort(),
            }
        }
        self.rest.clear();
        match input.is_empty() {
            true if self.rest.capacity() > 0 => self.rest = Vec::new(),
            true => {}
            false => self.rest.extend_from_slice(input),
        }
    }

    fn answer(&self, stream: u32, request: Request<Incoming>) {
        let (caller, requests) = (self.caller.clone(), self.requests.clone());
        let is_head = *request.method() == Method::HEAD;
        let answering = tokio::task::spawn_local(async move {
            let response = routes::answer(&caller, request).await;
            answer::send(&requests, stream, is_head, response, &*caller.state.clock).await;
        });
        self.requests.answered_by(stream, answering.abort_handle());
    }

    /// Sends all that there is to be sent.
    fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.requests.pump();
            let mut connection = self.requests.connection();
            let output = connection.output();
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = output.slices(&mut slices);
            if count == 0 {
                output.forget_buffers();
                return Poll::Ready(Ok(()));
            }
            let sent = ready!(
                self.socket
                    .poll_send(context, slices.get(..count).unwrap_or_default())
            )?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            output.advance(sent);
        }
    }

    /// Returns whether nobody will say anything any more, once all is sent.
    fn is_over(&self) -> bool {
        match self.end {
            End::Failed => true,
            End::HalfClosed(_) => self.requests.are_over(),
            End::Open => self.requests.are_drained(),
        }
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.requests.wake_by(context.waker());
        loop {
            let waits_for_room = this.poll_receive(context);
            match this.poll_send(context) {
                Poll::Ready(Err(_gone)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if this.is_over() => return Poll::Ready(()),
                _ => {}
            }
            if !waits_for_room || this.requests.is_congested() {
                break;
            }
        }
        if let End::HalfClosed(timer) = &mut this.end
            && timer.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(());
        }
        let clock = &this.caller.state.clock;
        let requests = &this.requests;
        let ask = || requests.ping();
        this.silence.poll_gone(|| clock.monotonic_ns(), ask, context)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.requests.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;

    use tokio::time::Instant;

    use super::*;

    /// Seconds after which a client was asked, and was gone, that was heard at these.
    async fn asked_and_gone(heard_s: &'static [u64]) -> (Vec<u64>, u64) {
        let begun = Instant::now();
        let now_ns = move || begun.elapsed().as_nanos() as u64;
        let mut silence = Silence {
            timer: Box::pin(tokio::time::sleep(PING_INTERVAL)),
            heard_ns: 0,
            is_asked: false,
        };
        let asked = Cell::new(Vec::new());
        let mut hearing = heard_s.iter();
        let mut next = hearing.next();
        let mut talks = Box::pin(tokio::time::sleep(Duration::from_secs(
            next.copied().unwrap_or(1 << 20),
        )));
        poll_fn(|context| {
            while talks.as_mut().poll(context).is_ready() {
                silence.heard_ns = now_ns();
                next = hearing.next();
                let at = begun + Duration::from_secs(next.copied().unwrap_or(1 << 20));
                talks.as_mut().reset(at);
            }
            let ask = || {
                let mut times = asked.take();
                times.push(begun.elapsed().as_secs());
                asked.set(times);
            };
            silence.poll_gone(now_ns, ask, context)
        })
        .await;
        (asked.take(), begun.elapsed().as_secs())
    }

    /// As long as [`PING_INTERVAL`] and [`PING_TIMEOUT`] say.
    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_asked_and_gone_and_one_that_answers_stays() {
        assert_eq!(asked_and_gone(&[]).await, (vec![60], 80));
        assert_eq!(asked_and_gone(&[30]).await, (vec![90], 110));
        // The second one is an answer.
        assert_eq!(asked_and_gone(&[30, 91]).await, (vec![90, 151], 171));
        assert_eq!(asked_and_gone(&[59, 110, 160]).await, (vec![220], 240));
    }

    /// A machine that slept finds all of its clients silent; they are asked, and not gone at once.
    #[tokio::test(start_paused = true)]
    async fn nobody_is_gone_who_was_not_asked() {
        let mut silence = Silence {
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            heard_ns: 0,
            is_asked: false,
        };
        // As the timer fires: heard a while ago, silent since a night ago, and still.
        let looks_s = [10, 30_000, 30_020];
        let (looked, asked) = (Cell::new(0), Cell::new(0));
        let now_ns = || {
            let place = looked.replace(looked.get() + 1);
            Duration::from_secs(looks_s[place]).as_nanos() as u64
        };
        poll_fn(|context| silence.poll_gone(now_ns, || asked.set(asked.get() + 1), context)).await;
        assert_eq!((looked.get(), asked.get()), (3, 1));
    }
}
