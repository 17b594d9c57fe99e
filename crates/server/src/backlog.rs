//! Requests of one connection that were taken out of its socket and wait to be begun.
//!
//! Only of clients that did not ask to be told of overload: theirs wait for up to half of a request's time. Left in the
//! kernel's buffers they could only be begun in the order of their arrival, when all of them are late; here they have the order
//! of an [`AgedQueue`]. It is used once something has waited for longer than that order keeps first come first served, so
//! that who is served in time pays nothing for it.

use helenus_node::aged_queue::{AgedQueue, Wait};
use helenus_protocol::frame::{Envelope, EnvelopeHeader};

/// Requests that may wait: the number of a connection's streams. Who sends more is not read on.
const WAITING_MAX: usize = 32_768;

/// A whole message, free of the buffer it came in.
#[derive(Debug)]
pub struct KeptMessage {
    header: EnvelopeHeader,
    body: Box<[u8]>,
}

impl KeptMessage {
    pub fn envelope(&self) -> Envelope<'_> {
        Envelope {
            header: self.header,
            body: &self.body,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<(Wait, KeptMessage)>() + self.body.len()
    }
}

/// Charged to the connection's account by its owner.
#[derive(Debug, Default)]
pub struct Backlog {
    waiting: AgedQueue<KeptMessage>,
    bytes: usize,
}

impl Backlog {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn keep(&mut self, envelope: &Envelope<'_>, wait: Wait, now_ns: u64) {
        let message = KeptMessage {
            header: envelope.header,
            body: envelope.body.into(),
        };
        self.bytes += message.bytes();
        self.waiting.push(wait, message, now_ns);
    }

    /// The one whose turn it is, with the time at which it came.
    pub fn next(&mut self, now_ns: u64) -> Option<(u64, KeptMessage)> {
        let (wait, message) = self.waiting.pop(now_ns)?;
        self.bytes -= message.bytes();
        Some((wait.received_ns, message))
    }

    /// The stream of one whose time to be begun is over.
    pub fn next_late(&mut self, now_ns: u64) -> Option<i16> {
        let message = self.waiting.pop_late(now_ns)?;
        self.bytes -= message.bytes();
        Some(message.header.stream)
    }

    /// The stream of the one that has waited longest: where there is no memory it goes, as the first that would be late.
    pub fn give_up_oldest(&mut self) -> Option<i16> {
        let (_, message) = self.waiting.pop_oldest()?;
        self.bytes -= message.bytes();
        Some(message.header.stream)
    }

    pub fn clear(&mut self) {
        *self = Backlog::default();
    }
}

#[cfg(test)]
mod tests {
    use helenus_protocol::frame::EnvelopeFlags;
    use helenus_protocol::{Opcode, ProtocolVersion};

    use super::*;

    const MS: u64 = 1_000_000;

    fn keep(backlog: &mut Backlog, stream: i16, received_ns: u64) {
        let body = [stream as u8; 10];
        let header = EnvelopeHeader {
            version: ProtocolVersion::V4,
            flags: EnvelopeFlags::NONE,
            stream,
            opcode: Opcode::Execute,
            body_bytes: body.len() as u32,
        };
        let wait = Wait {
            received_ns,
            wait_ns_max: 1_000 * MS,
        };
        backlog.keep(&Envelope { header, body: &body }, wait, received_ns);
    }

    #[test]
    fn what_came_last_is_next_and_what_is_late_is_refused() {
        let mut backlog = Backlog::default();
        (0..3).for_each(|stream| keep(&mut backlog, stream, 0));
        keep(&mut backlog, 7, 990 * MS);
        let next = backlog.next(999 * MS).map(|(received_ns, message)| {
            (
                received_ns,
                message.envelope().header.stream,
                message.envelope().body.to_vec(),
            )
        });
        assert_eq!(next, Some((990 * MS, 7, vec![7; 10])));
        assert_eq!(backlog.next_late(1_000 * MS), None);
        let late: Vec<i16> = std::iter::from_fn(|| backlog.next_late(1_001 * MS)).collect();
        assert_eq!(late, [0, 1, 2]);
        assert!(backlog.is_empty() && backlog.bytes() == 0);
    }

    #[test]
    fn it_knows_what_it_holds() {
        let mut backlog = Backlog::default();
        (0..100).for_each(|stream| keep(&mut backlog, stream, 0));
        assert!(backlog.bytes() > 1_000);
        while backlog.give_up_oldest().is_some() {}
        assert_eq!(backlog.bytes(), 0);
    }
}
