//! One shard decides a change of the schema, all shards follow.

use std::rc::Rc;
use std::sync::Arc;

use helenus_catalog::ddl::{DdlOutcome, SchemaChange};
use helenus_engine::CqlError;
use helenus_events::Event;
use helenus_schema::{Schema, TableId};
use tokio::sync::broadcast;
use uuid::Uuid;

use super::{SCHEMA_OWNER, SchemaStatement, StoreFailure, UNDECIDED_SCHEMA};
use crate::auto_snapshot::Taking;
use crate::schema_owner::SchemaOwner;
use crate::shard::Shard;

impl Shard {
    /// Has changes told to clients in this process.
    pub(crate) fn announce_changes(&self, announcing: Option<broadcast::Sender<SchemaChange>>) {
        if let Some(announcing) = announcing {
            self.schema_listeners.add(Box::new(move |change| {
                let _nobody_listens = announcing.send(change.clone());
            }));
        }
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
        let owner = self.schema_owner()?;
        let mut keeper = owner.keeper.lock().await;
        if let Some(reason) = self.store.borrow().log_failure() {
            return Err(CqlError::server(format_args!("{reason}")));
        }
        let new_table_id = TableId(self.context.timestamps.new_timeuuid());
        let (mut outcome, version) = owner
            .apply(&self.context, self.schema(), statement, new_table_id)
            .await?;
        let Some(transition) = &outcome.transition else {
            return Ok(outcome);
        };
        let guardrails = &self.context.options.guardrails;
        outcome
            .warnings
            .extend(guardrails.check_schema(&self.schema(), transition)?);
        let (before, after) = (self.schema(), transition.schema.clone());
        for made_again in after
            .tables_not_in(&before)
            .filter(|table| table.id != new_table_id)
        {
            self.forget_everywhere(made_again.id).await?;
        }
        let gone: Vec<_> = before.tables_not_in(&after).cloned().collect();
        let is_drop = !gone.is_empty();
        self.snapshot_before(Taking::Drop, before.clone(), gone).await?;
        self.forget_earlier_views(&before, &after).await?;
        self.describe_streams(&before, &after).await?;
        let stored = owner
            .store(&mut keeper, before.clone(), transition.schema.clone())
            .await;
        self.note_stored(stored).await?;
        let schema = transition.schema.clone();
        self.on_all_shards(move |shard| shard.set_schema(schema, version))
            .await;
        if is_drop {
            self.on_all_shards_async(|shard| async move { shard.persistence.drops_listed().await })
                .await;
        }
        self.follow_views(&before, &after).await;
        for shard in self.context.shards() {
            let events = transition.events.clone();
            self.context.mailbox(shard).run(move |shard| {
                for event in &events {
                    shard.schema_listeners.announce(event);
                }
            });
        }
        Ok(outcome)
    }

    /// Only the owner decides.
    pub(crate) fn schema_owner(&self) -> Result<&SchemaOwner, CqlError> {
        let owner = self.schema_owner.as_ref();
        owner.ok_or_else(|| CqlError::server(format_args!("A schema change took the wrong way to its owner")))
    }

    async fn note_stored(self: &Rc<Self>, stored: Result<(), StoreFailure>) -> Result<(), CqlError> {
        match stored {
            Ok(()) => Ok(()),
            Err(StoreFailure::Refused(error)) => Err(error),
            Err(StoreFailure::Undecided(error)) => {
                self.context
                    .options
                    .events
                    .event(&Event::SchemaUndecided { error: &error });
                self.on_all_shards(|shard| shard.store.borrow_mut().refuse_writes(UNDECIDED_SCHEMA))
                    .await;
                Err(error)
            }
        }
    }

    /// A table can be given the id of one that was dropped, by `WITH ID` or from a snapshot. It must not meet what the log
    /// or the folder still have of that one.
    async fn forget_everywhere(self: &Rc<Self>, id: TableId) -> Result<(), CqlError> {
        self.on_each_of(self.context.shards(), move |shard| async move {
            shard.persistence.forget(id).await
        })
        .await
    }

    fn set_schema(&self, schema: Arc<Schema>, version: Uuid) {
        self.schema_version.set(version);
        self.store.borrow_mut().set_schema(&schema);
        self.prepared.borrow_mut().retain_valid(&schema);
        self.rates.set_schema(&schema);
        self.views.set_schema(&schema, self.context.now());
        self.planner.set_schema(&schema);
        *self.schema.borrow_mut() = schema;
        // A table may have an index that is to be built.
        self.persistence.schedule_turn();
    }
}
