//! What is known of the building of views, also after a crash: rows of Cassandra's tables `system.built_views`,
//! `system.view_builds_in_progress` and `system_distributed.view_build_status`.
//!
//! Their timestamps are later than what they replace, also where the clock was set back.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_protocol::request::Value;
use helenus_rows::clustering::{Side, push_component};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness};
use helenus_rows::update::{BoundRef, UpdateBuilder};
use helenus_schema::TableMetadata;
use helenus_types::Token;

use crate::patience::Patience;
use crate::shard::Shard;

/// Tokens whose partitions are done, both included.
#[derive(Clone, Copy)]
pub(crate) struct DoneTokens {
    pub first: Token,
    pub last: Token,
    /// When that was written.
    pub timestamp_us: i64,
}

impl Shard {
    pub(crate) async fn is_built(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<bool, CqlError> {
        Ok(self.built_at_us(keyspace, view).await?.is_some())
    }

    /// When that was written.
    async fn built_at_us(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<Option<i64>, CqlError> {
        let rows = self
            .execute_own(
                "SELECT writetime(status_replicated) FROM system.built_views WHERE keyspace_name = ? AND view_name = ?",
                &[text(keyspace), text(view)],
            )
            .await?;
        let time = rows.first().and_then(|row| bigint(row.first()?));
        Ok(time)
    }

    pub(crate) async fn done_of(
        self: &Rc<Self>,
        keyspace: &str,
        view: &str,
    ) -> Result<Vec<DoneTokens>, CqlError> {
        let rows = self
            .execute_own(
                "SELECT start_token, last_token, writetime(last_token) FROM system.view_builds_in_progress \
                 WHERE keyspace_name = ? AND view_name = ?",
                &[text(keyspace), text(view)],
            )
            .await?;
        let done = rows.iter().filter_map(|row| {
            Some(DoneTokens {
                first: token(row.first()?)?,
                last: token(row.get(1)?)?,
                timestamp_us: bigint(row.get(2)?)?,
            })
        });
        let mut done: Vec<DoneTokens> = done.collect();
        done.sort_by_key(|done| done.first);
        Ok(done)
    }

    pub(crate) async fn mark_built(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<(), CqlError> {
        let mut updates = self.progress_deletion(keyspace, view).await?;
        let timestamp_us = self.next_timestamp_us();
        updates.extend(self.system_row(
            ("system", "built_views"),
            (&[keyspace.as_bytes()], &[view.as_bytes()]),
            &[("status_replicated", &[1])],
            timestamp_us,
        ));
        self.write_whole(self.by_owner(updates), Patience::ENDLESS).await
    }

    /// Whether the view was built; it is not known to be so any more, also after a crash.
    pub(crate) async fn unmark_built(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<bool, CqlError> {
        let mut updates = self.progress_deletion(keyspace, view).await?;
        let built_at_us = self.built_at_us(keyspace, view).await?;
        if let Some(built_at_us) = built_at_us {
            let timestamp_us = self.next_timestamp_us().max(built_at_us.saturating_add(1));
            updates.extend(self.system_deletion("built_views", keyspace, view, timestamp_us));
        }
        if !updates.is_empty() {
            self.write_whole(self.by_owner(updates), Patience::ENDLESS)
                .await?;
            self.logs_durable().await?;
        }
        Ok(built_at_us.is_some())
    }

    pub(crate) async fn forget_build(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<(), CqlError> {
        self.unmark_built(keyspace, view).await?;
        let parameters = [text(keyspace), text(view)];
        self.execute_own(
            "DELETE FROM system_distributed.view_build_status WHERE keyspace_name = ? AND view_name = ?",
            &parameters,
        )
        .await
        .map(|_| ())
    }

    async fn logs_durable(self: &Rc<Self>) -> Result<(), CqlError> {
        for owner in self.shards() {
            let durable = self.call_async(owner, |shard| async move { shard.log_durable().await });
            durable.await.unwrap_or_else(|| Err(self.no_answer_from(owner)))?;
        }
        Ok(())
    }

    pub(crate) async fn write_status(
        self: &Rc<Self>,
        (keyspace, view): (&str, &str),
        status: &str,
    ) -> Result<(), CqlError> {
        let host_id = self.host_id.into_bytes();
        self.execute_own(
            "INSERT INTO system_distributed.view_build_status (keyspace_name, view_name, host_id, status) \
             VALUES (?, ?, ?, ?)",
            &[text(keyspace), text(view), Value::Bytes(&host_id), text(status)],
        )
        .await
        .map(|_| ())
    }

    async fn progress_deletion(
        self: &Rc<Self>,
        keyspace: &str,
        view: &str,
    ) -> Result<Vec<Vec<u8>>, CqlError> {
        let done = self.done_of(keyspace, view).await?;
        let Some(newest_us) = done.iter().map(|done| done.timestamp_us).max() else {
            return Ok(Vec::new());
        };
        let timestamp_us = self.next_timestamp_us().max(newest_us.saturating_add(1));
        let deletion = self.system_deletion("view_builds_in_progress", keyspace, view, timestamp_us);
        Ok(deletion.into_iter().collect())
    }

    pub(crate) fn progress_update(
        &self,
        (keyspace, view): (&str, &str),
        (first, last): (Token, Token),
        reached: Token,
        timestamp_us: i64,
    ) -> Option<Vec<u8>> {
        let (first, last) = (first.0.to_string(), last.0.to_string());
        let reached = reached.0.to_string();
        self.system_row(
            ("system", "view_builds_in_progress"),
            (
                &[keyspace.as_bytes()],
                &[view.as_bytes(), first.as_bytes(), last.as_bytes()],
            ),
            &[("last_token", reached.as_bytes())],
            timestamp_us,
        )
    }

    /// A packed row of a table of the system's that statements may not write to. None if the table is not there.
    fn system_row(
        &self,
        (keyspace, table): (&str, &str),
        (key, clustering): (&[&[u8]], &[&[u8]]),
        cells: &[(&str, &[u8])],
        timestamp_us: i64,
    ) -> Option<Vec<u8>> {
        let schema = self.schema();
        let table = schema.table(keyspace, table)?;
        let liveness = Liveness {
            timestamp_us,
            ttl_s: 0,
            expires_at_s: NEVER_S,
        };
        let mut update = Vec::new();
        let mut builder = UpdateBuilder::new(&mut update, table.id, &key.concat(), DeletionTime::LIVE);
        let cells: Option<Vec<CellRef<'_>>> = cells
            .iter()
            .map(|(name, value)| cell(table, name, value, timestamp_us))
            .collect();
        let mut cells = cells?;
        cells.sort_by_key(|cell| cell.column);
        builder.row(&packed(clustering), liveness, DeletionTime::LIVE, |row| {
            cells.into_iter().for_each(|cell| row.cell(cell));
        });
        Some(update)
    }

    /// A packed deletion of what a table of the keyspace `system` has of a view.
    fn system_deletion(&self, table: &str, keyspace: &str, view: &str, timestamp_us: i64) -> Option<Vec<u8>> {
        let schema = self.schema();
        let table = schema.table("system", table)?;
        let mut update = Vec::new();
        let key = keyspace.as_bytes();
        let mut builder = UpdateBuilder::new(&mut update, table.id, key, DeletionTime::LIVE);
        let prefix = packed(&[view.as_bytes()]);
        let bound = |side| BoundRef {
            prefix: &prefix,
            side,
        };
        let deletion = DeletionTime {
            timestamp_us,
            local_s: self.now_s(),
        };
        builder.range_tombstone(bound(Side::Before), bound(Side::After), deletion);
        Some(update)
    }
}

fn cell<'v>(table: &TableMetadata, name: &str, value: &'v [u8], timestamp_us: i64) -> Option<CellRef<'v>> {
    Some(CellRef {
        column: table.column(name)?.id,
        timestamp_us,
        ttl_s: 0,
        local_deletion_s: NEVER_S,
        path: None,
        value,
    })
}

fn packed(components: &[&[u8]]) -> Vec<u8> {
    let mut packed = Vec::new();
    for component in components {
        push_component(&mut packed, component);
    }
    packed
}

fn text(text: &str) -> Value<'_> {
    Value::Bytes(text.as_bytes())
}

fn bigint(value: &Option<Vec<u8>>) -> Option<i64> {
    Some(i64::from_be_bytes(value.as_deref()?.try_into().ok()?))
}

fn token(value: &Option<Vec<u8>>) -> Option<Token> {
    std::str::from_utf8(value.as_deref()?)
        .ok()?
        .parse()
        .ok()
        .map(Token)
}
