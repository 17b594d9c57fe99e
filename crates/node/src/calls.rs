//! Work on another shard, and on all of them.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_types::ShardId;
use tokio::sync::oneshot;

use crate::metrics::MetricsSnapshot;
use crate::shard::Shard;

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
        let (mut sender, receiver) = oneshot::channel();
        self.context.mailbox(shard).run(move |shard| {
            let work = work(shard.clone());
            shard.context.spawn(async move {
                let result = tokio::select! {
                    result = work => result,
                    () = sender.closed() => return,
                };
                let _gone = sender.send(result);
            });
        });
        receiver.await.ok()
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

    /// Runs `work` on every shard and returns what each says, in their order; `None` for one that has stopped. All of them are
    /// asked, in their order, before the first is waited for.
    pub(crate) async fn on_all_shards<T: Send + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(&Rc<Shard>) -> T + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        let calls: Vec<_> = self
            .context
            .shards()
            .map(|shard| self.begin_call(shard, work.clone()))
            .collect();
        in_order(calls).await
    }

    /// As [`Shard::on_all_shards`], for work that waits itself.
    pub(crate) async fn on_all_shards_async<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        let calls: Vec<_> = self
            .context
            .shards()
            .map(|shard| self.begin_call_async(shard, work.clone()))
            .collect();
        in_order(calls).await
    }

    /// Runs `work` on these shards, all of them before the first is waited for, and waits for all; the first failure in their
    /// order.
    pub(crate) async fn on_each_of<F: Future<Output = Result<(), CqlError>> + 'static>(
        self: &Rc<Self>,
        shards: impl IntoIterator<Item = ShardId>,
        work: impl FnOnce(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Result<(), CqlError> {
        let calls: Vec<_> = shards
            .into_iter()
            .map(|shard| (shard, self.begin_call_async(shard, work.clone())))
            .collect();
        let mut all = Ok(());
        for (shard, call) in calls {
            let said = call.await;
            all = all.and(said.unwrap_or_else(|_| Err(self.context.no_answer_from(shard))));
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
        match shard == self.context.id {
            true => answer(self),
            false => {
                self.context.mailbox(shard).run(answer);
            }
        }
        receiver
    }

    fn begin_call_async<T: Send + 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let answer = move |shard: &Rc<Shard>| {
            let work = work(shard.clone());
            shard.context.spawn(async move {
                // The caller may have gone with its connection.
                let _gone = sender.send(work.await);
            });
        };
        match shard == self.context.id {
            true => answer(self),
            false => {
                self.context.mailbox(shard).run(answer);
            }
        }
        receiver
    }

    /// What every shard says of itself; a shard that has stopped says nothing.
    pub async fn metrics_snapshots(self: &Rc<Self>) -> Vec<MetricsSnapshot> {
        let snapshots = self.on_all_shards(|shard| shard.metrics_snapshot()).await;
        snapshots.into_iter().flatten().collect()
    }
}

async fn in_order<T>(calls: Vec<oneshot::Receiver<T>>) -> Vec<Option<T>> {
    let mut said = Vec::with_capacity(calls.len());
    for call in calls {
        said.push(call.await.ok());
    }
    said
}
