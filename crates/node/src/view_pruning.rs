//! `PRUNE MATERIALIZED VIEW`: rows of a view that no base row stands for, which files of other servers may bring.
//!
//! The shards that own the view's partitions read them, some rows at a time. The shards that own the base rows look, under the
//! turns of their partitions, whether those have them, and take away what they do not.

use std::collections::BTreeMap;
use std::rc::Rc;

use helenus_engine::CqlError;
use helenus_engine::execute::QueryOptions;
use helenus_engine::select::{RowRead, StoredRow};
use helenus_engine::term::BoundValues;
use helenus_engine::views::{
    BaseKey, BaseViews, BoundPrune, NextViewRows, PrunePlan, PrunedPart, ViewPlan, ViewRow,
};
use helenus_protocol::Opcode;
use helenus_protocol::frame::EnvelopeFlags;
use helenus_protocol::response::{MetadataForm, RowsWriter};
use helenus_schema::TableId;
use helenus_storage::read_state::{ReadProgress, ReadState};
use helenus_types::{ShardId, token_of};

use crate::built_updates::{by_owner, packed_all};
use crate::deadline::Deadline;
use crate::execution::Statement;
use crate::long_reads::executor::step_ended;
use crate::session::RequestContext;
use crate::shard::Shard;
use crate::write_set::{InTurn, RequiredTables};

/// Counts of rows so far.
#[derive(Clone, Copy, Default)]
struct Pruned {
    checked: u64,
    removed: u64,
}

/// A view and its base table.
#[derive(Clone, Copy)]
struct Pair {
    view: TableId,
    base: TableId,
}

type Candidate = (BaseKey, ViewRow);

impl Shard {
    pub(crate) fn prune_view(
        self: &Rc<Self>,
        statement: &Statement<'_>,
        plan: &PrunePlan,
        values: &BoundValues<'_>,
        options: &QueryOptions<'_>,
    ) -> Result<(), CqlError> {
        let view = plan.view();
        let schema = self.schema();
        let metadata = schema.view(&view.keyspace, &view.name);
        let base = metadata.ok_or_else(view_was_dropped)?.base_id;
        let pair = Pair { view: view.id, base };
        let bound = plan.bind(values, options, self.context.options.shard_count)?;
        let deadline = Deadline::of_write(options);
        let metadata_form = match options.metadata_form {
            MetadataForm::Skipped => MetadataForm::Skipped,
            _ => MetadataForm::Full,
        };
        let RequestContext { session, stream, .. } = statement.request;
        let (shard, answered, result) = (self.clone(), session.clone(), plan.result.clone());
        self.context.answer_later(session, stream, async move {
            let pruned = shard
                .context
                .in_time(deadline, shard.prune_parts(bound, pair, deadline));
            let pruned = pruned.await;
            shard.context.count_failure(&pruned);
            let Pruned { checked, removed } = match pruned {
                Ok(pruned) => pruned,
                Err(error) => {
                    return answered
                        .respond_later(stream, EnvelopeFlags::NONE, Opcode::Error, |_| Err(error));
                }
            };
            let metadata = result.for_version(answered.version());
            answered.respond_later(stream, EnvelopeFlags::NONE, Opcode::Result, |out| {
                let mut writer = RowsWriter::begin(out, metadata, metadata_form);
                for count in [checked, removed] {
                    writer.value(out, Some(&count.to_be_bytes()));
                }
                writer.end_row();
                writer.finish(out, None);
                Ok(())
            });
        });
        Ok(())
    }

    /// One after the other: the statement says how many rows may be looked at at the same time.
    async fn prune_parts(
        self: &Rc<Self>,
        bound: BoundPrune,
        pair: Pair,
        deadline: Deadline,
    ) -> Result<Pruned, CqlError> {
        let mut all = Pruned::default();
        let rows_at_once = bound.rows_at_once;
        for part in bound.parts {
            let owner = part.shard;
            let pruned = self.call_while_awaited(owner, move |shard| async move {
                shard.prune_part(&part, pair, rows_at_once, deadline).await
            });
            let pruned = pruned
                .await
                .unwrap_or_else(|| Err(self.context.no_answer_from(owner)))?;
            all.checked += pruned.checked;
            all.removed += pruned.removed;
        }
        Ok(all)
    }

