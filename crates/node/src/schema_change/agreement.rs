//! One shard decides a change of the schema, all shards follow.

use std::rc::Rc;
use std::sync::Arc;

use helenus_catalog::ddl::{self, DdlContext, DdlOutcome, SchemaChange};
use helenus_catalog::system::schema_version;
use helenus_engine::CqlError;
use helenus_events::Event;
use helenus_schema::{Schema, TableId};
use tokio::sync::broadcast;
use uuid::Uuid;

use super::{
    DATA_CENTER, SCHEMA_OWNER, SchemaKeeper, SchemaStatement, SchemaWorker, StoreFailure, UNDECIDED_SCHEMA,
};
use crate::auto_snapshot::Taking;
use crate::panic_boundary::catch;
use crate::rate_limit::has_rate_limits;
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
        let mut keeper = self.schema_keeper.lock().await;
        if let Some(reason) = self.store.borrow().log_failure() {
            return Err(CqlError::server(format_args!("{reason}")));
        }
        let new_table_id = TableId(self.new_timeuuid());
        let (mut outcome, version) = self.apply_beside(statement, new_table_id).await?;
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
            .filter(|table| table.id != new_table_id)
        {
            self.forget_everywhere(made_again.id).await?;
        }
        let gone = before.tables_not_in(&after).cloned().collect();
        self.snapshot_before(Taking::Drop, before.clone(), gone).await?;
        self.forget_earlier_views(&before, &after).await?;
        self.store_beside(&mut keeper, &transition.schema).await?;
        let schema = transition.schema.clone();
        self.on_all_shards(move |shard| shard.set_schema(schema, version))
            .await;
        self.follow_views(&before, &after).await;
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

    /// Only the owner decides.
    fn schema_worker(&self) -> Result<&SchemaWorker, CqlError> {
        let worker = self.schema_worker.as_ref();
        worker
            .ok_or_else(|| CqlError::server(format_args!("A schema change took the wrong way to its owner")))
    }

    /// The change that a statement makes of the schema in force, and the version of what it makes.
    async fn apply_beside(
        &self,
        statement: SchemaStatement,
        new_table_id: TableId,
    ) -> Result<(DdlOutcome, Uuid), CqlError> {
        let (before, now_us) = (self.schema(), self.clock.wall_us());
        let default_index = self.options.default_secondary_index;
        let materialized_views = self.options.materialized_views;
        let applied = self.schema_worker()?.run(move || {
            let context = DdlContext {
                session_keyspace: statement.session_keyspace.as_deref(),
                now_us,
                new_table_id,
                data_center: DATA_CENTER,
                default_index,
                materialized_views,
            };
            let outcome = ddl::apply(&before, &statement.statement, &context)?;
            let after = outcome.transition.as_ref();
            let version = schema_version(after.map_or(&before, |transition| &transition.schema));
            Ok((outcome, version))
        });
        applied.await?
    }

    async fn store_beside(
        self: &Rc<Self>,
        keeper: &mut Option<SchemaKeeper>,
        after: &Arc<Schema>,
    ) -> Result<(), CqlError> {
        let Some(mut taken) = keeper.take() else {
            return Ok(());
        };
        let (before, after) = (self.schema(), after.clone());
        let stored = self.schema_worker()?.run(move || {
            let stored = catch(|| taken.store(&before, &after));
            let stored = stored.unwrap_or_else(|panicked| {
                // The disk may hold either schema now.
                let restored = catch(|| taken.schema_store.save(&before));
                Err(match restored {
                    Ok(Ok(())) => StoreFailure::Refused(panicked.error()),
                    _ => StoreFailure::Undecided(panicked.error()),
                })
            });
            (taken, stored)
        });
        let (given_back, stored) = stored.await?;
        *keeper = Some(given_back);
        match stored {
            Ok(()) => Ok(()),
            Err(StoreFailure::Refused(error)) => Err(error),
            Err(StoreFailure::Undecided(error)) => {
                self.options
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
        let forgotten = self.on_all_shards_async(move |shard| async move { shard.forget(id).await });
        for (shard, forgotten) in self.shards().zip(forgotten.await) {
            forgotten.unwrap_or_else(|| Err(self.no_answer_from(shard)))?;
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

    fn set_schema(&self, schema: Arc<Schema>, version: Uuid) {
        self.schema_version.set(version);
        self.store.borrow_mut().set_schema(&schema);
        self.prepared.borrow_mut().retain_valid(&schema);
        self.has_rate_limits.set(has_rate_limits(&schema));
        self.views.set_schema(&schema, self.now());
        *self.schema.borrow_mut() = schema;
        // A table may have an index that is to be built.
        self.schedule_turn();
    }
}
