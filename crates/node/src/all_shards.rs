//! Asking all shards at once.

use std::rc::Rc;

use tokio::sync::oneshot;

use crate::metrics::MetricsSnapshot;
use crate::shard::Shard;

impl Shard {
    /// Runs `work` on every shard and returns what each says, in their order; `None` for one that has stopped. All of them are
    /// asked, in their order, before the first is waited for.
    pub(crate) async fn on_all_shards<T: Send + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(&Rc<Shard>) -> T + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        let mut answers = Vec::new();
        for shard in self.shards() {
            let (sender, receiver) = oneshot::channel();
            let work = work.clone();
            // The caller may have gone with its connection.
            let answer = move |shard: &Rc<Shard>| {
                let _gone = sender.send(work(shard));
            };
            match shard == self.id {
                true => answer(self),
                false => {
                    self.mailbox(shard).run(answer);
                }
            }
            answers.push(receiver);
        }
        let mut said = Vec::with_capacity(answers.len());
        for answer in answers {
            said.push(answer.await.ok());
        }
        said
    }
    /// What every shard says of itself; a shard that has stopped says nothing.
    pub async fn metrics_snapshots(self: &Rc<Self>) -> Vec<MetricsSnapshot> {
        let snapshots = self.on_all_shards(|shard| shard.metrics_snapshot()).await;
        snapshots.into_iter().flatten().collect()
    }
}
