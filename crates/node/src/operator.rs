//! A running node as the operator's tools see it: flushes, lists of files, exchanges of files, schema changes.
//!
//! Everything here is called from threads that may wait, never from a shard's own; each call is a message to the
//! shards and blocks until they have answered.

use std::rc::Rc;
use std::sync::{Arc, mpsc};

use helenus_cql::parse_statement;
use helenus_schema::{Schema, TableId, TableMetadata};
use helenus_storage::error::TruncateError;
use helenus_storage::sstable::{Descriptor, SsTable};
use helenus_storage::store::{Adoption, CompactionRequest, DataFolder, ShardCompactions};
use helenus_tools::host::{Host, HostError, Incumbents};
use helenus_types::{ShardId, shard_of};

use crate::mailbox::Mailbox;
use crate::schema_change::SchemaStatement;
use crate::shard::Shard;

/// A handle on a node for threads that do not belong to it. Cheap to clone.
#[derive(Clone)]
pub struct Operator {
    mailboxes: Arc<[Mailbox]>,
}

impl Host for Operator {
    fn schema(&self) -> Result<Arc<Schema>, HostError> {
        self.ask(ShardId(0), |shard| async move { shard.schema() })
    }

    fn change_schema(&self, text: &str) -> Result<(), HostError> {
        let statement = parse_statement(text).map_err(|source| HostError::Syntax {
            statement: text.to_owned(),
            source,
        })?;
        let statement = SchemaStatement {
            statement,
            session_keyspace: None,
        };
        let changed = self.ask(
            ShardId(0),
            |shard| async move { shard.change_schema(statement).await },
        )?;
        changed.map(|_outcome| ()).map_err(|source| HostError::Schema {
            statement: text.to_owned(),
            source,
        })
    }

    fn data_folder(&self) -> Result<Arc<DataFolder>, HostError> {
        self.ask(ShardId(0), |shard| async move {
            shard.store.borrow().data_folder().cloned()
        })?
        .ok_or(HostError::InMemory)
    }

    fn shard_count(&self) -> u16 {
        // As many as the node was started with, which is a u16.
        self.mailboxes.len() as u16
    }

    fn flush(&self, table: Option<TableId>) -> Result<(), HostError> {
        let mut result = Ok(());
        for shard in self.shards() {
            // One that cannot flush everything keeps nobody from flushing what can be.
            if !self.ask(shard, move |shard| async move { shard.flush(table).await })? {
                result = result.and(Err(HostError::NotFlushed { shard: shard.0 }));
            }
        }
        result
    }

    fn sstables(&self, table: &TableMetadata) -> Result<Vec<Descriptor>, HostError> {
        let id = table.id;
        let mut descriptors = Vec::new();
        for shard in self.shards() {
            let sstables = self.ask(
                shard,
                move |shard| async move { shard.store.borrow().sstables(id) },
            )?;
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
        self.ask(ShardId(0), |shard| async move { shard.compaction_status().await })
    }

    fn compact(&self, request: CompactionRequest) -> Result<(), HostError> {
        Ok(self.ask(
            ShardId(0),
            move |shard| async move { shard.compact(request).await },
        )??)
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
        Operator { mailboxes }
    }

    /// The SSTables of a shard, which stay as they are. The log does not bring their rows back once they are gone.
    fn hold(&self, shard: ShardId, id: TableId) -> Result<Vec<Descriptor>, HostError> {
        let held = self.ask(shard, move |shard| async move {
            loop {
                // A job that ends after this look is not missed: it is reported on this thread.
                let held = shard.store.borrow_mut().hold_sstables(id);
                match held {
                    Err(TruncateError::Busy) => shard.job_ended().await,
                    held => break held,
                }
            }
        })??;
        self.record_flushes(shard)?;
        Ok(held.iter().map(|sstable| sstable.descriptor()).collect())
    }

    fn record_flushes(&self, shard: ShardId) -> Result<(), HostError> {
        if self.ask(shard, |shard| async move { shard.record_flushes().await })? {
            Ok(())
        } else {
            Err(HostError::NotFlushed { shard: shard.0 })
        }
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
                shard.schedule_turn();
            })?;
        }
        Ok(count)
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shard_count()).map(ShardId)
    }

    fn ask<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        shard: ShardId,
        work: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> Result<T, HostError> {
        let (sender, receiver) = mpsc::channel();
        let mailbox = self
            .mailboxes
            .get(usize::from(shard.0))
            .ok_or(HostError::Stopping)?;
        mailbox.run(move |shard| {
            let work = work(shard.clone());
            shard.spawn(async move {
                // The asker waits until the channel closes.
                let _gone = sender.send(work.await);
            });
        });
        receiver.recv().map_err(|_| HostError::Stopping)
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
                shard.schedule_turn();
            });
        }
    }
}
