//! Requests of a connection: their bodies while they come, the tasks that answer them, and who waits for what.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use helenus_http2::{Connection, ErrorCode, Limits};
use tokio::task::AbortHandle;

use crate::bounds;
use crate::memory::{Lent, Memory};

const LIMITS: Limits = Limits {
    streams_max: bounds::STREAMS_MAX,
    stream_window_bytes: bounds::STREAM_WINDOW_BYTES,
    connection_window_bytes: bounds::CONNECTION_WINDOW_BYTES,
    headers_bytes_max: bounds::HEADERS_BYTES_MAX,
    resets_max: bounds::RESET_STREAMS_MAX,
    unsent_bytes_max: bounds::SEND_BUFFER_BYTES,
};

/// All of one connection. Clones are the same ones.
#[derive(Clone)]
pub struct Requests(Rc<Shared>);

struct Shared {
    connection: RefCell<Connection<State>>,
    memory: Arc<Memory>,
    /// Waker of the connection's task.
    waker: RefCell<Option<Waker>>,
}

/// A request until it is answered.
#[derive(Default)]
pub struct State {
    answering: Option<AbortHandle>,
    /// Pieces of its body that nobody has taken.
    pieces: VecDeque<Lent>,
    is_ended: bool,
    /// Nobody will take them any more.
    is_ignored: bool,
    waits_for_body: Option<Waker>,
    waits_for_room: Option<Waker>,
}

impl State {
    /// Nobody wants the answer any more.
    pub fn abort(&self) {
        if let Some(answering) = &self.answering {
            answering.abort();
        }
    }

    fn end(&mut self) {
        self.is_ended = true;
        if let Some(waker) = self.waits_for_body.take() {
            waker.wake();
        }
    }
}

impl Requests {
    pub fn new(memory: &Arc<Memory>) -> Self {
        Requests(Rc::new(Shared {
            connection: RefCell::new(Connection::new(LIMITS)),
            memory: memory.clone(),
            waker: RefCell::default(),
        }))
    }

