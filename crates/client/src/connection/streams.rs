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
    in_use: usize,
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
            in_use: 0,
            abandoned: 0,
        }
    }

    pub fn in_use(&self) -> usize {
        self.in_use
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
        self.in_use += 1;
        Some(stream)
    }

    /// The stream's request is over and nobody waits for its answer.
    pub fn release(&mut self, stream: u16) {
        self.slots[usize::from(stream)] = Slot::Free;
        self.free.push(stream);
        self.in_use -= 1;
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
                Ok(waker)
            }
            Slot::Abandoned => {
                self.abandoned -= 1;
                self.release(index);
                Ok(None)
            }
            Slot::Free | Slot::Answered(_) | Slot::Lost { .. } => Err(unknown),
        }
    }

    /// What has become of the stream's request; frees the stream with the result. The error says whether the request may
    /// have run.
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
            }
        }
        wakers
    }

    /// The connection is gone: everybody who waits is told, and whether the request's write may have been sent.
    pub fn lose_all(&mut self, may_have_run: impl Fn(u64) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
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
