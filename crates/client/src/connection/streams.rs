//! The streams of a connection: who waits for which answer.

use std::task::{Context, Poll, Waker};

use crate::response::Response;

/// The protocol's stream ids are i16, and negative ones are the server's.
pub(super) const STREAMS_MAX: usize = 32_768;

/// Slots by stream id; grows with use, up to [`STREAMS_MAX`].
#[derive(Debug)]
pub(super) struct StreamTable {
    slots: Vec<Slot>,
    free: Vec<u16>,
    unanswered: usize,
    abandoned: usize,
}

#[derive(Debug)]
enum Slot {
    Free,
    /// Written with the write of this number; the caller sleeps.
    Waiting {
        batch: u64,
        waker: Option<Waker>,
    },
    Answered(Response),
    Lost {
        may_have_run: bool,
    },
    /// The caller gave up; the answer is still to come.
    Abandoned,
}

impl StreamTable {
    pub fn new() -> Self {
        StreamTable {
            slots: Vec::new(),
            free: Vec::new(),
            unanswered: 0,
            abandoned: 0,
        }
    }

    /// Requests whose answers are still to come, wanted or not.
    pub fn unanswered(&self) -> usize {
        self.unanswered
    }

    pub fn abandoned(&self) -> usize {
        self.abandoned
    }

    /// A free stream for a request that leaves with write number `batch`.
    pub fn take(&mut self, batch: u64) -> Option<u16> {
        let slot = Slot::Waiting { batch, waker: None };
        let stream = match self.free.pop() {
            Some(stream) => {
                self.slots[usize::from(stream)] = slot;
                stream
            }
            None if self.slots.len() < STREAMS_MAX => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        self.unanswered += 1;
        Some(stream)
    }

    /// The request of a stream that was just taken is not written after all.
    pub fn give_back(&mut self, stream: u16) {
        self.unanswered -= 1;
        self.release(stream);
    }

    /// The stream's request is over and nobody waits for its answer.
    fn release(&mut self, stream: u16) {
        self.slots[usize::from(stream)] = Slot::Free;
        self.free.push(stream);
    }

    /// An answer has come. The waker of its caller; an error if nobody asked for it.
    pub fn answer(&mut self, stream: i16, response: Response) -> Result<Option<Waker>, UnknownStream> {
        let unknown = UnknownStream(stream);
        let index = u16::try_from(stream).map_err(|_| unknown)?;
        let slot = self.slots.get_mut(usize::from(index)).ok_or(unknown)?;
        match slot {
            Slot::Waiting { waker, .. } => {
                let waker = waker.take();
                *slot = Slot::Answered(response);
                self.unanswered -= 1;
                Ok(waker)
            }
            Slot::Abandoned => {
                self.abandoned -= 1;
                self.unanswered -= 1;
                self.release(index);
                Ok(None)
            }
            Slot::Free | Slot::Answered(_) | Slot::Lost { .. } => Err(unknown),
        }
    }

    /// Polls the stream's request; frees the stream with the result. The error says whether the request may have run.
    pub fn poll(&mut self, stream: u16, context: &Context<'_>) -> Poll<Result<Response, bool>> {
        match &mut self.slots[usize::from(stream)] {
            Slot::Waiting { waker, .. } => {
                if !waker
                    .as_ref()
                    .is_some_and(|known| known.will_wake(context.waker()))
                {
                    *waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
            slot => match std::mem::replace(slot, Slot::Free) {
                Slot::Answered(response) => {
                    self.release(stream);
                    Poll::Ready(Ok(response))
                }
                Slot::Lost { may_have_run } => {
                    self.release(stream);
                    Poll::Ready(Err(may_have_run))
                }
                Slot::Free | Slot::Waiting { .. } | Slot::Abandoned => {
                    unreachable!("a stream is polled by the exchange that holds it")
                }
            },
        }
    }

    /// The caller has given up. True if the answer is still to come.
    pub fn abandon(&mut self, stream: u16) -> bool {
        let slot = &mut self.slots[usize::from(stream)];
        if let Slot::Waiting { .. } = slot {
            *slot = Slot::Abandoned;
            self.abandoned += 1;
            return true;
        }
        self.release(stream);
        false
    }

    /// The requests of a write that will not take place: whoever waits for them may ask elsewhere.
    pub fn lose_batch(&mut self, unsent: u64) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for slot in &mut self.slots {
            if let Slot::Waiting { batch, waker } = slot
                && *batch == unsent
            {
                wakers.extend(waker.take());
                *slot = Slot::Lost { may_have_run: false };
                self.unanswered -= 1;
            }
        }
        wakers
    }

    /// The connection is gone: everybody who waits is told, and whether the request's write may have been sent.
    pub fn lose_all(&mut self, may_have_run: impl Fn(u64) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        self.unanswered = 0;
        for index in 0..self.slots.len() {
            match &mut self.slots[index] {
                Slot::Waiting { batch, waker } => {
                    wakers.extend(waker.take());
                    let may_have_run = may_have_run(*batch);
                    self.slots[index] = Slot::Lost { may_have_run };
                }
                Slot::Abandoned => {
                    self.abandoned -= 1;
                    self.release(index as u16);
                }
                Slot::Free | Slot::Answered(_) | Slot::Lost { .. } => {}
            }
        }
        wakers
    }
}

/// The server answers on a stream that has no request.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnknownStream(pub i16);

#[cfg(test)]
mod tests {
    use helenus_protocol::frame::EnvelopeFlags;
    use helenus_protocol::{Opcode, ProtocolVersion};

    use super::*;

    fn response() -> Response {
        Response {
            version: ProtocolVersion::V5,
            flags: EnvelopeFlags::NONE,
            opcode: Opcode::Ready,
            body: crate::buffer_pool::BufferPool::new(false).copy_of(&[]),
        }
    }

    /// Symptom: a drained connection stayed open until the server lost patience with it, because its last answer had
    /// not been taken by its caller when the connection's task looked.
    #[test]
    fn an_answer_that_its_caller_has_not_taken_yet_is_not_waited_for() {
        let mut streams = StreamTable::new();
        let stream = streams.take(1).unwrap();
        assert_eq!(streams.unanswered(), 1);
        streams.answer(stream.cast_signed(), response()).unwrap();
        assert_eq!(streams.unanswered(), 0);
        assert!(!streams.abandon(stream));
        assert_eq!(streams.unanswered(), 0);
    }

    #[test]
    fn what_is_lost_given_back_or_answered_late_is_not_waited_for() {
        let mut streams = StreamTable::new();
        let [lost, given_back, late] = [2, 1, 1].map(|batch| streams.take(batch).unwrap());
        streams.give_back(given_back);
        streams.lose_batch(2);
        assert!(streams.abandon(late));
        assert_eq!(streams.unanswered(), 1);
        streams.answer(late.cast_signed(), response()).unwrap();
        assert_eq!(streams.unanswered(), 0);
        assert!(!streams.abandon(lost));
        streams.take(3).unwrap();
        streams.lose_all(|_| true);
        assert_eq!(streams.unanswered(), 0);
    }
}
