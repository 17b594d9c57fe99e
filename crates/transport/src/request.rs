//! One request on its way through a service.

use std::rc::Rc;

use crate::session::Session;

/// Context of a request: its session, the stream on which the answer is expected, and when the request's time runs from.
pub struct RequestContext<'a, C> {
    /// Session of the connection that it came on, or of whoever asks in its place.
    pub session: &'a Rc<Session<C>>,
    /// The client's number of the request.
    pub stream: i16,
    /// When its bytes came, on the clock of the shard.
    pub received_ns: u64,
    /// When the client wants it to be over at the latest; `u64::MAX` for those that leave that to the service.
    pub latest_ns: u64,
    /// True if its connection keeps it where the service is not to begin it now; see [`TransportContext::put_back`].
    ///
    /// [`TransportContext::put_back`]: crate::TransportContext::put_back
    pub may_be_put_back: bool,
}

impl<C> Clone for RequestContext<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for RequestContext<'_, C> {}
