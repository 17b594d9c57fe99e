//! A data folder that no node runs on.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use helenus_catalog::ddl::{self, DdlContext};
use helenus_catalog::schema_store::SchemaStore;
use helenus_cql::parse_statement;
use helenus_schema::{Schema, TableId, TableKind, TableMetadata};
use helenus_sstable::{Descriptor, finished_sstables};
use helenus_storage::commitlog::{ReplayError, replay};
use helenus_storage::store::{Adoption, CompactionRequest, DataFolder, OpenError, ShardCompactions};
use helenus_types::value::timeuuid::TimeuuidGenerator;
use helenus_vfs::{Clock, Disk, Random, SystemRandom};
use uuid::Uuid;

use crate::host::{Host, HostError, Incumbents, ViewBuild};

/// The folder is locked while this lives: no node starts on it.
#[derive(Debug)]
pub struct StoppedNode {
    folder: Arc<DataFolder>,
    schema_store: SchemaStore,
    schema: Mutex<Arc<Schema>>,
    timeuuids: Mutex<TimeuuidGenerator>,
}

/// The name of the only datacenter of a node, as Cassandra's SimpleSnitch calls it.
const DATA_CENTER: &str = "datacenter1";

impl StoppedNode {
    pub fn open(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, root: &Path) -> Result<Self, HostError> {
        let folder = DataFolder::open(Arc::clone(&disk), clock, root)?;
        folder.make_names_durable()?;
        let schema_store = SchemaStore::new(disk, folder.root().to_owned());
        let schema = Arc::new(schema_store.load()?);
        Ok(StoppedNode {
            folder,
            schema_store,
            schema: Mutex::new(schema),
            timeuuids: Mutex::new(TimeuuidGenerator::new(SystemRandom::new().next_u64())),
        })
    }

    fn needs_node(&self) -> HostError {
        HostError::NeedsNode {
            folder: self.folder.root().to_path_buf(),
        }
    }

    /// That a crash left no writes to a table in the log. They were written before, and would come back.
    fn check_log(&self, table: &TableMetadata) -> Result<(), HostError> {
        let folder = self.folder.log_folder();
        let held = || HostError::LogHolds {
            folder: folder.clone(),
            keyspace: table.keyspace.to_string(),
            table: table.name.to_string(),
        };
        let read = replay(
            &**self.folder.disk(),
            &folder,
            &*self.schema()?,
            |update| match update.table == table.id {
                true => Err(held()),
                false => Ok(()),
            },
        );
        match read {
            // The next start discards the segments, not this.
            Ok(_) => Ok(()),
            Err(ReplayError::Apply(error)) => Err(error),
            Err(error) => Err(HostError::Log {
                folder: folder.clone(),
                reason: error.to_string(),
            }),
        }
    }

    fn sstables_of(&self, table: &TableMetadata) -> Result<Vec<Descriptor>, HostError> {
        let folder = self.folder.table_folder(table);
        let found = finished_sstables(&**self.folder.disk(), &folder);
        Ok(found.map_err(|source| OpenError::Io { path: folder, source })?)
    }
}

impl Host for StoppedNode {
    fn schema(&self) -> Result<Arc<Schema>, HostError> {
        Ok(Arc::clone(
            &self.schema.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    fn change_schema(&self, text: &str) -> Result<(), HostError> {
        let statement = parse_statement(text).map_err(|source| HostError::Syntax {
            statement: text.to_owned(),
            source,
        })?;
        let now_us = self.folder.clock().wall_us();
        let id = self
            .timeuuids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next(now_us);
        let context = DdlContext {
            session_keyspace: None,
            now_us,
            new_table_id: TableId(Uuid::from_bytes(id)),
            data_center: DATA_CENTER,
            materialized_views: false,
            default_index: helenus_schema::IndexKind::Legacy,
        };
        let mut schema = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = ddl::schema_statement(statement)
            .and_then(|statement| ddl::apply(&schema, &statement, &context))
            .map_err(|source| HostError::Schema {
                statement: text.to_owned(),
                source,
            })?;
        let Some(transition) = outcome.transition else {
            return Ok(());
        };
        // A table that the stored schema names always has a folder.
        for table in transition
            .schema
            .tables_not_in(&schema)
            .filter(|table| table.kind == TableKind::Regular)
        {
            self.folder
                .create_table_folder(table)
                .map_err(|source| OpenError::Io {
                    path: self.folder.table_folder(table),
                    source,
                })?;
        }
        self.schema_store.save(&transition.schema)?;
        *schema = transition.schema;
        Ok(())
    }

    fn data_folder(&self) -> Result<Arc<DataFolder>, HostError> {
        Ok(Arc::clone(&self.folder))
    }

    fn shard_count(&self) -> u16 {
        1
    }

    /// A node that was stopped has flushed; what a crash left in the log is the next start's business.
    fn flush(&self, _table: Option<TableId>) -> Result<(), HostError> {
        Ok(())
    }

    fn sstables(&self, table: &TableMetadata) -> Result<Vec<Descriptor>, HostError> {
        Ok(self.folder.recover_table(table)?)
    }

    fn adopt(
        &self,
        table: &TableMetadata,
        adoption: Adoption,
        incumbents: Incumbents,
    ) -> Result<u64, HostError> {
        let replaced = match incumbents {
            Incumbents::Stay => Vec::new(),
            Incumbents::Go => {
                self.check_log(table)?;
                self.sstables_of(table)?
            }
        };
        Ok(adoption.commit(&replaced)?.len() as u64)
    }

    fn compactions(&self) -> Result<Vec<ShardCompactions>, HostError> {
        Err(self.needs_node())
    }

    fn compact(&self, _request: CompactionRequest) -> Result<(), HostError> {
        Err(self.needs_node())
    }

    fn view_builds(&self) -> Result<Vec<ViewBuild>, HostError> {
        Err(self.needs_node())
    }

    fn stop_compactions(&self, _table: Option<TableId>) -> Result<u64, HostError> {
        Err(self.needs_node())
    }
}
