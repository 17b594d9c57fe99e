//! Requests of one connection that were taken out of its socket and wait to be begun.
//!
//! Only of clients that did not ask to be told of overload: theirs wait for up to half of a request's time. Left in the
//! kernel's buffers they could only be begun in the order of their arrival, when all of them are late; here they have the order
//! of an [`AgedQueue`]. It is used once something has waited for longer than that order keeps first come first served, so
//! that who is served in time pays nothing for it.

use crate::aged_queue::{AgedQueue, Wait};
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
    /// Queue of the statements that the shard answers at once.
    prompt: AgedQueue<KeptMessage>,
    /// Queue of the statements that wait in another queue of the shard, for the disk or for the turn of long reads: as much
    /// of that as is not under way waits here, where it is cheap to keep and to refuse, and what is answered at once does not
    /// wait behind it.
    queued: AgedQueue<KeptMessage>,
    bytes: usize,
    served: u64,
}

/// One of so many turns is first of what waits in another queue.
const TURNS_OF_QUEUED: u64 = 4;

impl Backlog {
    pub fn is_empty(&self) -> bool {
        self.prompt.is_empty() && self.queued.is_empty()
    }

    /// Returns whether anything may be begun; `may_queue`: whether that may be something the shard would queue.
    pub fn has_next(&self, may_queue: bool) -> bool {
        !self.prompt.is_empty() || (may_queue && !self.queued.is_empty())
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.prompt.len() + self.queued.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= WAITING_MAX
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// `is_queued`: its shard would put it into a queue.
    pub fn keep(&mut self, envelope: &Envelope<'_>, wait: Wait, is_queued: bool, now_ns: u64) {
        let message = KeptMessage {
            header: envelope.header,
            body: envelope.body.into(),
        };
        self.bytes += message.bytes();
        let waiting = if is_queued {
            &mut self.queued
        } else {
            &mut self.prompt
        };
        waiting.push(wait, message, now_ns);
    }

    /// One that was taken out, and is to wait where it would have been put into a queue.
    pub fn put_back(&mut self, wait: Wait, message: KeptMessage, now_ns: u64) {
        self.bytes += message.bytes();
        self.queued.push(wait, message, now_ns);
    }

    /// The one whose turn it is.
    pub fn next(&mut self, may_queue: bool, now_ns: u64) -> Option<(Wait, KeptMessage)> {
        self.served = self.served.wrapping_add(1);
        let is_turn_of_queued = self.prompt.is_empty() || self.served.is_multiple_of(TURNS_OF_QUEUED);
        let (wait, message) = match may_queue && is_turn_of_queued && !self.queued.is_empty() {
            true => self.queued.pop(now_ns)?,
            false => self.prompt.pop(now_ns)?,
        };
        self.bytes -= message.bytes();
        Some((wait, message))
    }

    /// The stream of one whose time to be begun is over.
    pub fn next_late(&mut self, now_ns: u64) -> Option<i16> {
        let message = self
            .prompt
            .pop_late(now_ns)
            .or_else(|| self.queued.pop_late(now_ns))?;
        self.bytes -= message.bytes();
        Some(message.header.stream)
    }

    /// The stream of the one that has waited longest: where there is no memory it goes, as the first that would be late.
    pub fn give_up_oldest(&mut self) -> Option<i16> {
        let received_ns =
            |queue: &AgedQueue<KeptMessage>| queue.oldest().map_or(u64::MAX, |wait| wait.received_ns);
        let waiting = match received_ns(&self.prompt) <= received_ns(&self.queued) {
            true => &mut self.prompt,
            false => &mut self.queued,
        };
        let (_, message) = waiting.pop_oldest()?;
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
        backlog.keep(
            &Envelope { header, body: &body },
            wait,
            stream >= 100,
            received_ns,
        );
    }

    #[test]
    fn what_came_last_is_next_and_what_is_late_is_refused() {
        let mut backlog = Backlog::default();
        (0..3).for_each(|stream| keep(&mut backlog, stream, 0));
        keep(&mut backlog, 7, 990 * MS);
        let next = backlog.next(true, 999 * MS).map(|(wait, message)| {
            (
                wait.received_ns,
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

    #[test]
    fn what_is_answered_at_once_does_not_wait_behind_what_is_queued() {
        let mut backlog = Backlog::default();
        (100..110).for_each(|stream| keep(&mut backlog, stream, 0));
        keep(&mut backlog, 1, 0);
        assert!(backlog.has_next(false));
        let next = backlog
            .next(false, MS)
            .map(|(_, message)| message.envelope().header.stream);
        assert_eq!(next, Some(1));
        assert!(!backlog.has_next(false) && backlog.has_next(true) && backlog.next(false, MS).is_none());
        let next = backlog
            .next(true, MS)
            .map(|(_, message)| message.envelope().header.stream);
        assert_eq!(next, Some(100));
    }
}
