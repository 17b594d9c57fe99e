//! A TRUNCATE from its statement to its answer.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::CqlError;
use helenus_schema::{TableId, TableMetadata};
use helenus_storage::error::TruncateError;

use crate::auto_snapshot::Taking;
use crate::deadline::Deadline;
use crate::schema_change::SCHEMA_OWNER;
use crate::session::Session;
use crate::shard::Shard;

/// How often a truncation that waits looks again: another one of the table, which has given up, may have taken its place.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Holds background work on a table back while a truncation waits; given back also where the wait times out.
struct HeldTable<'a> {
    shard: &'a Shard,
    table: TableId,
}

impl Drop for HeldTable<'_> {
    fn drop(&mut self) {
        self.shard.store.borrow_mut().truncation_given_up(self.table);
        self.shard.persistence.schedule_turn();
    }
}

impl Shard {
    pub(crate) fn truncate(
        self: &Rc<Self>,
        session: &Rc<Session>,
        stream: i16,
        table: Arc<TableMetadata>,
        deadline_ns: u64,
    ) {
        let shard = self.clone();
        let answered = session.clone();
        self.context.answer_later(session, stream, async move {
            let timed_out = CqlError::truncate(format_args!("Truncate timed out"));
            let left = Duration::from_nanos(deadline_ns.saturating_sub(shard.context.clock.monotonic_ns()));
            let table_id = table.id;
            let truncated = tokio::time::timeout(left, async {
                shard.may_truncate(answered.user().as_deref(), &table).await?;
                let truncated = shard.call_while_awaited(SCHEMA_OWNER, move |owner| async move {
                    owner.truncate_in_turn(table_id).await
                });
                truncated
                    .await
                    .unwrap_or_else(|| Err(shard.context.no_answer_from(SCHEMA_OWNER)))
            });
            let result = truncated.await.unwrap_or(Err(timed_out));
            shard.context.answer_write_later(&answered, stream, result);
        });
    }

    /// Given up with whoever waits for it until the first row goes, and then done to its end: a shard that emptied the table later
    /// would take what was written, and acknowledged, or made into rows of views, in between.
    async fn truncate_in_turn(self: &Rc<Self>, table: TableId) -> Result<(), CqlError> {
        let turn = self.schema_owner()?.truncations.turn(table).await?;
        let schema = self.schema();
        let taken = schema.table_by_id(table).cloned().into_iter().collect();
        self.snapshot_before(Taking::Truncate, schema, taken).await?;
        match self.views.of_table(table) {
            None => self.empty_to_its_end(table, turn).await,
            Some(_) => self.truncate_with_views(table, turn).await,
        }
    }

    /// Removes all rows of a table on all shards; `held` is given back once that has been done, or has failed.
    pub(crate) async fn empty_to_its_end(
        self: &Rc<Self>,
        table: TableId,
        held: impl Sized + 'static,
    ) -> Result<(), CqlError> {
        let shard = self.clone();
        self.to_its_end(async move {
            let _held = held;
            shard.truncate_on_all_shards(table).await
        })
        .await
    }

    pub(crate) async fn truncate_on_all_shards(self: &Rc<Self>, table: TableId) -> Result<(), CqlError> {
        self.on_each_of(self.context.shards(), move |shard| async move {
            shard.truncate_here(table).await
        })
        .await
    }

    /// The files of a table go as one, and what the log has of it goes as one. Were one gone after a crash and the other not,
    /// what was hidden by a deletion that is gone would come back; so there is one of them only, but for what is written
    /// while this flushes. Where that is not possible the table is truncated all the same.
    async fn leave_nothing_in_the_log(&self, table: TableId) {
        let has_files = !self.store.borrow().sstables(table).is_empty();
        if has_files && self.persistence.flush(Some(table)).await {
            // Where it cannot be, it is truncated all the same.
            let _recorded = self.persistence.record_flushes().await;
        }
    }

    async fn truncate_here(self: &Rc<Self>, table: TableId) -> Result<(), CqlError> {
        self.leave_nothing_in_the_log(table).await;
        let _held = HeldTable { shard: self, table };
        let truncated = loop {
            // A job that ends after this look is not missed: it is reported on this thread.
            let truncated = self.store.borrow_mut().truncate(table);
            match truncated {
                Err(TruncateError::Busy) => {
                    let _either = tokio::time::timeout(LOOK_AGAIN, self.persistence.job_ended()).await;
                }
                truncated => break truncated,
            }
        };
        match truncated {
            // The statement's own time ends the wait.
            Ok(position) => {
                self.persistence.durable(position, Deadline::ENDLESS).await?;
                // A periodic log makes nobody wait, and a start would bring back what is in it.
                let recorded = self.persistence.record_flushes().await;
                recorded.map_err(|error| CqlError::truncate(format_args!("{error}")))
            }
            Err(error) => Err(CqlError::truncate(format_args!("{error}"))),
        }
    }
}