    /// Prunes a part, on the shard that owns the view's partitions.
    async fn prune_part(
        self: &Rc<Self>,
        part: &PrunedPart,
        pair: Pair,
        rows_at_once: usize,
        deadline: Deadline,
    ) -> Result<Pruned, CqlError> {
        let mut pruned = Pruned::default();
        let mut state = ReadState::suspending();
        let mut sink = NextViewRows::new(rows_at_once);
        loop {
            let progress = part.step(&mut self.reader.counting_store(), &mut state, &mut sink)?;
            let is_done = matches!(progress, ReadProgress::Done);
            if let ReadProgress::Absent(absent) = progress {
                self.reader.bring(&state, &absent).await?;
            }
            if sink.is_full() || is_done {
                let rows = sink.take();
                pruned.checked += rows.len() as u64;
                pruned.removed += self.prune_rows(rows, pair, deadline).await?;
            }
            if is_done {
                self.store.borrow().end_read(&mut state);
                return Ok(pruned);
            }
            step_ended().await;
        }
    }

    /// Takes away those that no base row has, and says how many.
    async fn prune_rows(
        self: &Rc<Self>,
        rows: Vec<ViewRow>,
        pair: Pair,
        deadline: Deadline,
    ) -> Result<u64, CqlError> {
        let views = self.views.of_table(pair.base);
        let views = views.ok_or_else(view_was_dropped)?;
        let plan = plan_of(&views, pair.view)?;
        let mut by_base_owner: BTreeMap<ShardId, Vec<Candidate>> = BTreeMap::new();
        for row in rows {
            let key = plan.base_key_of(&row, &views.layout.metadata)?;
            let owner = self.context.owner_of(token_of(&key.partition));
            by_base_owner.entry(owner).or_default().push((key, row));
        }
        let removed = self.on_each_with(by_base_owner, move |shard, candidates| async move {
            shard.prune_under_turns(candidates, pair, deadline).await
        });
        Ok(removed.await?.iter().sum())
    }

    /// To its end, with the partitions' turns, also if nobody waits for it any more.
    async fn prune_under_turns(
        self: &Rc<Self>,
        candidates: Vec<Candidate>,
        pair: Pair,
        deadline: Deadline,
    ) -> Result<u64, CqlError> {
        let shard = self.clone();
        self.to_its_end(async move { shard.remove_ghosts(candidates, pair, deadline).await })
            .await
    }

    /// Removes the candidates without a base row, on the shard that owns the base rows, and returns their number.
    async fn remove_ghosts(
        self: &Rc<Self>,
        candidates: Vec<Candidate>,
        pair: Pair,
        deadline: Deadline,
    ) -> Result<u64, CqlError> {
        let partitions = candidates
            .iter()
            .map(|(key, _)| (pair.base, token_of(&key.partition)));
        let turns = self.take_turns(partitions.collect(), deadline).await?;
        // As of now: a schema change may have come while others had the turns.
        let views = self.views.of_table(pair.base);
        let views = views.ok_or_else(view_was_dropped)?;
        let plan = plan_of(&views, pair.view)?;
        let now_s = self.context.now_s();
        let mut removals = Vec::new();
        for (key, row) in &candidates {
            let place = (token_of(&key.partition), &*key.partition);
            // One that has expired has its view rows until it is deleted, or has a later time.
            if !self.has_base_row(&views, plan, (key, row)).await?
                && !self
                    .awaits_deletion(&views.layout, place, &key.clustering)
                    .await?
            {
                removals.push(plan.removal_of(row, now_s));
            }
        }
        let removed = removals.len() as u64;
        if removed > 0 {
            // That base rows are not there must not be lost where what it leads to is not.
            self.persistence.log_durable().await?;
            let updates = by_owner(packed_all(removals)?, self.context.options.shard_count);
            let in_turn = InTurn::new(RequiredTables::none());
            self.write_computed(updates, in_turn, deadline).await?;
        }
        drop(turns);
        Ok(removed)
    }

    async fn has_base_row(
        &self,
        views: &BaseViews,
        plan: &ViewPlan,
        (key, row): (&BaseKey, &ViewRow),
    ) -> Result<bool, CqlError> {
        let (base, now_s) = (&views.layout.metadata, self.context.now_s());
        let read = RowRead::of_key(base, key.partition.clone(), Some(&key.clustering));
        let mut state = ReadState::suspending();
        state.bypass_cache();
        let mut found = StoredRow::default();
        loop {
            match read.step(now_s, &mut self.reader.counting_store(), &mut state, &mut found)? {
                ReadProgress::Done => break,
                ReadProgress::Yield => step_ended().await,
                ReadProgress::Absent(absent) => self.reader.bring(&state, &absent).await?,
            }
        }
        self.store.borrow().end_read(&mut state);
        let base_row = found.place(Some(&key.clustering));
        plan.has_row(row, (key, base_row), base, now_s)
    }
}

fn plan_of(views: &BaseViews, view: TableId) -> Result<&ViewPlan, CqlError> {
    let plan = views.views.iter().find(|plan| plan.table.id == view);
    plan.ok_or_else(view_was_dropped)
}

fn view_was_dropped() -> CqlError {
    CqlError::invalid(format_args!("The materialized view was dropped meanwhile"))
}
