//! Changing the schema: one shard decides, all shards follow, then the client is answered.
//!
//! Shard 0 owns the schema. A change is computed there, made durable there, then handed to every shard; only when all
//! of them have it is the statement answered and announced, so that whoever hears of a table can use it on any
//! connection.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::ast::Statement;
use helenus_engine::CqlError;
use helenus_engine::ddl::{self, DdlContext, DdlOutcome, SchemaChange};
use helenus_engine::schema_store::SchemaStore;
use helenus_schema::{Schema, TableId, TableKind, TableMetadata};
use helenus_storage::store::DataFolder;
use helenus_types::ShardId;

use crate::auto_snapshot::Taking;
use crate::rate_limit::has_rate_limits;
use crate::shard::Shard;

/// The shard that decides.
pub const SCHEMA_OWNER: ShardId = ShardId(0);

/// The name of the only datacenter, as Cassandra's SimpleSnitch calls it.
pub const DATA_CENTER: &str = "datacenter1";

/// Why writes are refused after a schema change that the disk may or may not have.
const UNDECIDED_SCHEMA: &str = "the schema could not be stored; restart when the disk is well";

/// A statement that changes the schema, on its way to the owner.
pub struct SchemaStatement {
    pub statement: Statement,
    pub session_keyspace: Option<Arc<str>>,
}

/// Told of each change, once every shard has the new schema.
pub type SchemaListener = Box<dyn Fn(&SchemaChange)>;

/// What a shard does when the schema has changed.
#[derive(Default)]
pub struct SchemaListeners {
    listeners: RefCell<Vec<SchemaListener>>,
}

/// What the owner makes changes durable with.
pub struct SchemaKeeper {
    pub folder: Arc<DataFolder>,
    pub schema_store: SchemaStore,
}

impl SchemaListeners {
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
enum StoreFailure {
    /// The old schema is in force, here and on the disk.
    Refused(CqlError),
    /// The old schema is in force here; the disk may hold either.
    Undecided(CqlError),
}

impl SchemaKeeper {
    /// Blocks for as long as the disk takes. New tables get their folders first: a table that the stored schema names
    /// always has one.
    fn store(&mut self, before: &Schema, after: &Schema) -> Result<(), StoreFailure> {
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

impl Shard {
    /// Called on this shard's thread for each change, once every shard has the new schema.
    pub fn on_schema_change(&self, listener: SchemaListener) {
        self.schema_listeners.add(listener);
    }

    /// Executes a schema statement, wherever it came in.
    pub async fn change_schema(self: &Rc<Self>, statement: SchemaStatement) -> Result<DdlOutcome, CqlError> {
        self.call_async(SCHEMA_OWNER, move |owner| async move {
            owner.decide_schema(statement).await
        })
        .await
        .unwrap_or_else(|| Err(CqlError::server(format_args!("The node is stopping"))))
    }

    async fn decide_schema(self: &Rc<Self>, statement: SchemaStatement) -> Result<DdlOutcome, CqlError> {
        let mut keeper = self.schema_keeper.lock().await;
        if let Some(reason) = self.store.borrow().log_failure() {
            return Err(CqlError::server(format_args!("{reason}")));
        }
        let context = DdlContext {
            session_keyspace: statement.session_keyspace.as_deref(),
            now_us: self.clock.wall_us(),
            new_table_id: TableId(self.new_timeuuid()),
            data_center: DATA_CENTER,
        };
        let mut outcome = ddl::apply(&self.schema(), &statement.statement, &context)?;
        let Some(transition) = &outcome.transition else {
            return Ok(outcome);
        };
        let guardrails = &self.options.guardrails;
        outcome
            .warnings
            .extend(guardrails.check_schema(&self.schema(), transition)?);
        let (before, after) = (self.schema(), transition.schema.clone());
        for made_again in after
            .tables_not_in(&before)
            .filter(|table| table.id != context.new_table_id)
        {
            self.forget_everywhere(made_again.id).await?;
        }
        let gone = before.tables_not_in(&after).cloned().collect();
        self.snapshot_before(Taking::Drop, before, gone).await?;
        if let Some(keeper) = &mut *keeper {
            match keeper.store(&self.schema(), &transition.schema) {
                Ok(()) => {}
                Err(StoreFailure::Refused(error)) => return Err(error),
                Err(StoreFailure::Undecided(error)) => {
                    eprintln!(
                        "the schema on the disk is unknown ({error}); writes are refused until a restart"
                    );
                    for shard in self.shards() {
                        self.call(shard, |shard| {
                            shard.store.borrow_mut().refuse_writes(UNDECIDED_SCHEMA)
                        })
                        .await;
                    }
                    return Err(error);
                }
            }
        }
        for shard in self.shards() {
            let schema = transition.schema.clone();
            self.call(shard, move |shard| shard.set_schema(schema)).await;
        }
        for shard in self.shards() {
            let events = transition.events.clone();
            self.mailbox(shard).run(move |shard| {
                for event in &events {
                    shard.schema_listeners.announce(event);
                }
            });
        }
        Ok(outcome)
    }

    /// A table can be given the id of one that was dropped, by `WITH ID` or from a snapshot. It must not meet what the log
    /// or the folder still have of that one.
    async fn forget_everywhere(self: &Rc<Self>, id: TableId) -> Result<(), CqlError> {
        for shard in self.shards() {
            let forgotten = self.call_async(shard, move |shard| async move { shard.forget(id).await });
            forgotten
                .await
                .unwrap_or_else(|| Err(self.no_answer_from(shard)))?;
        }
        Ok(())
    }

    async fn forget(&self, id: TableId) -> Result<(), CqlError> {
        let mut has_tried = false;
        loop {
            let forgotten = {
                let store = self.store.borrow();
                match store.log_failure() {
                    Some(reason) => return Err(CqlError::server(format_args!("{reason}"))),
                    None => store.is_forgotten(id),
                }
            };
            match forgotten {
                Ok(true) => return Ok(()),
                Err(error) if has_tried => return Err(CqlError::server(format_args!("{error}"))),
                Ok(false) | Err(_) => self.background_progress().await,
            }
            has_tried = true;
        }
    }

    fn set_schema(&self, schema: Arc<Schema>) {
        self.store.borrow_mut().set_schema(&schema);
        self.prepared.borrow_mut().retain_valid(&schema);
        self.has_rate_limits.set(has_rate_limits(&schema));
        *self.schema.borrow_mut() = schema;
    }
}
