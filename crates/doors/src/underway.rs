//! Requests of one connection that are not answered to the end.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::body::{Body, Broken};

/// How many there are. Clones count together.
#[derive(Clone, Default)]
pub struct Underway(Rc<Counted>);

#[derive(Default)]
struct Counted {
    count: Cell<usize>,
    /// How many ever began.
    begun: Cell<u64>,
    /// Waker of the task that waits until there are none.
    waiting: RefCell<Option<Waker>>,
}

/// One of them, over when it is dropped.
pub struct Request(Underway);

/// The body of an answer; when it is gone, the request is over.
pub struct Answer {
    body: Body,
    _over_with_it: Request,
}

impl Underway {
    pub fn begin(&self) -> Request {
        let Counted { count, begun, .. } = &*self.0;
        count.set(count.get() + 1);
        begun.set(begun.get() + 1);
        Request(self.clone())
    }

    /// How many ever began.
    pub fn begun(&self) -> u64 {
        self.0.begun.get()
    }

    pub fn is_empty(&self) -> bool {
        self.0.count.get() == 0
    }

    /// Wakes it when there are none any more.
    pub fn wake_when_empty(&self, waker: &Waker) {
        self.0.waiting.replace(Some(waker.clone()));
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Counted { count, waiting, .. } = &*self.0.0;
        count.set(count.get() - 1);
        if count.get() == 0
            && let Some(waker) = waiting.take()
        {
            waker.wake();
        }
    }
}

impl Request {
    /// It is over when this answer has been given to the connection.
    pub fn until_sent(self, answer: Response<Body>) -> Response<Answer> {
        answer.map(|body| Answer {
            body,
            _over_with_it: self,
        })
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
