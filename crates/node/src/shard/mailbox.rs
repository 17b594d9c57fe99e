//! Messages between shards.
//!
//! Each shard has one inbox that any thread may put messages into. The receiving shard takes all that wait in one
//! go; a sender pays for waking it only if it was asleep.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Messages that a delayed inbox hands on together: as many as a shard takes in one turn.
const HANDED_ON_AT_A_TIME_MAX: usize = 256;

pub enum Message {
    /// A read of a partition that the receiver owns.
    Read(Box<ForwardedRead>),
    /// A write to a partition that the receiver owns.
    Write(Box<ForwardedWrite>),
    /// A request of a client in this process.
    Asked(Box<Asked>),
    /// The answer to a `Read` or `Write` of the receiver's.
    Answered { ticket: Ticket, result: ForwardedResult },
    /// Anything rarer: schema, accepted connections, parts of scans, what background threads have finished.
    Run(Work),
}

/// Something to do on the receiver's thread.
pub type Work = Box<dyn FnOnce(&Rc<Shard>) + Send>;

/// The sending side of a shard's inbox.
#[derive(Clone)]
pub struct Mailbox {
    sender: UnboundedSender<Message>,
    /// Memory of the receiver's requests and answers.
    memory: Arc<RequestMemory>,
    requests_waiting: Arc<AtomicUsize>,
}

/// The receiving side; owned by the shard.
pub struct Inbox {
    receiver: UnboundedReceiver<Message>,
    requests_waiting: Arc<AtomicUsize>,
}

/// The inbox holds [`INBOX_REQUESTS_MAX`] requests, or its shard has stopped.
#[derive(Debug)]
pub struct InboxFull;

pub fn mailbox(memory: Arc<RequestMemory>) -> (Mailbox, Inbox) {
    let (sender, receiver) = unbounded_channel();
    let requests_waiting = Arc::new(AtomicUsize::new(0));
    (
        Mailbox {
            sender,
            memory,
            requests_waiting: requests_waiting.clone(),
        },
        Inbox {
            receiver,
            requests_waiting,
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
        match self.sender.send(Message::Asked(asked)) {
            Err(SendError(Message::Asked(asked))) => Err(asked),
            _ => Ok(()),
        }
    }

    fn request(&self, message: Message) -> Result<(), InboxFull> {
        if !self.takes_place() {
            return Err(InboxFull);
        }
        self.sender.send(message).map_err(|_| InboxFull)
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
        let _stopped = self.sender.send(Message::Answered { ticket, result });
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
        if matches!(message, Message::Read(_) | Message::Write(_) | Message::Asked(_)) {
            self.requests_waiting.fetch_add(1, Ordering::Relaxed);
        }
        let _stopped = self.sender.send(message);
    }

    /// Has the shard sync its log, flush its memtables and end. What sends it requests is closed by then.
    pub fn stop_shard(&self) {
        self.run(|shard| shard.stop(Ending::Flush));
    }

    /// Returns whether the shard has stopped.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// False if the shard has stopped.
    pub fn run(&self, work: impl FnOnce(&Rc<Shard>) + Send + 'static) -> bool {
        self.sender.send(Message::Run(Box::new(work))).is_ok()
    }
}

impl Inbox {
    /// Waits for messages and moves all that are there (up to `limit`) to `messages`. False once every sender is gone.
    pub async fn receive(&mut self, messages: &mut Vec<Message>, limit: usize) -> bool {
        let count = self.receiver.recv_many(messages, limit).await;
        let requests = messages
            .iter()
            .filter(|message| matches!(message, Message::Read(_) | Message::Write(_) | Message::Asked(_)))
            .count();
        self.requests_waiting.fetch_sub(requests, Ordering::Relaxed);
        count > 0
    }

    /// Moves messages to another shard's inbox, those that wait together as much later as `delay` says. Closed with it.
    pub async fn hand_on(mut self, to: Mailbox, mut delay: impl FnMut() -> Duration) {
        let mut messages = Vec::new();
        loop {
            let has_some = tokio::select! {
                // In a simulation nothing is left to chance.
                biased;
                () = to.sender.closed() => false,
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
}
