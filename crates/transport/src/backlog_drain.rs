//! A connection after it was left unread: what comes from it was sent long ago, until it has caught up.
//!
//! The kernel's buffers on both sides are full, and the client has a queue of its own behind them. What has been sent lately is known by
//! its stream: a client gives a request the stream of another only once it has the answer to that one, so that what comes on a
//! stream for the second time, and all behind it, was sent after the first time.
//!
//! Of a client that takes its streams in turns that is seen late. It has caught up as well when its socket is nearly empty: not at the first
//! look, for the client's kernel fills it again, and then the client does, with what it held back. Where segments were dropped that
//! says nothing at first: small ones take many times their bytes of a receive buffer, so that a full one has no room for what its
//! window had promised to take. The client's kernel sends it again when its timer says so (RFC 6298; Linux' after 200 ms, 600 ms and
//! so on), and slowly to begin with.

/// Bytes that one look at the socket finds, at most, of a client that has caught up: a quarter of what the kernel holds for
/// us (`dispatcher::RECEIVE_BUFFER_BYTES`). Whoever has more behind it fills at least half.
const CAUGHT_UP_BYTES_MAX: usize = 32 * 1024;

/// A client that was held back needs so long, at least, to get rid of what waits in itself: refused at once, its queue
/// is gone after a few round trips, if its threads have the processor.
const DRAIN_NS_MIN: u64 = 20_000_000;

/// The same where something was dropped and has come: its kernel begins with one segment, and is told of it after up to 40 ms.
const SLOW_DRAIN_NS_MIN: u64 = 100_000_000;

/// Longest time until all that was sent in a pause has come: a pause lasts a second, and a timer that was doubled in it goes off within
/// another one.
const QUIET_NS_MAX: u64 = 2_000_000_000;

/// Looks that find little until a client has caught up: after the first one its kernel is rid of what it held, after the
/// second one the client itself.
const LOOKS: u32 = 2;

/// Age up to which requests are as young as those of a client that was not held back.
const CAUGHT_UP_NS_MAX: u64 = 5_000_000;

/// Streams of a connection (native protocol v3 and later, section 2.2).
const STREAMS: usize = 32_768;

/// One of as many as are in the read rotation.
#[derive(Debug)]
pub struct BacklogDrain {
    /// When the connection was read again, or what had been dropped has come.
    resumed_ns: u64,
    /// Time from there until an empty socket counts.
    drain_ns_min: u64,
    /// Some of what was sent in the pause was dropped and has not come again.
    is_incomplete: bool,
    /// The socket was seen empty: what comes then is behind what it held at the end of the pause.
    was_empty: bool,
    /// When the socket was last looked at, if that found little and emptied it.
    emptied_ns: Option<u64>,
    /// So many looks have found little.
    looks: u32,
    /// A bit for each stream on which a request has come after `since_ns`.
    received: Box<[u64; STREAMS / 64]>,
    since_ns: u64,
    /// All that is still to come was sent after this.
    sent_after_ns: Option<u64>,
}

impl BacklogDrain {
    /// `is_incomplete`: the kernel has dropped some of what was sent before.
    pub fn new(now_ns: u64, is_incomplete: bool) -> Self {
        BacklogDrain {
            resumed_ns: now_ns,
            drain_ns_min: DRAIN_NS_MIN,
            is_incomplete,
            was_empty: false,
            emptied_ns: None,
            looks: 0,
            received: Box::new([0; STREAMS / 64]),
            since_ns: now_ns,
            sent_after_ns: None,
        }
    }