    pub fn connection(&self) -> RefMut<'_, Connection<State>> {
        self.0.connection.borrow_mut()
    }

    /// The connection's task, which sends what others have to say.
    pub fn wake_by(&self, waker: &Waker) {
        let mut known = self.0.waker.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    /// Something is to be sent.
    pub fn wake(&self) {
        if let Some(waker) = &*self.0.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    pub fn is_congested(&self) -> bool {
        self.connection().is_congested()
    }

    /// Returns whether each one is answered.
    pub fn are_over(&self) -> bool {
        self.connection().is_idle()
    }

    /// The same, of a connection whose client knows that no more are taken.
    pub fn are_drained(&self) -> bool {
        self.connection().is_drained()
    }

    pub fn begin_drain(&self) {
        self.connection().begin_drain();
        self.wake();
    }

    pub fn ping(&self) {
        self.connection().ping();
        self.wake();
    }

    pub fn answered_by(&self, stream: u32, answering: AbortHandle) {
        if let Some(state) = self.connection().state(stream) {
            state.answering = Some(answering);
        }
    }

    /// A piece of a request's body has come. Where there is no room for it the request is over.
    pub fn arrived(&self, stream: u32, bytes: &[u8], is_last: bool) {
        let mut connection = self.connection();
        let Some(state) = connection.state(stream) else {
            return;
        };
        if state.is_ignored {
            connection.consumed(stream, bytes.len());
        } else if !bytes.is_empty() {
            let Ok(mut piece) = self.0.memory.lend_charged(bytes.len()) else {
                if let Some(state) = connection.reset(stream, ErrorCode::EnhanceYourCalm) {
                    state.abort();
                }
                return;
            };
            piece.extend(bytes);
            state.pieces.push_back(piece);
        }
        let Some(state) = connection.state(stream) else {
            return;
        };
        if is_last {
            return state.end();
        }
        if let Some(waker) = state.waits_for_body.take() {
            waker.wake();
        }
    }

    /// The client sends no more: bodies that are not whole will not be.
    pub fn nothing_more_comes(&self) {
        self.connection().states().for_each(State::end);
    }

    /// Lets what has waited go into the output, and wakes who has waited for that.
    pub fn pump(&self) {
        let mut connection = self.connection();
        connection.pump();
        while let Some(stream) = connection.next_with_room() {
            let waiting = connection
                .state(stream)
                .and_then(|state| state.waits_for_room.take());
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }

    /// Waits until a stream's answer, as far as it has come, is in the output.
    pub async fn room(&self, stream: u32) {
        poll_fn(|context| {
            let mut connection = self.connection();
            if connection.has_room(stream) {
                return Poll::Ready(());
            }
            if let Some(state) = connection.state(stream) {
                state.waits_for_room = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Nobody will be answered.
    pub fn forget(&self) {
        self.connection().states().for_each(|state| state.abort());
    }
}

/// The body of a request, while it comes.
pub struct Arriving {
    requests: Requests,
    stream: u32,
    announced_bytes: u64,
}

impl Arriving {
    pub fn new(requests: &Requests, stream: u32, announced_bytes: Option<u64>) -> Self {
        Arriving {
            requests: requests.clone(),
            stream,
            announced_bytes: announced_bytes.unwrap_or_default(),
        }
    }

    /// As its client has said.
    pub fn announced_bytes(&self) -> u64 {
        self.announced_bytes
    }

    /// The next piece; `None` at the end, and where the client has gone.
    pub async fn next(&mut self) -> Option<Lent> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The client may have to be told that it may send more.
    fn consumed(&self, connection: &mut Connection<State>, bytes: usize) {
        let unsent_bytes = connection.output().len();
        connection.consumed(self.stream, bytes);
        if connection.output().len() > unsent_bytes {
            self.requests.wake();
        }
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Lent>> {
        let mut connection = self.requests.connection();
        let Some(state) = connection.state(self.stream) else {
            return Poll::Ready(None);
        };
        let Some(piece) = state.pieces.pop_front() else {
            if state.is_ended {
                return Poll::Ready(None);
            }
            state.waits_for_body = Some(context.waker().clone());
            return Poll::Pending;
        };
        self.consumed(&mut connection, piece.len());
        Poll::Ready(Some(piece))
    }
}

impl Drop for Arriving {
    /// Lets go of the rest, come or not: it would hold memory, and its client's window, for as long as the answer takes.
    fn drop(&mut self) {
        let mut connection = self.requests.connection();
        let Some(state) = connection.state(self.stream) else {
            return;
        };
        state.is_ignored = true;
        let left: usize = state.pieces.drain(..).map(|piece| piece.len()).sum();
        if left > 0 {
            self.consumed(&mut connection, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use helenus_http2::Event;

    use super::*;
    use crate::buffers::Buffers;

    /// Its beginning and a request whose body does not end: `:method: POST`, `:scheme: http`, `:path: /`.
    const BEGUN: &[u8] =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x03\x01\x04\0\0\0\x01\x83\x86\x84";

    /// Bytes that nobody had looked at were in no account.
    #[test]
    fn bytes_that_come_are_charged_until_they_are_taken_and_refused_where_there_is_no_room() {
        const BYTES: usize = 10_000;
        let memory = Memory::beside(0, Buffers::default()).of_connection();
        let all_bytes = memory.free_bytes();
        let requests = Requests::new(&memory);
        let begun = requests
            .connection()
            .next(&mut &*BEGUN)
            .map(|event| event.is_some());
        assert_eq!(begun, Ok(true));
        requests.arrived(1, &[0; BYTES], false);
        assert_eq!(memory.free_bytes(), all_bytes - BYTES);
        drop(
            requests
                .connection()
                .state(1)
                .and_then(|state| state.pieces.pop_front()),
        );
        assert_eq!(memory.free_bytes(), all_bytes);
        let _others = memory.take(all_bytes - BYTES + 1).unwrap();
        requests.arrived(1, &[0; BYTES], false);
        assert!(
            requests.are_over(),
            "the request goes on without some of its bytes"
        );
        let gone = requests.connection().next(&mut &b"\0\0\x01\0\0\0\0\0\x01x"[..]);
        assert!(matches!(gone, Ok(None::<Event<'_, State>>)));
    }
}
