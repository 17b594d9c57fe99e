//! Snapshots of what a TRUNCATE or DROP is about to take, as Cassandra's `auto_snapshot` makes them.
//!
//! On by default, as there: a slip of the hand costs disk space, which `helenus snapshot list` shows (`true_bytes`) and
//! `helenus snapshot remove` frees, and not data. What makes disks of test machines grow there, snapshots of tables that
//! never held anything, is left out; who truncates full tables again and again sets `auto_snapshot: false`. The links
//! themselves take no space, and nothing is copied.

use std::rc::Rc;
use std::sync::Arc;

use helenus_engine::CqlError;
use helenus_events::{Event, Events};
use helenus_schema::{Schema, TableKind, TableMetadata, is_local_system_keyspace};
use helenus_tools::host::{Host, HostError};
use helenus_tools::snapshot::{MANIFEST, SNAPSHOTS, SnapshotError, link_table_snapshot};

use crate::operator::Operator;
use crate::shard::Shard;

/// Cause of an automatic snapshot; the snapshot's name begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    Truncate,
    Drop,
}

impl Taking {
    fn prefix(self) -> &'static str {
        match self {
            Taking::Truncate => "truncated",
            Taking::Drop => "dropped",
        }
    }
}

impl Shard {
    /// Returns once each of the tables that holds anything has a snapshot. Of the owner of the schema; the work waits for
    /// flushes and the disk, so it is done by a thread of its own, one after the other.
    pub(crate) async fn snapshot_before(
        self: &Rc<Self>,
        taking: Taking,
        schema: Arc<Schema>,
        tables: Vec<Arc<TableMetadata>>,
    ) -> Result<(), CqlError> {
        let has_files = self.store.borrow().data_folder().is_some();
        if !self.context.options.auto_snapshot || !has_files || tables.is_empty() {
            return Ok(());
        }
        let Some(worker) = self.snapshots() else {
            return Ok(());
        };
        let operator = self.operator();
        let ttl_s = self.context.options.auto_snapshot_ttl.map(|ttl| ttl.as_secs());
        let failed = |reason: String| {
            let text =
                format!("{reason}; nothing was removed (auto_snapshot: false removes without a snapshot)");
            match taking {
                Taking::Truncate => CqlError::truncate(format_args!("{text}")),
                Taking::Drop => CqlError::server(format_args!("{text}")),
            }
        };
        let events = self.context.options.events.clone();
        match worker
            .run(move || snapshot_all(&operator, taking, &schema, &tables, ttl_s, &events))
            .await?
        {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(failed(error.to_string())),
            None => Err(failed("the snapshot was not finished".to_owned())),
        }
    }
}

fn snapshot_all(
    operator: &Operator,
    taking: Taking,
    schema: &Schema,
    tables: &[Arc<TableMetadata>],
    ttl_s: Option<u64>,
    events: &Events,
) -> Result<(), SnapshotError> {
    let data = operator.data_folder()?;
    let user_tables = tables.iter().filter(|table| {
        table.kind == TableKind::Regular
            && table.params.allow_auto_snapshot
            && !is_local_system_keyspace(&table.keyspace)
    });
    for table in user_tables {
        match operator.flush(Some(table.id)) {
            // Whoever drops it to be rid of that must be able to.
            Err(HostError::NotFlushed { .. }) => events.event(&Event::SnapshotIncomplete {
                keyspace: &table.keyspace,
                table: &table.name,
            }),
            flushed => flushed?,
        }
        // Nothing to bring back: tests that make and drop tables by the hundred leave no snapshots behind.
        if operator.sstables(table)?.is_empty() {
            continue;
        }
        let snapshots = data.table_folder(table).join(SNAPSHOTS);
        let mut now_ms = data.clock().wall_us() / 1000;
        let name = loop {
            let name = format!("{}-{now_ms}-{}", taking.prefix(), table.name);
            let manifest = snapshots.join(&name).join(MANIFEST);
            let is_taken = data.disk().exists(&manifest);
            if !is_taken.map_err(|source| SnapshotError::Io {
                path: manifest,
                source,
            })? {
                break name;
            }
            now_ms += 1;
        };
        link_table_snapshot(operator, schema, table, &name, ttl_s)?;
    }
    Ok(())
}
