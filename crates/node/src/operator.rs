//! A running node as the operator's tools see it: flushes, lists of files, exchanges of files, schema changes.
//!
//! Everything here is called from threads that may wait, never from a shard's own; each call is a message to the
//! shards and blocks until they have answered, those that only look for a bounded time.

use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use helenus_catalog::ddl;
use helenus_cql::parse_statement;
use helenus_schema::{Schema, TableId, TableMetadata};
use helenus_sstable::{Descriptor, SsTable};
use helenus_storage::error::TruncateError;
use helenus_storage::store::{Adoption, CompactionRequest, DataFolder, ShardCompactions};
use helenus_tools::host::{Host, HostError, Incumbents, ViewBuild};
use helenus_types::{ShardId, shard_of};

use crate::schema_change::{SCHEMA_OWNER, SchemaStatement};
use crate::shard::Shard;
use crate::shard::mailbox::Mailbox;

/// A handle on a node for threads that do not belong to it. Cheap to clone.
#[derive(Clone)]
pub struct Operator {
    mailboxes: Arc<[Mailbox]>,
    look_time_max: Duration,
}

/// How long a shard may take to say what it has, which it does between two pieces of work of milliseconds. Every request
/// begins with such a look, so that none waits for ever, and keeps a place at the door, where a shard hangs. What a request then
/// has the shards do (flushes, compactions, exchanges of files) takes as long as the disk needs and has no bound: given up
/// half-way, nobody would know what was done.
const LOOK_TIME_MAX: Duration = Duration::from_secs(30);

impl Host for Operator {
    fn schema(&self) -> Result<Arc<Schema>, HostError> {
        self.look(ShardId(0), |shard| async move { shard.schema() })
    }

    fn change_schema(&self, text: &str) -> Result<(), HostError> {
        let statement = parse_statement(text).map_err(|source| HostError::Syntax {
            statement: text.to_owned(),
            source,
        })?;
        let refused = |source| HostError::Schema {
            statement: text.to_owned(),
            source,
        };
        let statement = SchemaStatement {
            statement: Arc::new(ddl::schema_statement(statement).map_err(refused)?),
            session_keyspace: None,
        };
        let changed = self.ask(
            ShardId(0),
            |shard| async move { shard.change_schema(statement).await },
        )?;
        changed.map(|_outcome| ()).map_err(refused)
    }

    fn data_folder(&self) -> Result<Arc<DataFolder>, HostError> {
        self.look(ShardId(0), |shard| async move {
            shard.store.borrow().data_folder().cloned()
        })?
        .ok_or(HostError::InMemory)
    }

    fn shard_count(&self) -> u16 {
        // As many as the node was started with, which is a u16.
        self.mailboxes.len() as u16
    }

    fn flush(&self, table: Option<TableId>) -> Result<(), HostError> {
        let flushed = self.send_to_all(move |shard| async move { shard.persistence.flush(table).await })?;
        let mut result = Ok(());
        for (shard, flushed) in self.shards().zip(flushed) {
            // One that cannot flush everything keeps nobody from flushing what can be.
            if !flushed.recv().map_err(|_| HostError::Stopping)? {
                result = result.and(Err(HostError::NotFlushed { shard: shard.0 }));
            }
        }
        result
    }

    fn sstables(&self, table: &TableMetadata) -> Result<Vec<Descriptor>, HostError> {
        let id = table.id;
        let of_shards = self.send_to_all(move |shard| async move { shard.store.borrow().sstables(id) })?;
        let mut descriptors = Vec::new();
        for (shard, sstables) in self.shards().zip(of_shards) {
            let sstables = self.in_time(shard, &sstables)?;
            descriptors.extend(sstables.iter().map(|sstable| sstable.descriptor()));
        }
        Ok(descriptors)
    }

    fn adopt(
        &self,
        table: &TableMetadata,
        adoption: Adoption,
        incumbents: Incumbents,
    ) -> Result<u64, HostError> {
        let id = table.id;
        if incumbents == Incumbents::Stay {
            let added = adoption.commit(&[])?;
            return self.exchange(id, &[], added);
        }
        self.flush(Some(id))?;
        let _held = Held { operator: self, id };
        let mut replaced = Vec::new();
        for shard in self.shards() {
            replaced.extend(self.hold(shard, id)?);
        }
        let added = adoption.commit(&replaced)?;
        self.exchange(id, &replaced, added)
    }

    fn compactions(&self) -> Result<Vec<ShardCompactions>, HostError> {
        self.look(ShardId(0), |shard| async move { shard.compaction_status().await })
    }

    fn compact(&self, request: CompactionRequest) -> Result<(), HostError> {
        Ok(self.ask(
            ShardId(0),
            move |shard| async move { shard.compact(request).await },
        )??)
    }

