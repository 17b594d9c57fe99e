//! Records of the building of views, kept also after a crash: rows of Cassandra's tables `system.built_views`,
//! `system.view_builds_in_progress` and `system_distributed.view_build_status`.
//!
//! Their timestamps are later than what they replace, also where the clock was set back.

use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_protocol::request::Value;
use helenus_rows::clustering::{Side, Slice, push_component};
use helenus_rows::deletion::{DeletionTime, NEVER_S};
use helenus_rows::row::{CellRef, Liveness};
use helenus_rows::update::{BoundRef, PackedUpdate, UpdateBuilder};
use helenus_schema::TableMetadata;
use helenus_tools::host::ViewBuild;
use helenus_types::Token;
use helenus_types::partition_key::write_partition_key;

use crate::built_updates::by_owner;
use crate::deadline::Deadline;
use crate::own_statement::OwnStatements;
use crate::shard::Shard;

/// Tokens whose partitions are done, both included.
#[derive(Clone, Copy)]
pub(crate) struct DoneTokens {
    pub first: Token,
    pub last: Token,
}

/// Tables of the keyspace `system` that have rows of a view by its keyspace and name.
const BUILT: &str = "built_views";
pub(crate) const IN_PROGRESS: &str = "view_builds_in_progress";

impl Shard {
    pub(crate) async fn is_built(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<bool, CqlError> {
        let rows = OwnStatements::on(self)
            .execute(
                "SELECT view_name FROM system.built_views WHERE keyspace_name = ? AND view_name = ?",
                &[text(keyspace), text(view)],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    pub(crate) async fn done_of(
        self: &Rc<Self>,
        keyspace: &str,
        view: &str,
    ) -> Result<Vec<DoneTokens>, CqlError> {
        let rows = OwnStatements::on(self)
            .execute(
                "SELECT start_token, last_token FROM system.view_builds_in_progress \
                 WHERE keyspace_name = ? AND view_name = ?",
                &[text(keyspace), text(view)],
            )
            .await?;
        let done = rows.iter().filter_map(|row| {
            Some(DoneTokens {
                first: token(row.first()?)?,
                last: token(row.get(1)?)?,
            })
        });
        let mut done: Vec<DoneTokens> = done.collect();
        done.sort_by_key(|done| done.first);
        Ok(done)
    }

    /// All views, by keyspace and name.
    pub(crate) async fn view_status(self: &Rc<Self>) -> Result<Vec<ViewBuild>, CqlError> {
        let schema = self.schema();
        let mut builds = Vec::new();
        for keyspace in schema.keyspaces.values() {
            for view in keyspace.views.values() {
                let is_built = self.is_built(&keyspace.name, &view.name).await?;
                let done = match is_built {
                    true => Vec::new(),
                    false => self.done_of(&keyspace.name, &view.name).await?,
                };
                builds.push(ViewBuild {
                    keyspace: keyspace.name.to_string(),
                    view: view.name.to_string(),
                    base: view.base.to_string(),
                    is_built,
                    per_mille: if is_built { 1_000 } else { per_mille(&done) },
                });
            }
        }
        builds.sort_by(|left, right| (&left.keyspace, &left.view).cmp(&(&right.keyspace, &right.view)));
        Ok(builds)
    }

    pub(crate) async fn mark_built(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<(), CqlError> {
        let mut updates = self.progress_deletion(keyspace, view).await?;
        let timestamp_us = self.progress_timestamp_us(BUILT, keyspace, view).await?;
        updates.extend(self.system_row(
            ("system", BUILT),
            (&[keyspace.as_bytes()], &[view.as_bytes()]),
            &[("status_replicated", &[1])],
            timestamp_us,
        ));
        self.write_whole(
            by_owner(updates, self.context.options.shard_count),
            Deadline::ENDLESS,
        )
        .await
    }

    /// Forgets that the view was built, also after a crash, and returns whether it was.
    pub(crate) async fn unmark_built(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<bool, CqlError> {
        let mut updates = self.progress_deletion(keyspace, view).await?;
        let was_built = self.is_built(keyspace, view).await?;
        if was_built {
            let timestamp_us = self.progress_timestamp_us(BUILT, keyspace, view).await?;
            updates.extend(self.system_deletion(BUILT, keyspace, view, timestamp_us));
        }
        if !updates.is_empty() {
            self.write_whole(
                by_owner(updates, self.context.options.shard_count),
                Deadline::ENDLESS,
            )
            .await?;
            self.logs_durable().await?;
        }
        Ok(was_built)
    }

    pub(crate) async fn forget_build(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<(), CqlError> {
        self.unmark_built(keyspace, view).await?;
        let timestamp_us = self.status_timestamp_us(keyspace, view).await?.to_be_bytes();
        let parameters = [Value::Bytes(&timestamp_us), text(keyspace), text(view)];
        OwnStatements::on(self)
            .execute(
                "DELETE FROM system_distributed.view_build_status USING TIMESTAMP ? \
             WHERE keyspace_name = ? AND view_name = ?",
                &parameters,
            )
            .await
            .map(|_| ())
    }

    async fn logs_durable(self: &Rc<Self>) -> Result<(), CqlError> {
        let durable = |shard: Rc<Shard>| async move { shard.persistence.log_durable().await };
        self.on_each_of(self.context.shards(), durable).await
    }

    pub(crate) async fn write_status(
        self: &Rc<Self>,
        (keyspace, view): (&str, &str),
        status: &str,
    ) -> Result<(), CqlError> {
        let host_id = self.context.host_id.into_bytes();
        let timestamp_us = self.status_timestamp_us(keyspace, view).await?.to_be_bytes();
        OwnStatements::on(self).execute(
            "INSERT INTO system_distributed.view_build_status (keyspace_name, view_name, host_id, status) \
             VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
            &[
                text(keyspace),
                text(view),
                Value::Bytes(&host_id),
                text(status),
                Value::Bytes(&timestamp_us),
            ],
        )
        .await
        .map(|_| ())
    }

    async fn progress_deletion(
        self: &Rc<Self>,
        keyspace: &str,
        view: &str,
    ) -> Result<Vec<PackedUpdate>, CqlError> {
        if self.done_of(keyspace, view).await?.is_empty() {
            return Ok(Vec::new());
        }
        let timestamp_us = self.progress_timestamp_us(IN_PROGRESS, keyspace, view).await?;
        let deletion = self.system_deletion(IN_PROGRESS, keyspace, view, timestamp_us);
        Ok(deletion.into_iter().collect())
    }

    /// After all that [`BUILT`] or [`IN_PROGRESS`] has of a view, also of earlier ones of its name.
    pub(crate) async fn progress_timestamp_us(
        self: &Rc<Self>,
        table: &str,
        keyspace: &str,
        view: &str,
    ) -> Result<i64, CqlError> {
        match self.schema().table("system", table).cloned() {
            Some(table) => {
                let rows = Slice::covering(&packed(&[view.as_bytes()]));
                self.timestamp_after_us(&table, keyspace.as_bytes().to_vec(), rows)
                    .await
            }
            None => Ok(self.context.clock.wall_us()),
        }
    }

    async fn status_timestamp_us(self: &Rc<Self>, keyspace: &str, view: &str) -> Result<i64, CqlError> {
        let table = self
            .schema()
            .table("system_distributed", "view_build_status")
            .cloned();
        match table {
            Some(table) => {
                let mut key = Vec::new();
                let names = [keyspace.as_bytes(), view.as_bytes()];
                // Names are short.
                let _is_whole = write_partition_key(&mut key, names.into_iter());
                self.timestamp_after_us(&table, key, Slice::all()).await
            }
            None => Ok(self.context.clock.wall_us()),
        }
    }

    pub(crate) fn progress_update(
        &self,
        (keyspace, view): (&str, &str),
        (first, last): (Token, Token),
        reached: Token,
        timestamp_us: i64,
    ) -> Option<PackedUpdate> {
        let (first, last) = (first.0.to_string(), last.0.to_string());
        let reached = reached.0.to_string();
        self.system_row(
            ("system", IN_PROGRESS),
            (
                &[keyspace.as_bytes()],
                &[view.as_bytes(), first.as_bytes(), last.as_bytes()],
            ),
            &[("last_token", reached.as_bytes())],
            timestamp_us,
        )
    }

    /// A packed row of a table of the system's that statements may not write to. None if the table is not there.
    pub(crate) fn system_row(
        &self,
        (keyspace, table): (&str, &str),
        (key, clustering): (&[&[u8]], &[&[u8]]),
        cells: &[(&str, &[u8])],
        timestamp_us: i64,
    ) -> Option<PackedUpdate> {
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
        PackedUpdate::new(update)
    }

    /// A packed deletion of what a table of the keyspace `system` has of a view.
    fn system_deletion(
        &self,
        table: &str,
        keyspace: &str,
        view: &str,
        timestamp_us: i64,
    ) -> Option<PackedUpdate> {
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
            local_s: self.context.now_s(),
        };
        builder.range_tombstone(bound(Side::Before), bound(Side::After), deletion);
        PackedUpdate::new(update)
    }
}

/// Computes the part of all tokens that is done, in thousandths; less than all of them, as the view is not built.
fn per_mille(done: &[DoneTokens]) -> u16 {
    let lengths = done
        .iter()
        .map(|done| u128::from(done.last.0.abs_diff(done.first.0)) + 1);
    let of_all = (lengths.sum::<u128>() * 1_000) >> u64::BITS;
    u16::try_from(of_all).unwrap_or(u16::MAX).min(999)
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

fn token(value: &Option<Vec<u8>>) -> Option<Token> {
    std::str::from_utf8(value.as_deref()?)
        .ok()?
        .parse()
        .ok()
        .map(Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_of_a_view_is_a_share_of_all_tokens() {
        let done = |first, last| DoneTokens {
            first: Token(first),
            last: Token(last),
        };
        assert_eq!(per_mille(&[]), 0);
        assert_eq!(per_mille(&[done(i64::MIN, -1)]), 500);
        assert_eq!(per_mille(&[done(i64::MIN, i64::MIN), done(0, i64::MAX / 2)]), 250);
        assert_eq!(
            per_mille(&[done(i64::MIN, i64::MAX)]),
            999,
            "nobody has said that it is built"
        );
    }
}
