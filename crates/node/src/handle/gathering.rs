//! Requests of one thread that are sent together, and their answers, for which it is woken once: whoever wakes another thread for each of
//! them pays for that each time, and the thread that is woken finds one thing to do whenever it looks.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

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
    answered: Arc<Answered>,
}

/// Tasks of the thread whose answers have come.
#[derive(Default)]
struct Answered(Mutex<Woken>);

#[derive(Default)]
struct Woken {
    /// As many as there are requests under way.
    tasks: Vec<Waker>,
    /// Waker of the task that wakes them, on their own thread.
    gathering: Option<Waker>,
}

impl Answered {
    fn woken(&self) -> MutexGuard<'_, Woken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those that have an answer; `gathering` is woken for the next.
    fn wake_all(&self, gathering: &Waker) {
        let tasks = {
            let Woken {
                tasks,
                gathering: known,
            } = &mut *self.woken();
            if !known.as_ref().is_some_and(|known| known.will_wake(gathering)) {
                *known = Some(gathering.clone());
            }
            std::mem::take(tasks)
        };
        tasks.into_iter().for_each(Waker::wake);
    }
}

/// A task that waits for an answer.
struct Waiting {
    task: Waker,
    answered: Arc<Answered>,
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let to_wake = {
            let Woken { tasks, gathering } = &mut *self.answered.woken();
            match gathering {
                Some(gathering) => {
                    tasks.push(self.task.clone());
                    // The first one wakes for all that come until they are woken.
                    (tasks.len() == 1).then(|| gathering.clone())
                }
                None => Some(self.task.clone()),
            }
        };
        if let Some(waker) = to_wake {
            waker.wake();
        }
    }
}

/// Waits for what another thread answers. Where requests are gathered, a thread is woken once for all answers that have come until it looks.
pub(super) async fn answered<T>(answer: impl Future<Output = T>) -> T {
    let together =
        GATHERED.with_borrow(|gathered| gathered.as_ref().map(|gathered| gathered.answered.clone()));
    let Some(together) = together else {
        return answer.await;
    };
    let mut answer = pin!(answer);
    let mut waiting: Option<(Waker, Waker)> = None;
    poll_fn(|context| {
        if !waiting
            .as_ref()
            .is_some_and(|(task, _)| task.will_wake(context.waker()))
        {
            let task = context.waker().clone();
            let one = Waiting {
                task: task.clone(),
                answered: together.clone(),
            };
            waiting = Some((task, Arc::new(one).into()));
        }
        let waker = waiting.as_ref().map_or(context.waker(), |(_, waker)| waker);
        answer.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await
}

/// From its first poll on, requests that its thread makes of nodes are not sent at once but when it is polled again. It has itself woken
/// for that, so that whatever else was ready on the thread's executor has been asked by then; and it wakes those whose answers have come. To
/// be spawned on that executor; once it is dropped, requests go out, and answers come, one by one again.
pub async fn gather_requests() {
    let _sends_the_last = Gathering;
    poll_fn(|context| {
        let answered = GATHERED.with_borrow_mut(|gathered| {
            let gathered = gathered.get_or_insert_default();
            gathered.sender = Some(context.waker().clone());
            gathered.asked.drain(..).for_each(send);
            gathered.answered.clone()
        });
        answered.wake_all(context.waker());
        Poll::<()>::Pending
    })
    .await;
}

struct Gathering;

impl Drop for Gathering {
    fn drop(&mut self) {
        let gathered = GATHERED.take().unwrap_or_default();
        let tasks = {
            let woken = &mut *gathered.answered.woken();
            woken.gathering = None;
            std::mem::take(&mut woken.tasks)
        };
        tasks.into_iter().for_each(Waker::wake);
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::handle::{Answer, Handle, RequestError};
    use crate::{Node, NodeOptions};

    async fn asked(handle: Handle) -> Result<Answer, RequestError> {
        handle.query("SELECT key FROM system.local", ()).await
    }

    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The thread was woken by a system call for each answer.
    #[test]
    fn a_thread_is_woken_once_for_the_answers_that_come_before_it_looks() {
        let counting = || Arc::new(Counting(AtomicUsize::new(0)));
        let (gathering, tasks) = (counting(), [counting(), counting(), counting()]);
        let woken = |counting: &Arc<Counting>| counting.0.load(Ordering::Relaxed);
        let answered = Arc::new(Answered::default());
        answered.wake_all(&gathering.clone().into());
        for round in 1..=2 {
            for task in &tasks {
                let task = task.clone().into();
                Arc::new(Waiting {
                    task,
                    answered: answered.clone(),
                })
                .wake();
            }
            assert_eq!((woken(&gathering), woken(&tasks[2])), (round, round - 1));
            answered.wake_all(&gathering.clone().into());
            assert_eq!(tasks.each_ref().map(woken), [round; 3]);
        }
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