    fn view_builds(&self) -> Result<Vec<ViewBuild>, HostError> {
        let builds = self.look(SCHEMA_OWNER, |shard| async move { shard.view_status().await })?;
        builds.map_err(HostError::Views)
    }

    fn stop_compactions(&self, table: Option<TableId>) -> Result<u64, HostError> {
        let stopped = self.ask(ShardId(0), move |shard| async move {
            shard.stop_compactions(table).await
        })?;
        Ok(stopped as u64)
    }
}

impl Operator {
    pub(crate) fn new(mailboxes: Arc<[Mailbox]>) -> Self {
        Operator {
            mailboxes,
            look_time_max: LOOK_TIME_MAX,
        }
    }

    /// The same, which gives up shards after another time.
    #[must_use]
    pub fn with_look_time_max(self, look_time_max: Duration) -> Self {
        Operator {
            look_time_max,
            ..self
        }
    }

    /// The SSTables of a shard, which stay as they are. The log does not bring their rows back once they are gone.
    fn hold(&self, shard: ShardId, id: TableId) -> Result<Vec<Descriptor>, HostError> {
        let held = self.ask(shard, move |shard| async move {
            loop {
                // A job that ends after this look is not missed: it is reported on this thread.
                let held = shard.store.borrow_mut().hold_sstables(id);
                match held {
                    Err(TruncateError::Busy) => shard.persistence.job_ended().await,
                    held => break held,
                }
            }
        })??;
        self.record_flushes(shard)?;
        Ok(held.iter().map(|sstable| sstable.descriptor()).collect())
    }

    fn record_flushes(&self, shard: ShardId) -> Result<(), HostError> {
        let recorded = self.ask(
            shard,
            |shard| async move { shard.persistence.record_flushes().await },
        )?;
        recorded.map_err(|_| HostError::NotFlushed { shard: shard.0 })
    }

    fn exchange(
        &self,
        id: TableId,
        replaced: &[Descriptor],
        added: Vec<Arc<SsTable>>,
    ) -> Result<u64, HostError> {
        let count = added.len() as u64;
        let mut by_shard: Vec<Vec<Arc<SsTable>>> = vec![Vec::new(); self.mailboxes.len()];
        for sstable in added {
            let owner = shard_of(sstable.first_token(), self.shard_count());
            if let Some(shard) = by_shard.get_mut(usize::from(owner.0)) {
                shard.push(sstable);
            }
        }
        for (shard, added) in self.shards().zip(by_shard) {
            let replaced = replaced.to_vec();
            self.ask(shard, move |shard| async move {
                shard.store.borrow_mut().exchange_sstables(id, &replaced, added);
                shard.persistence.schedule_turn();
            })?;
        }
        Ok(count)
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shard_count()).map(ShardId)
    }

    /// Asks for what a shard knows.
    fn look<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, HostError> {
        self.in_time(shard, &self.send(shard, work)?)
    }

    fn in_time<T>(&self, shard: ShardId, answer: &Receiver<T>) -> Result<T, HostError> {
        answer
            .recv_timeout(self.look_time_max)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => HostError::NoAnswer {
                    shard: shard.0,
                    seconds: self.look_time_max.as_secs(),
                },
                RecvTimeoutError::Disconnected => HostError::Stopping,
            })
    }

    /// Has a shard do something, however long that takes.
    fn ask<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, HostError> {
        self.send(shard, work)?.recv().map_err(|_| HostError::Stopping)
    }

    /// Asks every shard before the first is waited for.
    fn send_to_all<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<Shard>) -> F + Clone + Send + 'static,
    ) -> Result<Vec<Receiver<T>>, HostError> {
        self.shards()
            .map(|shard| self.send(shard, work.clone()))
            .collect()
    }

    fn send<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<Receiver<T>, HostError> {
        let (sender, receiver) = mpsc::channel();
        let mailbox = self
            .mailboxes
            .get(usize::from(shard.0))
            .ok_or(HostError::Stopping)?;
        mailbox.run(move |shard| {
            let work = work(shard.clone());
            shard.context.spawn(async move {
                // The asker waits until the channel closes, or has given up.
                let _gone = sender.send(work.await);
            });
        });
        Ok(receiver)
    }
}

/// A table whose jobs wait until this is dropped.
struct Held<'a> {
    operator: &'a Operator,
    id: TableId,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let id = self.id;
        for mailbox in self.operator.mailboxes.iter() {
            mailbox.run(move |shard| {
                shard.store.borrow_mut().truncation_given_up(id);
                shard.persistence.schedule_turn();
            });
        }
    }
}

impl Shard {
    /// For threads that work for this shard.
    pub(crate) fn operator(&self) -> Operator {
        Operator::new(self.context.mailboxes.clone())
    }
}
