//! Requests of one thread that are sent together: whoever wakes a shard for each of them pays for that each time, and the shard, which
//! finds one request whenever it looks, answers them one by one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use helenus_types::ShardId;

use super::answer::Reply;
use super::client::Asked;
use super::door::Door;

thread_local! {
    /// Requests of the thread since they were last sent; `None` where nothing is gathered.
    static GATHERED: RefCell<Option<Gathered>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Gathered {
    /// As many as the thread's clients have places for requests under way.
    asked: Vec<(Arc<Door>, ShardId, Asked)>,
    sender: Option<Waker>,
}

/// From its first poll on, requests that its thread makes of nodes are not sent at once but when it is polled again. It has itself woken
/// for that, so that whatever else was ready on the thread's executor has been asked by then. To be spawned on that executor; once it is
/// dropped, requests go out one by one again.
pub async fn gather_requests() {
    let _sends_the_last = Gathering;
    poll_fn(|context| {
        GATHERED.with_borrow_mut(|gathered| {
            let gathered = gathered.get_or_insert_default();
            gathered.sender = Some(context.waker().clone());
            gathered.asked.drain(..).for_each(send);
        });
        Poll::<()>::Pending
    })
    .await;
}

struct Gathering;

impl Drop for Gathering {
    fn drop(&mut self) {
        let gathered = GATHERED.take().unwrap_or_default();
        gathered.asked.into_iter().for_each(send);
    }
}

/// Sends a request, together with others where they are gathered. Whoever waits for the answer is told if it cannot be sent.
pub(super) fn post(door: &Arc<Door>, shard: ShardId, asked: Asked) {
    let asked = (door.clone(), shard, asked);
    let to_send = GATHERED.with_borrow_mut(|gathered| match gathered {
        None => Some(asked),
        Some(gathered) => {
            gathered.asked.push(asked);
            if let Some(sender) = gathered.sender.take() {
                sender.wake();
            }
            None
        }
    });
    if let Some(asked) = to_send {
        send(asked);
    }
}

fn send((door, shard, asked): (Arc<Door>, ShardId, Asked)) {
    let Some(mailbox) = door.mailboxes.get(usize::from(shard.0)) else {
        return;
    };
    // A shard that has stopped drops the request, which says so.
    if let Err(refused) = mailbox.ask(asked)
        && !mailbox.is_closed()
    {
        let _given_up = refused.answer.send(Reply::overloaded());
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::path::PathBuf;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::handle::{Answer, Handle, RequestError};
    use crate::{Node, NodeOptions};

    async fn asked(handle: Handle) -> Result<Answer, RequestError> {
        handle.query("SELECT key FROM system.local", ()).await
    }

    #[test]
    fn what_is_gathered_is_answered_and_what_is_left_when_gathering_ends_too() {
        let options = NodeOptions {
            in_memory: true,
            shard_count: 1,
            ..NodeOptions::new(PathBuf::new())
        };
        let node = Node::start(options, Arc::new(|_| {})).unwrap();
        let handle = node.handle();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let gathering = spawn_local(gather_requests());
            yield_now().await;
            let many: Vec<_> = (0..100).map(|_| spawn_local(asked(handle.clone()))).collect();
            for one in many {
                one.await.unwrap().unwrap();
            }
            let mut last = Box::pin(asked(handle.clone()));
            let is_asked = poll_fn(|context| Poll::Ready(last.as_mut().poll(context).is_pending()));
            assert!(is_asked.await);
            let waiting =
                GATHERED.with_borrow(|gathered| gathered.as_ref().map(|gathered| gathered.asked.len()));
            assert_eq!(waiting, Some(1));
            gathering.abort();
            last.await.unwrap();
            assert!(GATHERED.with_borrow(Option::is_none));
            asked(handle.clone()).await.unwrap();
        });
        node.stop();
        let stopped = runtime.block_on(asked(handle));
        assert!(matches!(stopped, Err(RequestError::Stopped)), "{stopped:?}");
    }
}
