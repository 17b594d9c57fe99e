//! One request on its way through a service.

use std::rc::Rc;

use crate::session::Session;

/// Who asked, under which stream the answer is expected, and since when the request's time runs.
pub struct RequestContext<'a, C> {
    /// Of the connection that it came on, or of whoever asks in its place.
    pub session: &'a Rc<Session<C>>,
    /// The client's number of the request.
    pub stream: i16,
    /// When its bytes came, on the clock of the shard.
    pub received_ns: u64,
    /// When the client wants it to be over at the latest; `u64::MAX` for those that leave that to the service.
    pub latest_ns: u64,
}

impl<C> Clone for RequestContext<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for RequestContext<'_, C> {}
