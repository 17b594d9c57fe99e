//! State of the schema's owner, which decides on changes, orders truncations, makes snapshots and the default role.

use std::sync::Arc;

use helenus_catalog::ddl::{self, DdlContext, DdlOutcome};
use helenus_catalog::system::schema_version;
use helenus_engine::CqlError;
use helenus_schema::{Schema, TableId};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::context::ShardContext;
use crate::panic_boundary::catch;
use crate::roles::default_role::DefaultRole;
use crate::schema_change::{DATA_CENTER, SchemaKeeper, SchemaStatement, SchemaWorker, StoreFailure};
use crate::snapshot_worker::SnapshotWorker;
use crate::truncation::Truncations;
use crate::view_names::ViewNames;

/// Parts that the owner starts with.
pub(crate) struct SchemaOwnerParts {
    pub worker: SchemaWorker,
    pub keeper: Option<SchemaKeeper>,
    pub snapshots: Option<SnapshotWorker>,
    pub default_role: DefaultRole,
}

pub(crate) struct SchemaOwner {
    worker: SchemaWorker,
    /// Makes changes durable; none in memory. The mutex orders changes: each starts from the schema that the one before it
    /// made.
    pub keeper: Mutex<Option<SchemaKeeper>>,
    /// None in memory.
    pub snapshots: Option<SnapshotWorker>,
    pub truncations: Truncations,
    pub view_names: ViewNames,
    /// Record of whether the default role was made. The mutex lets one login at a time decide.
    pub default_role: Mutex<DefaultRole>,
}

impl SchemaOwner {
    pub fn new(parts: SchemaOwnerParts) -> Self {
        SchemaOwner {
            worker: parts.worker,
            keeper: Mutex::new(parts.keeper),
            snapshots: parts.snapshots,
            truncations: Truncations::default(),
            view_names: ViewNames::default(),
            default_role: Mutex::new(parts.default_role),
        }
    }

    /// The change that a statement makes of the schema in force, and the version of what it makes.
    pub async fn apply(
        &self,
        context: &ShardContext,
        before: Arc<Schema>,
        statement: SchemaStatement,
        new_table_id: TableId,
    ) -> Result<(DdlOutcome, Uuid), CqlError> {
        let now_us = context.clock.wall_us();
        let default_index = context.options.default_secondary_index;
        let materialized_views = context.options.materialized_views;
        let applied = self.worker.run(move || {
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

    /// Makes a change durable with what the caller has taken out of the mutex.
    pub async fn store(
        &self,
        keeper: &mut Option<SchemaKeeper>,
        before: Arc<Schema>,
        after: Arc<Schema>,
    ) -> Result<(), StoreFailure> {
        let Some(mut taken) = keeper.take() else {
            return Ok(());
        };
        let stored = self.worker.run(move || {
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
        // Without its thread nobody stores anything any more.
        let (given_back, stored) = stored.await.map_err(StoreFailure::Refused)?;
        *keeper = Some(given_back);
        stored
    }

    /// Runs `work`, which waits for the disk, on the worker's thread and returns its result.
    pub async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CqlError> {
        self.worker.run(work).await
    }

    /// Waits for what was begun.
    pub fn stop(&self) {
        if let Some(snapshots) = &self.snapshots {
            snapshots.stop();
        }
        self.worker.stop();
    }
}
