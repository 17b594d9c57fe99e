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
use helenus_schema::{Schema, TableId, TableKind};
use helenus_storage::store::DataFolder;
use helenus_types::ShardId;

use crate::shard::Shard;

/// The shard that decides.
pub const SCHEMA_OWNER: ShardId = ShardId(0);

/// The name of the only datacenter, as Cassandra's SimpleSnitch calls it.
pub const DATA_CENTER: &str = "datacenter1";

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

impl SchemaKeeper {
    /// Blocks for as long as the disk takes. New tables get their folders first: a table that the stored schema names
    /// always has one.
    fn store(&mut self, before: &Schema, after: &Schema) -> Result<(), CqlError> {
        for table in after.tables().filter(|table| table.kind == TableKind::Regular) {
            if before.table_by_id(table.id).is_none() {
                self.folder
                    .create_table_folder(table)
                    .map_err(|error| CqlError::server(format_args!("{error}")))?;
            }
        }
        self.schema_store
            .save(after)
            .map_err(|error| CqlError::server(format_args!("{error}")))
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
        let context = DdlContext {
            session_keyspace: statement.session_keyspace.as_deref(),
            now_us: self.clock.wall_us(),
            new_table_id: TableId(self.new_timeuuid()),
            data_center: DATA_CENTER,
        };
        let outcome = ddl::apply(&self.schema(), &statement.statement, &context)?;
        let Some(transition) = &outcome.transition else {
            return Ok(outcome);
        };
        if let Some(keeper) = &mut *keeper {
            keeper.store(&self.schema(), &transition.schema)?;
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

    fn set_schema(&self, schema: Arc<Schema>) {
        self.store.borrow_mut().set_schema(&schema);
        self.prepared.borrow_mut().retain_valid(&schema);
        *self.schema.borrow_mut() = schema;
    }
}
