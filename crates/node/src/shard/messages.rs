//! How a shard takes its messages: those of others who have begun something before its connections bring anything new.
//!
//! A connection's turn sends half of what it begins to other shards, or more, and what they have begun comes here meanwhile. In a turn of its own
//! among those of the connections, the inbox had a seventeenth of the shard's time and half of its work: it grew to its bound, and all that
//! crossed was late at twice the load. So it is looked at before each turn, and what it takes is taken off the turns.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::Shard;
use super::mailbox::{Inbox, Message};
use crate::forward::{ForwardedResult, Ticket, Waiting};
use crate::panic_boundary::catch;
use crate::session::Session;

/// Messages taken from a queue of the inbox between two looks at the sockets: enough to amortise the look, few enough that a
/// burst of messages does not starve the shard's own connections.
const MESSAGES_PER_TURN_MAX: usize = 256;

/// Messages between two looks at the clock: some 50 us.
const MESSAGES_PER_LOOK: usize = 32;

/// Time for what was begun elsewhere, in turns of a connection, before each of them: where it needs more, as on the owner
/// of a partition that everybody asks for, a quarter of the time is still the connections'.
const TIMES_OF_TURN: u64 = 3;

/// How often answers that came are sent beside the turns of their connections: each takes a system call more, and where every turn did
/// so a shard at its limit was over it.
const SENT_EVERY_NS: u64 = 1_000_000;

/// A shard's inbox, and whether it is still looked at.
pub(super) struct Messages {
    inbox: RefCell<Inbox>,
    /// Empty between two turns.
    taken: RefCell<Vec<Message>>,
    has_ended: Cell<bool>,
    /// The longest that one of the requests that came together had waited since it came to its connection.
    delay_ns_max: Cell<u64>,
    /// Sessions with answers that came since any were sent here.
    answered: RefCell<Vec<Rc<Session>>>,
    sent_ns: Cell<u64>,
}

fn requests_in(messages: &[Message]) -> u64 {
    messages.iter().filter(|message| message.is_request()).count() as u64
}

impl Messages {
    pub fn of(inbox: Inbox) -> Self {
        Messages {
            inbox: RefCell::new(inbox),
            taken: RefCell::default(),
            has_ended: Cell::new(false),
            delay_ns_max: Cell::new(0),
            answered: RefCell::default(),
            sent_ns: Cell::new(0),
        }
    }

    fn note_answered(&self, session: Rc<Session>) {
        let answered = &mut *self.answered.borrow_mut();
        if !answered.last().is_some_and(|last| Rc::ptr_eq(last, &session)) {
            answered.push(session);
        }
    }

    /// Sends answers now and then. In the turns of their connections they would wait for up to a round, after the round in which the
    /// request has waited.
    fn send_answers(&self, now_ns: u64) {
        if now_ns.saturating_sub(self.sent_ns.get()) >= SENT_EVERY_NS {
            self.sent_ns.set(now_ns);
            self.send_all_answers();
        }
    }

    fn send_all_answers(&self) {
        for session in self.answered.borrow_mut().drain(..) {
            session.outbox().send_now();
        }
    }

    /// Ends [`Shard::serve_messages`], whoever calls.
    pub fn end(&self) {
        self.has_ended.set(true);
        self.inbox.borrow().wake();
    }
}

impl Shard {
    /// Serves messages until the shard is stopped.
    pub(super) async fn serve_messages(self: &Rc<Self>) {
        let mut messages = Vec::with_capacity(MESSAGES_PER_TURN_MAX);
        loop {
            let are_there = poll_fn(|context| match self.messages.has_ended.get() {
                true => Poll::Ready(false),
                false => {
                    let mut inbox = self.messages.inbox.borrow_mut();
                    inbox.poll_receive(context, &mut messages, MESSAGES_PER_TURN_MAX)
                }
            });
            if !are_there.await {
                break;
            }
            let now_ns = self.context.look_at_clock();
            let requests = requests_in(&messages);
            self.serve(&mut messages);
            let took_ns = self.context.look_at_clock().saturating_sub(now_ns);
            self.messages.inbox.borrow().served(requests, took_ns);
            self.saw_delays(now_ns);
            self.messages.send_all_answers();
            self.end_turn_of_asked();
        }
        // Who waits for an answer to what was not taken, or sends anything more, is told by that: the shard may be kept for long.
        let ended = self.messages.inbox.replace(Inbox::ended());
        drop(ended);
    }

    /// Serves what others have begun and is there, before the shard begins anything new.
    #[inline]
    pub(crate) fn serve_begun(self: &Rc<Self>) {
        if self.messages.inbox.borrow().has_begun() {
            self.serve_begun_now();
        }
    }

    #[inline(never)]
    fn serve_begun_now(self: &Rc<Self>) {
        let admission = &self.context.transport.admission;
        let began_ns = self.context.look_at_clock();
        let time_ns = admission.turn_ns().saturating_mul(TIMES_OF_TURN);
        let mut messages = self.messages.taken.take();
        let (mut took_ns, mut requests) = (0, 0);
        while took_ns < time_ns {
            self.messages
                .inbox
                .borrow_mut()
                .take_begun(&mut messages, MESSAGES_PER_LOOK);
            if messages.is_empty() {
                break;
            }
            requests += requests_in(&messages);
            self.serve(&mut messages);
            took_ns = self.context.look_at_clock().saturating_sub(began_ns);
        }
        self.messages.taken.replace(messages);
        self.messages.send_answers(self.context.last_looked_ns());
        admission.served_others(took_ns);
        self.messages.inbox.borrow().served(requests, took_ns);
        self.saw_delays(began_ns);
    }

    /// Returns whether a request that was sent here has waited longer than its client, who asked to be told of overload, may be kept
    /// waiting: since it came to its connection, whatever for.
    pub(crate) fn forwarded_too_late(&self, received_ns: u64, throws_on_overload: bool) -> bool {
        let delay_ns = self.context.last_looked_ns().saturating_sub(received_ns);
        let delay_ns_max = &self.messages.delay_ns_max;
        delay_ns_max.set(delay_ns_max.get().max(delay_ns));
        throws_on_overload && delay_ns > self.sent_delay_ns_max()
    }

    /// Passes the answer of another shard on to who asked.
    fn forward_answered(&self, ticket: Ticket, result: ForwardedResult) {
        if let Some(Waiting { session, stream, .. }) = self.forwards.borrow_mut().remove(ticket) {
            self.context.answer_read(&session, stream, result);
            self.messages.note_answered(session);
        }
    }

    fn saw_delays(&self, now_ns: u64) {
        let delay_ns = self.messages.delay_ns_max.take();
        if delay_ns > 0 {
            self.context.transport.admission.saw_delay(delay_ns, now_ns);
        }
    }

    fn serve(self: &Rc<Self>, messages: &mut Vec<Message>) {
        for message in messages.drain(..) {
            self.context.stalls.watch("a message", || match message {
                // These two answer the sender themselves where they panic.
                Message::Read(read) => self.read_forwarded(*read),
                Message::Write(write) => self.write_forwarded(*write),
                // Dropping the request tells its caller.
                Message::Asked(asked) => {
                    let _reported = catch(|| self.asked(*asked));
                }
                Message::Answered { ticket, result } => self.forward_answered(ticket, result),
                Message::Run(work) | Message::RunBehindAsked(work) => {
                    // Dropping the work has told whoever waits for it; see `no_answer_from`.
                    let _reported = catch(|| work(self));
                }
            });
        }
    }
}
