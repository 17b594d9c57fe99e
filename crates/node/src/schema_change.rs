//! Changing the schema: one shard decides, all shards follow, then the client is answered.
//!
//! Shard 0 owns the schema. A change is computed there, made durable there, then handed to every shard; only when all
//! of them have it is the statement answered and announced, so that whoever hears of a table can use it on any
//! connection.

mod agreement;

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use helenus_catalog::ddl::SchemaChange;
use helenus_catalog::schema_store::SchemaStore;
use helenus_cql::ast;
use helenus_engine::CqlError;
use helenus_schema::{Schema, TableKind, TableMetadata};
use helenus_storage::store::DataFolder;
use helenus_types::ShardId;
use helenus_vfs::{Threads, Urgency, Worker};
use tokio::sync::oneshot;

use crate::panic_boundary::{Panicked, catch};
use crate::unavailable::node_is_stopping;

/// The shard that decides.
pub const SCHEMA_OWNER: ShardId = ShardId(0);

/// The name of the only datacenter, as Cassandra's SimpleSnitch calls it.
pub const DATA_CENTER: &str = "datacenter1";

/// Why writes are refused after a schema change that the disk may or may not have.
const UNDECIDED_SCHEMA: &str = "the schema could not be stored; restart when the disk is well";

/// A statement that changes the schema, on its way to the owner.
pub struct SchemaStatement {
    /// Shared with its plan: copying one of thousands of columns takes a millisecond.
    pub statement: Arc<ast::SchemaStatement>,
    pub session_keyspace: Option<Arc<str>>,
}

/// Told of each change, once every shard has the new schema.
pub type SchemaListener = Box<dyn Fn(&SchemaChange)>;

/// Listeners of a shard to changes of the schema.
#[derive(Default)]
pub struct SchemaListeners {
    listeners: RefCell<Vec<SchemaListener>>,
}

/// The owner's thread for changes of the schema: computing one takes time in proportion to the schema, and storing it waits
/// for the disk. One change at a time.
pub(crate) struct SchemaWorker(RefCell<Worker<Job>>);

type Job = Box<dyn FnOnce() + Send>;

impl SchemaWorker {
    pub fn start(threads: &dyn Threads) -> io::Result<Self> {
        let worker = Worker::start(threads, "schema".to_owned(), Urgency::Answers, |job: Job| job())?;
        Ok(SchemaWorker(RefCell::new(worker)))
    }

    /// Runs `work` on the worker's thread and returns its result, or that it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CqlError> {
        let (sender, receiver) = oneshot::channel();
        self.0.borrow().send(Box::new(move || {
            let _gone = sender.send(catch(work));
        }));
        let done = receiver.await.map_err(|_| node_is_stopping())?;
        done.map_err(Panicked::error)
    }

    /// Waits for the job that was begun.
    pub fn stop(&self) {
        self.0.borrow_mut().finish();
    }
}

/// Data folder and schema store in which the owner makes changes durable.
pub struct SchemaKeeper {
    pub folder: Arc<DataFolder>,
    pub schema_store: SchemaStore,
}

impl SchemaListeners {
    /// Called on this shard's thread for each change, once every shard has the new schema.
    pub fn add(&self, listener: SchemaListener) {
        self.listeners.borrow_mut().push(listener);
    }

    fn announce(&self, change: &SchemaChange) {
        for listener in self.listeners.borrow().iter() {
            listener(change);
        }
    }
}

/// A schema change was not stored.
pub(crate) enum StoreFailure {
    /// The old schema is in force, here and on the disk.
    Refused(CqlError),
    /// The old schema is in force here; the disk may hold either.
    Undecided(CqlError),
}

impl SchemaKeeper {
    /// Blocks for as long as the disk takes. New tables get their folders first: a table that the stored schema names
    /// always has one.
    pub(crate) fn store(&mut self, before: &Schema, after: &Schema) -> Result<(), StoreFailure> {
        for table in after.tables_not_in(before) {
            if table.kind == TableKind::Regular {
                self.make_folder(table).map_err(StoreFailure::Refused)?;
            }
        }
        let Err(error) = self.schema_store.save(after) else {
            return Ok(());
        };
        let failed = CqlError::server(format_args!("{error}"));
        // The disk may hold either schema now. Storing the old one again decides it; if that fails too, a table whose
        // drop we refuse might be gone after a restart, with the writes it took meanwhile.
        match self.schema_store.save(before) {
            Ok(()) => Err(StoreFailure::Refused(failed)),
            Err(_) => Err(StoreFailure::Undecided(failed)),
        }
    }
}

impl SchemaKeeper {
    fn make_folder(&self, table: &TableMetadata) -> Result<(), CqlError> {
        let leftover = self.folder.leftover_sstable(table);
        let leftover = leftover.map_err(|error| CqlError::server(format_args!("{error}")))?;
        if let Some(sstable) = leftover {
            return Err(CqlError::invalid(format_args!(
                "{} is of a table that had the same id. Move its files out of that folder, and import them if they are wanted",
                sstable.display()
            )));
        }
        let made = self.folder.create_table_folder(table);
        made.map_err(|error| CqlError::server(format_args!("{error}")))
    }
}
