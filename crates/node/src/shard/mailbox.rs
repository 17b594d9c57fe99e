//! Messages between shards.
//!
//! Each shard has one inbox that any thread may put messages into. The receiving shard takes all that wait in one
//! go; a sender pays for waking it only if it was asleep. What was begun goes before what is new: requests of clients in
//! this process wait in a queue of their own.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use helenus_transport::request_memory::{Account, RequestMemory};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::forward::{ForwardedRead, ForwardedResult, ForwardedWrite, Ticket};
use crate::handle::client::Asked;
use crate::shard::{Ending, Shard};

/// Messages that may wait at one shard. A request beyond it is refused as overload; at 100,000 messages a second this
/// is two thirds of a second's work, more than a caller would wait for.
pub const INBOX_REQUESTS_MAX: usize = 65_536;

/// Time that a request counts for at most, in ns: what takes longer has a queue of its own, and a thread that lost its processor says nothing
/// of its requests.
const REQUEST_NS_MAX: u64 = 30_000;

/// Messages that a delayed inbox hands on together: as many as a shard takes in one turn.
const HANDED_ON_AT_A_TIME_MAX: usize = 256;

pub enum Message {
    /// A read that begins on the receiver.
    Read(Box<ForwardedRead>),
    /// A write to a partition that the receiver owns.
    Write(Box<ForwardedWrite>),
    /// A request of a client in this process.
    Asked(Box<Asked>),
    /// The answer to a `Read` or `Write` of the receiver's.
    Answered { ticket: Ticket, result: ForwardedResult },
    /// Anything rarer: schema, accepted connections, parts of scans, what background threads have finished.
    Run(Work),
    /// The same, behind every `Asked` that was sent before.
    RunBehindAsked(Work),
}

/// Something to do on the receiver's thread.
pub type Work = Box<dyn FnOnce(&Rc<Shard>) + Send>;

/// The sending side of a shard's inbox.
#[derive(Clone)]
pub struct Mailbox {
    begun: UnboundedSender<Message>,
    asked: UnboundedSender<Message>,
    /// Memory of the receiver's requests and answers.
    memory: Arc<RequestMemory>,
    requests_waiting: Arc<AtomicUsize>,
    request_ns: Arc<AtomicU64>,
    long_reads: Arc<LongReadsTold>,
}

/// State of the lanes of a shard's long reads, told to the other shards, so that they need not send what would be refused or late.
#[derive(Debug, Default)]
pub struct LongReadsTold {
    pub(crate) small: LaneTold,
    pub(crate) large: LaneTold,
}

#[derive(Debug, Default)]
pub(crate) struct LaneTold {
    wait_ns: AtomicU64,
    delay_ns_max: AtomicU64,
}

/// The receiving side; owned by the shard.
pub struct Inbox {
    /// Messages of what was begun somewhere: another shard or thread has spent work on it, and somebody waits.
    begun: UnboundedReceiver<Message>,
    /// Requests of clients in this process, which are as new as those in a socket, and what is not to overtake them.
    asked: UnboundedReceiver<Message>,
    requests_waiting: Arc<AtomicUsize>,
    /// Time that the shard takes for one of them; smoothed.
    request_ns: Arc<AtomicU64>,
    /// Waker of the task that waits for messages.
    waiting: Waker,
}

/// The inbox holds [`INBOX_REQUESTS_MAX`] requests, or its shard has stopped.
#[derive(Debug)]
pub struct InboxFull;

pub fn mailbox(memory: Arc<RequestMemory>) -> (Mailbox, Inbox) {
    let (to_begun, begun) = unbounded_channel();
    let (to_asked, asked) = unbounded_channel();
    let requests_waiting = Arc::new(AtomicUsize::new(0));
    let request_ns = Arc::new(AtomicU64::new(0));
    let long_reads = Arc::default();
    (
        Mailbox {
            begun: to_begun,
            asked: to_asked,
            memory,
            requests_waiting: requests_waiting.clone(),
            request_ns: request_ns.clone(),
            long_reads,
        },
        Inbox {
            begun,
            asked,
            requests_waiting,
            request_ns,
            waiting: Waker::noop().clone(),
        },
    )
}

impl Mailbox {
    pub fn read(&self, read: ForwardedRead) -> Result<(), InboxFull> {
        self.request(Message::Read(Box::new(read)))
    }

    pub fn write(&self, write: ForwardedWrite) -> Result<(), InboxFull> {
        self.request(Message::Write(Box::new(write)))
    }

    /// Gives the request back where there is no place for it, or the shard has stopped.
    pub(crate) fn ask(&self, asked: Asked) -> Result<(), Box<Asked>> {
        let asked = Box::new(asked);
        if !self.takes_place() {
            return Err(asked);
        }
        match self.send(Message::Asked(asked)) {
            Err(SendError(Message::Asked(asked))) => Err(asked),
            _ => Ok(()),
        }
    }

    fn request(&self, message: Message) -> Result<(), InboxFull> {
        if !self.takes_place() {
            return Err(InboxFull);
        }
        self.send(message).map_err(|_| InboxFull)
    }

