//! Context shared by the connections of one thread, whatever answers them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use helenus_events::Events;
use helenus_vfs::Clock;

use crate::admission::Admission;
use crate::buffer_pool::BufferPool;
use crate::metrics::ConnectionMetrics;
use crate::request_memory::RequestMemory;
use crate::rest::Rest;

/// One thread's clock, admission control, memory and counters.
pub struct TransportContext {
    /// How long requests may wait, and which connections are read.
    pub admission: Admission,
    /// Buffers of requests and answers.
    pub buffers: Rc<BufferPool>,
    /// Memory that connections hold, and that is held for them.
    pub memory: Arc<RequestMemory>,
    /// Counters of connections, and of the errors answered to them.
    pub metrics: ConnectionMetrics,
    /// Listener to which events are reported.
    pub events: Events,
    clock: Arc<dyn Clock>,
    /// See [`TransportContext::look_at_clock`].
    looked_ns: Cell<u64>,
    /// See [`TransportContext::put_back`].
    is_put_back: Cell<bool>,
    rest: Rest,
}

/// Parts of a [`TransportContext`].
pub struct TransportOptions {
    /// True if requests that have waited too long are refused before their time is over.
    pub admission: bool,
    /// Timeout of the requests that have least time.
    pub request_timeout: Duration,
    /// True if buffers are kept for the next request; without, each comes from the allocator.
    pub buffer_pool: bool,
    /// The thread's part of the memory of requests.
    pub memory: Arc<RequestMemory>,
    /// The clock that deadlines run on.
    pub clock: Arc<dyn Clock>,
    /// Listener to which events are reported.
    pub events: Events,
}

impl TransportContext {
    /// `has_slept` is set by the thread's event loop whenever it has.
    pub fn new(options: TransportOptions, has_slept: Arc<AtomicBool>) -> Rc<Self> {
        let TransportOptions {
            admission,
            request_timeout,
            buffer_pool,
            memory,
            clock,
            events,
        } = options;
        let buffers = match buffer_pool {
            true => BufferPool::default(),
            false => BufferPool::keeping_nothing(),
        };
        Rc::new(TransportContext {
            admission: Admission::new(admission, request_timeout, memory.clone(), has_slept),
            buffers: Rc::new(buffers),
            memory,
            metrics: ConnectionMetrics::default(),
            events,
            clock,
            looked_ns: Cell::new(0),
            is_put_back: Cell::new(false),
            rest: Rest::default(),
        })
    }

    /// The clock that deadlines run on.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The request that is being handled, and may be put back, was not begun and has no answer: another thread, which has to do it, has too
    /// much to do. It is kept, and comes again when fewer of its client's are under way.
    pub fn put_back(&self) {
        self.is_put_back.set(true);
    }

    #[inline]
    pub(crate) fn takes_put_back(&self) -> bool {
        self.is_put_back.replace(false)
    }

    /// Looks at the clock once for everything that happens until the next look.
    pub fn look_at_clock(&self) -> u64 {
        let now_ns = self.clock.monotonic_ns();
        self.looked_ns.set(now_ns);
        self.rest.end();
        now_ns
    }

    /// Sleeps for `interval`, as often as a task looks whether there is something to do; longer, up to a quarter of a second, where nobody
    /// has looked at the clock for a second, until somebody does. Returns how long that was at least.
    pub async fn pause(&self, interval: Duration) -> Duration {
        let idle_ns = self.clock.monotonic_ns().saturating_sub(self.looked_ns.get());
        self.rest.pause(interval, idle_ns).await
    }

    /// Clock reading of the last look, at most one turn of a connection old.
    #[inline]
    pub fn last_looked_ns(&self) -> u64 {
        self.looked_ns.get()
    }

    /// Marks where rounds of connections begin while the thread is busy; a task of its own.
    pub async fn mark_rounds(self: Rc<Self>) {
        self.admission.mark_rounds(&*self.clock).await;
    }
}
