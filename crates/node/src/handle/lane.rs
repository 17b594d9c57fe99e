//! A client's side of one shard: a connection without a socket.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use hashbrown::HashMap;
use helenus_protocol::Direction;
use helenus_protocol::frame::{ENVELOPE_HEADER_BYTES, EnvelopeHeader};
use helenus_transport::BufferPool;
use helenus_transport::TurnWork;
use tokio::sync::oneshot;

use super::answer::Reply;
use super::client::Client;
use crate::session::Session;

/// Requests of one client that a shard may have begun, those that their callers have given up included: the number of
/// a connection's streams.
const STREAMS_MAX: usize = 1 << 15;

/// Answers that are delivered together: none of them waits for more than so many other requests, some microseconds each.
const ANSWERS_TOGETHER_MAX: usize = 32;

/// Answers up to this length are copied out of the buffer that they were made in, which goes back to the shard.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// The lanes of a shard, by the number of the client. As many as there are clients in this process.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: RefCell<HashMap<u64, Rc<Lane>, foldhash::fast::RandomState>>,
    turn: Cell<Option<AskedTurn>>,
    /// Those with answers that are not delivered yet.
    answered: RefCell<Vec<Rc<Lane>>>,
    answers: Cell<usize>,
}

/// The requests of clients in this process among the messages that a shard has taken together. For admission they are one
/// turn, whosever they are.
#[derive(Clone, Copy)]
pub(crate) struct AskedTurn {
    pub began_ns: u64,
    pub work: TurnWork,
}

impl Lanes {
    pub fn get(&self, client: u64) -> Option<Rc<Lane>> {
        self.lanes.borrow().get(&client).cloned()
    }

    pub fn insert(&self, client: u64, lane: &Rc<Lane>) {
        self.lanes.borrow_mut().insert(client, lane.clone());
    }

    /// The client has gone.
    pub fn close(&self, client: u64) {
        let closed = self.lanes.borrow_mut().remove(&client);
        if let Some(lane) = closed {
            lane.is_closed.set(true);
            lane.session.outbox().close();
            lane.session.outbox().wake();
        }
    }

    /// The turn that has begun, or one that begins now.
    pub fn turn(&self, begin: impl FnOnce() -> u64) -> AskedTurn {
        self.turn.get().unwrap_or_else(|| AskedTurn {
            began_ns: begin(),
            work: TurnWork::default(),
        })
    }

    pub fn set_turn(&self, turn: AskedTurn) {
        self.turn.set(Some(turn));
    }

    pub fn take_turn(&self) -> Option<AskedTurn> {
        self.turn.take()
    }

    /// The lane's answers are delivered with others of the turn: whoever waits for them is woken once, and not for each.
    pub fn deliver_later(&self, lane: &Rc<Lane>) {
        if !lane.is_answered.replace(true) {
            self.answered.borrow_mut().push(lane.clone());
        }
        self.answers.set(self.answers.get() + 1);
        if self.answers.get() >= ANSWERS_TOGETHER_MAX || lane.session.outbox().bytes() >= COPIED_BYTES_MAX {
            self.deliver();
        }
    }

    /// Gives callers what there is for them.
    pub fn deliver(&self) {
        self.answers.set(0);
        for lane in self.answered.take() {
            lane.is_answered.set(false);
            lane.deliver();
        }
    }
}

/// Where a shard keeps what one client chose, and who waits for which answer.
pub(crate) struct Lane {
    pub session: Rc<Session>,
    buffers: Rc<BufferPool>,
    asked: RefCell<AskedStreams>,
    /// It is in [`Lanes::answered`].
    is_answered: Cell<bool>,
    is_closed: Cell<bool>,
}

#[derive(Default)]
struct AskedStreams {
    /// By stream.
    answers: Vec<Option<oneshot::Sender<Reply>>>,
    free: Vec<i16>,
}

impl Lane {
    pub fn new(client: &Client, shard: usize, buffers: &Rc<BufferPool>) -> Option<Rc<Lane>> {
        let account = client.accounts.get(shard)?;
        Some(Rc::new(Lane {
            session: Rc::new(Session::of_account(client.state, buffers, account)),
            buffers: buffers.clone(),
            asked: RefCell::default(),
            is_answered: Cell::new(false),
            is_closed: Cell::new(false),
        }))
    }

    /// The stream on which a request is answered; gives `answer` back where there is none left.
    pub fn take_stream(&self, answer: oneshot::Sender<Reply>) -> Result<i16, oneshot::Sender<Reply>> {
        let AskedStreams { answers, free } = &mut *self.asked.borrow_mut();
        if let Some(stream) = free.pop() {
            // Streams are indexes of `answers`.
            if let Some(place) = answers.get_mut(stream as usize) {
                *place = Some(answer);
            }
            return Ok(stream);
        }
        if answers.len() >= STREAMS_MAX {
            return Err(answer);
        }
        answers.push(Some(answer));
        Ok((answers.len() - 1) as i16)
    }

    /// Gives callers what there is for them.
    pub fn deliver(&self) {
        let outbox = self.session.outbox();
        while outbox.has_output() {
            let mut output = Vec::new();
            outbox.take(&mut output);
            self.split(output);
        }
        outbox.charge_connection(0);
    }

    /// `output` is whole envelopes.
    fn split(&self, output: Vec<u8>) {
        let mut rest = &output[..];
        while let Some((head, after)) = rest.split_first_chunk::<ENVELOPE_HEADER_BYTES>() {
            let Ok(header) = EnvelopeHeader::decode(head, Direction::Response) else {
                break;
            };
            let Some((body, next)) = after.split_at_checked(header.body_bytes as usize) else {
                break;
            };
            let is_alone = rest.len() == output.len() && next.is_empty();
            if is_alone && body.len() > COPIED_BYTES_MAX {
                return self.answer_alone(&header, output);
            }
            self.answer(header.stream, || Reply::of(&header, body.to_vec()));
            rest = next;
        }
        self.buffers.give_back(output);
    }

    fn answer_alone(&self, header: &EnvelopeHeader, mut output: Vec<u8>) {
        self.answer(header.stream, || {
            output.drain(..ENVELOPE_HEADER_BYTES);
            Reply::of(header, output)
        });
    }

    fn answer(&self, stream: i16, reply: impl FnOnce() -> Reply) {
        let AskedStreams { answers, free } = &mut *self.asked.borrow_mut();
        let place = answers.get_mut(usize::try_from(stream).unwrap_or(usize::MAX));
        if let Some(answer) = place.and_then(Option::take) {
            free.push(stream);
            if !answer.is_closed() {
                let _given_up = answer.send(reply());
            }
        }
    }

    /// Delivers answers that come later, until the client has gone.
    pub async fn run(self: Rc<Self>) {
        poll_fn(|context| {
            if self.is_closed.get() {
                return Poll::Ready(());
            }
            self.session.outbox().set_waker(context.waker());
            self.deliver();
            Poll::Pending
        })
        .await;
    }
}