    fn send(&self, message: Message) -> Result<(), SendError<Message>> {
        match message {
            Message::Asked(_) | Message::RunBehindAsked(_) => self.asked.send(message),
            _ => self.begun.send(message),
        }
    }

    pub(crate) fn long_reads(&self) -> &LongReadsTold {
        &self.long_reads
    }

    /// Time that the requests which wait here take at least, in ns: the shard has other things to do as well.
    pub(crate) fn wait_ns(&self) -> u64 {
        let waiting = self.requests_waiting.load(Ordering::Relaxed) as u64;
        waiting * self.request_ns.load(Ordering::Relaxed)
    }

    fn takes_place(&self) -> bool {
        let is_taken = self.requests_waiting.fetch_add(1, Ordering::Relaxed) < INBOX_REQUESTS_MAX;
        if !is_taken {
            self.requests_waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_taken
    }

    /// Answers and control messages are as many as the requests and threads that cause them, so they have no bound
    /// of their own. A message to a shard that has stopped is dropped with it.
    pub fn answered(&self, ticket: Ticket, result: ForwardedResult) {
        let _stopped = self.send(Message::Answered { ticket, result });
    }

    /// Answers a read: from now on its bytes are charged to the account of the client that asked. If that has no room, the
    /// client is told so instead, which the inbox of small answers has room for.
    pub(crate) fn read_answered(&self, ticket: Ticket, account: &Arc<Account>, result: ForwardedResult) {
        let charged = result.and_then(|answer| answer.charged_to(account));
        self.answered(ticket, charged);
    }

    pub(crate) fn memory(&self) -> &Arc<RequestMemory> {
        &self.memory
    }

    /// A message that was within the bound of the inbox that it comes from.
    fn hand_on(&self, message: Message) {
        if message.is_request() {
            self.requests_waiting.fetch_add(1, Ordering::Relaxed);
        }
        let _stopped = self.send(message);
    }

    /// Has the shard end, behind all that was asked. What sends it requests is closed by then.
    pub fn stop_shard(&self, ending: Ending) {
        self.run_behind_asked(move |shard| shard.stop(ending));
    }

    /// Returns whether the shard has stopped.
    pub fn is_closed(&self) -> bool {
        self.begun.is_closed()
    }

    /// False if the shard has stopped.
    pub fn run(&self, work: impl FnOnce(&Rc<Shard>) + Send + 'static) -> bool {
        self.send(Message::Run(Box::new(work))).is_ok()
    }

    /// As [`Mailbox::run`], once all that clients in this process have asked before was begun.
    pub(crate) fn run_behind_asked(&self, work: impl FnOnce(&Rc<Shard>) + Send + 'static) {
        let _stopped = self.send(Message::RunBehindAsked(Box::new(work)));
    }
}

impl LaneTold {
    /// How long one that comes now would wait, and how long one may have waited in all whose client asked to be told of overload.
    pub fn tell(&self, (wait_ns, delay_ns_max): (u64, u64)) {
        self.delay_ns_max.store(delay_ns_max, Ordering::Relaxed);
        self.wait_ns.store(wait_ns, Ordering::Relaxed);
    }

    pub fn wait_ns(&self) -> u64 {
        self.wait_ns.load(Ordering::Relaxed)
    }

    pub fn delay_ns_max(&self) -> u64 {
        self.delay_ns_max.load(Ordering::Relaxed)
    }
}

impl Message {
    pub(super) fn is_request(&self) -> bool {
        matches!(self, Message::Read(_) | Message::Write(_) | Message::Asked(_))
    }
}

impl Inbox {
    /// An inbox that nobody sends anything to.
    pub(super) fn ended() -> Self {
        let (_nobody, inbox) = mailbox(RequestMemory::of_shard(0, false));
        inbox
    }

    /// Waits for messages and moves all that are there to `messages`, up to `limit` of each queue. False once every sender is gone.
    pub async fn receive(&mut self, messages: &mut Vec<Message>, limit: usize) -> bool {
        poll_fn(|context| self.poll_receive(context, messages, limit)).await
    }

    /// As [`Inbox::receive`].
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        messages: &mut Vec<Message>,
        limit: usize,
    ) -> Poll<bool> {
        self.waiting.clone_from(context.waker());
        let begun = self.begun.poll_recv_many(context, messages, limit);
        let asked = self.asked.poll_recv_many(context, messages, limit);
        self.taken(messages);
        match (begun, asked) {
            (Poll::Ready(0), Poll::Ready(0)) => Poll::Ready(false),
            _ if !messages.is_empty() => Poll::Ready(true),
            _ => Poll::Pending,
        }
    }

    /// Moves what was begun and is there now to `messages`, up to `limit`; whoever waits in [`Inbox::receive`] goes on waiting.
    pub(crate) fn take_begun(&mut self, messages: &mut Vec<Message>, limit: usize) {
        let mut context = Context::from_waker(&self.waiting);
        let _none_is_there = self.begun.poll_recv_many(&mut context, messages, limit);
        self.taken(messages);
    }

