//! A connection after it was left unread: what comes from it was sent long ago, until it has caught up.
//!
//! The kernel's buffers on both sides are full, and the client has a queue of its own behind them. Seeing the socket
//! empty says little: the client's kernel fills it again, and then the client does, with what it held back.

/// Bytes that one look at the socket finds, at most, of a client that has caught up: a quarter of what the kernel holds for
/// us (`dispatcher::RECEIVE_BUFFER_BYTES`). Whoever has more behind it fills at least half.
const CAUGHT_UP_BYTES_MAX: usize = 32 * 1024;

/// A client that was held back needs so long, at least, to get rid of what waits in itself: refused at once, its queue
/// is gone after a few round trips.
const DRAIN_NS_MIN: u64 = 5_000_000;

/// Looks that find little until a client has caught up: after the first one its kernel is rid of what it held, after the
/// second one the client itself.
const LOOKS: u32 = 2;

/// A client has so many streams; what it sends beyond that it sends after it had an answer.
const STREAMS: u64 = 32_768;

#[derive(Clone, Copy, Debug)]
pub struct BacklogDrain {
    resumed_ns: u64,
    /// When the socket was last looked at, if that found little and emptied it.
    emptied_ns: Option<u64>,
    /// So many looks have found little.
    looks: u32,
    /// Requests handled since it was read again.
    requests: u64,
}

impl BacklogDrain {
    pub fn new(now_ns: u64) -> Self {
        BacklogDrain {
            resumed_ns: now_ns,
            emptied_ns: None,
            looks: 0,
            requests: 0,
        }
    }

    /// Before a look at the socket. If the client has caught up: since when what is there has been sent.
    pub fn over_since(&self, now_ns: u64) -> Option<u64> {
        let is_over = self.looks >= LOOKS && now_ns.saturating_sub(self.resumed_ns) >= DRAIN_NS_MIN;
        self.emptied_ns.filter(|_| is_over)
    }

    /// A look at the socket has found `bytes`.
    pub fn looked(&mut self, now_ns: u64, bytes: usize, is_empty: bool) {
        self.emptied_ns = (is_empty && bytes <= CAUGHT_UP_BYTES_MAX).then_some(now_ns);
        self.looks = if self.emptied_ns.is_some() {
            self.looks + 1
        } else {
            0
        };
    }

    /// More requests were handled. If that is more than were under way when the connection was read again: since when
    /// what is still to come has been sent.
    pub fn handled(&mut self, now_ns: u64, requests: u64) -> Option<u64> {
        self.requests += requests;
        if self.requests <= STREAMS {
            return None;
        }
        self.requests = 0;
        Some(std::mem::replace(&mut self.resumed_ns, now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_client_has_caught_up_when_its_socket_was_nearly_empty_some_time_after_it_was_read_again() {
        let mut drain = BacklogDrain::new(100 * MS);
        assert_eq!(drain.over_since(120 * MS), None);
        drain.looked(120 * MS, 100_000, true);
        assert_eq!(drain.over_since(121 * MS), None);
        drain.looked(121 * MS, 1_000, true);
        // The client has heard of it now, and sends what it held back.
        assert_eq!(drain.over_since(122 * MS), None);
        drain.looked(122 * MS, 1_000, true);
        assert_eq!(drain.over_since(123 * MS), Some(122 * MS));
        // At once after the pause the client's own queue is still to come.
        let mut drain = BacklogDrain::new(100 * MS);
        drain.looked(101 * MS, 1_000, true);
        drain.looked(102 * MS, 1_000, true);
        assert_eq!(drain.over_since(103 * MS), None);
        assert_eq!(drain.over_since(105 * MS), Some(102 * MS));
    }

    /// A client that always has more to send than the socket holds is not refused for ever.
    #[test]
    fn what_comes_behind_as_many_requests_as_there_are_streams_was_sent_after_the_pause() {
        let mut drain = BacklogDrain::new(100 * MS);
        assert_eq!(drain.handled(101 * MS, 30_000), None);
        assert_eq!(drain.handled(102 * MS, 3_000), Some(100 * MS));
        assert_eq!(drain.handled(103 * MS, 30_000), None);
        assert_eq!(drain.handled(104 * MS, 3_000), Some(102 * MS));
    }
}
