//! Work on another shard, and on all of them.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use helenus_engine::CqlError;
use helenus_types::ShardId;
use tokio::sync::oneshot;

use crate::metrics::MetricsSnapshot;
use crate::panic_boundary::{catch, catch_async};
use crate::shard::Shard;

/// A question to a shard whose answer is outstanding.
pub(crate) struct PendingAnswer<T> {
    asking: Rc<Shard>,
    shard: ShardId,
    call: oneshot::Receiver<Result<T, CqlError>>,
}

impl<T> PendingAnswer<T> {
    pub async fn answer(self) -> Result<T, CqlError> {
        let answer = self.call.await;
        answer.unwrap_or_else(|_| Err(self.asking.context.no_answer_from(self.shard)))
    }
}

impl Shard {
    /// As [`Shard::call_async`], for work that is given up when the caller is no longer there.
    pub(crate) async fn call_while_awaited<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Option<T> {
        if shard == self.context.id {
            return Some(work(self.clone()).await);
        }
        self.begin_call_while_awaited(shard, work).await.ok()
    }

    /// Runs `work` on another shard (or on this one) and waits for what it returns. `None` if that shard has stopped.
    pub async fn call<T: Send + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(&Rc<Shard>) -> T + Send + 'static,
    ) -> Option<T> {
        if shard == self.context.id {
            return Some(work(self));
        }
        self.begin_call(shard, work).await.ok()
    }

    /// As [`Shard::call`], for work that waits itself.
    pub(crate) async fn call_async<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Option<T> {
        if shard == self.context.id {
            return Some(work(self.clone()).await);
        }
        self.begin_call_async(shard, work).await.ok()
    }

    /// As [`Shard::call_async`], for work that may fail: it has failed, too, if that shard has stopped or the work has panicked.
    pub(crate) async fn ask<T: Send + 'static, F: Future<Output = Result<T, CqlError>> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, CqlError> {
        if shard == self.context.id {
            let done = catch_async(work(self.clone())).await;
            return done.unwrap_or_else(|panicked| Err(panicked.error()));
        }
        self.begin_to_ask(shard, work).answer().await
    }

    /// Asks at once; somebody waits for the answer later.
    pub(crate) fn begin_to_ask<T: Send + 'static, F: Future<Output = Result<T, CqlError>> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> PendingAnswer<T> {
        PendingAnswer {
            asking: self.clone(),
            shard,
            call: self.begin_call_async(shard, work),
        }
    }

    /// Does it on this shard to its end, also if nobody waits for it any more.
    pub(crate) async fn to_its_end<T: 'static>(
        self: &Rc<Self>,
        work: impl Future<Output = Result<T, CqlError>> + 'static,
    ) -> Result<T, CqlError> {
        let (sender, receiver) = oneshot::channel();
        self.run_and_send(work, sender);
        receiver
            .await
            .unwrap_or_else(|_| Err(self.context.no_answer_from(self.context.id)))
    }

    /// Has a shard do something that nobody waits for: this one at once, another when it gets the message. False if that shard
    /// has stopped.
    pub(crate) fn tell(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(&Rc<Shard>) + Send + 'static,
    ) -> bool {
        if shard == self.context.id {
            work(self);
            return true;
        }
        self.context.mailbox(shard).run(work)
    }

    /// Runs `work` on every shard and returns what each says, in their order; `None` for one that has stopped. All of them are
    /// asked, in their order, before the first is waited for.
    pub(crate) async fn on_all_shards<T: Send + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(&Rc<Shard>) -> T + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        self.all_of(|shard| self.begin_call(shard, work.clone())).await
    }

    /// As [`Shard::on_all_shards`], for work that waits itself.
    pub(crate) async fn on_all_shards_async<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        self.all_of(|shard| self.begin_call_async(shard, work.clone()))
            .await
    }

    /// As [`Shard::on_all_shards_async`], for work that is given up when the caller is no longer there.
    pub(crate) async fn on_all_shards_while_awaited<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        self.all_of(|shard| self.begin_call_while_awaited(shard, work.clone()))
            .await
    }

    /// Asks every shard, in their order, before the first answer is waited for.
    async fn all_of<T>(&self, begin: impl Fn(ShardId) -> oneshot::Receiver<T>) -> Vec<Option<T>> {
        let calls: Vec<_> = self.context.shards().map(begin).collect();
        let mut said = Vec::with_capacity(calls.len());
        for call in calls {
            said.push(call.await.ok());
        }
        said
    }

    /// Runs `work` on these shards, all of them before the first is waited for, and waits for all; the first failure in their
    /// order.
    pub(crate) async fn on_each_of<F: Future<Output = Result<(), CqlError>> + 'static>(
        self: &Rc<Self>,
        shards: impl IntoIterator<Item = ShardId>,
        work: impl FnOnce(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Result<(), CqlError> {
        let shards = shards.into_iter().map(|shard| (shard, ()));
        let done = self.on_each_with(shards, |shard, ()| work(shard)).await;
        done.map(|_of_each: Vec<()>| ())
    }

    /// As [`Shard::on_each_of`], each shard with a part of its own; what they say, in their order.
    pub(crate) async fn on_each_with<
        P: Send + 'static,
        T: Send + 'static,
        F: Future<Output = Result<T, CqlError>> + 'static,
    >(
        self: &Rc<Self>,
        parts: impl IntoIterator<Item = (ShardId, P)>,
        work: impl FnOnce(Rc<Shard>, P) -> F + Clone + Send + 'static,
    ) -> Result<Vec<T>, CqlError> {
        let asked: Vec<PendingAnswer<T>> = parts
            .into_iter()
            .map(|(shard, part)| {
                let work = work.clone();
                self.begin_to_ask(shard, move |shard| work(shard, part))
            })
            .collect();
        let mut all = Ok(Vec::with_capacity(asked.len()));
        for asked in asked {
            let said = asked.answer().await;
            all = all.and_then(|mut all| {
                all.push(said?);
                Ok(all)
            });
        }
        all
    }

    /// The answer of a shard that is asked at once; its end says that the shard has stopped.
    fn begin_call<T: Send + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(&Rc<Shard>) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        // The caller may have gone with its connection.
        let answer = move |shard: &Rc<Shard>| {
            let _gone = sender.send(work(shard));
        };
        self.tell(shard, answer);
        receiver
    }

    /// As [`Shard::begin_call`], for work that waits itself.
    fn begin_call_async<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let answer = move |shard: &Rc<Shard>| shard.run_and_send(work(shard.clone()), sender);
        self.tell(shard, answer);
        receiver
    }

    /// As [`Shard::begin_call_async`], for work that is given up when nobody waits for its answer any more.
    fn begin_call_while_awaited<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (mut sender, receiver) = oneshot::channel();
        let answer = move |shard: &Rc<Shard>| {
            let mut work: Pin<Box<dyn Future<Output = T>>> = Box::pin(work(shard.clone()));
            shard.context.spawn(async move {
                let result = tokio::select! {
                    result = work.as_mut() => result,
                    () = sender.closed() => return,
                };
                let _gone = sender.send(result);
            });
        };
        self.tell(shard, answer);
        receiver
    }

    /// As a task only where it has to wait: most have nothing to wait for, and a task costs more than they do. If it panics, the
    /// sender is dropped.
    fn run_and_send<T: 'static>(&self, work: impl Future<Output = T> + 'static, sender: oneshot::Sender<T>) {
        self.run_boxed_and_send(Box::pin(work), sender);
    }

    fn run_boxed_and_send<T: 'static>(
        &self,
        mut work: Pin<Box<dyn Future<Output = T>>>,
        sender: oneshot::Sender<T>,
    ) {
        // Nobody needs to wake what its task polls again.
        let at_once = catch(|| work.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        match at_once {
            Ok(Poll::Ready(result)) => {
                // The caller may have gone with its connection.
                let _gone = sender.send(result);
            }
            Ok(Poll::Pending) => self.context.spawn(async move {
                let _gone = sender.send(work.await);
            }),
            Err(_reported) => {}
        }
    }

    /// Collects every shard's metrics; a stopped shard contributes nothing.
    pub async fn metrics_snapshots(self: &Rc<Self>) -> Vec<MetricsSnapshot> {
        let snapshots = self.on_all_shards(|shard| shard.metrics_snapshot()).await;
        snapshots.into_iter().flatten().collect()
    }
}