    /// So many requests have taken so long.
    pub(crate) fn served(&self, requests: u64, took_ns: u64) {
        if let Some(request_ns) = took_ns.checked_div(requests) {
            let known_ns = self.request_ns.load(Ordering::Relaxed);
            let smoothed_ns = (known_ns * 15 + request_ns.min(REQUEST_NS_MAX)).div_ceil(16);
            self.request_ns.store(smoothed_ns, Ordering::Relaxed);
        }
    }

    /// Returns whether something was begun and is there.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Wakes whoever waits in [`Inbox::receive`].
    pub(crate) fn wake(&self) {
        self.waiting.wake_by_ref();
    }

    fn taken(&self, messages: &[Message]) {
        let requests = messages.iter().filter(|message| message.is_request()).count();
        self.requests_waiting.fetch_sub(requests, Ordering::Relaxed);
    }

    /// Moves messages to another shard's inbox, those that wait together as much later as `delay` says. Closed with it.
    pub async fn hand_on(mut self, to: Mailbox, mut delay: impl FnMut() -> Duration) {
        let mut messages = Vec::new();
        loop {
            let has_some = tokio::select! {
                // In a simulation nothing is left to chance.
                biased;
                () = to.begun.closed() => false,
                has_some = self.receive(&mut messages, HANDED_ON_AT_A_TIME_MAX) => has_some,
            };
            if !has_some {
                return;
            }
            let late = delay();
            if !late.is_zero() {
                tokio::time::sleep(late).await;
            }
            for message in messages.drain(..) {
                to.hand_on(message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    /// A wait for the shard to end, as of those who have parts of its write sets, never ended.
    #[test]
    fn a_delayed_inbox_is_closed_when_its_shard_has_ended() {
        let memory = || RequestMemory::of_shard(0, false);
        let (sent_to, delayed) = mailbox(memory());
        let (handed_to, inbox) = mailbox(memory());
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let handing_on = delayed.hand_on(handed_to, || Duration::ZERO);
            let ended = async {
                tokio::task::yield_now().await;
                assert!(!sent_to.is_closed());
                drop(inbox);
            };
            let both = async { tokio::join!(handing_on, ended) };
            tokio::time::timeout(Duration::from_secs(60), both)
                .await
                .expect("it ends with its shard");
        });
        assert!(sent_to.is_closed());
    }

    fn runs(messages: &[Message]) -> Vec<&'static str> {
        let name = |message: &Message| match message {
            Message::Run(_) => "run",
            Message::RunBehindAsked(_) => "behind",
            Message::Answered { .. } => "answered",
            _ => "other",
        };
        messages.iter().map(name).collect()
    }

    /// Requests that other shards had begun stood behind whatever clients in this process asked for.
    #[test]
    fn what_was_begun_is_taken_before_what_is_asked_and_without_waking_who_waits() {
        let (mailbox, mut inbox) = mailbox(RequestMemory::of_shard(0, false));
        mailbox.run_behind_asked(|_| {});
        mailbox.run(|_| {});
        let mut messages = Vec::new();
        inbox.take_begun(&mut messages, 10);
        assert_eq!(runs(&messages), ["run"]);
        assert!(!inbox.has_begun());
        mailbox.run(|_| {});
        messages.clear();
        let mut context = Context::from_waker(Waker::noop());
        let polled = inbox.poll_receive(&mut context, &mut messages, 10);
        assert_eq!(polled, Poll::Ready(true));
        assert_eq!(runs(&messages), ["run", "behind"]);
        messages.clear();
        assert!(inbox.poll_receive(&mut context, &mut messages, 10).is_pending());
    }

    #[test]
    fn a_delayed_inbox_hands_both_kinds_on() {
        let memory = || RequestMemory::of_shard(0, false);
        let (sent_to, delayed) = mailbox(memory());
        let (handed_to, mut inbox) = mailbox(memory());
        sent_to.run_behind_asked(|_| {});
        sent_to.run(|_| {});
        drop(sent_to);
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(delayed.hand_on(handed_to, || Duration::ZERO));
        let mut messages = Vec::new();
        inbox.take_begun(&mut messages, 10);
        assert_eq!(runs(&messages), ["run"]);
        runtime.block_on(inbox.receive(&mut messages, 10));
        assert_eq!(runs(&messages), ["run", "behind"]);
    }

    #[test]
    fn a_sender_knows_how_long_what_waits_will_take() {
        let (mailbox, inbox) = mailbox(RequestMemory::of_shard(0, false));
        mailbox.requests_waiting.store(100, Ordering::Relaxed);
        assert_eq!(mailbox.wait_ns(), 0, "nothing is known yet");
        (0..200).for_each(|_| inbox.served(10, 20_000));
        assert_eq!(mailbox.wait_ns() / 100, 2_000);
        inbox.served(0, 1_000_000);
        assert_eq!(
            mailbox.wait_ns() / 100,
            2_000,
            "other messages say nothing of requests"
        );
        (0..200).for_each(|_| inbox.served(1, u64::MAX));
        assert_eq!(mailbox.wait_ns() / 100, REQUEST_NS_MAX);
    }
}
