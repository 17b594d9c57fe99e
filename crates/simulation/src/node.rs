//! One life of a simulated node: all of its shards on the calling thread.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use helenus_node::{AssembledNode, Ending, Mailbox, NodeOptions, Shard, StartError};
use helenus_storage::store::{CompactionKind, CompactionRequest};
use helenus_test_node::{Answer, Execution, execute_on, execute_prepared_on, prepare_on};
use tokio::task::JoinHandle;

use crate::weather::Weather;

/// Its tasks are the runtime's: a crash is the end of the runtime.
pub struct SimulatedNode {
    shards: Vec<Rc<Shard>>,
    mailboxes: Arc<[Mailbox]>,
    running: Vec<JoinHandle<()>>,
}

/// Time between two looks whether the inbox of a shard that has ended is closed.
const CLOSED_LOOK_INTERVAL: Duration = Duration::from_millis(1);

impl SimulatedNode {
    /// Inside a runtime that runs local tasks.
    pub async fn start(options: NodeOptions, weather: &Arc<Weather>) -> Result<SimulatedNode, StartError> {
        let AssembledNode {
            mailboxes, shards, ..
        } = AssembledNode::open(options)?;
        let started: Rc<RefCell<Vec<Rc<Shard>>>> = Rc::default();
        let mut running = Vec::new();
        let shard_count = shards.len();
        for mut shard in shards {
            let weather = weather.clone();
            tokio::task::spawn_local(shard.delay_messages(move || weather.message()));
            let started = started.clone();
            running.push(tokio::task::spawn_local(async move {
                let has_slept = Arc::new(AtomicBool::new(true));
                let opened = |shard: &Rc<Shard>| started.borrow_mut().push(shard.clone());
                shard
                    .run(has_slept, opened)
                    .await
                    .expect("a simulated disk has a queue of reads");
            }));
        }
        while started.borrow().len() < shard_count {
            tokio::task::yield_now().await;
        }
        let mut shards = started.take();
        shards.sort_by_key(|shard| shard.context.id);
        Ok(SimulatedNode {
            shards,
            mailboxes,
            running,
        })
    }

    /// A client's statement, on a connection of one of the shards. The future owns what it needs.
    pub fn execute(
        &self,
        shard: usize,
        text: String,
        execution: Execution,
    ) -> impl Future<Output = Answer> + 'static {
        let shard = self.shards[shard % self.shards.len()].clone();
        async move { execute_on(&shard, &text, &execution).await }
    }

    pub fn prepare(&self, shard: usize, text: String) -> impl Future<Output = Answer> + 'static {
        let shard = self.shards[shard % self.shards.len()].clone();
        async move { prepare_on(&shard, &text).await }
    }

    pub fn execute_prepared(
        &self,
        shard: usize,
        id: Vec<u8>,
        execution: Execution,
    ) -> impl Future<Output = Answer> + 'static {
        let shard = self.shards[shard % self.shards.len()].clone();
        async move { execute_prepared_on(&shard, &id, &execution).await }
    }

    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The shard whose memtables and caches take most, and how many bytes.
    pub fn fullest(&self) -> Option<(u16, u64)> {
        let taken = self.shards.iter().map(|shard| {
            let snapshot = shard.metrics_snapshot();
            let bytes = snapshot.memtable_bytes + snapshot.page_cache_bytes + snapshot.row_cache_bytes;
            (snapshot.shard, bytes)
        });
        taken.max_by_key(|&(_, bytes)| bytes)
    }

    /// As `nodetool compact` does it. `None` if there is no such table.
    pub fn compact(&self, keyspace: &str, table: &str) -> Option<impl Future<Output = ()> + 'static> {
        let shard = self.shards[0].clone();
        let request = CompactionRequest {
            table: shard.schema().table(keyspace, table)?.id,
            kind: CompactionKind::Major { split_output: false },
        };
        Some(async move {
            // A disk that fails may refuse it.
            let _failed = shard.compact(request).await;
        })
    }

    /// Tables that it reads without all of their SSTables, as it tells its operator.
    pub fn incomplete_tables(&self) -> BTreeSet<String> {
        let refused = self
            .shards
            .iter()
            .flat_map(|shard| shard.store.borrow().refused_sstables());
        refused
            .map(|refused| format!("{}.{}", refused.keyspace, refused.table))
            .collect()
    }

    /// Returns whether all shards have the same schema.
    pub fn is_of_one_schema(&self) -> bool {
        let first = self.shards[0].schema();
        self.shards
            .iter()
            .all(|shard| Arc::ptr_eq(&shard.schema(), &first))
    }

    /// Flushes and ends, as on SIGTERM. In turns, as a node's threads do.
    pub async fn stop(self) {
        for (mailbox, running) in self.mailboxes.iter().zip(self.running) {
            mailbox.stop_shard(Ending::Flush);
            running.await.expect("a shard ends without a panic");
            // However long the shard is kept, nobody waits for it: messages that it did not take are gone.
            while !mailbox.is_closed() {
                tokio::time::sleep(CLOSED_LOOK_INTERVAL).await;
            }
        }
    }
}