    /// Bytes that it holds.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.received)
    }

    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Returns whether nothing is known to have been sent since: refusing what comes is what the pause cost, and says nothing of how many
    /// connections are read.
    pub fn is_of_the_pause(&self) -> bool {
        self.sent_after_ns.is_none()
    }

    /// Before a look at the socket. If the client has caught up: since when what is there has been sent.
    pub fn over_since(&self, now_ns: u64) -> Option<u64> {
        let recent = |sent_after_ns: &u64| now_ns.saturating_sub(*sent_after_ns) <= CAUGHT_UP_NS_MAX;
        let sent_after_ns = self.sent_after_ns.filter(recent);
        let passed_ns = now_ns.saturating_sub(self.resumed_ns);
        let has_caught_up = !self.is_incomplete && passed_ns >= self.drain_ns_min && self.looks >= LOOKS;
        let emptied_ns = self
            .emptied_ns
            .filter(|_| has_caught_up || passed_ns >= QUIET_NS_MAX);
        sent_after_ns.max(emptied_ns)
    }

    /// A look at the socket has found `bytes`.
    pub fn looked(&mut self, now_ns: u64, bytes: usize, is_empty: bool) {
        if self.is_incomplete && self.was_empty && bytes > 0 {
            self.is_incomplete = false;
            (self.resumed_ns, self.drain_ns_min) = (now_ns, SLOW_DRAIN_NS_MIN);
        }
        self.was_empty |= is_empty;
        self.emptied_ns = (is_empty && bytes <= CAUGHT_UP_BYTES_MAX).then_some(now_ns);
        self.looks = if self.emptied_ns.is_some() {
            self.looks + 1
        } else {
            0
        };
    }

    /// A request has come on `stream`. After what it and all behind it were sent, if that is known.
    pub fn received(&mut self, now_ns: u64, stream: i16) -> Option<u64> {
        let stream = stream.unsigned_abs() as usize % STREAMS;
        let (word, bit) = (&mut self.received[stream / 64], 1 << (stream % 64));
        if *word & bit == 0 {
            *word |= bit;
        } else if self.since_ns < now_ns {
            self.received.fill(0);
            self.received[stream / 64] = bit;
            self.sent_after_ns = Some(std::mem::replace(&mut self.since_ns, now_ns));
        }
        self.sent_after_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_client_has_caught_up_when_its_socket_was_nearly_empty_some_time_after_it_was_read_again() {
        let mut drain = BacklogDrain::new(100 * MS, false);
        assert_eq!(drain.over_since(120 * MS), None);
        drain.looked(120 * MS, 100_000, true);
        assert_eq!(drain.over_since(121 * MS), None);
        drain.looked(121 * MS, 1_000, true);
        // The client has heard of it now, and sends what it held back.
        assert_eq!(drain.over_since(122 * MS), None);
        drain.looked(122 * MS, 1_000, true);
        assert_eq!(drain.over_since(123 * MS), Some(122 * MS));
        // At once after the pause the client's own queue is still to come.
        let mut drain = BacklogDrain::new(100 * MS, false);
        drain.looked(101 * MS, 1_000, true);
        drain.looked(102 * MS, 1_000, true);
        assert_eq!(drain.over_since(119 * MS), None);
        assert_eq!(drain.over_since(120 * MS), Some(102 * MS));
    }

    /// At five times what can be served, one answer in thirty came 0.9 s late: a socket that was full had dropped segments, nothing came for
    /// 400 ms, the client passed for one that had caught up, and then its 32,768 requests for new ones.
    #[test]
    fn an_empty_socket_says_nothing_where_segments_were_dropped_until_they_have_come() {
        let mut drain = BacklogDrain::new(100 * MS, true);
        drain.looked(101 * MS, 100_000, true);
        for ms in [102, 103, 120, 500] {
            drain.looked(ms * MS, 0, true);
            assert_eq!(drain.over_since(ms * MS), None, "{ms}");
        }
        // One segment, and the next ones once that is known to have come.
        for ms in [510, 551, 609] {
            drain.looked(ms * MS, 1_000, true);
            assert_eq!(drain.over_since(ms * MS), None, "{ms}");
        }
        drain.looked(610 * MS, 1_000, true);
        assert_eq!(drain.over_since(611 * MS), Some(610 * MS));
    }

    /// Its next request, minutes later, passed for one of the pause.
    #[test]
    fn a_client_that_has_sent_nothing_for_long_has_nothing_that_waits() {
        for has_dropped in [false, true] {
            let mut drain = BacklogDrain::new(100 * MS, has_dropped);
            drain.looked(101 * MS, 1_000, true);
            assert_eq!(drain.over_since(2_099 * MS), None);
            assert_eq!(drain.over_since(2_100 * MS), Some(101 * MS));
        }
    }

    #[test]
    fn what_comes_on_a_stream_for_the_second_time_was_sent_after_the_first() {
        let mut drain = BacklogDrain::new(100 * MS, true);
        assert_eq!(drain.received(101 * MS, 7), None);
        assert_eq!(drain.received(120 * MS, 32_767), None);
        assert!(drain.is_of_the_pause());
        assert_eq!(drain.received(121 * MS, 7), Some(100 * MS));
        assert!(!drain.is_of_the_pause());
        // What is behind it as well, but that was 21 ms ago.
        assert_eq!(drain.received(121 * MS, 8), Some(100 * MS));
        assert_eq!(drain.over_since(121 * MS), None);
        assert_eq!(drain.received(122 * MS, 32_767), Some(100 * MS));
        assert_eq!(drain.received(123 * MS, 7), Some(121 * MS));
        assert_eq!(drain.over_since(126 * MS), Some(121 * MS));
        assert_eq!(drain.over_since(127 * MS), None);
    }

    /// A client that always has more to send than the socket holds is not refused for ever.
    #[test]
    fn what_comes_behind_as_many_requests_as_there_are_streams_was_sent_after_the_pause() {
        let mut drain = BacklogDrain::new(100 * MS, true);
        for stream in 0..=i16::MAX {
            assert_eq!(drain.received(101 * MS, stream), None);
        }
        assert_eq!(drain.received(102 * MS, 0), Some(100 * MS));
    }
}
